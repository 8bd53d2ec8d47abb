"""Why does SparseHalfCheetah stall? Each suspect beside `lpo`, the table of docs/results.md.

    python experiments/ablations/reasons.py

Final returns of the packed runs, IQM and 95 % bootstrap interval; the probability that a run of the
row beats one of `lpo` on the same seeds; and how many of its last policies tumble: more than 1.5
turns of the body in an episode (figure1/posture.py, five episodes without noise).
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from lpo.report.runs import RunData, Runs
from lpo.report.stats import Estimate, estimate, improvement, iqm

HERE = Path(__file__).parent
POSTURE = HERE.parent / "figure1" / "results" / "posture-ablations.csv"
TUMBLES = 1.5  # turns in an episode: between those who run (at most 1.1) and those who tumble (1.9)
HALF = 500  # of the largest return, which the tasks of cheetah.py do not declare
NAMES = {"cheetah:WrappedHalfCheetah-v0": "wrapped", "cheetah:UprightHalfCheetah-v0": "upright"}
HEAD = ("row", "runs", "final return, IQM", "above half", "beats `lpo`", "tumble")


def interval(e: Estimate, digits: str) -> str:
    return f"{e.value:{digits}} [{e.low:{digits}}, {e.high:{digits}}]"


def line(label: str, cell: list[RunData], base: np.ndarray, turns: dict[str, float]) -> str:
    final = np.array([run.final for run in cell])
    wins = interval(estimate(improvement, [final], [base]), ".2f")
    columns = (
        f"`{label}`",
        f"{len(cell)}",
        interval(estimate(iqm, [final]), ".0f"),
        f"{(final > HALF).sum()}",
        "–" if label == "lpo" else wins,
        f"{sum(turns[run.path.name] > TUMBLES for run in cell)}",
    )
    return f"| {' | '.join(columns)} |\n"


def table() -> str:
    with open(POSTURE, newline="") as file:
        turns = {row["run"]: float(row["turns"]) for row in csv.DictReader(file)}
    reasons = Runs([HERE / "results/reasons"])
    cells = [(label, cell) for _, label, cell in reasons.cells()]
    posture = Runs([HERE / "results/posture"])
    cells += [(NAMES[cell[0].config.env], cell) for _, _, cell in posture.cells()]
    base = np.array([run.final for run in reasons.runs if run.label == "lpo"])
    head = f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}\n"
    return head + "".join(line(label, cell, base, turns) for label, cell in cells)


if __name__ == "__main__":
    print(table(), end="")
