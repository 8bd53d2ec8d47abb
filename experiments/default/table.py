"""Packed runs as the table of the default: each task and row, and all tasks together.

    python experiments/default/table.py experiments/default/results/{confirm,locomotion}.parquet
    python experiments/default/table.py FILE… --own lpo-s     # another row against the others
    python experiments/default/table.py FILE… --own again --without default   # all rows but one
    python experiments/default/table.py FILE… --same again    # runs of both count as one row
    python experiments/default/table.py FILE… --beside before # two rows
    python experiments/default/table.py FILE… --across        # one line for each row
    python experiments/default/table.py FILE… --chances       # each row over the default
    python experiments/default/table.py FILE… --singles       # one line for each run

The score of a run is the mean of its last five evaluations, of those in its last quarter: the
normalised return where the task states its largest return, else the success rate. The row is
compared with the other row that has the largest IQM of scores, by the probability that one of its
runs ends with the larger return; it is below by more than chance where the 95 % interval lies
below .5.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from lpo.errors import LPOError
from lpo.report.runs import LAST, PASS, RunData, Runs
from lpo.report.stats import Scores, estimate, improvement, iqm
from lpo.report.tables import interval, short_task

SCORES = ("eval/normalized_return", "eval/success")  # the first that a run has
EARLY = 3_015_000  # env steps; an evaluation follows the rollout in which it is due
HEAD = "| task | row | seeds | score, IQM | above half | return, IQM | against the best other |"


def score(run: RunData) -> float:
    """Returns the mean score of the last evaluations. Raises LPOError where there is none."""
    found = next((name for name in SCORES if run.curve(name)[1].size), None)
    if found is None:
        raise LPOError(f"{run.path} has no score; pass runs of tasks that declare a success.")
    return run.ending(found)


def iqm_of_tasks(scores: Scores) -> np.ndarray:
    """Returns the interquartile mean of all runs in which every task has the same weight.

    With the same number of runs on each task it is ``iqm``, but for its rounding.
    """
    flat = np.concatenate(scores, axis=-1)
    weight = np.concatenate([np.full(x.shape, 1 / x.shape[-1]) for x in scores], axis=-1)
    order = np.argsort(flat, axis=-1)
    flat, weight = (np.take_along_axis(x, order, -1) for x in (flat, weight))
    end, total = np.cumsum(weight, axis=-1), len(scores)
    low, high = total / 4, 3 * total / 4
    inside = np.clip(np.minimum(end, high) - np.maximum(end - weight, low), 0, None)
    return (flat * inside).sum(-1) / inside.sum(-1)


def chance(own: list[RunData], other: list[RunData]) -> str:
    """Returns the probability that a run ends above one of another row, and whether it is below."""
    ends = [np.array([run.final for run in runs]) for runs in (own, other)]
    e = estimate(improvement, [ends[0]], [ends[1]])
    return interval(e) + (", below" if e.high < 0.5 else "")


def against(own: list[RunData], others: dict[str, list[RunData]]) -> str:
    """Returns the best other row, the probability to beat it, and whether it is below.

    Of rows with the same IQM, as where most runs fail, the one with the larger mean is the best.
    """
    scores = {name: np.array([score(run) for run in cell]) for name, cell in others.items()}
    best = max(scores, key=lambda name: (round(float(iqm([scores[name]])), 6), scores[name].mean()))
    return f"`{best}`: {chance(own, others[best])}"


def read(
    paths: Sequence[Path],
    own: str | None = None,
    same: Sequence[str] = (),
    without: Sequence[str] = (),
) -> Runs:
    """Returns the runs, with those of the rows ``same`` as runs of ``own``."""
    runs = Runs(list(paths))
    for row in (*([own] if own else ()), *same, *without):
        if row not in runs.labels:
            raise LPOError(f"No row is called {row!r}; choose one of {', '.join(runs.labels)}.")
    runs.runs = [
        replace(run, label=own) if own and run.label in same else run
        for run in runs.runs
        if run.label not in without
    ]
    runs.labels = [label for label in runs.labels if label not in (*same, *without)]
    return runs


def table(runs: Runs, own: str = "default") -> str:
    lines = [HEAD, "|---|---|---|---|---|---|---|"]
    labels = [own, *(label for label in runs.labels if label != own)]
    for task in runs.tasks:
        cells = {label: runs.cell(task, label) for label in labels if runs.cell(task, label)}
        others = {label: cell for label, cell in cells.items() if label != own}
        for label, cell in cells.items():
            scores = np.array([score(run) for run in cell])
            ends = np.array([run.final for run in cell])
            compared = against(cell, others) if label == own and others else ""
            texts = (
                short_task(task), f"`{label}`", f"{len(cell)}", interval(estimate(iqm, [scores])),
                f"{(scores > PASS).mean():.0%}", interval(estimate(iqm, [ends]), ".4g"), compared,
            )  # fmt: skip
            lines.append(f"| {' | '.join(texts)} |")
    lines += ["", f"| row | tasks | score, IQM over all | `{own}` on the same tasks |"]
    lines.append("|---|---|---|---|")
    for label in labels:
        tasks = [task for task in runs.tasks if runs.cell(task, label) and runs.cell(task, own)]
        both = (over_all([runs.cell(task, row) for task in tasks]) for row in (label, own))
        lines.append(f"| `{label}` | {len(tasks)} | {' | '.join(both)} |")
    return "\n".join(lines) + "\n"


def over_all(cells: list[list[RunData]]) -> str:
    scores = [np.array([score(run) for run in cell]) for cell in cells]
    return interval(estimate(iqm_of_tasks, scores))


def beside(runs: Runs, own: str, other: str) -> str:
    """Returns the scores of two rows and the chance, a line for each task that both have.

    The last line is for all these tasks together.
    """
    head = ("task", f"`{own}`", f"`{other}`", "returns, IQM", f"chance that `{own}` ends above")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    both: list[list[list[RunData]]] = [[], []]  # the cells of each row
    for task in runs.tasks:
        cells = [runs.cell(task, row) for row in (own, other)]
        if not all(cells):
            continue
        for of_row, cell in zip(both, cells, strict=True):
            of_row.append(cell)
        ends = (float(iqm([np.array([run.final for run in cell])])) for cell in cells)
        texts = [*map(of_cell, cells), ", ".join(f"{end:.4g}" for end in ends), chance(*cells)]
        lines.append(f"| {short_task(task)} | {' | '.join(texts)} |")
    lines.append(f"| all {len(both[0])} | {' | '.join(map(over_all, both))} |  |  |")
    return "\n".join(lines) + "\n"


def of_cell(cell: list[RunData]) -> str:
    x = np.array([score(run) for run in cell])
    return f"{interval(estimate(iqm, [x]))}, {(x > PASS).sum()} of {x.size}" if x.size else "–"


def across(runs: Runs) -> str:
    """Returns the scores with a line for each row and a column for each task."""
    return lines_of_rows("row", runs, runs.labels, of_cell)


def chances(runs: Runs, own: str = "default") -> str:
    """Returns how probably a run of each row ends above one of the own row, task by task."""

    def over(cell: list[RunData]) -> str:
        return chance(cell, runs.cell(cell[0].task, own)) if cell else "–"

    others = [label for label in runs.labels if label != own]
    return lines_of_rows(f"over `{own}`", runs, others, over)


def lines_of_rows(
    head: str, runs: Runs, labels: Sequence[str], text: Callable[[list[RunData]], str]
) -> str:
    names = [short_task(task) for task in runs.tasks]
    lines = [f"| {head} | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for label in labels:
        texts = (text(runs.cell(task, label)) for task in runs.tasks)
        lines.append(f"| `{label}` | {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def singles(runs: Runs) -> str:
    """Returns a line for each run: its first reward and its returns, early and at the end."""
    lines = [
        "| run | first reward | return at 3M steps | at the end | steps |",
        "|---|---|---|---|---|",
    ]
    for run in runs.runs:
        steps, returns = run.curve("eval/return")
        then = returns[steps < EARLY][-LAST:].mean()
        first = "never" if run.first_reward is None else f"{run.first_reward:,}"
        ends = f"{then:.3g} | {run.final:.3g} | {run.env_steps:,}"
        lines.append(f"| `{run.label}` | {first} | {ends} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="The table of the default")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--own", default="default", help="the row that is compared")
    parser.add_argument("--same", metavar="ROW", nargs="+", default=(), help="count as its runs")
    parser.add_argument("--without", metavar="ROW", nargs="+", default=(), help="leave rows out")
    parser.add_argument("--beside", metavar="ROW", help="with this row alone, task by task")
    parser.add_argument("--across", action="store_true", help="a line for each row")
    parser.add_argument("--chances", action="store_true", help="each row over the compared one")
    parser.add_argument("--singles", action="store_true", help="a line for each run")
    given = parser.parse_args()
    own = None if given.singles or given.across else given.own
    runs = read(given.files, own, given.same, given.without)
    if given.singles:
        text = singles(runs)
    elif given.across:
        text = across(runs)
    elif given.chances:
        text = chances(runs, given.own)
    elif given.beside:
        text = beside(runs, given.own, given.beside)
    else:
        text = table(runs, given.own)
    print(text, end="")


if __name__ == "__main__":
    main()
