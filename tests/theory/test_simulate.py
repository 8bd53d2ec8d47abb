"""Roll-outs follow the laws they claim, and returns are what one computes by hand."""

import numpy as np
import pytest
from scipy import stats

from lpo.theory import zoo
from lpo.theory.mdp import visitation
from lpo.theory.simulate import (
    action_cdf,
    every_visit,
    geometric,
    returns,
    roll_in,
    roll_out,
    tables,
)


@pytest.mark.parametrize("name", ["riverswim", "lock", "random", "deepsea-stochastic"])
def test_alias_tables_hold_exactly_the_transition_law(name):
    m = zoo.make(name)
    t = tables(m)
    P = np.zeros_like(m.P)
    for i in range(t.cut.shape[1]):
        for z in range(m.num_pairs):
            P[z, t.choice[z, i, 0]] += t.cut[z, i] / t.cut.shape[1]
            P[z, t.choice[z, i, 1]] += (1 - t.cut[z, i]) / t.cut.shape[1]
    np.testing.assert_allclose(P, m.P, atol=1e-12)


def test_roll_ins_have_the_law_of_the_visitation_measure():
    m = zoo.random_mdp(5, 3, seed=4)
    rng = np.random.default_rng(1)
    stack = rng.dirichlet(np.ones(3), size=(2, 5))
    member = np.repeat([0, 1], 40_000)
    z, steps = roll_in(m, action_cdf(stack), member, rng)
    for k in range(2):
        seen = np.bincount(z[member == k], minlength=15)
        assert stats.chisquare(seen, 40_000 * visitation(m, stack[k])).pvalue > 1e-3
    assert steps / len(z) == pytest.approx(1 / (1 - m.gamma), rel=0.02)


def test_terminal_states_cost_no_steps():
    m = zoo.deepsea(3, gamma=0.99)
    pi = np.full((10, 2), 0.5)
    rng = np.random.default_rng(0)
    _, steps = roll_in(m, action_cdf(pi)[None], np.zeros(20_000, np.int64), rng)
    alive = visitation(m, pi).reshape(10, 2)[~m.terminal].sum() / (1 - m.gamma)
    assert alive == pytest.approx(1 + 0.99 + 0.99**2)
    assert steps / 20_000 == pytest.approx(alive, rel=0.01)
    data, more = roll_out(m, action_cdf(pi), np.array([0]), np.array([50]), rng)
    assert len(data.pairs) == 50 and more == 2


def test_roll_outs_follow_policy_and_transitions():
    m = zoo.random_mdp(4, 2, seed=2)
    rng = np.random.default_rng(3)
    pi = rng.dirichlet(np.ones(2), size=4)
    data, _ = roll_out(m, action_cdf(pi), np.full(60_000, 3), np.full(60_000, 2), rng)
    second = data.pairs.reshape(-1, 2)[:, 1]
    expect = (m.P[3][:, None] * pi).ravel()
    assert stats.chisquare(np.bincount(second, minlength=8), 60_000 * expect).pvalue > 1e-3


def test_lengths_are_geometric():
    h = geometric(0.8, 100_000, np.random.default_rng(0))
    assert h.min() == 1
    assert h.mean() == pytest.approx(5.0, rel=0.02)


def test_the_same_seed_gives_the_same_trajectories():
    m = zoo.riverswim()
    cdf = action_cdf(np.full((6, 2), 0.5))
    one, two = (
        roll_out(m, cdf, np.zeros(50, int), np.full(50, 20), np.random.default_rng(5))[0]
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.pairs, two.pairs)


def test_returns_by_hand():
    # one trajectory 0 → 1 → 2 and one of length 1, ratios ½, 2, 3, rewards 1, 10, 100, b = 4, 5, 6
    pairs, offsets = np.array([0, 1, 2, 1], np.int32), np.array([0, 3, 4])
    ratio, r, b = np.array([0.5, 2.0, 3.0]), np.array([1.0, 10, 100]), np.array([4.0, 5, 6])
    G, lam = returns(pairs, offsets, ratio, r, b, 0)
    np.testing.assert_allclose(G, [1 + 2 * 15 + 6 * 106, 10])
    np.testing.assert_allclose(lam, [6, 1])
    np.testing.assert_allclose(returns(pairs, offsets, ratio, r, b, 1)[0], [6 * 106, 10])
    np.testing.assert_allclose(returns(pairs, offsets, ratio, r, b, 2)[0], [6 * 106, 15])
    tails, zero = np.array([0, 0]), np.zeros(3)
    sums, counts = every_visit(pairs, offsets, tails, ratio, r, b, zero, zero, 0.9)
    # from pair 1 inside: 10 + 3·106; alone: 10; from pair 2: 100
    np.testing.assert_allclose(sums, [667, 10 + 318 + 10, 100])
    np.testing.assert_allclose(counts, [1, 2, 1])
    # with one action, q = v = (7, 8, 9), γ = ½ and tails in state 1:
    # pair 2: 100 + ½·8 = 104; pair 1: 10 + ½·9 + 3(6 + 104 − 9) = 317.5;
    # pair 0: 1 + ½·8 + 2(5 + 317.5 − 8) = 634; alone: 10 + ½·8 = 14
    q = np.array([7.0, 8, 9])
    sums, _ = every_visit(pairs, offsets, np.array([1, 1]), ratio, r, b, q, q, 0.5)
    np.testing.assert_allclose(sums, [634, 317.5 + 14, 104])
