"""Figures of the theory room: gap against samples, switches against N, exponents of 1/ε."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lpo.theory.compare import by_cell, median_steps
from lpo.theory.runner import EPSILONS


def _axes(columns: int, title: str):
    import matplotlib

    matplotlib.use("Agg", force=False)
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, columns, figsize=(4.6 * columns, 3.6), squeeze=False)
    figure.suptitle(title, fontsize=10)
    return plt, figure, axes[0]


def _save(plt, figure, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _step_curves(group: list[dict], grid: np.ndarray, which: str) -> np.ndarray:
    """Each run's gap/V* as a step function of environment steps, on a common grid."""
    out = []
    for row in group:
        steps, gaps = np.array(row["curve"]["steps"]), np.array(row["curve"][which])
        at = np.searchsorted(steps, grid, side="right") - 1
        out.append(np.where(grid <= row["env_steps"], gaps[at] / row["optimal_value"], np.nan))
    return np.array(out)


def gap_against_samples(rows: list[dict], path: Path) -> None:
    """Median gap/V* of the last iterate (solid) and of the mixture (dotted), quartiles shaded."""
    groups = by_cell(rows)
    mdps = list(dict.fromkeys(mdp for mdp, _ in groups))
    plt, figure, axes = _axes(len(mdps), "gap / V* against environment steps (dotted: mixture)")
    for ax, mdp in zip(axes, mdps, strict=True):
        names = [a for m, a in groups if m == mdp]
        for i, name in enumerate(names):
            group = groups[mdp, name]
            top = max(row["env_steps"] for row in group)
            grid = np.unique(np.geomspace(10, max(top, 11), 200).astype(int))
            for which, style in (("gap_last", "-"), ("gap_mixture", ":")):
                curves = _step_curves(group, grid, which)
                some = ~np.isnan(curves).all(axis=0)
                low, middle, high = np.nanquantile(curves[:, some], [0.25, 0.5, 0.75], axis=0)
                label = name if style == "-" else None
                ax.plot(grid[some], middle, style, color=f"C{i}", label=label, lw=1.3)
                if style == "-":
                    ax.fill_between(grid[some], low, high, color=f"C{i}", alpha=0.15)
        ax.set(xscale="log", title=mdp, xlabel="environment steps", ylim=(-0.02, 1.05))
        ax.legend(fontsize=7)
    _save(plt, figure, path)


def exponents(rows: list[dict], path: Path) -> None:
    """Median steps until ε·V* is first reached against 1/ε, both logarithmic."""
    groups = by_cell(rows)
    mdps = list(dict.fromkeys(mdp for mdp, _ in groups))
    plt, figure, axes = _axes(
        len(mdps), "environment steps until the last iterate first reaches ε·V*"
    )
    for ax, mdp in zip(axes, mdps, strict=True):
        for i, name in enumerate(a for m, a in groups if m == mdp):
            steps = [median_steps(groups[mdp, name], e, "steps_until") for e in EPSILONS]
            found = [(1 / e, s) for e, s in zip(EPSILONS, steps, strict=True) if s]
            if found:
                ax.plot(*np.array(found).T, "o-", color=f"C{i}", label=name, lw=1.2, ms=3)
        ax.set(xscale="log", yscale="log", title=mdp, xlabel="1/ε (share of V*)", ylabel="steps")
        if ax.lines:
            ax.legend(fontsize=7)
    _save(plt, figure, path)


def switch_curves(rows: list[dict], algorithm: str = "lpo") -> dict[str, dict[str, np.ndarray]]:
    """Switches made by iteration n, mean and range over seeds, from the rows of a grid."""
    out = {}
    for (mdp, name), group in by_cell(rows).items():
        if name != algorithm:
            continue
        n = np.geomspace(100, max(min(row["iterations"] for row in group), 200), 25)
        each = np.array([_switches_at(row, n) for row in group])
        out[mdp] = {"n": n, "lazy": each.mean(0), "low": each.min(0), "high": each.max(0)}
    return out


def _switches_at(row: dict, n: np.ndarray) -> np.ndarray:
    """Linear between the kept points; from the last one on, the run's total."""
    iteration = [*row["curve"]["iteration"], row["iterations"]]
    switch = [*row["curve"]["switch"], row["switches"]]
    return np.interp(n, iteration, switch)


def fits(n: np.ndarray, switches: np.ndarray) -> dict[str, tuple[float, float, float]]:
    """Least squares a + b·ln N and a + b·ln² N: (a, b, R²) each."""
    out = {}
    for name, x in (("log", np.log(n)), ("log2", np.log(n) ** 2)):
        b, a = np.polyfit(x, switches, 1)
        rest = switches - (a + b * x)
        spread = float(((switches - switches.mean()) ** 2).sum())
        out[name] = (float(a), float(b), 1.0 - float(rest @ rest) / max(spread, 1e-12))
    return out


def switches_against_n(curves: dict[str, dict[str, np.ndarray]], path: Path) -> None:
    """`curves[mdp]` holds n, lazy (mean switches), low, high; never-lazy is the line N."""
    plt, figure, axes = _axes(len(curves), "policy switches against N")
    for ax, (mdp, c) in zip(axes, curves.items(), strict=True):
        n = c["n"]
        fitted = fits(n, c["lazy"])
        ax.plot(n, c["lazy"], "o-", ms=3, label="LPO (lazy)")
        ax.fill_between(n, c["low"], c["high"], alpha=0.2)
        for name, x, style in (("log", np.log(n), "--"), ("log2", np.log(n) ** 2, ":")):
            a, b, r2 = fitted[name]
            shown = {"log": "ln N", "log2": "ln² N"}[name]
            ax.plot(n, a + b * x, style, label=f"{a:.0f} + {b:.1f} {shown} (R²={r2:.3f})")
        if "always_n" in c:
            ax.plot(c["always_n"], c["always"], "s", ms=4, color="k", label="never lazy, run")
        ax.plot(n, n, color="0.6", lw=1, label="N")
        ax.set(xscale="log", yscale="log", title=mdp, xlabel="N", ylabel="switches")
        ax.legend(fontsize=7)
    _save(plt, figure, path)
