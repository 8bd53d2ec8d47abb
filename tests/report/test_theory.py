"""The theory's figures by hand, and its pages: the tables are those of the packed studies."""

import runpy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from lpo.report.theory import color_of, fits, step_curves, switch_curves, switches_against_n

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "experiments" / "theory"
NAMES = ("bonus", "classes", "misspecified", "scaling", "switches")
packed = pytest.mark.skipif(
    not STUDIES.is_dir(), reason="packed studies are in the repository, not in the sdist"
)


@pytest.fixture(autouse=True)
def beside_the_studies(monkeypatch):
    monkeypatch.syspath_prepend(STUDIES)


@cache
def script(name: str) -> dict[str, Any]:
    return runpy.run_path(str(STUDIES / f"{name}.py"))


@packed
def test_every_study_is_known_here():
    kept = sorted(p.stem for p in (STUDIES / "results").glob("*.parquet"))
    assert kept == sorted([*NAMES, "optimum"])


@packed
def test_packed_lines_come_back_as_they_were(tmp_path):
    lines = tmp_path / "runs.jsonl"
    lines.write_text('{"a": 1}\n{"b": "\u00e9"}\n')
    before, study = lines.read_bytes(), script("study")
    study["pack_lines"](lines)
    assert not lines.exists()
    study["unpack_lines"](lines)
    assert lines.read_bytes() == before


@packed
@pytest.mark.parametrize("name", NAMES)
def test_the_tables_of_a_study_are_those_of_its_packed_runs(name):
    """Every cell of the grid is in the file, once, and the page prints its tables as they are."""
    study = script(name)["STUDY"]
    runs, grid = script("study")["read"](STUDIES / "results" / f"{name}.parquet"), study.grid
    assert sorted(run.cell.key for run in runs) == sorted(cell.key for cell in set(grid))
    page = (ROOT / "docs" / "results" / "theory.md").read_text(encoding="utf-8")
    for table in study.table(runs).split("\n\n"):
        assert table in page


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
