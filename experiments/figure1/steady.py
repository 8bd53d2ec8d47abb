"""Does the bonus shrink more steadily with growing rollouts? The paper's reason for them.

    python experiments/figure1/steady.py

How far the mean bonus of a rollout jumps from one evaluated rollout to the next in the second half
of a run: the standard deviation of the change of its logarithm, median (lowest, highest) of seeds.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lpo.report.runs import RunData, Runs
from lpo.report.tables import markdown, spread

EXPERIMENTS = Path(__file__).parents[1]
SOURCES = ("figure1/results/half", "figure1/results/hard", "components/results/control")


def jumps(run: RunData) -> float | None:
    steps, bonus = run.curve("bonus/mean")
    late = bonus[steps > run.env_steps / 2]
    return float(np.std(np.diff(np.log(late)))) if len(late) else None


def table() -> str:
    runs = Runs([EXPERIMENTS / f"{source}.parquet" for source in SOURCES])
    cells = [(task, label, spread(jumps, cell)) for task, label, cell in runs.cells()]
    rows = [{"task": t, "label": x, "jumps of the bonus": value} for t, x, value in cells if value]
    return markdown(rows)


if __name__ == "__main__":
    print(table(), end="")
