"""Sweeps: the grid of `lpo theory compare` on the cores of this machine.

A finished run is one line of ``runs.jsonl``. A grid that is started again in the same folder runs
only what is missing there. A job is the seeds of one algorithm on one MDP: most runs take seconds,
and one process loads the compiled code for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lpo.sweep.board import Board, Words, shown
from lpo.sweep.jobs import Progress
from lpo.sweep.local import run_local
from lpo.sweep.main import conclude, places
from lpo.sweep.plan import Standing, held, log_file
from lpo.sweep.theory_worker import RUNS, Ledger, written
from lpo.sweep.worker import command
from lpo.theory.compare import Cell, Row

WORDS = Words("runs", "gap/V*", 3)


class TheoryJob(NamedTuple):
    """Runs of one algorithm on one MDP that differ only in their seeds."""

    ledger: Ledger
    cells: tuple[Cell, ...]
    variant: int = 0  # counts cells of this algorithm on this MDP that differ in more than seeds

    @property
    def root(self) -> Path:
        return self.ledger.path.parent

    @property
    def name(self) -> str:
        seeds = "-".join(dict.fromkeys(str(self.cells[i].seed) for i in (0, -1)))
        variant = f"-v{self.variant}" if self.variant else ""
        return f"{self.label}-{self.task.replace(':', '')}{variant}-s{seeds}"

    @property
    def label(self) -> str:
        return self.cells[0].algorithm

    @property
    def task(self) -> str:
        return self.cells[0].mdp

    @property
    def size(self) -> int:
        return len(self.cells)

    def standing(self) -> Standing:
        done = len(self.ledger.of(self.cells))
        return Standing("done" if done == self.size else "started" if done else "new", done)

    def progress(self) -> Progress:
        rows = self.ledger.of(self.cells)
        gaps = [row["relative_gap_last"] for row in rows]
        return Progress(len(rows), float(np.mean(gaps)) if gaps else None)

    def command(self, core: int | None) -> list[str]:
        return command(self.root, written(self.cells), core, "lpo.sweep.theory_worker")


def split(grid: Sequence[Cell], ledger: Ledger, workers: int) -> list[TheoryJob]:
    """Returns a job for each algorithm and MDP, or several if there are more workers than that."""
    groups: dict[Cell, list[Cell]] = {}
    for cell in dict.fromkeys(grid):
        groups.setdefault(replace(cell, seed=0), []).append(cell)
    shares = -(-workers // len(groups)) if groups else 1
    jobs, seen = [], Counter[tuple[str, str]]()
    for one, cells in groups.items():
        variant = seen[one.algorithm, one.mdp]
        seen[one.algorithm, one.mdp] += 1
        size = -(-len(cells) // min(shares, len(cells)))
        parts = [cells[i : i + size] for i in range(0, len(cells), size)]
        jobs += [TheoryJob(ledger, tuple(part), variant) for part in parts]
    return jobs


def run_grid(grid: Sequence[Cell], out: Path, processes: int | None, again: str) -> list[Row] | int:
    """Runs what is missing under ``out``, on as many cores as ``processes``, or on all.

    Returns the rows of the grid, old and new, or the exit status if some failed (1) or a signal
    stopped it (130). ``again`` is the command that continues the grid.
    """
    cores = places(processes, "--processes")
    with held(out, plan=RUNS) as owned:
        (out / RUNS).touch()
        ledger = Ledger(out)
        jobs = split(grid, ledger, len(cores))
        board = Board(out.resolve().name, jobs, len(cores), WORDS)
        left = [job for job in jobs if board.tracks[job.name].state != "done"]
        to_do = sum(job.size - board.tracks[job.name].steps for job in left)
        print(f"{board.title}: {len(grid)} runs in {out}, {to_do} to do", flush=True)
        with shown(board):
            finished = run_local(left, cores, board, owned, {})
        drop_empty_logs(jobs)
        status = conclude(board, out, again, finished)
    return status or ledger.of(grid)


def drop_empty_logs(jobs: Sequence[TheoryJob]) -> None:
    """Deletes the logs of jobs that printed nothing."""
    for path in (log_file(job.root, job.name) for job in jobs):
        if path.exists() and path.stat().st_size == 0:
            path.unlink()
