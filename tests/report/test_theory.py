"""The theory's figures: the numbers that are drawn, by hand."""

import numpy as np
import pytest

pytest.importorskip("numba")

from lpo.report.theory import color_of, fits, step_curves, switch_curves, switches_against_n


def test_gaps_are_steps_and_end_with_their_run():
    curve = {"steps": [0, 10, 100], "gap_last": [4.0, 2.0, 1.0]}
    row = {"curve": curve, "env_steps": 150, "optimal_value": 4.0}
    drawn = step_curves([row], np.array([5, 10, 99, 100, 150, 151]), "gap_last")
    np.testing.assert_array_equal(drawn, [[1.0, 0.5, 0.5, 0.25, 0.25, np.nan]])


def test_switch_curves_by_hand():
    def row(last):
        curve = {"iteration": [0.0, 100.0, 300.0], "switch": [0, 10, last]}
        cell = {"mdp": "m", "algorithm": "lpo"}
        return {"cell": cell, "curve": curve, "iterations": 500, "switches": last}

    found = switch_curves([row(20), row(30)])["m"]
    assert found["n"][0] == pytest.approx(100) and found["n"][-1] == pytest.approx(500)
    assert found["lazy"][0] == pytest.approx(10)
    assert (found["low"][-1], found["lazy"][-1], found["high"][-1]) == (20, 25, 30)
    assert switch_curves([row(20)], "eniac") == {}


def test_fits_recover_their_own_law(tmp_path):
    n = np.geomspace(1e3, 1e6, 10)
    found = fits(n, 5 + 3 * np.log(n) ** 2)
    np.testing.assert_allclose(found["log2"], [5, 3, 1], rtol=1e-6)
    assert found["log"][2] < 1
    lazy = 5 + 3 * np.log(n)
    curve = {"n": n, "lazy": lazy, "low": lazy - 1, "high": lazy + 1}
    switches_against_n({"one": curve, "two": curve}, tmp_path)
    for end in ("png", "svg"):
        assert (tmp_path / f"switches.{end}").stat().st_size > 1000


def test_every_algorithm_has_a_colour_of_its_own():
    names = ["lpo", "eniac", "ucbvi", "kong", "copoe"]
    color = color_of([{"cell": {"algorithm": name}} for name in [*names, "lpo"]])
    assert list(color) == names and len(set(color.values())) == len(names)
