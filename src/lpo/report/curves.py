"""Report: learning curves of runs, a panel per task, a line with its band per label."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lpo.errors import LPOError
from lpo.report.stats import estimate_curve
from lpo.runs import store
from lpo.runs.directory import task_line
from lpo.runs.record import Record, declared

COLORS = {"lpo": "#c1272d", "eniac": "#0000a7", "rnd": "#008176", "ppo": "#6b6b6b"}


class Curve(NamedTuple):
    steps: np.ndarray
    values: np.ndarray


def load_curve(run: Record, metric: str) -> Curve:
    rows = [row for row in run.rows if metric in row]
    if not rows:
        known = sorted({key for row in run.rows for key in row if key != "env_steps"})
        have = f"choose one of {', '.join(known)}" if known else "let the run go on for longer"
        raise LPOError(f"{run.path} has logged no {metric}; {have}.")
    return Curve(
        np.array([row["env_steps"] for row in rows]), np.array([row[metric] for row in rows])
    )


def on_grid(curves: list[Curve]) -> tuple[np.ndarray, np.ndarray]:
    """Returns common steps, up to the end of the shortest curve, and values [runs, points]."""
    start = max(curve.steps[0] for curve in curves)
    stop = min(curve.steps[-1] for curve in curves)
    grid = np.linspace(start, max(stop, start), 200)
    return grid, np.stack([np.interp(grid, curve.steps, curve.values) for curve in curves])


def plot_runs(runs: Sequence[Path], metric: str, out: Path) -> Path:
    """Writes a PNG of ``metric`` over environment steps.

    The line is the interquartile mean over seeds, the band its 95 % interval.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import EngFormatter

    from lpo.report.figures import band, colors, plain  # here, because it imports this module

    panels: dict[str, dict[str, list[Curve]]] = defaultdict(lambda: defaultdict(list))
    for run in store.load(runs):
        task = task_line(declared(run.task, str(run.path)))
        panels[task][run.label].append(load_curve(run, metric))
    color = colors(list(dict.fromkeys(name for groups in panels.values() for name in groups)))
    figure, axes = plt.subplots(
        1, len(panels), figsize=(1 + 5 * len(panels), 3.8), squeeze=False, layout="constrained"
    )
    for ax, (task, groups) in zip(axes[0], panels.items(), strict=True):
        for name, curves in groups.items():
            label = name if len(curves) == 1 else f"{name} ({len(curves)} seeds)"
            if len(curves) == 1:
                ax.plot(curves[0].steps, curves[0].values, color=color[name], label=plain(label))
                continue
            grid, values = on_grid(curves)
            band(ax, grid, estimate_curve(values), color[name], label)
        ax.set(title=plain(task), xlabel="environment steps", ylabel=plain(metric))
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out, dpi=150, format="png")
    except OSError as error:
        raise LPOError(f"Cannot write {out} ({error}); pass another --out.") from error
    finally:
        plt.close(figure)
    return out
