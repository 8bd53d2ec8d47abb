"""Why does SparseHalfCheetah stall? The tables and the figure of the docs.

    python experiments/ablations/reasons.py

A table has each row beside `lpo`: final returns of the packed runs, IQM and 95 % interval; the
probability that a run of the row beats one of `lpo`; how many of its last policies roll, more than
two turns of the body in an episode, and their median speed (figure1/posture.py); and the share of
training states, in the first quarter of a run, of a body that has turned over (median of runs).
The figure, build/figures/turned.svg, has that share and the final return of every ablation.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np

from lpo.report.figures import panel
from lpo.report.runs import RunData, Runs
from lpo.report.stats import Estimate, estimate, improvement, iqm, rank_correlation
from lpo.report.tables import interval, markdown, spread

HERE = Path(__file__).parent
BODY = "HalfCheetah"
ROLLS = 2  # turns in an episode
HALF = 500  # of the largest return, which the tasks of cheetah.py do not declare
HEAD = ("row", "runs", "return, IQM", "above half", "beats `lpo`", "roll", "speed", "turned early")
SAME = ("lpo", "episodic")  # of parts.toml: the former is in reasons.toml, the latter equal to it


def turned(run: RunData) -> float | None:
    """Share of the first quarter's states with the body half a turn or more from where it began."""
    if run.visits is None:  # a task of cheetah.py
        return None
    (_, pitch), counts = run.visits
    edges = np.linspace(pitch["low"], pitch["high"], counts.shape[2] + 1)
    over = np.minimum(np.abs(edges[:-1]), np.abs(edges[1:])) >= np.pi
    return float(counts[0][:, over].sum() / counts[0].sum())


def name(run: RunData) -> str:
    """lpo, or on a task of cheetah.py: lpo, wrapped."""
    changed = re.search(r"(?!Sparse)\b(\w+)HalfCheetah", run.task)
    return f"{run.label}, {changed[1].lower()}" if changed else run.label


def played(source: str) -> dict[str, tuple[float, float]]:
    """Turns and speed of the last policy of every run."""
    stem = "posture-works" if source in ("works", "peer") else "posture-ablations"
    with open(HERE.parent / "figure1" / "results" / f"{stem}.csv", newline="") as file:
        return {r["run"]: (float(r["turns"]), float(r["speed"])) for r in csv.DictReader(file)}


def beats(row: np.ndarray, base: np.ndarray) -> str:
    """The probability that a run of ``row`` beats one of ``base``, from the draws of a report."""
    loses = estimate(improvement, [base], [row])
    return interval(Estimate(1 - loses.value, 1 - loses.high, 1 - loses.low), ".2f")


def line(cell: list[RunData], base: np.ndarray, plays: dict[str, tuple[float, float]]) -> str:
    final = np.array([run.final for run in cell])
    early = [share for run in cell if (share := turned(run)) is not None]
    turns, speeds = np.array([plays[run.name] for run in cell]).T
    columns = (
        f"`{name(cell[0])}`",
        f"{len(cell)}",
        interval(estimate(iqm, [final]), ".0f"),
        f"{(final > HALF).sum()}",
        "–" if name(cell[0]) == "lpo" else beats(final, base),
        f"{(turns > ROLLS).sum()}",
        f"{np.median(speeds):.1f}",
        f"{np.median(early):.2f}" if early else "–",
    )
    return f"| {' | '.join(columns)} |\n"


def table(*sources: str) -> str:
    """A line for every row of the packed sweeps; the first holds the runs of `lpo`."""
    text = f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}\n"
    base = finals(sources[0], "lpo")
    for source in sources:
        cells = rows_of(source).values()
        text += "".join(line(cell, base, played(source)) for cell in cells)
    return text


def rows_of(source: str) -> dict[str, list[RunData]]:
    rows: dict[str, list[RunData]] = {}
    for run in cheetahs(source):
        rows.setdefault(name(run), []).append(run)
    return rows


def finals(source: str, row: str) -> np.ndarray:
    return np.array([run.final for run in rows_of(source)[row]])


def pairs() -> str:
    """Comparisons that the tables do not have."""
    short, long = finals("posture", "lpo, wrapped"), finals("works", "lpo, wrapped")
    control = beats(short, finals("control", "gymnasium"))
    text = f"- 1M steps, `lpo, wrapped` beats `gymnasium`: {control}\n"
    for source, row in (("works", "ppo, wrapped"), ("works", "ppo"), ("peer", "eniac, wrapped")):
        text += f"- 2M steps, `lpo, wrapped` beats `{row}`: {beats(long, finals(source, row))}\n"
    return text


def cheetahs(source: str) -> list[RunData]:
    return [run for run in packed(source).runs if BODY in run.task]


def packed(source: str) -> Runs:
    return Runs([HERE / "results" / f"{source}.parquet"])


def figure1() -> str:
    """The same share for the rows of figure 1, whose quarter is twice as long."""
    cells = Runs([HERE.parent / "figure1" / "results" / "half.parquet"]).cells()
    shares = [(task, x, spread(turned, cell)) for task, x, cell in cells if "Cheetah" in task]
    return markdown([{"task": t, "label": x, "turned early": value} for t, x, value in shares])


def early() -> tuple[np.ndarray, np.ndarray]:
    """Shares and final returns of all ablations on SparseHalfCheetah."""
    runs = [run for run in cheetahs("parts") if run.label not in SAME] + cheetahs("reasons")
    share, final = np.array([(turned(run), run.final) for run in runs], float).T
    return share, final


def explained() -> tuple[float, float]:
    """Parts of the variance of that share in reasons.toml that lie between rows and seeds."""
    cells = packed("reasons").cells()
    shares = np.array([[turned(run) for run in cell] for _, _, cell in cells], float)
    rows, seeds = shares.mean(1).var(), shares.mean(0).var()
    return rows / shares.var(), seeds / shares.var()


def words() -> str:
    share, final = early()
    correlation = rank_correlation(share, final)
    less, more = final[share < 0.5], final[share >= 0.5]
    rows, seeds = explained()
    return (
        f"{len(final)} runs, rank correlation {correlation:.2f}; median return of the {len(less)} "
        f"turned over in less than half of those states {np.median(less):.0f}, of the {len(more)} "
        f"others {np.median(more):.0f}. Variance of the share in reasons.toml: {seeds:.0%} between "
        f"seeds, {rows:.0%} between rows.\n"
    )


def draw(folder: Path) -> None:
    """Write turned.svg and turned.png."""
    folder.mkdir(parents=True, exist_ok=True)
    with panel(folder, "turned") as ax:
        ax.scatter(*early(), s=30, alpha=0.7, lw=0)
        ax.set_xlabel("share of the first quarter's states with the body turned over")
        ax.set_ylabel("final return")
        ax.set_title("Who turns over early returns less")


if __name__ == "__main__":
    draw(HERE.parents[1] / "build" / "figures")
    tables = table("parts"), table("reasons", "control", "posture"), table("works", "peer")
    print(*tables, pairs(), words(), figure1(), sep="\n", end="")
