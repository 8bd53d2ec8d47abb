"""Exact values against hand-worked numbers, value iteration and power series."""

import numpy as np
import pytest
from scipy import stats

from lpo.errors import LPOError
from lpo.theory import zoo
from lpo.theory.mdp import MDP, gap, q_from_v, value, values, visitation
from lpo.theory.simulate import (
    action_cdf,
    every_visit,
    geometric,
    returns,
    roll_in,
    roll_out,
    tables,
)
from lpo.theory.trace import Trace


def two_state() -> MDP:
    """State 0: action 0 stays for 0, action 1 goes to 1 for .5; state 1 pays 1 forever."""
    P = np.array([[1.0, 0], [0, 1], [0, 1], [0, 1]])
    return MDP("two", P, np.array([0.0, 0.5, 1.0, 1.0]), 0.5, 2)


def test_values_by_hand():
    m = two_state()
    half = np.full((2, 2), 0.5)
    # V(1) = 1/(1−.5) = 2; V(0) = ½(.5V(0)) + ½(.5 + .5·2) → V(0) = .75/.75 = 1
    np.testing.assert_allclose(value(m, half), [1.0, 2.0])
    np.testing.assert_allclose(q_from_v(m, value(m, half)), [0.5, 1.5, 2.0, 2.0])
    assert m.optimal_value == pytest.approx(1.5)
    assert gap(m, half) == pytest.approx(0.5)
    # a mixture of the two deterministic policies in state 0: values 0 and 1.5
    stack = np.array([[[1.0, 0], [1, 0]], [[0, 1.0], [1, 0]]])
    assert gap(m, stack) == pytest.approx(0.75)
    # d: Pr(s_t = 0) = 2^-t under `half`, so d(0) = ½ Σ (¼)^t = 2/3
    np.testing.assert_allclose(visitation(m, half), [1 / 3, 1 / 3, 1 / 6, 1 / 6])
    np.testing.assert_array_equal(m.terminal, [False, True])


@pytest.mark.parametrize("name", sorted(zoo.MAKERS))
def test_optimum_equals_value_iteration(name):
    m = zoo.make(name)
    v = np.zeros(m.num_states)
    for _ in range(2000):
        v = q_from_v(m, v).reshape(m.num_states, -1).max(axis=1)
    np.testing.assert_allclose(m.optimal[0], v, atol=1e-9)


def test_visitation_is_the_discounted_power_series():
    m = zoo.random_mdp(5, 3, seed=3)
    pi = np.random.default_rng(0).dirichlet(np.ones(3), size=5)
    law, total = np.eye(5)[0], np.zeros(15)
    for t in range(400):
        pairs = (law[:, None] * pi).ravel()
        total += (1 - m.gamma) * m.gamma**t * pairs
        law = pairs @ m.P
    np.testing.assert_allclose(visitation(m, pi), total, atol=1e-12)
    np.testing.assert_allclose(
        visitation(m, pi) @ m.r / (1 - m.gamma), value(m, pi)[m.start], atol=1e-12
    )


def test_stacks_and_shared_factorisations_agree_with_single_solves():
    m = zoo.random_mdp(4, 2, seed=1)
    rng = np.random.default_rng(0)
    stack, b = rng.dirichlet(np.ones(2), size=(3, 4)), rng.random(8)
    plain, with_b = values(m, stack, b)
    for k in range(3):
        np.testing.assert_allclose(plain[k], value(m, stack[k]))
        np.testing.assert_allclose(with_b[k], value(m, stack[k], b))
        np.testing.assert_allclose(visitation(m, stack)[k], visitation(m, stack[k]))


def test_closed_forms_of_the_zoo():
    # DeepSea: size−1 free rights, then reward 1
    assert zoo.deepsea(6, gamma=0.9).optimal_value == pytest.approx(0.9**5)
    # chain: length−1 moves, then 1 forever
    assert zoo.chain(4, gamma=0.8).optimal_value == pytest.approx(0.8**3 / 0.2)
    # lock(1): choose side 0, then the key pays 5 − 1 → (5 − 1 + 1)/5 = 1; shift 1/5 elsewhere
    m = zoo.lock(1, num_actions=4, gamma=0.5)
    assert m.optimal_value == pytest.approx(0.2 + 0.5 * 1.0 + 0.25 * 0.2 / 0.5)


def test_linear_mdp_is_linear_and_its_bias_is_as_stated():
    m = zoo.linear_mdp(6, 20, 3, seed=2)
    assert m.features is not None
    assert np.sqrt((m.features**2).sum(1)).max() <= 1 + 1e-12
    for target in (m.r, *m.P.T):
        fit = m.features @ np.linalg.lstsq(m.features, target, rcond=None)[0]
        np.testing.assert_allclose(fit, target, atol=1e-9)
    bent = zoo.linear_mdp(6, 20, 3, seed=2, bias=0.1)
    assert np.abs(bent.r - m.r).max() <= 0.1 + 1e-12
    assert 0.5 * np.abs(bent.P - m.P).sum(axis=1).max() <= 0.1 + 1e-12


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"gamma": 1.0}, "discount"),
        ({"gamma": -0.1}, "discount"),
        ({"num_actions": 0}, "at least one action"),
        ({"P": np.full((4, 2), 0.6)}, "normalise"),
        ({"P": np.array([[1.5, -0.5]] * 4)}, "normalise"),
        ({"P": np.ones((3, 2)) / 2}, "lay the rows out"),
        ({"r": np.array([0, 0, 0, 2.0])}, "rescale"),
        ({"r": np.array([0, 0, 0, np.nan])}, "rescale"),
        ({"start": 7}, "choose one below"),
        ({"features": np.ones((3, 1))}, "one row per pair"),
    ],
)
def test_bad_mdps_are_refused_in_one_sentence(change, word):
    good = {
        "name": "m",
        "P": np.full((4, 2), 0.5),
        "r": np.zeros(4),
        "gamma": 0.9,
        "num_actions": 2,
    }
    with pytest.raises(LPOError, match=word) as caught:
        MDP(**{**good, **change})
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_unknown_names_and_sizes_are_refused():
    with pytest.raises(LPOError, match="choose one of"):
        zoo.make("nowhere")
    with pytest.raises(LPOError, match="at least"):
        zoo.deepsea(1)
    with pytest.raises(LPOError, match="num_actions is 1; pass a whole number of at least 2"):
        zoo.lock(3, num_actions=1)
    with pytest.raises(LPOError, match="small fraction"):
        zoo.linear_mdp(bias=1.5)
    with pytest.raises(LPOError, match="num_states ≥ dim"):
        zoo.linear_mdp(dim=30, num_states=10)


# -- Roll-outs follow the laws they claim, and returns are what one computes by hand


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


# -- A trace's arithmetic by hand: mixtures weighted by iterations served, first and lasting times


def bandit() -> MDP:
    """One state, γ = 0: the value of a policy is the probability of the second action."""
    return MDP("bandit", np.ones((2, 1)), np.array([0.0, 1.0]), 0.0, 2)


def stack(*chances: float) -> np.ndarray:
    return np.array([[[1 - p, p]] for p in chances])


def test_gaps_and_mixtures():
    t = Trace(bandit())
    t.policy(stack(0.5), steps=0)
    t.policy(stack(0.2, 0.6), steps=10, inner=2)
    t.served(3, 7)
    t.policy(stack(1.0), steps=5, inner=1)
    t.served(1, 2)
    np.testing.assert_allclose(t.gap_last, [0.5, 0.4, 0.0])
    np.testing.assert_allclose(t.gap_policy, [0.5, 0.6, 0.0])
    # three iterations at value .4 and one at 1: mean .55
    assert t.final_gap_mixture == pytest.approx(0.45)
    assert (t.steps, t.iteration) == ([0, 10, 22], [0, 0, 3])
    assert (t.switches, t.total_steps, t.iterations, t.inner) == (2, 24, 4, 3)
    # the last quarter is the last of four iterations; the last half has one of each policy
    assert t.late_gap() == pytest.approx(0.0) and t.late_gap(0.5) == pytest.approx(0.2)
    assert [t.switches_before(n) for n in (0, 1, 3, 4)] == [0, 1, 1, 2]
    assert [t.gap_before(n) for n in (0, 9, 10, 30)] == pytest.approx([0.5, 0.5, 0.4, 0.0])
    # Algorithm 1's output if it stopped at the third policy: (3·.4 + 1·1)/4
    assert t.gap_mixture[-1] == pytest.approx(1 - 2.2 / 4)


def test_first_and_lasting_times():
    t = Trace(bandit())
    for p in (0.5, 0.95, 0.3, 0.9, 1.0):
        t.policy(stack(p), steps=10)
    assert t.steps_until(0.1 + 1e-9) == 20 and t.steps_to(0.1 + 1e-9) == 40
    assert t.steps_until(0.01) == t.steps_to(0.01) == 50
    t.policy(stack(0.0), steps=10)
    assert t.steps_until(0.01) == 50 and t.steps_to(0.01) is None
