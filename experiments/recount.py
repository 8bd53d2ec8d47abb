"""Counts over packed sweeps that no single report makes.

    python experiments/recount.py cheetah     # PPO and LPO on SparseHalfCheetah, two grids together
    python experiments/recount.py lock        # pairs of rows on the locks that differ in one part

Intervals are 95 % bootstraps over seeds, as in the reports.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from lpo.report.runs import RunData, Runs
from lpo.report.stats import Estimate, estimate, improvement, iqm

HERE = Path(__file__).parent
CHEETAH = ("figure1/results/half", "ablations/results/works")
LOCKS = (5, 10, 15)


def packed(name: str) -> list[RunData]:
    return Runs([HERE / f"{name}.parquet"]).runs


def cheetah() -> str:
    """Runs of the unchanged SparseHalfCheetah at `half`, 2M steps, of both grids."""
    runs = [run for name in CHEETAH for run in packed(name) if "/SparseHalfCheetah" in run.task]
    lines = [
        "| row | seeds | final return, IQM | above half | met the reward | first reward (median) |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for label in ("ppo", "lpo"):
        cell = [run for run in runs if run.label == label]
        returns = np.array([run.final for run in cell])
        found = estimate(iqm, [returns])
        first = [np.inf if run.first_reward is None else run.first_reward for run in cell]
        lines.append(
            f"| `{label}` | {len(cell)} | {found.value:.0f} [{found.low:.0f}, {found.high:.0f}] | "
            f"{(returns > 500).sum()} | {np.isfinite(first).sum()} | {np.median(first):,.0f} |"
        )
    return "\n".join(lines)


def first_success(run: RunData) -> float:
    """Steps at the first evaluation above 30 % of the largest return; infinite without one."""
    steps, returns = run.curve(run.score_metric)
    above = returns > 0.3 * (run.max_return or 0.0)
    return float(steps[above][0]) if above.any() else np.inf


def text(found: Estimate) -> str:
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


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
        cells = [text(estimate(improvement, *pair)) for pair in pairs]
        lines.append(f"| {levels} | {' | '.join(cells)} |")
    return "\n".join(lines)


TABLES = {"cheetah": cheetah, "lock": lock}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", choices=TABLES)
    print(TABLES[parser.parse_args().table]())
