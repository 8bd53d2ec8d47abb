"""The theory's grid on the pool: what is done, how it is shared out, failures, stops, studies."""

import importlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")

from lpo.errors import LPOError
from lpo.sweep.board import Board
from lpo.sweep.theory import WORDS, TheoryJob, run_grid, split
from lpo.sweep.theory_worker import Ledger, read, work, written
from lpo.theory.algorithms import Options
from lpo.theory.compare import Cell, cells, run_cell

STUDIES = Path(__file__).parents[2] / "experiments" / "theory"
CELL = Cell("lpo", "chain:3", 0, 60, 20, 60.0)


@pytest.fixture
def study(monkeypatch):
    """The module that the scripts of the studies share."""
    if not STUDIES.is_dir():
        pytest.skip("studies are in the repository, not in the sdist")
    monkeypatch.syspath_prepend(STUDIES)
    return importlib.import_module("study")


def row(cell: Cell, gap: float = 0.5) -> dict:
    return {"key": cell.key, "relative_gap_last": gap}


def test_a_ledger_sees_what_others_append(tmp_path):
    mine, theirs = Ledger(tmp_path), Ledger(tmp_path)
    assert mine.rows() == {}
    cells = [replace(CELL, seed=seed) for seed in range(20)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda cell: Ledger(tmp_path).append(row(cell)), cells[:10]))
    assert mine.of(cells) == [row(cell) for cell in cells[:10]]
    with mine.path.open("ab") as file:
        file.write(b'{"key": "a run that a crash')
    assert len(mine.rows()) == 10
    theirs.append(row(cells[15]))
    assert mine.of(cells)[10:] == [row(cells[15])] == theirs.of(cells[15:])


def test_seeds_share_a_process_unless_workers_would_stand_idle(tmp_path):
    grid = cells(["lpo", "kong"], ["chain:3"], 5, 60, 20, 10, 9.0, Options())
    ledger = Ledger(tmp_path)
    assert [(j.name, j.size) for j in split(grid, ledger, 2)] == [
        ("lpo-chain3-s0-4", 5), ("kong-chain3-s0-4", 5),
    ]  # fmt: skip
    assert [j.name for j in split(grid, ledger, 3)] == [
        "lpo-chain3-s0-2", "lpo-chain3-s3-4", "kong-chain3-s0-2", "kong-chain3-s3-4",
    ]  # fmt: skip
    assert len(split(grid, ledger, 64)) == 10
    jobs = split([*grid, *grid], ledger, 1)
    assert [cell for job in jobs for cell in read(written(job.cells))] == grid


def test_cells_that_differ_in_more_than_seeds_have_jobs_of_their_own(tmp_path):
    exact = replace(CELL, options=Options(critic="exact"))
    jobs = split([CELL, replace(CELL, seed=1), exact], Ledger(tmp_path), 1)
    assert [job.name for job in jobs] == ["lpo-chain3-s0-1", "lpo-chain3-v1-s0"]


def test_where_a_job_stands_is_read_from_the_ledger(tmp_path):
    ledger = Ledger(tmp_path)
    job = TheoryJob(ledger, tuple(replace(CELL, seed=seed) for seed in range(2)))
    assert job.standing() == ("new", 0) and job.progress() == (0, None)
    ledger.append(row(job.cells[1], 0.25))
    assert job.standing() == ("started", 1) and job.progress() == (1, 0.25)
    ledger.append(row(job.cells[0], 0.75))
    assert job.standing() == ("done", 2) and job.progress() == (2, 0.5)
    board = Board("g", [job], 1, WORDS)
    assert board.row(list(board.tracks.values()))[:2] == ("1/1", "0.500")
    assert board.summary() == "1/1 done, 0 running, 0 min 00 s left"


def test_a_worker_does_what_is_missing(tmp_path):
    job = TheoryJob(Ledger(tmp_path), tuple(replace(CELL, seed=seed) for seed in range(2)))
    job.ledger.append(row(job.cells[0]))
    work(tmp_path, written(job.cells))
    done = job.ledger.of(job.cells)
    assert done[0] == row(job.cells[0])
    alone = run_cell(job.cells[1])
    assert {**done[1], "seconds": 0} == {**alone, "seconds": 0}


@pytest.mark.slow
def test_a_failed_run_is_reported_and_stops_nothing(tmp_path, capsys):
    grid = [replace(CELL, mdp="chain:1"), CELL]  # a chain has two states or more
    assert run_grid(grid, tmp_path, 1, "the same") == 1
    said = capsys.readouterr().out
    assert "FAILED lpo-chain1-s0: lpo: size 1 is too small" in said
    assert "done   lpo-chain3-s0" in said and "Run the same `the same` again" in said
    assert [p.name for p in tmp_path.glob("*.log")] == ["lpo-chain1-s0.log"]
    assert Ledger(tmp_path).of(grid)[0]["cell"]["mdp"] == "chain:3"


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("all my work")
    with pytest.raises(LPOError, match=r"not a sweep; pass another --out"):
        run_grid([CELL], tmp_path, 1, "")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_grid_goes_on_to_the_same_rows(tmp_path, number):
    words = "theory compare --mdps chain:4 --algorithms lpo kong --seeds 4 --N 4000 --M 300"
    command = [sys.executable, "-m", "lpo.cli", *words.split(), "--episodes", "300", "--out"]
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    process = subprocess.Popen([*command, str(cut)], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not Ledger(cut).rows():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(60) == {signal.SIGINT: 130, signal.SIGKILL: -9}[number]
    while workers_of(cut):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    before = set(Ledger(cut).rows())
    assert 0 < len(before) < 8
    for out in (cut, whole):
        subprocess.run([*command, str(out)], check=True, stdout=subprocess.DEVNULL)
    rows = [
        {key: {**row, "seconds": 0} for key, row in Ledger(out).rows().items()}
        for out in (cut, whole)
    ]
    assert rows[0] == rows[1] and len(rows[0]) == 8
    assert len((cut / "runs.jsonl").read_text().splitlines()) == 8  # nothing was done twice


def workers_of(root: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"lpo.sweep.theory_worker" in command and os.fsencode(root) in command:
            found.append(entry.name)
    return found


FOUR = replace(CELL, constants=(("K", 4),))


def test_a_study_is_read_as_it_was_packed(tmp_path, study):
    row, path = run_cell(FOUR), tmp_path / "s.parquet"
    study.pack([row], path)
    (run,) = study.read(path)
    assert run.cell == FOUR
    for name in study.KEPT:
        assert run[name] == (None if row[name] is None else pytest.approx(row[name], rel=1e-5))
    with pytest.raises(LPOError, match=r"end it in \.parquet"):
        study.pack([row], tmp_path / "s.csv")
    with pytest.raises(LPOError, match="run its script with --run"):
        study.read(tmp_path / "none.parquet")


@pytest.mark.slow
def test_a_study_runs_packs_and_prints(tmp_path, capsys, monkeypatch, study):
    here = tmp_path / "experiments" / "theory"
    here.mkdir(parents=True)
    (tmp_path / "docs" / "figures" / "theory").mkdir(parents=True)
    drawn: list[Path] = []
    made = study.Study(
        "s", [FOUR], lambda runs: f"{len(runs)} run", lambda runs, out: drawn.append(out)
    )
    out = tmp_path / "runs"
    monkeypatch.setattr("sys.argv", ["s.py", "--run", "--out", str(out)])
    assert made.main(here) == 0
    assert capsys.readouterr().out.endswith("1 run\n")
    assert drawn == [tmp_path / "docs" / "figures" / "theory"]
    monkeypatch.setattr("sys.argv", ["s.py"])
    (out / "runs.jsonl").unlink()  # the packed file is enough
    assert made.main(here) == 0


def test_means_slopes_and_tables(study):
    e = study.mean([1.0, 1.0, 4.0])
    assert float(e.value) == 2.0 and e.low < 2.0 < e.high
    assert study.said([0.5, 0.5]) == "0.500 [0.500, 0.500]"
    x = np.array([1.0, 2.0, 4.0, 8.0])
    steep = study.slope(x, 3 * np.outer(x**2.5, [1.0, 1.0, 1.0]))
    assert [float(v) for v in steep] == pytest.approx([2.5, 2.5, 2.5])
    noisy = study.slope(x, np.outer(x**2, [0.5, 1.0, 1.5]))
    assert noisy.low < 2.0 < noisy.high
    assert study.markdown(["a", "b"], [["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"
