"""Wrong classes and classes beyond linear: what each MDP is built to show."""

import numpy as np
import pytest

from lpo.errors import LPOError
from lpo.theory import biased, zoo
from lpo.theory.algorithms import Options, half_bonus
from lpo.theory.classes import LinearBall
from lpo.theory.compare import Cell, parse_mdp, run_cell
from lpo.theory.constants import Constants
from lpo.theory.mdp import MDP, q_from_v, value, visitation
from lpo.theory.policy import softmax
from lpo.theory.runner import CLASSES, linear_class, run
from lpo.theory.transfer import best_fit, transfer_error


def backups(m: MDP, reward: np.ndarray, H: int) -> np.ndarray:
    """Q of H Bellman backups, each fitted by least squares in the features under a uniform law."""
    assert m.features is not None
    project = m.features @ np.linalg.pinv(m.features)
    v = np.zeros(m.num_states)
    q = np.zeros(m.num_pairs)
    for _ in range(H):
        q = project @ (reward + m.gamma * (m.P @ v))
        v = q.reshape(m.num_states, -1).max(axis=1)
    return q.reshape(m.num_states, -1)


def test_a_merged_corridor_fools_backups_and_not_returns():
    """Merged backups see E[γ^T] of a geometric T of mean 12, .25, for γ^12 = .069; safe is .15."""
    for severity, fooled in ((1, False), (12, True)):
        m = biased.corridor(12, severity)
        q = backups(m, m.r, 200)[0]
        assert (q[1] > q[0]) == fooled
    assert q[1] / (0.8 * 5) == pytest.approx((0.8 / 12) / (1 - 0.8 * 11 / 12), rel=1e-6)
    assert m.optimal_value == pytest.approx(0.8 * 0.15 * 5)
    assert m.optimal[1][0, 0] == 1.0


@pytest.mark.parametrize("name", ["corridor:12,severity=12", "keyless:2,severity=1"])
def test_errors_off_the_way_of_the_best_policy_do_not_count(name):
    m = parse_mdp(name)
    F, S = linear_class(m), m.num_states
    law = visitation(m, np.full((S, m.num_actions), 1 / m.num_actions))
    none = np.zeros(m.num_pairs)
    uniform = np.full((S, m.num_actions), 1 / m.num_actions)
    assert transfer_error(m, F, law, m.optimal[1], none, m.optimal[1]) < 1e-12
    assert transfer_error(m, F, law, uniform, none, uniform) > 1e-5


def test_aliased_loses_what_it_says():
    """Action 0 in all contexts: `severity` lost in one of two; ε_bias goes with its square."""
    errors = []
    for severity in (0.1, 0.2):
        m = biased.aliased(3, severity)
        always = np.tile([1.0, 0.0], (m.num_states, 1))
        assert m.optimal_value - value(m, always)[0] == pytest.approx(0.8 * severity / 2)
        law = visitation(m, np.full((m.num_states, 2), 0.5))
        none = np.zeros(m.num_pairs)
        errors.append(transfer_error(m, linear_class(m), law, always, none, m.optimal[1]))
    assert errors[1] == pytest.approx(4 * errors[0])


def test_decoys_move_only_what_the_best_policy_does_not_choose():
    exact, wrong = (biased.decoy(severity=s).features for s in (0.0, 0.5))
    assert exact is not None and wrong is not None
    moved = np.abs(exact - wrong).sum(axis=1) > 0
    own = biased.decoy().optimal[1].ravel() > 0
    assert not moved[own].any() and moved[~own].all()


def test_severities_out_of_range_are_refused():
    for make, severity in ((biased.aliased, 0.5), (biased.decoy, 2.0), (biased.keyless, -1.0)):
        with pytest.raises(LPOError, match="choose a smaller one"):
            make(severity=severity)
    with pytest.raises(LPOError, match="choose a divisor"):
        biased.corridor(12, 5)


def test_no_linear_advantage_plays_the_comb():
    """Three changes of the best action; the best softmax of a + bx, by search, loses .3 of V*."""
    m = zoo.comb()
    right = m.optimal[1][1:, 1]
    assert np.abs(np.diff(right)).sum() == 3
    x, best = np.linspace(0, 1, 20), 0.0
    for a in np.linspace(-60, 60, 25):
        for b in np.linspace(-120, 120, 25):
            pi = np.full((21, 2), 0.5)
            pi[1:] = softmax(np.stack([np.zeros(20), a + b * x], axis=1))
            best = max(best, value(m, pi)[0])
    assert 0.28 < 1 - best / m.optimal_value < 0.35
    q = q_from_v(m, m.optimal[0])
    far = {name: np.abs(CLASSES[name](m).fit(np.ones(42), q) - q).max() for name in CLASSES}
    assert far["linear"] > 1 and max(far[n] for n in ("kernel", "neural", "finite", "box")) < 0.4


def test_a_linear_fit_misreads_the_dial_and_the_link_does_not():
    m = zoo.dial()
    assert m.features is not None
    theta = np.full(3, zoo.DIAL)
    inside = np.repeat(np.r_[False, np.ones(8, bool), False], 2)
    np.testing.assert_allclose(zoo.link(m.features @ theta)[inside], m.r[inside])
    linear = m.features @ np.linalg.lstsq(m.features, m.r, rcond=None)[0]
    assert list(m.r.reshape(-1, 2)[-2].round(2)) == [0.35, 0.49]
    assert linear.reshape(-1, 2)[-2].argmax() == 0
    x, step = np.linspace(-5, 5, 101), 1e-6
    np.testing.assert_allclose(
        zoo.slope(x), (zoo.link(x + step) - zoo.link(x - step)) / (2 * step), rtol=1e-5
    )
    glm = CLASSES["glm"](m).fit(inside * 1.0, m.r)
    np.testing.assert_allclose(glm[inside], m.r[inside], atol=1e-4)


def test_a_feature_of_zero_is_known_and_breaks_nothing():
    F = LinearBall(np.array([[1.0], [0.0]]), 2.0)
    sensed = F.empty()
    used, added = F.absorb(sensed, np.array([1, 1, 0]), np.full(3, 0.5), 1.0, 1e9, False)
    assert (used, added) == (3, 1) and sensed.counts[1] == 0
    assert F.width(sensed, 1.0)[1] == 0


def test_the_share_of_the_bonus():
    f, b, known = np.zeros(4), np.ones(4), np.array([True, False])
    np.testing.assert_allclose(half_bonus(f, b, known), [0.5, 0.5, 1, 1])
    np.testing.assert_allclose(half_bonus(f, b, known, 1.0), 1)
    with pytest.raises(LPOError, match="between 0 and 1"):
        Options(bonus_share=1.5)


def test_classes_go_where_they_can():
    m = zoo.chain(3)
    c = Constants.practical(m, 50, M=20)
    assert run("eniac", m, c, F="box").iterations == 50 // 100 * 100
    with pytest.raises(LPOError, match="choose one of box"):
        run("lpo", m, c, F="spline")
    with pytest.raises(LPOError, match="leave function_class out"):
        run("copoe", m, c, F="box")


def test_an_mdp_by_name_and_options():
    m = parse_mdp("linear:6,num_states=18,bias=0.1")
    assert m.num_states == 18 and m.bias == 0.1 and m.features is not None
    for wrong in ("linear:6,bias", "linear:6,biass=1", "linear:6,bias=x"):
        with pytest.raises(LPOError, match=r"write e\.g\. linear:6,bias=0\.1"):
            parse_mdp(wrong)


def test_cells_with_later_fields_keep_their_keys():
    old = Cell("lpo", "chain:3", 0, 60, 20, 60.0)
    assert "constants" not in old.key and "bonus_share" not in old.key and "epoch" not in old.key
    new = Cell("lpo", "chain:3", 0, 60, 20, 60.0, Options(bonus_share=1.0, transfer=True),
               (("K", 4), ("width_bonus", 2.0)), "box", 10)  # fmt: skip
    assert Cell.from_key(new.key) == new and new.key != old.key
    row = run_cell(new)
    assert row["inner_iterations"] % 4 == 0 and row["transfer_most"] >= row["transfer_last"] >= 0
    assert len(row["switches_at"]) == 0 and row["gap_at"]


# -- The transfer error: zero where the MDP is linear, grows with the known bias, and bounds B.6


def problem(bias: float, seed: int):
    m = zoo.linear_mdp(5, 15, 3, gamma=0.8, seed=seed, bias=bias)
    rng = np.random.default_rng(seed)
    pi, comparator = (rng.dirichlet(np.ones(3), size=15) for _ in range(2))
    law = visitation(m, np.full((15, 3), 1 / 3))
    return m, linear_class(m), law, pi, comparator, rng


def test_by_hand():
    """One state, two actions, one constant feature: f* is the law-weighted mean of Q."""
    m = MDP("hand", np.ones((2, 1)), np.array([0.0, 1.0]), 0.0, 2, features=np.ones((2, 1)))
    law, none = np.array([0.25, 0.75]), np.zeros(2)
    pi = np.array([[0.5, 0.5]])
    f, target = best_fit(m, linear_class(m), law, pi, none)
    np.testing.assert_allclose(f, 0.75)
    np.testing.assert_allclose(target, [0, 1])
    # ½·.75² + ½·.25²
    assert transfer_error(m, linear_class(m), law, pi, none, pi) == pytest.approx(0.3125)


@pytest.mark.parametrize("seed", range(5))
def test_zero_without_bias_and_growing_with_it(seed):
    errors = []
    for bias in (0.0, 0.01, 0.1):
        m, F, law, pi, comparator, _ = problem(bias, seed)
        errors.append(transfer_error(m, F, law, pi, np.zeros(45), comparator))
    assert errors[0] < 1e-12 < errors[1] < errors[2]
    # the best linear guess in sup norm is off by bias·(1 + γ·span V) at most, V ≤ 1/(1−γ) = 5
    m, F, law, pi, _, _ = problem(0.1, seed)
    f, target = best_fit(m, F, law, pi, np.zeros(45))
    assert float(law @ (f - target) ** 2) <= (0.1 * (1 + 0.8 * 5)) ** 2


@pytest.mark.parametrize("seed", range(20))
def test_b6_advantage_transfer(seed):
    """E_{d̃_ℳ}[(A_b − A_b*)1{𝒦}] ≤ 4 sqrt(A·ε_bias), with all states known: d̃_ℳ = d^π̃."""
    m, F, law, pi, comparator, rng = problem(0.05, seed)
    bonus = 0.3 * rng.random(45)
    f, target = best_fit(m, F, law, pi, bonus)
    wrong = (target - f).reshape(15, 3)
    advantage = wrong - (pi * wrong).sum(axis=1, keepdims=True)
    d = visitation(m, comparator).reshape(15, 3)
    epsilon = transfer_error(m, F, law, pi, bonus, comparator)
    assert float((d * advantage).sum()) <= 4 * np.sqrt(3 * epsilon)
