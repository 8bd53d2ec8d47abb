"""What runs of the default cost: medians of their own clocks, evaluations included.

    python experiments/default/costs.py

Runs on the host had a core each. Those on a GPU shared it: all runs of a cell are one program, and
other programs ran beside it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lpo.report.runs import RunData, Runs
from lpo.report.tables import short_task

EXPERIMENTS = Path(__file__).parents[1]
FILES = ("first", "dense", "confirm", "locomotion")
ROWS = ("default", "lpo-w")


def on_device(cell: list[RunData]) -> bool:
    return "device" in cell[0].seconds


def where(cell: list[RunData]) -> str:
    return f"a GPU, {len(cell)} at once" if on_device(cell) else "a core"


def table() -> str:
    files = [Runs([EXPERIMENTS / f"default/results/{name}.parquet"]) for name in FILES]
    lines = ["| task | where | steps | minutes |", "|---|---|---|---|"]
    cells = [(t, cell) for runs in files for t, label, cell in runs.cells() if label in ROWS]
    cells.sort(key=lambda row: (on_device(row[1]), row[1][0].env_steps))
    for task, cell in cells:
        minutes = np.median([sum(run.seconds.values()) for run in cell]) / 60
        fields = [short_task(task), where(cell), f"{cell[0].env_steps:,}", f"{minutes:.1f}"]
        lines.append(f"| {' | '.join(fields)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
