"""The command line: one run, a grid that resumes, and mistakes answered in one sentence."""

import json

import numpy as np
import pytest

from lpo.theory.cli import compare, main, theory
from lpo.theory.compare import Cell, by_cell, exponent, median_steps, read_rows, run_cell, table
from lpo.theory.figures import fits, switch_curves, switches_against_n


def test_theory_prints_what_a_run_cost(capsys):
    theory(mdp="chain:4", N=300, M=50)
    shown = capsys.readouterr().out
    for word in (
        "env_steps",
        "switches",
        "distinct",
        "inner_iterations",
        "gap_last",
        "gap_mixture",
    ):
        assert word in shown
    theory(mdp="chain:4", N=300, M=50, json=True)
    row = json.loads(capsys.readouterr().out)
    assert row["iterations"] == 300 and row["constants"] == "practical"


def test_theory_constants_are_printed_not_run(capsys):
    theory(mdp="deepsea:8", constants="theory", json=True)
    row = json.loads(capsys.readouterr().out)
    assert row["kind"] == "theory" and row["K"] > 1e12


@pytest.mark.parametrize(
    "words", [["--mdp", "nowhere"], ["--mdp", "deepsea:x"], ["--algorithm", "sarsa"],
              ["--gamma", "1.5"], ["--delta", "2"], ["compare", "--algorithms", "sarsa"]],
)  # fmt: skip
def test_mistakes_are_one_sentence_and_code_two(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1


def test_compare_writes_and_resumes(tmp_path, capsys):
    args = {"mdps": ("chain:3",), "algorithms": ("lpo", "ucbvi"), "seeds": 2, "N": 200,
            "episodes": 40, "M": 50, "out": tmp_path}  # fmt: skip
    compare(**args)
    first = (tmp_path / "runs.jsonl").read_text()
    assert len(first.splitlines()) == 4
    for name in ("table.md", "gap.png", "exponents.png", "switches.png"):
        assert (tmp_path / name).stat().st_size > 100
    (tmp_path / "runs.jsonl").write_text(first + '{"cut sho')  # a crash in mid-line
    compare(**{**args, "seeds": 3})
    rows = read_rows(tmp_path / "runs.jsonl")
    assert len(rows) >= 5
    assert "| chain:3 | lpo |" in capsys.readouterr().out


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
    curves = {"m": {"n": n, "lazy": lazy, "low": lazy - 1, "high": lazy + 1}}
    switches_against_n(curves, tmp_path / "s.png")
    assert (tmp_path / "s.png").stat().st_size > 100


@pytest.mark.slow
def test_processes_give_the_same_rows_as_one(tmp_path):
    args = {"mdps": ("chain:3",), "algorithms": ("lpo",), "seeds": 2, "N": 100, "M": 30}
    rows = []
    for processes in (1, 2):
        out = tmp_path / str(processes)
        compare(**args, processes=processes, out=out)
        rows.append({r["key"]: r["curve"] for r in read_rows(out / "runs.jsonl")})
    assert rows[0] == rows[1]
