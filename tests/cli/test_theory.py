"""`lpo theory`: one run, a grid that goes on, and mistakes answered in one sentence."""

import json

import pytest

pytest.importorskip("numba")

from lpo import cli
from lpo.cli.theory import CompareOptions, TheoryOptions, compare, theory
from lpo.errors import LPOError
from lpo.options import fields_of
from lpo.sweep.theory_worker import Ledger
from lpo.theory.algorithms import Options
from lpo.theory.compare import Cell, cells, run_cell
from lpo.theory.runner import ALGORITHMS
from lpo.theory.zoo import MAKERS


def test_theory_prints_what_a_run_cost(capsys):
    assert theory(TheoryOptions(mdp="chain:4", N=300, M=50)) == 0
    shown = capsys.readouterr().out
    for word in ("env_steps", "switches", "distinct", "inner_iterations", "gap_last"):
        assert word in shown
    theory(TheoryOptions(mdp="chain:4", N=300, M=50, json=True))
    row = json.loads(capsys.readouterr().out)
    assert row["iterations"] == 300 and row["constants"] == "practical"


def test_theory_constants_are_printed_not_run(capsys):
    theory(TheoryOptions(constants="theory", json=True))
    row = json.loads(capsys.readouterr().out)
    assert row["kind"] == "theory" and row["K"] > 1e12


def test_flags_reach_the_run(capsys):
    words = "--mdp chain:3 --N 60 --M 20 --algorithm lpo-always --critic exact --gamma 0.5 --json"
    with pytest.raises(SystemExit) as end:
        cli.main(["theory", *words.split()])
    row = json.loads(capsys.readouterr().out)
    assert not end.value.code
    assert (row["algorithm"], row["critic"], row["gamma"]) == ("lpo-always", "exact", 0.5)
    assert row["iterations"] == row["switches"] == 60


def test_classes_transfer_errors_and_mdps_with_options(capsys):
    o = TheoryOptions(mdp="linear:4,num_states=8,bias=0.3", N=60, M=20, K=4, transfer=True,
                      function_class="kernel", bonus_share=1.0, json=True)  # fmt: skip
    assert theory(o) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["mdp"] == "misspecified(4, 0.3)" and row["transfer_most"] >= row["transfer_last"] > 0
    theory(TheoryOptions(constants="theory", json=True))
    row = json.loads(capsys.readouterr().out)
    asked = [row[f"trajectories, {r}"] for r in ("claimed", "repaired", "written")]
    assert asked == sorted(asked)


@pytest.mark.parametrize(
    "words", [["--mdp", "nowhere"], ["--mdp", "linear:6,bias"], ["--function-class", "spline"],
              ["--mdp", "deepsea:x"], ["--algorithm", "sarsa"],
              ["--gamma", "1.5"], ["--delta", "2"], ["compare", "--algorithms", "sarsa"],
              ["compare", "--mdps", "nowhere"], ["compare", "--processes", "1000"],
              ["compare", "--known", "pair"], ["compare", "--bonus-share", "2"]],
)  # fmt: skip
def test_mistakes_are_one_sentence_and_code_two(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        cli.main(["theory", *words])
    error = capsys.readouterr().err
    assert end.value.code == 2 and error.startswith("lpo: ") and error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("words", [["theory"], ["theory", "compare"]])
def test_the_help_names_mdps_and_algorithms(words, capsys):
    with pytest.raises(SystemExit):
        cli.main([*words, "--help"])
    said = "".join(capsys.readouterr().out.split())  # lines are cut within names
    assert f"Oneof{','.join(MAKERS)}." in said
    assert f"Oneof{','.join(ALGORITHMS)}." in said


def test_command_and_grid_have_the_same_readings():
    for name, option in fields_of(Options).items():
        for cls in (TheoryOptions, CompareOptions):
            own = fields_of(cls)[name]
            assert (own.default, own.hint, own.help) == (option.default, option.hint, option.help)


@pytest.mark.slow
def test_compare_writes_and_goes_on(tmp_path, capsys):
    runs, law = tmp_path / "runs.jsonl", Options(roll_in="law")
    Ledger(tmp_path).append(run_cell(Cell("lpo", "chain:3", 1, 200, 50, 120.0, law)))
    first = runs.read_bytes()
    runs.write_bytes(first + b'{"cut sho')  # a crash in mid-line
    chosen = CompareOptions(
        mdps=("chain:3",), algorithms=("lpo", "ucbvi"), seeds=2, N=200, episodes=40, M=50,
        roll_in="law", out=tmp_path,
    )  # fmt: skip
    assert compare(chosen) == 0
    said = capsys.readouterr().out
    assert "4 runs in" in said and "3 to do" in said and "| chain:3 | ucbvi |" in said
    assert runs.read_bytes().startswith(first + b'{"cut sho\n')
    assert len(Ledger(tmp_path).rows()) == 4
    for name in ("table.md", "gap.png", "exponents.png", "switches.png"):
        assert (tmp_path / name).stat().st_size > 100
    assert not list(tmp_path.glob("*.log"))  # nothing was said


def test_an_option_that_means_nothing_to_an_algorithm_names_those_that_heed_it():
    grid = ["lpo", "pcpg", "ucbvi"], ["linear:5"], 1, 10, 10, 10, 1.0
    with pytest.raises(LPOError, match=r"known pair means nothing to pcpg; .* lpo-patient, lpo-al"):
        cells(*grid, Options(known="pair"))
    assert len(cells(*grid, Options(critic="exact"))) == 3
