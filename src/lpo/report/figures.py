"""Report: the figures, each a small panel that can be read on a phone."""

from __future__ import annotations

import colorsys
import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from lpo.report.curves import COLORS, Curve, on_grid
from lpo.report.runs import RunData, Runs
from lpo.report.stats import Estimate, estimate, estimate_curve, improvement, profile

PALETTE = ("#b3762e", "#7a5195", "#1b7837", "#d95f9f", "#3b8ea5", "#8c510a", "#525252", "#9a9a00")
STYLE: dict[Any, Any] = {
    "font.size": 10, "axes.titlesize": 10.5, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False,
    "axes.edgecolor": "#888", "axes.labelcolor": "#333", "xtick.color": "#555",
    "ytick.color": "#555", "axes.grid": True, "grid.color": "#ddd", "grid.linewidth": 0.6,
    "legend.frameon": False, "svg.hashsalt": "lpo", "lines.linewidth": 1.8,
    "svg.fonttype": "none",  # letters as text, not as curves
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
}  # fmt: skip
POINTS = 80  # of a drawn curve
SIZE = (4.8, 3.3)
MANY, ACROSS = 8, 3  # curves that one panel can hold; small panels side by side
MARKS = 12  # points of a curve behind others


def colors(labels: list[str]) -> dict[str, str]:
    """Returns a colour for each label; if the palette is too short, hues around the circle."""
    new = [label for label in labels if label not in COLORS]
    spare = list(PALETTE[: len(new)])
    if len(new) > len(PALETTE):
        turns = [(i / len(new), 0.36 if i % 2 else 0.55, 0.7) for i in range(len(new))]
        rgb = [colorsys.hls_to_rgb(*turn) for turn in turns]
        spare = ["#" + "".join(f"{round(255 * c):02x}" for c in color) for color in rgb]
    return COLORS | dict(zip(new, spare, strict=True))


@contextmanager
def panel(
    out: Path, name: str, height: float = SIZE[1], columns: int = 1, rows: int = 1
) -> Iterator[Any]:
    """Yields axes (an array, if there are several), then writes NAME.svg and NAME.png."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure, ax = plt.subplots(
            rows, columns, figsize=(SIZE[0], height), layout="constrained",
            sharex=rows > 1, sharey=rows > 1,
        )  # fmt: skip
        try:
            yield ax
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Glyph")  # the font lacks letters of a name
                drawing = io.StringIO()
                figure.savefig(drawing, format="svg", metadata={"Date": None})
                (out / f"{name}.svg").write_text(slim(drawing.getvalue()), encoding="utf-8")
                figure.savefig(out / f"{name}.png", dpi=160)
        finally:
            plt.close(figure)


def slim(svg: str) -> str:
    """Rounds places to a tenth of a pixel; removes comments and empty space."""
    paths = re.sub(r'(?<= d=")[^"]*', lambda d: stepwise(d[0]), svg)
    short = lambda number: f"{float(number[0]):.1f}".removesuffix(".0")  # noqa: E731
    paths = re.sub(r'(?<= [xy]=")-?\d+\.\d+', short, paths)
    plain = re.sub(r' transform="rotate\(-0 [^"]*"|<!--.*?-->', "", paths)
    return re.sub(r"\s*\n\s*", "\n", plain)


def stepwise(path: str) -> str:
    """Returns an SVG path in tenths of a pixel; lines are given by their steps, which are short."""
    if set(re.findall("[A-Za-z]", path)) - set("MLz"):
        return re.sub(r"-?\d+\.\d+", lambda n: f"{float(n[0]):.1f}".removesuffix(".0"), path)
    words: list[str] = []
    before, last = (0, 0), ""
    for command, *xy in re.findall(r"([MLz])(?: *([-\d.]+) +([-\d.]+))?", path):
        if command == "z":
            words.append("z")
        else:
            x, y = (round(10 * float(number)) for number in xy)
            a, b = (x, y) if command == "M" else (x - before[0], y - before[1])
            letter = {"M": "M", "L": "" if last == "L" else "l"}[command]
            words.append(f"{letter}{a / 10:g} {b / 10:g}")
            before = x, y
        last = command
    return " ".join(words)


def heading(task: str) -> str:
    """Returns a title of two lines, the task and its threshold; one line would be too wide."""
    lines = task.removeprefix("lpo/").replace(" (", "\n(", 1).split("\n")[:2]
    return "\n".join(plain(line, 60) for line in lines)


def plain(name: str, longest: int = 32) -> str:
    """Returns a name as Matplotlib draws it sign by sign; dollars would begin a formula."""
    line = "".join(c if c.isprintable() else " " for c in name)
    short = line if len(line) <= longest else line[: longest - 1] + "…"
    return short.replace("$", r"\$")


def steps_axis(ax: Any) -> None:
    from matplotlib.ticker import EngFormatter

    ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    ax.set_xlabel("environment steps")


def legend(ax: Any) -> None:
    """Draws a short legend inside the panel, and a long one below it with more height."""
    handles = ax.get_legend_handles_labels()[0]
    if len(handles) <= 6:
        ax.legend()
        return
    ax.figure.set_figheight(ax.figure.get_figheight() + 0.2 * -(-len(handles) // 2))
    ax.figure.legend(loc="outside lower center", ncols=2, fontsize=8)


def band(ax: Any, x: np.ndarray, e: Estimate, color: str, label: str) -> None:
    x, value, low, high = (thin(values) for values in (x, *e))
    ax.plot(x, value, color=color, label=plain(label))
    ax.fill_between(x, low, high, color=color, alpha=0.18, lw=0)


def thin(values: np.ndarray, points: int = POINTS) -> np.ndarray:
    """Returns at most so many values, evenly spaced, with the first and the last."""
    return values[np.unique(np.linspace(0, len(values) - 1, points).round().astype(int))]


def aligned(runs: list[RunData], metric: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns common steps and the values [runs, points] of a metric; None if no run logged it."""
    curves = [Curve(*run.curve(metric)) for run in runs]
    curves = [curve for curve in curves if len(curve.steps)]
    return on_grid(curves) if curves else None


def learning(runs: Runs, task: str, out: Path, name: str) -> list[dict[str, Any]]:
    """Draws the IQM of the return over steps. Returns the numbers in the figure."""
    curves: dict[str, tuple[np.ndarray, Estimate]] = {}
    for label in runs.labels:
        cell = runs.cell(task, label)
        drawn = aligned(cell, cell[0].score_metric) if cell else None
        if drawn is not None:
            curves[label] = drawn[0], estimate_curve(drawn[1])
    draw = one_by_one if len(curves) > MANY else together
    draw(curves, colors(runs.labels), heading(task), out, name)
    return [
        {"task": task, "label": label, "env_steps": x, "iqm": v, "low": lo, "high": hi}
        for label, (grid, e) in curves.items()
        for x, v, lo, hi in zip(grid, *e, strict=True)
    ]


def together(curves: dict, color: dict[str, str], title: str, out: Path, name: str) -> None:
    with panel(out, name) as ax:
        for label, (grid, e) in curves.items():
            band(ax, grid, e, color[label], label)
        ax.set_title(title)
        ax.set_ylabel("return")
        steps_axis(ax)
        legend(ax)


def one_by_one(curves: dict, color: dict[str, str], title: str, out: Path, name: str) -> None:
    """Draws each curve in its own small panel, with the others behind it in grey."""
    rows = -(-len(curves) // ACROSS)
    with panel(out, name, 0.9 + 1.05 * rows, ACROSS, rows) as axes:
        for ax, (label, (grid, e)) in zip(axes.flat, curves.items(), strict=False):
            for x, other in curves.values():
                ax.plot(thin(x, MARKS), thin(other.value, MARKS), color="#ccc", lw=0.6)
            band(ax, grid, e, color[label], label)
            ax.set_title(plain(label), fontsize=8 if len(label) < 20 else 6)
            ax.tick_params(labelsize=7)
        for ax in axes.flat[len(curves) :]:
            ax.set_axis_off()
        for ax in axes.flat[len(curves) - ACROSS : len(curves)]:  # the last of each column
            steps_axis(ax)
            ax.set_xlabel("")
            ax.tick_params(labelbottom=True)
        axes[0, 0].figure.suptitle(title, x=0.02, ha="left", fontsize=10.5, fontweight="bold")
        axes[0, 0].figure.supxlabel("environment steps", fontsize=9)
        axes[0, 0].figure.supylabel("return", fontsize=9)


def over_time(
    runs: Runs, task: str, metric: str, ylabel: str, out: Path, name: str, log: bool = False
) -> bool:
    """Draws the mean of a metric over seeds, and thin lines for the seeds if labels are few.

    Returns False if no run logged it.
    """
    color, drawn = colors(runs.labels), False
    if not any(metric in row for run in runs.runs if run.task == task for row in run.rows):
        return False
    with panel(out, name) as ax:
        for label in runs.labels:
            cell = runs.cell(task, label)
            values = aligned(cell, metric) if cell else None
            if values is None:
                continue
            drawn = True
            for line in values[1] if len(runs.labels) <= MANY else []:
                ax.plot(values[0], line, color=color[label], lw=0.6, alpha=0.35)
            ax.plot(values[0], values[1].mean(0), color=color[label], label=plain(label))
        ax.set_title(heading(task))
        ax.set_ylabel(ylabel)
        if log:
            ax.set_yscale("log")
        steps_axis(ax)
        if drawn:
            legend(ax)
    return drawn


def first_rewards(runs: Runs, task: str, out: Path, name: str) -> None:
    """Draws a dot per seed at its first reward; a hollow one at the end of a run without reward."""
    labels = [label for label in runs.labels if runs.cell(task, label)]
    color = colors(runs.labels)
    with panel(out, name, 1.2 + 0.38 * len(labels)) as ax:
        for y, label in enumerate(labels):
            cell = runs.cell(task, label)
            met = [run.first_reward for run in cell]
            x = [run.env_steps if m is None else m for run, m in zip(cell, met, strict=True)]
            off = 0.12 * (np.arange(len(cell)) - (len(cell) - 1) / 2) / max(len(cell) / 5, 1)
            faces = ["none" if m is None else color[label] for m in met]
            ax.scatter(x, y + off, s=26, facecolor=faces, edgecolor=color[label], zorder=3)
        ax.set_yticks(range(len(labels)), [plain(label) for label in labels])
        ax.set_ylim(len(labels) - 0.5, -0.5)
        ax.set_xscale("log")
        budget = max(run.steps for label in labels for run in runs.cell(task, label))
        ax.set_xlim(min(100, budget / 10), budget * 1.3)
        ax.set_title(heading(task))
        steps_axis(ax)


def improvements(runs: Runs, reference: str, out: Path, name: str) -> list[dict[str, Any]]:
    """Draws P(reference > other) with intervals. Returns the numbers in the figure."""
    others = [label for label in runs.complete() if label != reference]
    color, rows = colors(runs.labels), []
    with panel(out, name, 1.2 + 0.38 * len(others)) as ax:
        for y, label in enumerate(others):
            e = estimate(improvement, runs.scores(reference), runs.scores(label))
            ax.plot([e.low, e.high], [y, y], color=color[label], lw=7, alpha=0.3)
            ax.plot([e.value], [y], "o", color=color[label])
            numbers = {"probability": float(e.value), "low": float(e.low), "high": float(e.high)}
            rows.append({"x": reference, "y": label, **numbers})
        ax.axvline(0.5, color="#999", lw=1, ls="--")
        ax.set_yticks(range(len(others)), [plain(label) for label in others])
        ax.set_ylim(len(others) - 0.5, -0.5)
        ax.set_xlim(-0.03, 1.03)
        ax.set_title(f"P({plain(reference)} > …)")
        ax.set_xlabel("probability of improvement")
    return rows


def profiles(runs: Runs, out: Path, name: str) -> list[dict[str, Any]]:
    taus = np.linspace(0, 1, 101)
    measure: Callable[..., np.ndarray] = lambda scores: profile(scores, taus)  # noqa: E731
    color, rows = colors(runs.labels), []
    with panel(out, name) as ax:
        for label in runs.complete():
            e = estimate(measure, runs.scores(label))
            band(ax, taus, e, color[label], label)
            rows += [
                {"label": label, "tau": t, "share": v, "low": lo, "high": hi}
                for t, v, lo, hi in zip(taus, *e, strict=True)
            ]
        ax.set_ylim(-0.02, 1.02)
        ax.set_title("Performance profile")
        ax.set_xlabel("normalised score τ")
        ax.set_ylabel("share of runs above τ")
        legend(ax)
    return rows


def heat_maps(runs: Runs, task: str, label: str, out: Path, name: str) -> bool:
    """Draws the states of a cell in each quarter of the budget. Returns False without counts."""
    from matplotlib.colors import LogNorm

    cell = runs.cell(task, label)
    found = [run.visits for run in cell if run.visits is not None]
    found = [visits for visits in found if visits[1].shape == found[0][1].shape]
    if not found:
        return False
    (across, up), counts = found[0][0], np.sum([visits[1] for visits in found], axis=0)
    box = (across["low"], across["high"], up["low"], up["high"])
    threshold = cell[0].description.get("threshold")
    with panel(out, name, 1.75, columns=len(counts)) as axes:
        for quarter, (ax, seen) in enumerate(zip(axes, counts, strict=True)):
            share = np.where(seen > 0, seen / max(seen.sum(), 1), np.nan)
            ax.imshow(
                share.T, origin="lower", extent=box, aspect="auto", cmap="magma_r",
                norm=LogNorm(1e-5, 0.1), interpolation="nearest",
            )  # fmt: skip
            if threshold is not None and across["name"] == cell[0].description.get("quantity"):
                ax.axvline(threshold, color="#0077b6", lw=0.9, ls="--")
            ax.grid(False)
            ax.set_title(f"{100 * (quarter + 1) // len(counts)} %", fontsize=9)
            ax.tick_params(labelsize=7, labelleft=quarter == 0)
        axes[0].set_ylabel(plain(up["name"]), fontsize=8)
        axes[0].figure.supxlabel(plain(across["name"].replace("_", " ")), fontsize=8)
    return True
