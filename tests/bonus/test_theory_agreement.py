"""The deep agent's closed forms against the exact classes of the theory, to 1e-5."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo.bonus.elliptic import width
from lpo.switch.sensitivity import absorb as absorb_block
from lpo.switch.sensitivity import inverse_of

classes = pytest.importorskip("lpo.theory.classes")
HORIZON = 10_000
absorb = jax.jit(absorb_block)


@pytest.fixture
def world():
    """64 pairs with features of norm .999, the ball of differences ρ = 1, and a filled Ẑ."""
    rng = np.random.default_rng(0)
    phi = rng.standard_normal((64, 6))
    phi *= 0.999 / np.linalg.norm(phi, axis=1, keepdims=True)
    exact = classes.LinearBall(phi.astype(np.float32), radius=0.5)
    sensed = exact.empty()
    for z in rng.integers(0, 64, 30):
        exact.add(sensed, int(z), float(rng.integers(1, 9)))
    return exact, sensed, rng


def floor():
    return 1.0 / (HORIZON + 1.0)  # ρ²/(4NW² + 1) with W = ½


def test_sensitivities_are_the_theorys(world):
    exact, sensed, _ = world
    gram = jnp.asarray(sensed.gram, jnp.float32)
    inverse, _ = inverse_of(gram, 1.0)
    never = jnp.full(64, 2.0)  # a chance that nothing is below: nothing is added
    phi = jnp.asarray(exact.features, jnp.float32)
    out = absorb(gram, inverse, phi, never, jnp.ones(64, bool), 1.0, floor())
    theirs = exact.sensitivity(sensed, np.arange(64), cap=HORIZON)
    np.testing.assert_allclose(out.sensitivity, theirs, atol=1e-5)


def test_the_same_chances_build_the_same_sampled_set(world):
    exact, sensed, rng = world
    gram = jnp.asarray(sensed.gram, jnp.float32)
    inverse, _ = inverse_of(gram, 1.0)
    order, u = rng.integers(0, 64, 64), rng.random(64).astype(np.float32)
    phi = jnp.asarray(exact.features[order], jnp.float32)
    out = absorb(gram, inverse, phi, jnp.asarray(u), jnp.ones(64, bool), 2.0, floor())
    before = sensed.counts.copy()
    _, added = exact.absorb(sensed, order, u.astype(np.float64), 2.0, HORIZON, False)
    assert added == int((out.copies > 0).sum()) > 0
    counts = np.bincount(order, weights=np.asarray(out.copies), minlength=64)
    np.testing.assert_array_equal(counts, sensed.counts - before)
    np.testing.assert_allclose(out.inverse, sensed.inverse, atol=1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 30.0])
def test_widths_are_the_theorys(world, epsilon):
    exact, sensed, _ = world
    eigenvalues, basis = jnp.linalg.eigh(jnp.asarray(sensed.gram, jnp.float32))
    ours = width(eigenvalues, basis, jnp.asarray(exact.features, jnp.float32), epsilon, 1.0)
    np.testing.assert_allclose(ours, exact.width(sensed, epsilon), atol=1e-5)
