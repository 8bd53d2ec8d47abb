"""Why does SparseHalfCheetah stall? The tables and the figure of docs/results.md.

    python experiments/ablations/reasons.py

A table has each suspect beside `lpo`: final returns of the packed runs, IQM and 95 % bootstrap
interval; the probability that a run of the row beats one of `lpo`; how many of its last policies
tumble, more than 1.5 turns of the body in an episode (figure1/posture.py); and the share of
training states, in the first quarter of a run, of a body that has turned over (median of runs).
The figure, results/turned.svg, has that share and the final return of every ablation.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np

from lpo.report.figures import panel
from lpo.report.runs import RunData, Runs
from lpo.report.stats import Estimate, estimate, improvement, iqm
from lpo.report.tables import markdown, spread

HERE = Path(__file__).parent
POSTURE = ("posture-ablations.csv",)  # of figure1/results
TUMBLES = 1.5  # turns in an episode: between those who run (at most 1.1) and those who tumble (1.9)
HALF = 500  # of the largest return, which the tasks of cheetah.py do not declare
HEAD = ("row", "runs", "final return, IQM", "above half", "beats `lpo`", "tumble", "turned early")
SAME = ("lpo", "episodic")  # of parts.toml: the former is in reasons.toml, the latter equal to it


def turned(run: RunData) -> float | None:
    """Share of the first quarter's states with the body half a turn or more from where it began."""
    if run.visits is None:
        return None
    (_, pitch), counts = run.visits
    edges = np.linspace(pitch["low"], pitch["high"], counts.shape[2] + 1)
    over = np.minimum(np.abs(edges[:-1]), np.abs(edges[1:])) >= np.pi
    return float(counts[0][:, over].sum() / counts[0].sum())


def name(run: RunData) -> str:
    """lpo, or on a task of cheetah.py: lpo, wrapped."""
    changed = re.search(r"(?!Sparse)\b(\w+)HalfCheetah", run.config.env)
    return f"{run.label}, {changed[1].lower()}" if changed else run.label


def interval(e: Estimate, digits: str) -> str:
    return f"{e.value:{digits}} [{e.low:{digits}}, {e.high:{digits}}]"


def line(label: str, cell: list[RunData], base: np.ndarray, turns: dict[str, float]) -> str:
    final = np.array([run.final for run in cell])
    early = [share for run in cell if (share := turned(run)) is not None]
    wins = interval(estimate(improvement, [final], [base]), ".2f")
    columns = (
        f"`{label}`",
        f"{len(cell)}",
        interval(estimate(iqm, [final]), ".0f"),
        f"{(final > HALF).sum()}",
        "–" if label == "lpo" else wins,
        f"{sum(turns[run.path.name] > TUMBLES for run in cell)}",
        f"{np.median(early):.2f}" if early else "–",
    )
    return f"| {' | '.join(columns)} |\n"


def table(*sources: str) -> str:
    """A line for every cell of the packed sweeps; the first holds the runs of `lpo`."""
    files = [(HERE.parent / "figure1" / "results" / x).read_text() for x in POSTURE]
    played = [row for text in files for row in csv.DictReader(text.splitlines())]
    turns = {row["run"]: float(row["turns"]) for row in played}
    cells = [cell for x in sources for _, _, cell in Runs([HERE / "results" / x]).cells()]
    rows = [(name(cell[0]), cell) for cell in cells]
    base = np.array([run.final for run in dict(rows)["lpo"]])
    head = f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}\n"
    return head + "".join(line(label, cell, base, turns) for label, cell in rows)


def figure1() -> str:
    """The same share for the rows of figure 1, whose quarter is twice as long."""
    cells = Runs([HERE.parent / "figure1" / "results" / "half"]).cells()
    shares = [(task, x, spread(turned, cell)) for task, x, cell in cells if "Cheetah" in task]
    return markdown([{"task": t, "label": x, "turned early": value} for t, x, value in shares])


def ranks(values: np.ndarray) -> np.ndarray:
    """From 0 on, ties sharing their mean."""
    below = (values[:, None] > values).sum(1)
    return below + ((values[:, None] == values).sum(1) - 1) / 2


def early() -> tuple[np.ndarray, np.ndarray]:
    """Shares and final returns of all ablations on SparseHalfCheetah."""
    parts = [run for run in Runs([HERE / "results/parts"]).runs if run.label not in SAME]
    runs = [*parts, *Runs([HERE / "results/reasons"]).runs]
    found = [(turned(run), run.final) for run in runs if "Cheetah" in run.task]
    share, final = np.array(found, float).T
    return share, final


def words() -> str:
    share, final = early()
    correlation = np.corrcoef(ranks(share), ranks(final))[0, 1]
    less, more = final[share < 0.5], final[share >= 0.5]
    return (
        f"{len(final)} runs, rank correlation {correlation:.2f}; median return of the {len(less)} "
        f"turned over in less than half of those states {np.median(less):.0f}, of the {len(more)} "
        f"others {np.median(more):.0f}\n"
    )


def draw() -> None:
    with panel(HERE / "results", "turned") as ax:
        ax.scatter(*early(), s=30, alpha=0.7, lw=0)
        ax.set_xlabel("share of the first quarter's states with the body turned over")
        ax.set_ylabel("final return")
        ax.set_title("Who rolls early, stays rolling")


if __name__ == "__main__":
    draw()
    print(table("reasons", "posture"), words(), figure1(), sep="\n", end="")
