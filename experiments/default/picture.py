"""The pictures of the default: its curves beside other rows, and what each ingredient brings.

python experiments/default/picture.py build/pictures
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import rc_context, rcParams
from matplotlib.ticker import MaxNLocator
from table import SCORES, score

from lpo.report.figures import aligned, band, colors, panel, plain
from lpo.report.runs import RunData, Runs
from lpo.report.stats import estimate, estimate_curve, iqm
from lpo.report.tables import short_task

RESULTS = Path(__file__).parent / "results"
CONFIRMED = [RESULTS / "confirm.parquet", RESULTS / "locomotion.parquet"]
CONFIRMED.append(RESULTS.parents[1] / "figure1" / "results" / "seeds64.parquet")
OTHERS = [RESULTS / "others.parquet"]
FRONT = ["CombinationLock (length=15)", "DeepSea (size=30)", "MiniGrid-DoorKey-8x8"]
FRONT += ["PointMazeLarge", "SparseHalfCheetah (half)", "SparseWalker2d (half)"]
ACROSS = 3
POINTS = 25  # of a curve


def score_metric(run: RunData) -> str:
    return next(name for name in SCORES if run.curve(name)[1].size)


def curves(
    out: Path,
    files: Sequence[Path] = CONFIRMED,
    name: str = "curves",
    tasks: Sequence[str] = (),
    names: dict[str, str] | None = None,
) -> None:
    """Draws the IQM of the scores over steps, one small panel for each task.

    ``tasks`` are short names, all if empty; ``names`` are what to call the rows that are drawn.
    """
    runs = Runs(files)
    short = {short_task(task): task for task in runs.tasks}
    shown = [short[task] for task in tasks] or runs.tasks
    names = names or {label: label for label in runs.labels}
    down = -(-len(shown) // ACROSS)
    color = colors(runs.labels) | {"default": "#1f6fb4", "eniac": "#c77c11"}
    labels = sorted(names, key=lambda label: label == "default")  # drawn last, on top
    with panel(out, name, 1.0 + 1.75 * down) as first:
        figure = first.figure
        first.remove()
        figure.set_figwidth(7.6)
        axes = figure.subplots(down, ACROSS, sharey=True, squeeze=False).ravel()
        for ax, task in zip(axes, shown, strict=False):
            for label in labels:
                cell = runs.cell(task, label)
                drawn = aligned(cell, score_metric(cell[0])) if cell else None
                if drawn is not None:
                    every = max(1, len(drawn[0]) // POINTS)
                    steps, values = drawn[0][::every] / 1e6, drawn[1][:, ::every]
                    band(ax, steps, estimate_curve(values), color[label], names[label])
            ax.set_title(plain(short_task(task)), fontsize=9)
            ax.set_ylim(-0.03, 1.05)
            if tasks:  # few tasks are for a glance
                ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 5, 10]))
                ax.set_yticks([0, 0.5, 1])
        for ax in axes[len(shown) :]:
            ax.remove()
        figure.supxlabel("million environment steps", fontsize=9)
        figure.supylabel("score", fontsize=9)
        handles = {}
        for ax in axes[: len(shown)]:
            handles |= dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
        figure.legend(handles.values(), handles, loc="outside upper center", ncols=len(handles))


def front(out: Path) -> None:
    """Draws the picture of README: six of the fourteen tasks, and four rows."""
    rows = {"sb3": "PPO, SB3's defaults", "ppo": "PPO, same code", "rnd": "RND"}
    rows["default"] = "lpo, the default"
    with rc_context():
        rcParams["svg.fonttype"] = "none"  # letters as text: the file is half as large
        rcParams["font.sans-serif"] = ["DejaVu Sans", "Verdana", "Arial"]
        curves(out, CONFIRMED, "front", FRONT, rows)
    drawing = out / "front.svg"
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", drawing.read_text(encoding="utf-8"))
    text = re.sub(r"(?<=\d\.\d)\d+(?= |\n)", "", text)  # a tenth of a pixel
    drawing.write_text(re.sub(r"(?m)^ +", "", text), encoding="utf-8")


def ablation(out: Path, name: str = "ablation") -> None:
    """Draws the IQM of each row and task with its interval; the default is a line."""
    runs = Runs([RESULTS / "ablate.parquet"])
    labels = [label for label in runs.labels if label != "default"]
    with panel(out, name, 0.9 + 0.24 * len(labels), columns=len(runs.tasks)) as axes:
        axes[0].figure.set_figwidth(7.6)
        for ax, task in zip(axes, runs.tasks, strict=True):
            own = float(iqm([np.array([score(run) for run in runs.cell(task, "default")])]))
            ax.axvline(own, color="#1f6fb4", lw=1)
            for place, label in enumerate(labels):
                cell = runs.cell(task, label)
                if not cell:
                    continue
                e = estimate(iqm, [np.array([score(run) for run in cell])])
                ax.plot([e.low, e.high], [place, place], color="#444", lw=1.6)
                ax.plot(e.value, place, "o", color="#444", ms=5)
            ax.set_title(plain(short_task(task)).replace(" (", "\n("), fontsize=8)
            ax.set_xlim(-0.05, 1.05)
            ax.set_ylim(len(labels) - 0.5, -0.5)
            ax.set_yticks(range(len(labels)), labels if ax is axes[0] else [""] * len(labels))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    curves(folder)
    curves(folder, OTHERS, "others")
    front(folder)
    ablation(folder)
