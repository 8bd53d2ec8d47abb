"""Peers: their bonuses and schedules by hand, and that each reaches the optimum of a chain."""

import numpy as np
import pytest

from lpo.errors import LPOError
from lpo.theory import zoo
from lpo.theory.algorithms import Options
from lpo.theory.classes import LinearBall
from lpo.theory.compare import Cell, by_cell, cells, exponent, median_steps, run_cell, table
from lpo.theory.constants import Constants
from lpo.theory.mdp import MDP
from lpo.theory.peers.copoe import _until_doubled, elliptic_bonus
from lpo.theory.peers.value_based import Counts, backward, greedy, horizon, lsvi_ucb, ucbvi
from lpo.theory.runner import ALGORITHMS, VALUE_BASED, run, summary


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_solves_a_chain(algorithm):
    m = zoo.chain(5)
    N = 150 if algorithm in (*VALUE_BASED, "lpo-always") else 1500
    c = Constants.practical(m, N, M=200)
    # UCBVI-style bonuses shrink with visits: the chain needs the small scale to settle in 150
    options = Options() if algorithm in VALUE_BASED else Options(roll_in="law")
    trace = run(algorithm, m, c, seed=1, options=options, scale=0.05)
    assert trace.gap_last[-1] < 0.02 * m.optimal_value
    assert trace.iterations == N
    row = summary(trace)
    assert row["env_steps"] > 0 and row["steps_to"]["0.5"] is not None
    if algorithm in ("ucbvi", "lsvi-ucb", "lpo-always"):
        assert trace.switches == N  # a plan an episode, an update a sample
    if algorithm in ("eniac", "pcpg"):
        assert trace.switches == N // 100  # an update an epoch
    if algorithm in ("lpo", "copoe", "kong"):
        assert trace.switches < N / 2  # lazy


def test_one_hot_lsvi_is_ucbvi_with_a_ridge():
    """With one-hot features, ridge → 0 and the same bonus scale, both plan the same policies."""
    m = zoo.riverswim(4, gamma=0.8)
    one = ucbvi(m, 60, np.random.default_rng(0), scale=0.2)
    two = lsvi_ucb(m, np.eye(8), 60, np.random.default_rng(0), scale=0.2, ridge=1e-9)
    np.testing.assert_allclose(one.gap_last, two.gap_last, atol=1e-9)
    assert one.steps == two.steps


def test_backward_induction_by_hand():
    """Two states, H = 2, γ = ½: Q_1 = r, Q_0 = r + ½ max Q_1(s')."""
    P = np.array([[1.0, 0], [0, 1], [0, 1], [1, 0]])
    m = MDP("hand", P, np.array([0.1, 0.2, 0.4, 0.8]), 0.5, 2)
    q = backward(m, 2, 10.0, lambda v: m.r + 0.5 * P @ v)
    np.testing.assert_allclose(q[1].ravel(), m.r)
    np.testing.assert_allclose(q[0].ravel(), [0.1 + 0.1, 0.2 + 0.4, 0.4 + 0.4, 0.8 + 0.1])
    assert horizon(m) == 6
    np.testing.assert_allclose(greedy(np.array([[1.0, 1.0], [0.0, 2.0]])), [[0.5, 0.5], [0, 1]])
    data = Counts(m)
    data.add(np.array([1, 1, 2]), np.array([1, 1, 0]))
    np.testing.assert_allclose(data.pair, [0, 2, 1, 0])
    assert data.next[1, 1] == 2 and data.next[2, 0] == 1 and data.reward[1] == 0.2


def test_determinant_doubling_by_hand():
    """One pair, λ = 1, det = 1 + n: it more than doubles at n = 2, then 6, then 14."""
    F = LinearBall(np.eye(2), 1.0)
    covariance, inverse = np.eye(2), np.eye(2)
    z = np.zeros(20, int)
    at, uses = 0, []
    for _ in range(3):
        used, growth = _until_doubled(F.features, covariance, inverse, z[at:], 0.0)
        assert growth > np.log(2)
        uses.append(used)
        at += used
    assert uses == [2, 4, 8]
    np.testing.assert_allclose(np.diag(inverse), 1 / np.diag(covariance))


def test_elliptic_bonus_by_hand():
    m = zoo.chain(2, gamma=0.5)
    c = Constants.practical(m, 10, n0=2.0, width_bonus=1.0)
    inverse = np.diag([1 / 8.0, 1 / 2.0, 1 / 32.0, 1 / 18.0])
    known, b = elliptic_bonus(LinearBall(np.eye(4), 1.0), inverse, c, m)
    # n0·‖φ‖² = .25, 1, 1/16, 1/9; pair 1 is not below 1, so state 0 is unknown
    np.testing.assert_array_equal(known, [[True, False], [True, True]])
    np.testing.assert_allclose(b, [6, 6, 0.25, 1 / 3])


def test_runner_refuses_nonsense():
    m = zoo.chain(3)
    c = Constants.practical(m, 10)
    with pytest.raises(LPOError, match="choose one of"):
        run("sarsa", m, c)
    for algorithm, option in [
        ("ucbvi", {"critic": "exact"}),
        ("kong", {"roll_in": "law"}),
        ("eniac", {"patience": 0.1}),
        ("copoe", {"known": "pair"}),
        ("lpo-always", {"patience": 0.1}),
    ]:
        with pytest.raises(LPOError, match="leave it out"):
            run(algorithm, m, c, options=Options(**option))


@pytest.mark.parametrize("algorithm", ["lpo", "eniac", "pcpg", "copoe"])
def test_misspecification_costs_at_most_a_share(algorithm):
    """Features 5 % off: the exact critic's projection still climbs most of the way."""
    m = zoo.make("misspecified", 6, num_states=18, num_actions=3)
    c = Constants.practical(m, 2000)
    trace = run(algorithm, m, c, options=Options(critic="exact", roll_in="law"))
    assert trace.gap_last[-1] < 0.25 * m.optimal_value


def test_lsvi_does_not_care_how_its_features_are_rotated():
    """One-hot features take a short cut; rotated they do not, and the plans are the same."""
    m = zoo.riverswim(4, gamma=0.8)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0]
    runs = [
        lsvi_ucb(m, features, 40, np.random.default_rng(0), scale=0.2)
        for features in (np.eye(8), turn)
    ]
    np.testing.assert_allclose(runs[0].gap_last, runs[1].gap_last, atol=1e-9)


# -- Grids: the cells, the same row from the same cell, and the arithmetic of the table by hand


def test_a_grid_is_a_product_and_options_go_where_they_are_heeded():
    grid = cells(["lpo", "kong"], ["chain:3", "lock"], 2, 50, 7, 9, 1.0, Options(roll_in="law"))
    assert [(c.mdp, c.algorithm, c.seed) for c in grid] == [
        (mdp, name, seed)
        for mdp in ("chain:3", "lock")
        for name in ("lpo", "kong")
        for seed in (0, 1)
    ]
    assert {(c.algorithm, c.N, c.options.roll_in) for c in grid} == {
        ("lpo", 50, "law"),
        ("kong", 7, "rollout"),
    }
    assert [Cell.from_key(c.key) for c in grid] == grid
    with pytest.raises(LPOError, match="choose one of"):
        cells(["lpo", "sarsa"], ["chain"], 1, 1, 1, 1, 1.0, Options())
    with pytest.raises(LPOError, match="choose one of"):
        cells(["lpo"], ["chian"], 1, 1, 1, 1, 1.0, Options())


def test_the_same_cell_gives_the_same_row():
    cell = Cell("lpo", "chain:3", 0, 100, 30, 60.0)
    one, two = run_cell(cell), run_cell(cell)
    assert one["curve"] == two["curve"] and one["key"] == two["key"]


def test_table_arithmetic_by_hand():
    def row(seed, steps):
        return {
            "cell": {"mdp": "m", "algorithm": "a", "seed": seed},
            "steps_to": dict(
                zip(("0.5", "0.2", "0.1", "0.05", "0.02", "0.01"), steps, strict=True)
            ),
            **dict.fromkeys(("switches", "env_steps", "seconds"), 2.0),
            **dict.fromkeys(("relative_gap_last", "relative_gap_mixture"), 0.25),
        }

    rows = [row(0, [4, 25, 100, None, None, None]), row(1, [4, 25, 100, 400, None, None])]
    rows.append(row(2, [4, 25, 100, 400, 2500, None]))
    assert median_steps(rows, 0.05) == 400 and median_steps(rows, 0.02) is None
    # steps = 1/ε² exactly on the first four ε
    assert exponent(rows) == pytest.approx(2.0)
    assert list(by_cell(rows)) == [("m", "a")]
    assert "| m | a | 4 | 25 | 1e+02 | 4e+02 | – | – | 2.00 | 2 |" in table(rows)
