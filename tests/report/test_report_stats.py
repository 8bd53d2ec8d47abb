"""The measures of a report: worked by hand, and equal to rliable's to 1e-6."""

import json
from pathlib import Path

import numpy as np
import pytest

from lpo.report.stats import estimate, estimate_curve, improvement, iqm, profile, rank_correlation

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "rliable_reference.json").read_text())
X, Y = np.array(REFERENCE["x"]), np.array(REFERENCE["y"])


def tasks(matrix):
    """[runs, tasks] as rliable has it, as a list of tasks."""
    return list(matrix.T)


def test_iqm_by_hand():
    assert iqm([np.array([100.0, 1.0, 2.0, 3.0])]) == 2.5  # 1 and 100 are cut off
    assert iqm([np.array([9.0, 1.0]), np.array([2.0, 4.0, 3.0])]) == 3.0  # 2, 3, 4 of 1, 2, 3, 4, 9
    assert iqm([np.array([7.0])]) == 7.0


def test_improvement_by_hand():
    x, y = [np.array([1.0, 2.0])], [np.array([1.0, 0.0, 3.0])]
    # 1 against 1, 0, 3: a tie and a win; 2 against 1, 0, 3: two wins; 3.5 of 6
    assert improvement(x, y) == pytest.approx(3.5 / 6)
    assert improvement(x, x) == 0.5
    device = [np.float64(np.float32(1 / 3)), 0.0]
    assert improvement([np.array(device)], [np.array([1 / 3, 0.0])]) == 0.5
    assert improvement([np.array([-1.00001])], [np.array([-1.00002])]) == 1.0
    assert improvement([np.array([np.inf, np.inf])], [np.array([np.inf, 5.0])]) == 0.75
    both = improvement([*x, np.array([1.0])], [*y, np.array([0.0])])
    assert both == pytest.approx((3.5 / 6 + 1) / 2)


def test_profile_by_hand():
    scores = [np.array([0.0, 0.5]), np.array([1.0, 0.5])]
    np.testing.assert_array_equal(profile(scores, np.array([0.0, 0.5, 0.9])), [0.75, 0.25, 0.25])


@pytest.mark.parametrize(
    ("name", "measure", "groups"),
    [
        ("iqm", iqm, (tasks(X),)),
        ("iqm_one_task", iqm, (tasks(X[:, :1]),)),
        ("improvement", improvement, (tasks(X), tasks(Y))),
        ("profile", lambda s: profile(s, np.array(REFERENCE["taus"])), (tasks(X),)),
    ],
)
def test_estimates_and_intervals_are_rliables(name, measure, groups):
    e = estimate(measure, *groups, reps=REFERENCE["reps"], seed=REFERENCE["seed"])
    expected = REFERENCE[name]
    np.testing.assert_allclose(np.atleast_1d(e.value), expected["value"], atol=1e-6)
    np.testing.assert_allclose(np.atleast_1d(e.low), expected["interval"][0], atol=1e-6)
    np.testing.assert_allclose(np.atleast_1d(e.high), expected["interval"][1], atol=1e-6)


def test_uneven_numbers_of_runs():
    assert improvement(tasks(X), tasks(Y[:3])) == pytest.approx(REFERENCE["uneven"], abs=1e-6)
    e = estimate(improvement, tasks(X), tasks(Y[:3]), reps=200)
    assert e.low <= e.value <= e.high and e.low < e.high


def test_a_curve_is_estimated_at_every_point():
    curves = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 100.0]])
    e = estimate_curve(curves)
    np.testing.assert_array_equal(e.value, [0.0, 2.5])
    assert e.low[0] == e.high[0] == 0.0 and 1.0 <= e.low[1] < 2.5 < e.high[1]


def test_intervals_cover():
    """The 95 % interval of the mean-like IQM holds the truth in most of many repetitions."""
    rng = np.random.default_rng(0)
    hits = [
        e.low <= 0 <= e.high
        for e in (estimate(iqm, [rng.normal(size=20)], reps=300, seed=i) for i in range(200))
    ]
    assert 0.85 < np.mean(hits) < 0.99


def test_a_rank_correlation_by_hand():
    """Ranks 0, 1.5, 1.5, 3 and 0, 1, 2, 3: Σ of products about the means 4.5, of squares 4.5, 5."""
    x, y = np.array([1.0, 7.0, 7.0, 9.0]), np.array([-5.0, 0.0, 10.0, 11.0])
    assert rank_correlation(x, y) == pytest.approx(4.5 / np.sqrt(4.5 * 5))
    assert rank_correlation(x, -x) == pytest.approx(-1)
