"""Counts over packed sweeps that no single report makes.

    python experiments/recount.py lock        # pairs of rows on the locks that differ in one part
    python experiments/recount.py controls    # roll-in, uniform action, ramp and s′
    python experiments/recount.py stalls      # how often lpo-s switches in runs that learn or stall

Intervals are 95 % bootstraps over seeds, as in the reports.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from lpo.report.runs import RunData, Runs
from lpo.report.stats import estimate, improvement, rank_correlation
from lpo.report.tables import interval

HERE = Path(__file__).parent
LOCKS = (5, 10, 15)


def packed(name: str) -> list[RunData]:
    return Runs([HERE / f"{name}.parquet"]).runs


def first_success(run: RunData) -> float:
    """Steps at the first evaluation above 30 % of the largest return; infinite without one."""
    steps, returns = run.curve(run.score_metric)
    above = returns > 0.3 * (run.max_return or 0.0)
    return float(steps[above][0]) if above.any() else np.inf


def lock() -> str:
    """What s′ and what growth change, each beside the row that differs in nothing else."""
    lines = [
        "| levels | `rnd` returns more than `eniac` | `rnd` succeeds before `eniac` | "
        "`lpo` succeeds after `eniac` |",
        "| --- | --- | --- | --- |",
    ]
    for levels in LOCKS:
        runs = packed(f"components/results/lock{levels}")

        def each(label: str, measure, runs=runs) -> list[np.ndarray]:
            return [np.array([measure(run) for run in runs if run.label == label])]

        pairs = (
            (each("rnd", lambda run: run.final), each("eniac", lambda run: run.final)),
            (each("eniac", first_success), each("rnd", first_success)),
            (each("lpo", first_success), each("eniac", first_success)),
        )
        cells = [interval(estimate(improvement, *pair)) for pair in pairs]
        lines.append(f"| {levels} | {' | '.join(cells)} |")
    return "\n".join(lines)


def controls() -> str:
    """Which row ends with the larger return."""
    pairs = [
        ("pcpg", "pcpg-reset"), ("pcpg", "pcpg-steady"), ("lpo-cover", "lpo"), ("lpo-ramp", "lpo"),
        ("lpo-s", "lpo-ramp"), ("lpo-s", "lpo"), ("lpo-next", "lpo"),
    ]  # fmt: skip
    heads = [f"`{one}` above `{other}`" for one, other in pairs]
    lines = [f"| levels | {' | '.join(heads)} |", "| --- |" + " --- |" * len(pairs)]
    for levels in LOCKS:
        names = (f"components/results/lock{levels}{end}" for end in ("", "-controls"))
        runs = [run for name in names for run in packed(name)]
        ends = {
            label: [np.array([run.final for run in runs if run.label == label])]
            for pair in pairs
            for label in pair
        }
        cells = [interval(estimate(improvement, ends[one], ends[other])) for one, other in pairs]
        lines.append(f"| {levels} | {' | '.join(cells)} |")
    return "\n".join(lines)


def span(values: Iterable[float], form: str) -> str:
    """Median (lowest, highest)."""
    x = np.array(list(values))
    return f"{np.median(x):{form}} ({x.min():{form}}, {x.max():{form}})"


def stalls() -> str:
    """Policies of runs that end above half and of the others, 1M steps of SparseHalfCheetah."""
    lines = [
        "| row | above half | their switches | the others | their switches | rank correlation |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    runs = [run for run in packed("figure1/results/switch") if "/SparseHalfCheetah" in run.task]
    for label in ("lpo-s", "lpo-s-progress"):
        final, count = np.array([(r.final, r.switches) for r in runs if r.label == label]).T
        above = final > 500
        cells = [f"{sum(each)} | {span(count[each], '.0f')}" for each in (above, ~above)]
        together = f"{rank_correlation(count, final):.2f}"
        lines.append(f"| `{label}` | {' | '.join(cells)} | {together} |")
    return "\n".join(lines)


TABLES = {
    "lock": lock,
    "controls": controls,
    "stalls": stalls,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", choices=TABLES)
    print(TABLES[parser.parse_args().table]())
