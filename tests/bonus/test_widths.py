"""Elliptic and trained widths against certificates and closed forms."""

import runpy
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import optimize

from lpo.bonus import elliptic, width_network
from lpo.bonus.compose import scaled
from lpo.bonus.elliptic import width
from lpo.bonus.scale import by_returns
from lpo.bonus.shape import Shape, shaped
from lpo.bonus.width import Reservoir, refill, width_loss
from lpo.engine.rollout import empty_rollout
from lpo.math import features
from lpo.math.images import Plain
from lpo.math.nets import Net, apply_net, orthogonal_net
from lpo.switch.sensitivity import absorb as absorb_block
from lpo.switch.sensitivity import inverse_of
from lpo.types import vector


def unit(rng, rows, size):
    x = rng.standard_normal((rows, size))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_the_width_of_a_table_is_one_over_the_root_of_the_visits():
    """φ one-hot: ω = min{√(ε/n), ρ}, and ρ where nobody was (Σ is exactly singular there)."""
    visits = jnp.array([0.0, 1.0, 4.0, 1e6])
    ours = jax.jit(width, static_argnums=(3, 4))(visits, jnp.eye(4), jnp.eye(4), 2.0, 1.0)
    np.testing.assert_allclose(ours, [1.0, 1.0, 0.5**0.5, 2e-6**0.5], rtol=1e-4)


@pytest.mark.parametrize(("samples", "epsilon"), [(0, 1.0), (3, 1.0), (40, 0.5), (3000, 4.0)])
def test_the_width_is_attained_and_cannot_be_exceeded(samples, epsilon):
    """A feasible Δθ that attains ω (float64), and random feasible ones that stay below it."""
    rng = np.random.default_rng(0)
    rho, data, phi = 1.5, unit(rng, samples, 6), unit(rng, 20, 6)
    gram = data.T @ data
    eigenvalues, basis = np.linalg.eigh(gram)
    w = np.asarray(
        jax.jit(width)(
            *(jnp.asarray(x, jnp.float32) for x in (eigenvalues, basis, phi)), epsilon, rho
        )
    )
    np.testing.assert_allclose(w, best_by_direction(gram, phi, epsilon, rho), atol=1e-5)
    delta = rng.standard_normal((4000, 6))
    fit = np.einsum("ni,ij,nj->n", delta, gram, delta)
    size = np.maximum(np.sqrt(fit / epsilon), np.linalg.norm(delta, axis=1) / rho)
    assert (np.abs(delta / size[:, None] @ phi.T).max(0) <= w + 1e-5).all()
    if samples == 0:
        np.testing.assert_allclose(w, rho, rtol=1e-5)


def best_by_direction(gram, phi, epsilon, rho):
    """sup Δᵀφ in float64: Δ ∝ (sΣ/ε + (1−s)I/ρ²)⁻¹φ, both constraints checked on Δ itself."""

    def attained(t, x):
        s = 1 / (1 + np.exp(-t))
        delta = np.linalg.solve(s * gram / epsilon + (1 - s) * np.eye(len(gram)) / rho**2, x)
        fit = max(delta @ gram @ delta, 0.0)
        return delta @ x / max(np.sqrt(fit / epsilon), np.linalg.norm(delta) / rho)

    grid = np.linspace(-25, 25, 101)
    best = []
    for x in phi:
        t = grid[np.argmax([attained(t, x) for t in grid])]
        found = optimize.minimize_scalar(
            lambda t, x=x: -attained(t, x), bounds=(t - 1, t + 1), options={"xatol": 1e-9}
        )
        best.append(-found.fun)
    return np.array(best)


def test_shapes_by_hand():
    """β = ½, γ = ¾: 3/(1−γ) = 12, 1/(1−γ) = 4, 2ω/β = 4ω."""
    w = jnp.array([0.25, 0.5, 1.0])
    np.testing.assert_allclose(shaped("raw", w, 0.5, 0.75), [0.25, 0.5, 1.0])
    np.testing.assert_allclose(shaped("indicator", w, 0.5, 0.75), [0.0, 4.0, 4.0])
    np.testing.assert_allclose(shaped("lpo", w, 0.5, 0.75), [1.0, 12.0, 12.0])


def two_places(steps=60, pad=0):
    """Environment 0 lives around +1, environment 1 around −1."""
    rng = np.random.default_rng(0)
    data = empty_rollout(steps + pad, 2, vector(2), 1)
    data.obs[:] = 0.2 * rng.standard_normal(data.obs.shape) + np.array([[1.0], [-1.0]])
    data.valid[:steps] = True
    return jax.tree.map(jnp.asarray, data)


STATE = features.reader("s", Plain(2, lambda x: x), 0, lambda action: action)
COMMON: dict[str, Any] = dict(gamma_ext=0.9, threshold=0.1)


def kernel_bonus(shape: Shape = "raw"):
    phi = features.fourier(2, 64, 0.5)
    return scaled(elliptic(phi, STATE.read, shape=shape, epsilon=1.0, **COMMON), by_returns(0.9), 2)


def trained_bonus(shape: Shape = "raw"):
    raw = width_network(
        2, STATE.read, shape=shape, prior=60, learning_rate=3e-3, passes=10, batch_size=16,
        hidden=(32,), capacity=128, **COMMON,
    )  # fmt: skip
    return scaled(raw, by_returns(0.9), 2)


@pytest.mark.parametrize(
    "make", [kernel_bonus, pytest.param(trained_bonus, marks=pytest.mark.slow)]
)
def test_a_place_that_was_visited_is_less_novel(make):
    bonus, data = make(), two_places()
    state = bonus.init(jax.random.key(0))
    score, update = jax.jit(bonus.score), jax.jit(bonus.update)
    _, state, first = score(state, data)
    assert float(first["bonus/width"]) == pytest.approx(1.0, abs=0.05)  # all is new at first
    seen = data._replace(valid=data.valid & jnp.array([[True, False]]))
    metrics = {}
    for i in range(6):
        state, metrics = update(state, seen, jax.random.key(i))
    after, _, last = score(state, data)
    raw = np.asarray(after[0]) * float(last["bonus/scale"])
    assert raw[:, 0].mean() < 0.5 * raw[:, 1].mean()
    assert all(np.isfinite(float(v)) for v in (last | metrics).values())


def test_the_gram_matrix_holds_the_valid_rows():
    bonus, data = kernel_bonus(), two_places(steps=5, pad=3)
    _, state, _ = jax.jit(bonus.score)(bonus.init(jax.random.key(0)), data)
    state, metrics = jax.jit(bonus.update)(state, data, jax.random.key(0))
    assert float(jnp.trace(state.novelty.gram)) == pytest.approx(
        10.0, rel=1e-4
    )  # ten samples, ‖φ‖ = 1
    assert 0 < float(metrics["bonus/dimension"]) < 10


def test_the_trained_width_tends_to_its_closed_form():
    """Three one-hot places, q = ⅓ each, p = (½, ⅓, ⅙), κ = 6: h* = q/(q + κp) = 1/10, 1/7, 1/4."""
    eye = jnp.eye(3)
    data = jnp.concatenate([eye[:1].repeat(3, 0), eye[1:2].repeat(2, 0), eye[2:]])
    net = orthogonal_net(jax.random.key(0), (3, 16, 1), 1.4, 1.0)
    optim = optax.adam(1e-2)

    def step(carry, _):
        net, opt = carry
        grads = jax.grad(width_loss)(net, eye, data, 6.0)
        updates, opt = optim.update(grads, opt)
        return (optax.apply_updates(net, updates), opt), None

    (net, _), _ = jax.lax.scan(step, (net, optim.init(net)), None, length=2000)
    h = apply_net(cast(Net[jax.Array], net), eye, jax.nn.relu)[:, 0]
    np.testing.assert_allclose(h, [1 / 10, 1 / 7, 1 / 4], atol=2e-3)


def test_a_width_far_off_does_not_run_away():
    """The loss is a mean of squares: weights blown up by 100 come back instead of overflowing."""
    big = tuple(
        layer._replace(w=100 * layer.w)
        for layer in orthogonal_net(jax.random.key(0), (3, 16, 1), 1, 1)
    )
    x = jax.random.normal(jax.random.key(1), (8, 3))
    loss, grads = jax.jit(jax.value_and_grad(width_loss))(big, x, x, 10.0)
    slope = sum(jax.tree.leaves(jax.tree.map(lambda g, w: (g * w).sum(), grads, big)))
    assert float(loss) > 1 and float(slope) > 0  # descending shrinks the weights


@pytest.mark.slow
def test_a_width_without_a_target_grows_and_ours_does_not():
    path = Path(__file__).parents[2] / "experiments" / "figure2" / "unstable.py"
    script = runpy.run_path(str(path))
    script["widths"].__globals__["STEPS"] = (500, 2500)
    data = script["play"]()
    early, late = script["widths"](script["unbounded"](1.0), data)
    assert late > 5 * early and late > 5
    ours = list(script["widths"](script["OBJECTIVES"]["ours, κ = 1"], data))
    assert max(ours) < 1.5


def test_the_reservoir_is_a_uniform_sample():
    """Of 40 rows that come in four lots, each stays with probability 10/40."""
    rows = jnp.arange(40.0)[:, None]

    def fill(key):
        reservoir = Reservoir(jnp.zeros((10, 1)), jnp.full(10, -1.0))
        for i in range(4):
            lot = rows[10 * i : 10 * i + 10]
            reservoir = refill(reservoir, lot, jnp.ones(10, bool), jax.random.fold_in(key, i))
        return reservoir.rows[:, 0]

    kept = np.asarray(jax.jit(jax.vmap(fill))(jax.random.split(jax.random.key(0), 2000)))
    share = np.bincount(kept.astype(int).ravel(), minlength=40) / 2000
    np.testing.assert_allclose(share, 0.25, atol=5 * np.sqrt(0.25 * 0.75 / 2000))
    assert all(len(set(row)) == 10 for row in kept[:50])


# -- The deep agent's closed forms against the exact classes of the theory, to 1e-5

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
