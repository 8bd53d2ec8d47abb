"""The curves of the frontier: success over steps, sampled and by the mode, a panel for each grid.

    python experiments/frontier/picture.py docs/figures/frontier/curves.svg

The SVG is written by hand, since a plotting library would make it five times as large.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from table import MODE_SUCCESS, SAMPLED_SUCCESS, grid_name, names, runs_of

from lpo.report.runs import RunData
from lpo.report.stats import estimate_curve

ACROSS, WIDE, HIGH = 4, 140, 70  # panels in a row; size of one
LEFT, TOP, GAP_X, GAP_Y = 34, 34, 24, 40
END = ' text-anchor="end"'
CURVES = (SAMPLED_SUCCESS, "sampled actions", "#1b6ca8"), (MODE_SUCCESS, "mode", "#c77d0a")


def path(x: Iterable[float], y: Iterable[float]) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{more}>{words}</text>'


def curve(runs: Sequence[RunData], metric: str, color: str, left: float, top: float) -> list[str]:
    """Returns the IQM of the runs and its interval."""
    steps = min((run.curve(metric)[0] for run in runs), key=len)
    found = estimate_curve(np.stack([run.curve(metric)[1][: len(steps)] for run in runs]))
    x = left + WIDE * steps / steps[-1]
    value, low, high = (top + HIGH * (1 - y) for y in found)
    band = path([*x, *x[::-1]], [*low, *high[::-1]])
    return [
        f'<polygon points="{band}" fill="{color}" opacity=".2"/>',
        f'<polyline points="{path(x, value)}" fill="none" stroke="{color}" stroke-width="1.4"/>',
    ]


def panel(name: str, left: float, top: float) -> list[str]:
    runs = runs_of(name)
    floor, right = top + HIGH, left + WIDE
    last = min(run.env_steps for run in runs) / 1e6
    lines = [f'<path d="M{left} {top}V{floor}H{right}" fill="none" stroke="#888"/>']
    lines += [f'<path d="M{left} {top + HIGH / 2}H{right}" stroke="#ddd"/>']
    lines += [text(left, top - 6, grid_name(runs[0].task), ' font-weight="bold"')]
    for value in (0, 0.5, 1):
        y = top + HIGH * (1 - value) + 3
        lines += [text(left - 4, y, f"{value:g}", ' text-anchor="end"')]
    lines += [text(left, floor + 11, "0"), text(right, floor + 11, f"{last:.2g}M", END)]
    for metric, _, color in CURVES:
        lines += curve(runs, metric, color, left, top)
    return lines


def draw(out: Path) -> None:
    grids = names()
    down = -(-len(grids) // ACROSS)
    size = LEFT + ACROSS * (WIDE + GAP_X), TOP + down * (HIGH + GAP_Y)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" '
        'font-family="DejaVu Sans, Verdana, Arial, sans-serif" font-size="9" fill="#333">',
        f'<rect width="{size[0]}" height="{size[1]}" fill="#fff"/>',
        text(LEFT, 10, "Share of episodes that succeed, on layouts that training never drew, by"),
    ]
    for i, (_, label, color) in enumerate(CURVES):
        lines += [text(LEFT + 335 + 94 * i, 10, label, f' fill="{color}" font-weight="bold"')]
    for i, name in enumerate(grids):
        down, across = divmod(i, ACROSS)
        lines += panel(name, LEFT + across * (WIDE + GAP_X), TOP + down * (HIGH + GAP_Y))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join([*lines, "</svg>", ""]), encoding="utf-8")


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
