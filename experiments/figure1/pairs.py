"""Figure 1 with 64 seeds: the probability that a run of one row ends above a run of another.

    python experiments/figure1/pairs.py

An interval that holds .5 leaves a pair undecided; then the last column says how many seeds a row
would need, if the probability is as found: the width of an interval shrinks with their root.
"""

from __future__ import annotations

from math import ceil
from pathlib import Path

import numpy as np

from lpo.report.runs import RunData, Runs
from lpo.report.stats import estimate, improvement
from lpo.report.tables import short_task

FILE = Path(__file__).parent / "results" / "seeds64.parquet"
PAIRS = (("lpo", "ppo"), ("lpo", "eniac"), ("lpo", "rnd"), ("eniac", "ppo"), ("rnd", "ppo"))
MANY = 10_000  # seeds that nobody will run


def line(task: str, first: str, second: str, cells: dict[str, list[RunData]]) -> str:
    ends = [np.array([run.final for run in cells[label]]) for label in (first, second)]
    e = estimate(improvement, [ends[0]], [ends[1]])
    decided = e.low > 0.5 or e.high < 0.5
    off, half = abs(e.value - 0.5), (e.high - e.low) / 2
    seeds = (
        MANY
        if off * MANY**0.5 < half * len(ends[0]) ** 0.5
        else ceil((half / off) ** 2 * len(ends[0]))
    )
    words = "decided" if decided else f"{seeds:,}" if seeds < MANY else f"over {MANY:,}"
    found = f"{e.value:.2f} [{e.low:.2f}, {e.high:.2f}]"
    return f"| {short_task(task)} | `{first}` over `{second}` | {found} | {words} |"


def table() -> str:
    runs = Runs([FILE])
    lines = ["| task | pair | probability | seeds needed |", "|---|---|---|---|"]
    for task in runs.tasks:
        cells = {label: cell for label in runs.labels if (cell := runs.cell(task, label))}
        lines += [line(task, *pair, cells) for pair in PAIRS if cells.keys() >= set(pair)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
