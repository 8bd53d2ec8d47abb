"""Algorithms 1-6, line by line: probabilities, unbiased critics, hand-worked updates."""

from typing import Any, Literal, get_args, get_origin

import numpy as np
import pytest
from scipy import stats

from lpo.errors import LPOError
from lpo.options import fields_of
from lpo.theory import algorithms, zoo
from lpo.theory.algorithms import (
    Options,
    behaviour_policy_sampling,
    bonus_function,
    d_sampler,
    exact_critic,
    half_bonus,
    importance_ratio,
    lpo,
    policy_evaluation_oracle,
    policy_update,
    return_targets,
    s_sampling,
)
from lpo.theory.classes import Box, Finite, Glm, LinearBall, Neural, Sensed, gaussian, kernel_ball
from lpo.theory.constants import Constants
from lpo.theory.mdp import MDP, q_from_v, value, visitation
from lpo.theory.policy import Cover, uniform
from lpo.theory.runner import value_bound
from lpo.theory.simulate import action_cdf, geometric, roll_out

CHOICES = {
    name: get_args(option.plain)
    for name, option in fields_of(Options).items()
    if get_origin(option.plain) is Literal
}


def make_options(**given: Any) -> Options:
    """Options by names that only the test knows."""
    return Options(**given)


def box_for(m: MDP) -> Box:
    return Box(m.num_pairs, (1 + 3 / (1 - m.gamma)) / (1 - m.gamma))


def setting(seed=0, gamma=0.8):
    """A random MDP with a bonus, two policies and a cover of the uniform policy."""
    m = zoo.random_mdp(4, 3, gamma=gamma, seed=seed)
    rng = np.random.default_rng(seed)
    pi, behaviour = (0.5 / 3 + 0.5 * rng.dirichlet(np.full(3, 2.0), size=4) for _ in range(2))
    bonus = rng.random(12) * 3
    cover = Cover(m, laws=True)
    cover.append(uniform(m))
    return m, rng, pi, behaviour, bonus, cover


# --- Algorithm 2 ---------------------------------------------------------------------------------


def test_s_sampling_adds_floor_copies_with_the_reciprocal_probability():
    F, rng = Box(2, 100.0), np.random.default_rng(0)
    c = Constants.practical(zoo.chain(2), 1000, factor=1.0)
    hits = 0
    for _ in range(3000):
        sensed = Sensed(np.array([3.2, 0.0]))
        if s_sampling(F, sensed, 0, c, rng):  # s = 1/(3.2 + 1e-4), so ⌊1/s⌋ = 3 copies w.p. 1/3
            hits += 1
            assert sensed.counts[0] == pytest.approx(6.2)
    assert stats.binomtest(hits, 3000, 1 / 3).pvalue > 1e-3
    fresh = F.empty()
    assert s_sampling(F, fresh, 1, c, rng) and fresh.counts[1] == 1  # s ≥ 1: one copy, surely


def test_the_sampled_set_is_an_unbiased_copy_of_the_stream():
    """E n_z(Ẑ) = n_z(Z): what is kept with probability 1/c counts c times."""
    F, rng = Box(3, 50.0), np.random.default_rng(1)
    z = rng.choice(3, size=400, p=[0.7, 0.25, 0.05])
    runs = np.zeros((1500, 3))
    for row in runs:
        sensed = F.empty()
        F.absorb(sensed, z, rng.random(400), 1.0, 1e9, False)
        row[:] = sensed.counts
    error = (runs.mean(0) - np.bincount(z)) / (runs.std(0) / np.sqrt(len(runs)) + 1e-12)
    assert np.abs(error).max() < 4


# --- Algorithms 4-6 ------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", CHOICES["estimator"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_importance_sampled_critic_is_unbiased(estimator, seed):
    """40 independent fits at every pair against exact Q_b − b; a z-score of 4.5 over 12 pairs."""
    m, rng, pi, behaviour, bonus, _ = setting(seed)
    options = Options(estimator=estimator, reuse="kappa")
    ratio = importance_ratio(pi, behaviour, Constants.practical(m, 10), options)
    truth = q_from_v(m, value(m, pi, bonus))
    guess = rng.random(12) * 20  # any guess fixed in advance
    fits = []
    heads = np.repeat(np.arange(12), 500)
    for _ in range(40):
        h = geometric(m.gamma, len(heads), rng)
        data, _ = roll_out(m, action_cdf(behaviour), heads, h, rng)
        counts, means = return_targets(m, data, pi, ratio, bonus, estimator, guess)
        assert (counts > 0).all()
        fits.append(means)
    error = (np.mean(fits, 0) - truth) / (np.std(fits, 0) / np.sqrt(40))
    assert np.abs(error).max() < 4.5
    # and a wrong bonus would be noticed
    wrong = q_from_v(m, value(m, pi, 0.8 * bonus))
    assert np.abs((np.mean(fits, 0) - wrong) / (np.std(fits, 0) / np.sqrt(40))).max() > 5


def spread_of(m, pi, bonus, estimator, guess, rng):
    """Variance over pairs of the mean of 30 roll-outs from each pair, on policy."""
    fits = []
    heads = np.repeat(np.arange(m.num_pairs), 30)
    for _ in range(100):
        data, _ = roll_out(m, action_cdf(pi), heads, geometric(m.gamma, len(heads), rng), rng)
        one = np.ones(m.num_pairs)
        fits.append(return_targets(m, data, pi, one, bonus, estimator, guess)[1])
    return np.var(fits, axis=0).mean()


def test_variances_are_ordered_as_the_documentation_says():
    """Sparse rewards: last > sum > every > robust. Even ones turn "last" and "sum" around."""
    rng = np.random.default_rng(0)
    m = zoo.chain(5)
    pi, none = np.full((5, 2), 0.5), np.zeros(10)
    truth = q_from_v(m, value(m, pi))
    sparse = {e: spread_of(m, pi, none, e, truth, rng) for e in CHOICES["estimator"]}
    assert sparse["robust"] < sparse["every"] < sparse["sum"] < sparse["last"]
    assert sparse["robust"] < sparse["last"] / 20
    even = MDP("even", m.P, np.ones(10), m.gamma, 2)
    assert spread_of(even, pi, none, "last", none, rng) < 1e-9
    assert spread_of(even, pi, none, "sum", none, rng) > 1


def test_ratios_are_one_where_nothing_was_played_and_bounded_when_asked():
    c = Constants.practical(zoo.chain(2), 10)
    pi, base = np.array([[0.0, 1.0], [0.5, 0.5]]), np.array([[0.0, 1.0], [1e-9, 1 - 1e-9]])
    np.testing.assert_allclose(
        importance_ratio(pi, base, c, Options(reuse="kappa"))[:3], [1, 1, 0.5e9]
    )
    bound = importance_ratio(pi, base, c, Options(reuse="ess"))
    assert bound.max() == pytest.approx(np.exp(c.max_log_ratio))


@pytest.mark.parametrize("mode", CHOICES["roll_in"])
def test_d_sampler_draws_from_the_mixture_and_from_the_cover(mode):
    m, rng, pi, behaviour, _, cover = setting()
    cover.append(np.stack([pi, behaviour]), repeats=3)  # cover: uniform once, the mixture thrice
    mix = visitation(m, np.stack([pi, behaviour])).mean(axis=0)
    law = 0.25 * visitation(m, uniform(m)[0]) + 0.75 * mix
    for whole, expect in ((False, mix), (True, law)):
        z, steps = d_sampler(m, cover, 60_000, rng, mode, whole_cover=whole)
        assert stats.chisquare(np.bincount(z, minlength=12), 60_000 * expect).pvalue > 1e-3
        assert steps / 60_000 == pytest.approx(5.0, rel=0.02)
    np.testing.assert_allclose(cover.law(), law)
    assert len(cover) == 4


def test_behaviour_policy_sampling_heads_and_lengths():
    m, rng, pi, _, _, cover = setting()
    data, steps = behaviour_policy_sampling(m, pi, cover, 40_000, rng, "rollout")
    heads, h = data.pairs[data.offsets[:-1]], np.diff(data.offsets)
    expect = 40_000 * visitation(m, uniform(m)[0])
    assert stats.chisquare(np.bincount(heads, minlength=12), expect).pvalue > 1e-3
    assert h.mean() == pytest.approx(5.0, rel=0.03)
    assert steps == pytest.approx(40_000 * (5 + 4), rel=0.03)


def test_the_oracle_converges_to_the_exact_critic():
    m, rng, pi, _, bonus, cover = setting()
    F, c = box_for(m), Constants.practical(m, 10)
    data, _ = behaviour_policy_sampling(m, pi, cover, 300_000, rng, "law")
    got = policy_evaluation_oracle(m, F, pi, data, pi, bonus, c)
    np.testing.assert_allclose(got, exact_critic(m, F, cover, pi, bonus), rtol=0.02)


def test_half_the_bonus_on_known_states():
    q = half_bonus(np.array([1.0, 2, 3, 4]), np.array([2.0, 4, 6, 8]), np.array([True, False]))
    np.testing.assert_allclose(q, [2, 4, 9, 12])


# --- Algorithm 1's bonus and Algorithm 3 ---------------------------------------------------------


def test_bonus_by_hand_in_both_readings():
    m = zoo.chain(2, gamma=0.5)  # W irrelevant once n > 0; unknown bonus 3/(1−γ) = 6
    F = Box(4, 10.0)
    c = Constants.practical(m, 10, n0=2.0, width_bonus=2.0)  # β = ½, ε = ½
    sensed = Sensed(np.array([8.0, 2.0, 4.0, 32.0]))
    # widths sqrt(.5/n) = .25, .5, .354, .125; pair 1 is not known (n = n0)
    known, b = bonus_function(F, sensed, c, m)
    np.testing.assert_array_equal(known, [[True, False], [True, True]])
    np.testing.assert_allclose(b, [6, 6, 4 * np.sqrt(0.125), 0.5])
    _, b = bonus_function(F, sensed, c, m, "pair")
    np.testing.assert_allclose(b, [1, 6, 4 * np.sqrt(0.125), 0.5])


def test_policy_update_by_hand():
    """One free state with rewards 0 and ½, then a terminal one paying 1; γ = ½, no bonus."""
    P = np.array([[0.0, 1], [0, 1], [0, 1], [0, 1]])
    m = MDP("hand", P, np.array([0.0, 0.5, 1, 1]), 0.5, 2)
    cover = Cover(m, laws=True)
    cover.append(uniform(m))
    c = Constants.practical(m, 10, K=3, eta=2.0)
    known = np.ones((2, 2), bool)
    stack, steps, inner = policy_update(
        m, box_for(m), cover, np.zeros(4), known, c, np.random.default_rng(0),
        Options(critic="exact"),
    )  # fmt: skip
    # Q differs by ½ whatever π is: logits differ by η·½ = 1 per iteration
    for k in range(3):
        np.testing.assert_allclose(stack[k, 0], [1 / (1 + np.e**k), np.e**k / (1 + np.e**k)])
        np.testing.assert_allclose(stack[k, 1], 0.5)  # terminal: left alone
    assert (steps, inner) == (0, 3)


def test_unknown_states_play_their_unknown_actions_and_nothing_known_is_a_no_op():
    m = zoo.random_mdp(3, 3, seed=0)
    cover = Cover(m, laws=True)
    cover.append(uniform(m))
    c = Constants.practical(m, 10, K=4)
    known = np.array([[True, False, False], [True, True, True], [False, False, False]])
    F, rng, b = box_for(m), np.random.default_rng(0), np.ones(9)
    stack, _, _ = policy_update(m, F, cover, b, known, c, rng, Options(critic="exact"))
    assert len(stack) == 4
    np.testing.assert_allclose(stack[-1, 0], [0, 0.5, 0.5])
    np.testing.assert_allclose(stack[-1, 2], 1 / 3)
    assert np.ptp(stack[-1, 1]) > 0.1
    stack, steps, inner = policy_update(m, F, cover, b, known & False, c, rng)
    np.testing.assert_allclose(stack, np.full((1, 3, 3), 1 / 3))
    assert (steps, inner) == (0, 0)


def test_kappa_reuses_a_dataset_as_the_paper_writes(monkeypatch):
    """k − k̲ > κ with κ = 2 resamples at k = 0, 3, 6, 9; ESS with a threshold of 0 never does."""
    m, rng, _, _, bonus, cover = setting()
    calls = []
    original = algorithms.behaviour_policy_sampling
    monkeypatch.setattr(
        algorithms, "behaviour_policy_sampling", lambda *a: calls.append(1) or original(*a)
    )
    c = Constants.practical(m, 10, K=10, kappa=2, M=50, eta=0.01)
    known = np.ones((4, 3), bool)
    policy_update(m, box_for(m), cover, bonus, known, c, rng, Options(reuse="kappa"))
    assert len(calls) == 4
    calls.clear()
    policy_update(m, box_for(m), cover, bonus, known, c.with_(min_ess=0.0), rng, Options())
    assert len(calls) == 1
    calls.clear()
    fast = c.with_(eta=100.0, min_ess=0.99)
    policy_update(m, box_for(m), cover, bonus, known, fast, rng, Options())
    assert len(calls) > 1


# --- Algorithm 1 ---------------------------------------------------------------------------------


def test_lpo_finds_the_end_of_a_chain_with_the_sampled_critic():
    m = zoo.chain(5)
    c = Constants.practical(m, 2000, eta=30, K=20, n0=1, factor=1, M=200)
    trace = lpo(m, box_for(m), c, np.random.default_rng(0))
    assert trace.gap_last[-1] < 1e-3
    assert trace.final_gap_mixture < 0.5 * m.optimal_value
    assert trace.switches == len(trace.steps) - 1 < 200
    assert trace.distinct == 10 and trace.additions >= 10
    assert trace.iterations == 2000 and trace.total_steps >= trace.steps[-1]
    assert list(trace.steps) == sorted(trace.steps)


def test_the_same_seed_gives_the_same_run():
    m = zoo.riverswim(4)
    c = Constants.practical(m, 300, M=50)
    one, two = (lpo(m, box_for(m), c, np.random.default_rng(3)) for _ in range(2))
    assert one.gap_last == two.gap_last and one.steps == two.steps


def test_never_lazy_switches_at_every_sample():
    m = zoo.chain(3)
    c = Constants.practical(m, 60, M=20, K=2)
    trace = lpo(m, box_for(m), c, np.random.default_rng(0), Options(switch="always"))
    assert trace.switches == 60


def test_lpo_on_linear_features_and_with_rounding():
    m = zoo.linear_mdp(4, 12, 3, seed=1)
    assert m.features is not None
    F = LinearBall(m.features, 2 * (1 + 3 / (1 - m.gamma)) / (1 - m.gamma))
    c = Constants.practical(m, 1000, eta=30, K=20, n0=1, factor=1, M=300)
    trace = lpo(m, F, c, np.random.default_rng(0), Options(rounding=True, roll_in="law"))
    assert trace.gap_last[-1] < 0.05 * m.optimal_value
    assert trace.switches < 200


def test_time_limit_stops_early():
    m = zoo.chain(4)
    c = Constants.practical(m, 10**9, M=20)
    assert lpo(m, box_for(m), c, np.random.default_rng(0), seconds=0.2).iterations < 10**9


# --- constants and options -----------------------------------------------------------------------


def test_theory_constants_follow_the_formulas():
    m = zoo.chain(2, gamma=0.5)
    F = Box(4, 8.0)
    c = Constants.theory(m, F, N=1000, delta=0.1, target=0.5)
    assert int(np.ceil(256 * 64 * np.log(2) / 0.0625)) == c.K
    assert c.eta == pytest.approx(np.sqrt(np.log(2) / (16 * 64 * c.K)))
    assert 8 * 8 * np.sqrt(np.log(2) * c.K) / (0.5 * c.K) <= 0.25  # the share ε/2 of the theorem
    assert c.kappa == pytest.approx(
        0.5 * np.log(2) / (2 * np.log(16 * 1000 / 0.1) * c.eta * (6 + 8))
    )
    assert c.unknown_bonus == 6 and c.width_bonus == 2 and c.M == c.N == 1000
    assert c.kind == "theory" and c.epsilon > 1e6 and c.factor > 1e17
    assert Constants.practical(m, 10, n0=3.0).n0 == pytest.approx(3.0)


def test_bad_constants_and_options_are_refused():
    m = zoo.chain(2)
    for delta in (0.0, 1.0, -1, 2):
        with pytest.raises(LPOError, match=r"outside \(0, 1\)"):
            Constants.practical(m, 10, delta)
        with pytest.raises(LPOError, match=r"outside \(0, 1\)"):
            Constants.theory(m, Box(4, 1.0), 10, delta)
    with pytest.raises(LPOError, match="number above zero"):
        Constants.practical(m, 0)
    for name in CHOICES:
        with pytest.raises(LPOError, match="must be one of"):
            make_options(**{name: "nonsense"})


def test_patience_waits_for_a_share_of_additions():
    """With patience ½ the k-th switch needs half as many additions again: few, geometric."""
    m = zoo.chain(5)
    c = Constants.practical(m, 2000, M=200)
    hasty = lpo(m, box_for(m), c, np.random.default_rng(0))
    patient = lpo(m, box_for(m), c, np.random.default_rng(0), Options(patience=0.5))
    assert patient.switches < hasty.switches / 3
    assert patient.total_steps < hasty.total_steps / 2
    assert patient.switches <= 2 + np.ceil(np.log(patient.additions) / np.log(1.5)) + 2
    with pytest.raises(LPOError, match="patience must be a number of at least 0"):
        Options(patience=-1.0)


def test_a_cover_that_need_not_walk_forgets_old_policies():
    m, _, pi, behaviour, _, _ = setting()
    lean, full = Cover(m, laws=True, walks=False), Cover(m, laws=True)
    for cover in (lean, full):
        cover.append(uniform(m))
        cover.append(np.stack([pi, behaviour]), repeats=2)
    np.testing.assert_allclose(lean.law(), full.law())
    np.testing.assert_allclose(lean.last, full.last)
    assert len(lean.cdfs) == 2 and len(full.cdfs) == 3


@pytest.mark.parametrize(
    ("name", "choice"), [(n, x) for n, xs in CHOICES.items() for x in xs if x != "always"]
)
def test_every_reading_reaches_the_optimum_of_a_short_chain(name, choice):
    m = zoo.chain(4, gamma=0.8)
    c = Constants.practical(m, 400, M=3000, eta=5.0)
    trace = lpo(m, box_for(m), c, np.random.default_rng(0), make_options(**{name: choice}))
    assert trace.gap_last[-1] < 0.05 * m.optimal_value


@pytest.mark.parametrize("critic", CHOICES["critic"])
def test_the_two_readings_of_the_bonus_lead_to_the_same_run(critic):
    """An unknown state plays its unknown actions only, so what the readings disagree on, the bonus
    of its known actions, is never collected: the contradiction between Alg. 1 and (E5) is harmless.
    """
    m = zoo.chain(4)
    c = Constants.practical(m, 200, M=100)
    runs = [
        lpo(m, box_for(m), c, np.random.default_rng(0), make_options(critic=critic, known=known))
        for known in CHOICES["known"]
    ]
    assert runs[0].steps == runs[1].steps
    np.testing.assert_allclose(runs[0].gap_last, runs[1].gap_last, atol=1e-9)


# -- Algorithm 1 end to end with each family of functions, not only the box and the ball


def positions(m):
    """Pairs as points: the state on a line, the action across it."""
    z = np.arange(m.num_pairs)
    return np.stack([z // 2 / m.num_states, z % 2.0], axis=1)


def test_lpo_with_a_kernel_class_solves_the_chain():
    m = zoo.chain(5)
    F = kernel_ball(positions(m), gaussian(0.15), 10 * value_bound(m))
    c = Constants.practical(m, 1500, M=300)
    trace = lpo(m, F, c, np.random.default_rng(0), Options(roll_in="law"))
    assert trace.gap_last[-1] < 0.02 * m.optimal_value


def test_lpo_with_a_finite_class_that_holds_the_right_values_solves_the_chain():
    """The list holds Q_b − b for bonus levels and policies around those that occur, and zero."""
    m = zoo.chain(3)
    rng = np.random.default_rng(0)
    table = [np.zeros(6)]
    for bonus in (0.0, 0.01, 0.1, 3 / (1 - m.gamma)):
        for _ in range(40):
            pi = rng.dirichlet(np.full(2, 0.3), size=3)
            spread = bonus * (rng.random(6) < 0.5)
            table.append(q_from_v(m, value(m, pi, spread)))
        table.append(q_from_v(m, value(m, m.optimal[1])))
    c = Constants.practical(m, 400)
    options = Options(critic="exact", roll_in="law")
    trace = lpo(m, Finite(np.array(table)), c, np.random.default_rng(0), options)
    assert min(trace.gap_last) < 0.05 * m.optimal_value
    assert trace.switches < 100


@pytest.mark.parametrize("family", ["glm", "neural"])
def test_lpo_with_a_nonlinear_class_explores_every_pair(family):
    m = zoo.chain(3)
    features = np.eye(m.num_pairs)
    top = value_bound(m)
    if family == "glm":  # a nearly linear link, so that m/M stays near one
        F = Glm(features, top, lambda x: x + 0.1 * np.sin(x), lambda x: 1 + 0.1 * np.cos(x))
    else:
        F = Neural(features, hidden=8, radius=2 * top)  # its tangent class must hold values to W
    c = Constants.practical(m, 600, M=200)
    trace = lpo(m, F, c, np.random.default_rng(0), Options(roll_in="law"))
    assert trace.distinct == m.num_pairs
    assert trace.switches < 300
    assert np.isfinite(trace.gap_last).all() and trace.gap_last[-1] < 0.2 * m.optimal_value


@pytest.mark.learning
@pytest.mark.parametrize("seed", range(3))
def test_sampled_lpo_solves_deepsea_and_the_box_stays_small(seed):
    m = zoo.deepsea(8)
    c = Constants.practical(m, 10_000)
    F = Box(m.num_pairs, value_bound(m))
    trace = lpo(m, F, c, np.random.default_rng(seed))
    assert trace.gap_last[-1] < 0.01 * m.optimal_value
    assert trace.additions < 500 and trace.distinct == 74  # 36 reachable cells, and the end
