"""The sensitivity switch against Algorithm 2 in float64 and its theory; others by hand."""

import math
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo.config import configure
from lpo.engine.rollout import empty_rollout
from lpo.math import features
from lpo.math.images import Plain
from lpo.switch import (
    Look,
    Rows,
    every,
    growth,
    growth_iterations,
    growth_sizes,
    ramp,
    sensitivity,
    sizes_by_steps,
)
from lpo.switch.sensitivity import absorb as absorb_block
from lpo.switch.sensitivity import dimension, inverse_of
from lpo.types import vector

RHO = 1.0
absorb = jax.jit(absorb_block)


def algorithm_2(phi, u, factor, floor, gram):
    """S-Sampling one sample at a time, the inverse solved afresh each time (float64)."""
    gram, scores, copies = gram.astype(np.float64), [], []
    for x, chance in zip(np.asarray(phi, np.float64), np.asarray(u, np.float64), strict=True):
        closed = x @ np.linalg.solve(gram + np.eye(len(x)) / RHO**2, x)
        s = max(closed, floor * (x @ x))
        n = 1.0 if factor * s >= 1 else np.floor(1 / (factor * s))
        c = n if chance < 1 / n else 0.0
        gram += c * np.outer(x, x)
        scores.append(s)
        copies.append(c)
    return np.array(scores), np.array(copies), gram


def unit(rng, rows, size):
    x = rng.standard_normal((rows, size))
    return jnp.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), jnp.float32)


@pytest.mark.parametrize(("factor", "warm"), [(1.0, 0), (4.0, 300), (4.0, 3000)])
def test_a_block_is_algorithm_2_sample_by_sample(factor, warm):
    rng = np.random.default_rng(0)
    old = unit(rng, warm, 8)
    gram = old.T @ old
    phi, u = unit(rng, 64, 8), jnp.asarray(rng.random(64), jnp.float32)
    inverse, logdet = inverse_of(gram, RHO)
    out = absorb(gram, inverse, phi, u, jnp.ones(64, bool), factor, 1e-4)
    scores, copies, after = algorithm_2(phi, u, factor, 1e-4, np.asarray(gram))
    np.testing.assert_allclose(out.sensitivity, scores, atol=1e-5)
    np.testing.assert_array_equal(out.copies, copies)
    assert 0 < (copies > 0).sum() < 64 or warm == 0
    np.testing.assert_allclose(out.gram, after, rtol=1e-5, atol=1e-4)
    exact = np.linalg.inv(after + np.eye(8) / RHO**2)
    np.testing.assert_allclose(out.inverse, exact, atol=1e-5)
    det = np.linalg.slogdet(RHO**2 * after + np.eye(8))[1]
    assert float(logdet + out.rise) == pytest.approx(det, rel=1e-4)


def test_one_direction_by_hand():
    """φ = e_1 four times, ρ = 1, factor 1: 1, ½, ⅓, ¼ when each is added once or n at a time.

    First s = 1: one copy. Then s = 1/(1+1) = ½ → n = 2, taken at u = .4 (< ½): Σ = 3. Then
    s = ¼ → n = 4, refused at u = .3 (≥ ¼). Then the same, taken at u = .2: Σ = 7, log det = ln 8.
    """
    phi = jnp.zeros((4, 2)).at[:, 0].set(1.0)
    u = jnp.array([0.9, 0.4, 0.3, 0.2])
    out = absorb(jnp.zeros((2, 2)), jnp.eye(2), phi, u, jnp.ones(4, bool), 1.0, 0.0)
    np.testing.assert_allclose(out.sensitivity, [1, 0.5, 0.25, 0.25], rtol=1e-6)
    np.testing.assert_allclose(out.copies, [1, 2, 0, 4])
    assert float(out.rise) == pytest.approx(np.log(8), rel=1e-6)
    assert float(dimension(out.inverse, 1.0)) == pytest.approx(7 / 8, rel=1e-5)


def test_rows_that_are_not_valid_are_no_samples():
    rng = np.random.default_rng(1)
    phi, u = unit(rng, 8, 4), jnp.asarray(rng.random(8), jnp.float32)
    valid = jnp.arange(8) < 3
    out = absorb(jnp.zeros((4, 4)), jnp.eye(4), phi, u, valid, 2.0, 0.0)
    np.testing.assert_array_equal(np.asarray(out.copies)[3:], 0)
    short = absorb(jnp.zeros((4, 4)), jnp.eye(4), phi[:3], u[:3], valid[:3], 2.0, 0.0)
    np.testing.assert_allclose(out.inverse, short.inverse, atol=1e-6)


def test_copies_keep_the_gram_matrix_unbiased():
    """E[copies] = 1 whatever the sensitivity, so Σ of Ẑ estimates Σ of all the data."""
    rng = np.random.default_rng(2)
    phi = unit(rng, 64, 4)
    old = 200 * jnp.eye(4)
    inverse, _ = inverse_of(old, RHO)
    run = jax.jit(
        jax.vmap(lambda u: absorb(old, inverse, phi, u, jnp.ones(64, bool), 1.0, 0.0).copies)
    )
    copies = np.asarray(run(rng.random((400, 64)).astype(np.float32)))
    assert copies.mean() == pytest.approx(1.0, abs=4 * copies.std() / np.sqrt(copies.size))
    assert (copies > 0).mean() < 0.1


SIZE, ENVS, SMALLEST = 4, 4, 320


@lru_cache
def make_switch(tau=0.3, memory=None, largest=6400, num_features=16, bandwidth=1.0):
    state_only = features.reader("s", Plain(SIZE, lambda x: x), 0, lambda action: action)
    return sensitivity(
        features.fourier(SIZE, num_features, bandwidth),
        state_only.read,
        num_envs=ENVS,
        smallest=SMALLEST,
        largest=largest,
        tau=tau,
        memory=memory,
        factor=8.0,
        horizon=100_000,
    )


def rollout(switch, state, source, reward=0.0):
    """One rollout of observations drawn by ``source(rows)``: its size, the state, the metrics."""
    buffer = empty_rollout(switch.capacity // ENVS, ENVS, vector(SIZE), 0)
    row, fire, metrics = 0, False, {}
    while not fire:
        stop = row + int(switch.wait(state)) // ENVS
        buffer.obs[row:stop] = source(stop - row)
        buffer.reward[row:stop] = reward
        buffer.valid[row:stop] = True
        fire, state, metrics = switch.update(state, Look(buffer, Rows(row, stop)))
        row = stop
    return row * ENVS, state, {k: float(v) for k, v in metrics.items()}


def rollouts(switch, source, turns):
    state, sizes, log = switch.init(jax.random.key(0)), [], []
    for _ in range(turns):
        size, state, metrics = rollout(switch, state, source)
        sizes.append(size)
        log.append(metrics)
    return np.array(sizes), log, state


def stationary(seed=0):
    rng = np.random.default_rng(seed)
    return lambda rows: rng.standard_normal((rows, ENVS, SIZE))


def test_stationary_data_make_rollouts_grow_by_the_factor():
    """Without fading n grows by e^τ per switch, the paper's schedule, until the largest rollout."""
    sizes, log, _ = rollouts(make_switch(tau=0.3, largest=1120), stationary(), 13)
    assert sizes[0] == SMALLEST  # all is new: at once
    total = np.cumsum(sizes)
    free = int(np.argmax(sizes == 1120))  # the first that the bound ends
    growth = np.log(total[free - 1] / total[3]) / (free - 4)
    assert growth == pytest.approx(0.3, abs=0.1)
    assert free >= 7 and (sizes[free + 1 :] == 1120).all()
    assert log[-1]["switch/zhat"] == pytest.approx(total[-1], rel=0.25)
    assert log[-1]["switch/additions_total"] < 0.5 * total[-1]
    assert log[-1]["switch/logdet"] > log[0]["switch/logdet"]


def test_new_data_switch_sooner_than_old():
    """After nine rollouts of one kind, the same kind needs a long one and another a short one."""
    switch = make_switch(tau=0.2, num_features=128, bandwidth=0.5)
    _, _, state = rollouts(switch, stationary(), 9)
    same, _, _ = rollout(switch, state, stationary(1))
    fresh = stationary(1)
    new, _, _ = rollout(switch, state, lambda rows: 0.7 * fresh(rows) + 3.0)
    assert new < 0.7 * same


def test_fading_bounds_what_is_remembered():
    """With a half-life of 2000 steps, Ẑ holds 2000/ln 2 ≈ 2885 copies and rollouts stop growing."""
    sizes, log, _ = rollouts(make_switch(tau=0.3, memory=2000), stationary(), 25)
    assert log[-1]["switch/zhat"] < 1.6 * 2885
    assert sizes[-6:].mean() == pytest.approx(sizes[-12:-6].mean(), rel=0.5)


def test_features_have_norm_one_and_the_kernel_they_claim():
    """E φ(x)ᵀφ(y) = exp(−‖x̂−ŷ‖²/(2h²)), h² = E‖x̂‖²; 20,000 features make the mean sharp."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((500, 3)) * [1, 10, 0.1] + [0, 5, 0], jnp.float32)
    phi_map = features.fourier(3, 20_000, 1.0)
    state = phi_map.observe(phi_map.init(jax.random.key(0)), x, jnp.ones(500, bool))
    phi = np.asarray(phi_map.apply(state, x[:20]))
    np.testing.assert_allclose((phi**2).sum(1), 1.0, rtol=1e-4)
    z = np.asarray((x - x.mean(0, keepdims=True)) / x.std(0, keepdims=True))
    h2 = (z**2).sum(1).mean()
    distance = ((z[:20, None] - z[None, :20]) ** 2).sum(-1)
    np.testing.assert_allclose(phi @ phi.T, np.exp(-distance / (2 * h2)), atol=0.04)


def test_product_features_are_a_table():
    """One-hot s and a: each pair is a coordinate of its own, whatever was seen."""
    phi_map = features.product(3, 2)
    pairs = [(s, a) for s in range(3) for a in range(2)]
    x = jnp.array([np.concatenate([np.eye(3)[s], np.eye(2)[a]]) for s, a in pairs], jnp.float32)
    np.testing.assert_array_equal(phi_map.apply(phi_map.init(jax.random.key(0)), x), np.eye(6))
    of_states = features.product(3, 0)
    np.testing.assert_array_equal(of_states.apply((), jnp.eye(3)), np.eye(3))


def test_network_features_have_norm_one():
    phi_map = features.network(3, 64)
    x = jax.random.normal(jax.random.key(1), (10, 3))
    phi = phi_map.apply(phi_map.init(jax.random.key(0)), x)
    np.testing.assert_allclose((phi**2).sum(1), 1.0, rtol=1e-5)
    assert float(jnp.abs(phi @ phi.T - 1).max()) > 0.1  # and tell inputs apart


# -- Rollout schedules against the formula


def run(switch, turns):
    state, sizes = switch.init(None), []
    for _ in range(turns):
        sizes.append(int(switch.wait(state)))
        fire, state, _ = switch.update(state, None)
        assert fire
    return sizes


def test_every_is_constant():
    assert run(every(2048), 3) == [2048] * 3


def test_growth_by_hand():
    # K = 4: 100·1.25^k = 100, 125, 156.25, 195.3125, rounded up; then it stays
    assert run(growth(100, 4), 5) == [100, 125, 157, 196, 196]


def test_the_papers_budget():
    """N = 2048 and 2e6 steps: K ≈ 568 and a last rollout of about 5.5k (e·N)."""
    k = growth_iterations(2048, 2_000_000)
    sizes = growth_sizes(2048, k)
    assert k == pytest.approx(568, abs=3)
    assert sizes[-1] == pytest.approx(math.e * 2048, rel=0.01)
    assert sizes.sum() >= 2_000_000 > growth_sizes(2048, k - 1).sum()


@pytest.mark.parametrize("budget", [1, 2048, 2049, 10_000, 200_000])
def test_the_schedule_just_covers_any_budget(budget):
    k = growth_iterations(2048, budget)
    assert growth_sizes(2048, k).sum() >= budget
    assert k == 1 or growth_sizes(2048, k - 1).sum() < budget
    assert growth(2048, k).capacity == growth_sizes(2048, k).max()


def test_growth_by_steps_by_hand():
    """N = 100, T = 200: 1.005^0 = 1, 1.005^100 = 1.6467, 1.005^265 = 3.7496; then 640 > 500."""
    assert sizes_by_steps(100, 200, 500).tolist() == [100, 165, 375]
    problem: Any = SimpleNamespace(steps=500)
    switch = configure("lpo", rollout=100, growth_steps=200).switch.make(problem)
    assert run(switch, 4) == [100, 165, 375, 375] and switch.capacity == 375


def test_the_readings_of_the_papers_growth():
    """The table of docs/readings.md: policies within 2e6 steps, and the last rollout."""
    sizes = sizes_by_steps(2048, 2_000_000, 2_000_000)
    assert (len(sizes), sizes[-1]) == (618, 5557)
    assert growth_sizes(2048, 2_000_000)[:977].max() == 2049


def test_sizes_never_shrink():
    assert (np.diff(growth_sizes(2048, 300)) >= 0).all()


def test_a_ramp_by_hand():
    """12 steps until step 30, then 20, in rows of four environments: 12, 24, 36 → 20."""
    switch, look = (
        ramp(12, 20, 30.0),
        lambda rows: Look(empty_rollout(5, 4, vector(1), 1), Rows(0, rows)),
    )
    state, sizes = switch.init(jax.random.key(0)), []
    for _ in range(5):
        sizes.append(int(switch.wait(state)))
        fire, state, _ = switch.update(state, look(sizes[-1] // 4))
        assert fire
    assert sizes == [12, 12, 12, 20, 20] and switch.capacity == 20


@pytest.mark.parametrize("place", ["host", "device"])
def test_what_is_new_by_hand(place):
    """Rows 2 and 3 of five, with two environments; of the last three rows the first is old."""
    rollout = empty_rollout(5, 2, vector(1), 1)
    rollout.reward[:] = np.arange(5)[:, None]
    rollout.valid[:] = True

    def ask(since, upto):
        look = Look(rollout, Rows(since, upto))
        last = look.last(3)
        return look.new, look.steps, last.reward, last.valid

    new, steps, reward, valid = (ask if place == "host" else jax.jit(ask))(2, 4)
    assert np.array_equal(new[:, 0], [0, 0, 1, 1, 0]) and np.array_equal(new[:, 1], new[:, 0])
    assert int(steps) == 4
    assert np.array_equal(reward[:, 1], [1, 2, 3]) and np.array_equal(valid[:, 1], [0, 1, 1])
