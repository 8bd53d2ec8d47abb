"""Report: figures of the theory's grids: gap over samples, switches, exponents of 1/ε."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from lpo.report.figures import colors, legend, panel
from lpo.theory.compare import Row, both_tables, by_cell, median_steps
from lpo.theory.runner import EPSILONS

HEIGHT = 2.7  # inches of a panel


def write(rows: list[Row], out: Path) -> str:
    """Writes the table and the figures of a grid. Returns the table."""
    text = both_tables(rows)
    (out / "table.md").write_text(text + "\n")
    gap_against_samples(rows, out)
    exponents(rows, out)
    if curves := switch_curves(rows):
        switches_against_n(curves, out)
    return text


@contextmanager
def panels(out: Path, name: str, titles: Sequence[str]) -> Iterator[list[Any]]:
    """Yields axes below each other, one for each title, then writes NAME.svg and NAME.png."""
    with panel(out, name, height=HEIGHT * len(titles), rows=len(titles)) as axes:
        below = list(np.atleast_1d(axes))
        for ax, title in zip(below, titles, strict=True):
            ax.set_title(title)
        yield below


def by_mdp(rows: list[Row]) -> dict[str, dict[str, list[Row]]]:
    """Returns the rows by MDP and algorithm, in order of appearance."""
    groups: dict[str, dict[str, list[Row]]] = {}
    for (mdp, algorithm), group in by_cell(rows).items():
        groups.setdefault(mdp, {})[algorithm] = group
    return groups


def color_of(rows: list[Row]) -> dict[str, str]:
    """Returns the colour of each algorithm, the same in every panel."""
    names = list(dict.fromkeys(row["cell"]["algorithm"] for row in rows))
    every = colors(names)
    return {name: every[name] for name in names}


def name_lines(ax: Any, color: dict[str, str]) -> None:
    """Draws one legend for all panels."""
    for name, value in color.items():
        ax.plot([], [], color=value, label=name)
    legend(ax)


def step_curves(group: list[Row], grid: np.ndarray, which: str) -> np.ndarray:
    """Returns each run's gap/V* as a step function of environment steps, on a common grid."""
    out = []
    for row in group:
        steps, gaps = np.array(row["curve"]["steps"]), np.array(row["curve"][which])
        at = np.searchsorted(steps, grid, side="right") - 1
        out.append(np.where(grid <= row["env_steps"], gaps[at] / row["optimal_value"], np.nan))
    return np.array(out)


def gap_against_samples(rows: list[Row], out: Path) -> None:
    """Draws the median gap/V* of the last iterate (solid, with quartiles) and mixture (dotted)."""
    groups, color = by_mdp(rows), color_of(rows)
    with panels(out, "gap", list(groups)) as axes:
        for ax, cells in zip(axes, groups.values(), strict=True):
            for name, group in cells.items():
                top = max(row["env_steps"] for row in group)
                grid = np.unique(np.geomspace(10, max(top, 11), 200).astype(int))
                for which, style in (("gap_last", "-"), ("gap_mixture", ":")):
                    curves = step_curves(group, grid, which)
                    some = ~np.isnan(curves).all(axis=0)
                    low, middle, high = np.nanquantile(curves[:, some], [0.25, 0.5, 0.75], axis=0)
                    ax.plot(grid[some], middle, style, color=color[name], lw=1.3)
                    if which == "gap_last":
                        ax.fill_between(grid[some], low, high, color=color[name], alpha=0.15, lw=0)
            ax.set(xscale="log", ylabel="gap / V*", ylim=(-0.02, 1.05))
        axes[-1].set_xlabel("environment steps (dotted: mixture)")
        name_lines(axes[0], color)


def exponents(rows: list[Row], out: Path) -> None:
    """Draws the median steps until ε·V* is first reached over 1/ε, on log scales."""
    groups, color = by_mdp(rows), color_of(rows)
    with panels(out, "exponents", list(groups)) as axes:
        for ax, cells in zip(axes, groups.values(), strict=True):
            for name, group in cells.items():
                steps = [median_steps(group, e, "steps_until") for e in EPSILONS]
                found = [(1 / e, s) for e, s in zip(EPSILONS, steps, strict=True) if s]
                x, y = zip(*found, strict=True) if found else ((), ())
                ax.plot(x, y, "o-", color=color[name], lw=1.2, ms=3)
            ax.set(xscale="log", yscale="log", ylabel="steps to ε·V*")
        axes[-1].set_xlabel("1/ε (share of V*)")
        name_lines(axes[0], color)


def switch_curves(rows: list[Row], algorithm: str = "lpo") -> dict[str, dict[str, np.ndarray]]:
    """Returns the switches up to iteration n, mean and range over seeds, for each MDP."""
    out = {}
    for mdp, cells in by_mdp(rows).items():
        if algorithm not in cells:
            continue
        group = cells[algorithm]
        n = np.geomspace(100, max(min(row["iterations"] for row in group), 200), 25)
        each = np.array([_switches_at(row, n) for row in group])
        out[mdp] = {"n": n, "lazy": each.mean(0), "low": each.min(0), "high": each.max(0)}
    return out


def _switches_at(row: Row, n: np.ndarray) -> np.ndarray:
    """Returns the switches at n: linear between the kept points, and the total after the last."""
    iteration = [*row["curve"]["iteration"], row["iterations"]]
    switch = [*row["curve"]["switch"], row["switches"]]
    return np.interp(n, iteration, switch)


def fits(n: np.ndarray, switches: np.ndarray) -> dict[str, tuple[float, float, float]]:
    """Returns (a, b, R²) of the least-squares fits a + b·ln N and a + b·ln² N."""
    out = {}
    for name, x in (("log", np.log(n)), ("log2", np.log(n) ** 2)):
        b, a = np.polyfit(x, switches, 1)
        rest = switches - (a + b * x)
        spread = float(((switches - switches.mean()) ** 2).sum())
        out[name] = (float(a), float(b), 1.0 - float(rest @ rest) / max(spread, 1e-12))
    return out


def switches_against_n(curves: dict[str, dict[str, np.ndarray]], out: Path) -> None:
    """Draws switches over N. ``curves[mdp]`` holds n, lazy (mean switches), low and high.

    The line N is a policy change in every iteration.
    """
    color = colors([])["lpo"]
    with panels(out, "switches", list(curves)) as axes:
        for ax, c in zip(axes, curves.values(), strict=True):
            n = c["n"]
            fitted = fits(n, c["lazy"])
            ax.plot(n, c["lazy"], "o-", ms=3, color=color, label="LPO (lazy)")
            ax.fill_between(n, c["low"], c["high"], color=color, alpha=0.2, lw=0)
            for name, x, style in (("log", np.log(n), "--"), ("log2", np.log(n) ** 2, ":")):
                a, b, r2 = fitted[name]
                law = {"log": "ln N", "log2": "ln² N"}[name]
                label = f"{a:.0f} + {b:.1f} {law} (R²={r2:.3f})"
                ax.plot(n, a + b * x, style, color="#333", lw=1.2, label=label)
            ax.plot(n, n, color="0.6", lw=1, label="N")
            ax.set(xscale="log", yscale="log", ylabel="switches")
            ax.legend(fontsize=8)
        axes[-1].set_xlabel("N")
