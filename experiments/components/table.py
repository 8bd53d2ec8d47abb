"""Packed runs as the tables of the docs.

    python experiments/components/table.py lock       # every row on the bidirectional lock
    python experiments/components/table.py controls   # what of pcpg and lpo opens a lock

Final return: mean of the last five evaluations, of those in the last quarter, as in every report.
First success: the first evaluation above 30 % of the largest return; dead rows earn a fifth of it.
Packed runs keep evaluated rows, so it is known to within the distance of two evaluations. Intervals
are 95 % bootstraps of the mean over seeds.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import numpy as np

from lpo.report.runs import RunData, Runs
from lpo.report.tables import short_task

HERE = Path(__file__).parent
SOURCES = {
    "lock": tuple(HERE / f"results/lock{length}.parquet" for length in (5, 10, 15)),
    "controls": tuple(HERE / f"results/lock{length}-controls.parquet" for length in (5, 10, 15)),
}
ROWS = {
    "lock": ("pcpg", "eniac-original", "lpo-s", "lpo", "eniac", "rnd", "ppo"),
    "controls": ("pcpg-reset", "pcpg-steady", "lpo-cover", "lpo-ramp", "lpo-next"),
}
SUCCESS = 0.3  # of the largest return


def first_success(run: RunData) -> float:
    """Environment steps; not a number where there was none."""
    least = SUCCESS * (run.max_return or 0.0)
    steps, returns = run.curve(run.score_metric)
    return float(steps[returns > least][0]) if (returns > least).any() else float("nan")


def interval(values: np.ndarray, draws: int = 10_000) -> tuple[float, float, float]:
    """Mean and a 95 % bootstrap interval over seeds."""
    rng = np.random.default_rng(0)
    means = rng.choice(values, (draws, len(values))).mean(1)
    return float(values.mean()), *np.quantile(means, [0.025, 0.975]).tolist()


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def cell(values: list[float]) -> str:
    found = np.array([v for v in values if np.isfinite(v)])
    if len(found) == 0:
        return "never"
    missing = f", {len(values) - len(found)} never" if len(found) < len(values) else ""
    if np.ptp(found) == 0:
        return f"{number(found[0])}{missing}"
    mean, low, high = map(number, interval(found))
    return f"{mean} [{low}, {high}]{missing}"


def line(task: str, label: str, runs: list[RunData]) -> str:
    passed = [run.passed for run in runs if run.passed is not None]
    cells = (
        short_task(task),
        f"`{label}`",
        str(len(runs)),
        cell([run.final for run in runs]),
        f"{sum(passed)}/{len(passed)}" if passed else "–",
        cell([run.switches for run in runs]),
        cell([first_success(run) for run in runs]),
    )
    return f"| {' | '.join(cells)} |"


def comparison(name: str) -> str:
    runs = Runs([path for path in SOURCES[name] if path.exists()])
    lines = [
        "| task | algorithm | seeds | final return | above half | policy switches "
        "| steps to first success |",
        "|---|---|---|---|---|---|---|",
    ]
    for task in runs.tasks:
        for algo in ROWS[name]:
            done = [run for run in runs.cell(task, algo) if run.finished]
            lines += [line(task, algo, done)] if done else []
    return "\n".join(lines)


TABLES = {name: partial(comparison, name) for name in SOURCES}


def main() -> None:
    parser = argparse.ArgumentParser(description="Tables of the components' comparisons")
    parser.add_argument("which", choices=TABLES)
    print(TABLES[parser.parse_args().which]())


if __name__ == "__main__":
    main()
