"""Packed runs of the frontier as tables: how often each grid is solved, and what each part brings.

    python experiments/frontier/table.py experiments/frontier/results/corridor3.parquet …
    python experiments/frontier/table.py FILE… --figure docs/figures/frontier/curves.svg

All figures are of layouts that training never drew. A run counts as solved when its sampled actions
succeed in nine of ten episodes at the end, the mean of its last three evaluations.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lpo.report.runs import RunData, Runs
from lpo.report.stats import Estimate, estimate, estimate_curve, iqm
from lpo.report.tables import interval, short_task

SOLVED = 0.9  # success of a solved run
REACHED = 0.8  # success whose first evaluation is told
MODE, SAMPLED = "eval/return", "eval/sampled_return"
MODE_SUCCESS, SAMPLED_SUCCESS = "eval/success", "eval/sampled_success"
HEAD = "| grid | row | runs | steps | sampled return | by the mode | solved | success of 0.8 at |"


def ending(run: RunData, metric: str) -> float:
    """Returns the mean of the last three evaluations."""
    return float(run.curve(metric)[1][-3:].mean())


def reached(run: RunData) -> float:
    """Returns the steps at which sampled actions first succeed in four of five episodes."""
    steps, success = run.curve(SAMPLED_SUCCESS)
    return float(steps[np.argmax(success >= REACHED)]) if (success >= REACHED).any() else np.inf


def shown(found: Estimate) -> str:
    return interval(found, ".2f")


def row(task: str, label: str, runs: Sequence[RunData]) -> str:
    """Returns one line of the table."""
    mode, sampled = ([np.array([ending(r, m) for r in runs])] for m in (MODE, SAMPLED))
    solved = sum(ending(r, SAMPLED_SUCCESS) >= SOLVED for r in runs)
    steps = min(r.env_steps for r in runs)
    asked = runs[0].steps
    told = f"{steps / 1e6:.2f}M" + ("" if steps == asked else f" of {asked / 1e6:g}M")
    at = float(np.median([reached(r) for r in runs]))
    when = "–" if np.isinf(at) else f"{at / 1e3:,.0f}k"
    cells = (short_task(task), f"`{label}`", len(runs), told)
    cells += (shown(estimate(iqm, sampled)), shown(estimate(iqm, mode)))
    return "| " + " | ".join(map(str, (*cells, f"{solved} of {len(runs)}", when))) + " |"


def print_table(files: Sequence[Path]) -> None:
    print(HEAD)
    print("|" + "---|" * (HEAD.count("|") - 1))
    for file in files:
        for task, label, runs in Runs([file]).cells():
            print(row(task, label, runs))


def draw(files: Sequence[Path], out: Path) -> None:
    """Draws success over steps, sampled and by the mode, one panel for each file."""
    import matplotlib.pyplot as plt

    columns = 4
    rows = -(-len(files) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(11, 2.3 * rows), sharey=True, squeeze=False)
    for axis in axes.flat[len(files) :]:
        axis.set_axis_off()
    for axis, file in zip(axes.flat, files, strict=False):
        runs = Runs([file]).runs
        for metric, name, color in (
            (SAMPLED_SUCCESS, "sampled actions", "#1b6ca8"), (MODE_SUCCESS, "mode", "#c77d0a")
        ):  # fmt: skip
            steps = runs[0].curve(metric)[0] / 1e6
            found = estimate_curve(np.stack([r.curve(metric)[1][: len(steps)] for r in runs]))
            axis.plot(steps, found.value, color=color, label=name, linewidth=1.4)
            axis.fill_between(steps, found.low, found.high, color=color, alpha=0.2, linewidth=0)
        axis.set_title(short_task(runs[0].task), fontsize=8)
        axis.tick_params(labelsize=7)
        axis.set_ylim(-0.03, 1.03)
        axis.grid(alpha=0.25, linewidth=0.5)
    axes[0, 0].legend(fontsize=7, frameon=False)
    axes[0, 0].set_ylabel("success", fontsize=8)
    figure.supxlabel("million environment steps", fontsize=8)
    figure.tight_layout()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    if options.figure is not None:
        draw(options.files, options.figure)
        print(options.figure)
    else:
        print_table(options.files)


if __name__ == "__main__":
    main()
