"""Policy switches against N for every class, and what laziness costs at equal samples.

    python experiments/theory/switches.py           # tables and figure of the packed runs
    python experiments/theory/switches.py --run     # runs what is missing first

First part: LPO with the exact critic to N = 10⁸ samples for each class, 3 seeds, K = 5 (the inner
loop does not touch the trigger much). Second part: lazy, patient and never lazy LPO with the
sampled critic, 20 seeds, compared at equal environment steps. Sizes were set in a pilot with one
seed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from study import Run, Study, markdown, said

from lpo.report.figures import colors, panel
from lpo.report.runs import Runs
from lpo.report.theory import fits
from lpo.theory.algorithms import Options
from lpo.theory.compare import HALVES, Cell, parse_mdp
from lpo.theory.runner import CLASSES

HERE = Path(__file__).parent
MANY, FEW, SEEDS = 10**8, 3, 20
LADDER = "linear:10,num_states=30,num_actions=3"
ROWS = [("deepsea:6", "box"), (LADDER, "linear"), ("comb", "kernel"), ("comb", "neural"),
        ("dial", "glm"), ("comb", "finite")]  # fmt: skip
MDPS = ("deepsea:5", "riverswim:4")
KINDS = {"lpo": 10_000, "lpo-patient": 30_000, "lpo-always": 1000}  # → N
BUDGETS = (10**5, 10**5.5, 10**6)
DELTA = 0.1
DEEP = {"lpo": "--", "lpo-s": ":"}  # deep algorithm → line; `lpo` has growing rollouts
FIGURE_1 = HERE.parent / "figure1" / "results" / "seeds64.parquet"


def long(mdp: str, name: str, seed: int) -> Cell:
    options = Options(critic="exact", roll_in="law")
    return Cell("lpo", mdp, seed, MANY, 1, 3600.0, options, (("K", 5),), function_class=name)


def short(mdp: str, name: str, seed: int) -> Cell:
    return Cell(name, mdp, seed, KINDS[name], 300, 600.0, Options(roll_in="law"), (("K", 10),))


def grid() -> list[Cell]:
    cells = [long(*row, seed) for row in ROWS for seed in range(FEW)]
    return cells + [short(m, n, seed) for m in MDPS for n in KINDS for seed in range(SEEDS)]


def dimension(mdp: str, name: str) -> int:
    """A bound of the eluder dimension at the scale of the runs: the smaller of pairs and d."""
    made = parse_mdp(mdp)
    F = CLASSES[name](made)
    size = getattr(F, "dim", getattr(getattr(F, "ball", None), "dim", made.num_pairs))
    return min(int(size), made.num_pairs)


def constant(mdp: str, name: str) -> float:
    """S_max of Proposition C.7 over C at N = 10⁸, repaired: ln(N𝒩/δ)·dim·log₂(4NW²)·ln N."""
    F = CLASSES[name](parse_mdp(mdp))
    cover = F.log_covering(float(np.sqrt(DELTA / (64.0 * MANY**3))))
    return ((cover + np.log(MANY / DELTA)) * dimension(mdp, name)
            * np.log2(4 * MANY * F.W**2) * np.log(MANY))  # fmt: skip


def curve(found: dict[Cell, Run], mdp: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """N and the switches up to it [seeds, N]."""
    rows = [found[long(mdp, name, seed)]["switches_at"] for seed in range(FEW)]
    return np.array(HALVES[: len(rows[0])], float), np.array(rows, float)


def growth(runs: list[Run]) -> str:
    found = {run.cell: run for run in runs}
    lines = []
    for mdp, name in ROWS:
        n, rows = curve(found, mdp, name)
        keep = n >= 1000
        fit = fits(n[keep], rows.mean(0)[keep])
        (a, b, r1), (_, _, r2) = fit["log"], fit["log2"]
        at = [said(rows[:, n == 10**k].ravel(), 0) for k in (4, 6, 8)]
        late = said((rows[:, -1] - rows[:, n == 10**6].ravel()) / np.log(100), 1)
        lines.append([name, mdp.split(",")[0], str(dimension(mdp, name)), *at,
                      f"{a:.0f} + {b:.1f} ln N", f"{r1:.3f}", f"{r2:.3f}", late,
                      f"{constant(mdp, name):.1e}"])  # fmt: skip
    head = ["class", "MDP", "dim", "10⁴", "10⁶", "10⁸", "best line", "its R²", "R² of ln² N",
            "per e-fold, last two decades", "C.7 over C"]  # fmt: skip
    return markdown(head, lines)


def laziness(runs: list[Run]) -> str:
    found = {run.cell: run for run in runs}
    lines = []
    for mdp in MDPS:
        for name in KINDS:
            mine = [found[short(mdp, name, seed)] for seed in range(SEEDS)]
            line = [mdp, name, said([r["switches"] for r in mine], 0)]
            for steps in BUDGETS:
                at = HALVES.index(round(steps))
                gaps = [r["gap_at"][at] for r in mine if len(r["gap_at"]) > at]
                line.append(f"{said(gaps)} ({len(gaps)})" if len(gaps) > 1 else "–")
            lines.append(line)
    head = ["MDP", "algorithm", "switches", "gap / V* after 10⁵ steps", "10^5.5", "10⁶ (runs)"]
    return markdown(head, lines)


def deep() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Steps, and switches [runs, steps] of the deep locomotion runs, 320 of each."""
    out, runs = {}, Runs([FIGURE_1]).runs
    for label in DEEP:
        curves = [run.curve("switch/count") for run in runs if run.label == label]
        steps = min((c[0] for c in curves), key=len)
        out[label] = steps, np.array([np.interp(steps, *c) for c in curves])
    return out


def spread(counts: list[float]) -> str:
    """The median and the quartiles of the runs."""
    low, middle, high = np.percentile(counts, [25, 50, 75])
    return f"{middle:.0f} [{low:.0f}, {high:.0f}]"


def deep_table() -> str:
    every = [2 * 10**5, 5 * 10**5, 10**6, 2 * 10**6]
    lines = [
        [label, *(spread([np.interp(n, steps, own) for own in counts]) for n in every)]
        for label, (steps, counts) in deep().items()
    ]
    return markdown(["deep algorithm", *(f"{n:.0e}" for n in every)], lines)


def draw(runs: list[Run], out: Path) -> None:
    found = {run.cell: run for run in runs}
    color = colors([name for _, name in ROWS])
    with panel(out, "switches", height=4.2) as ax:
        for mdp, name in ROWS:
            n, rows = curve(found, mdp, name)
            ax.plot(n, rows.mean(0), "o-", ms=2.5, lw=1.2, color=color[name], label=name)
            ax.fill_between(n, rows.min(0), rows.max(0), color=color[name], alpha=0.2, lw=0)
        for label, (steps, counts) in deep().items():
            ax.plot(
                steps,
                np.median(counts, axis=0),
                DEEP[label],
                color="#333",
                lw=1.6,
                label=f"deep {label}",
            )
        ax.set(xscale="log", yscale="log", xlabel="samples N (deep: environment steps)",
               ylabel="switches", title="Switches against samples")  # fmt: skip
        ax.legend(fontsize=7, ncols=2)


def tables(runs: list[Run]) -> str:
    return f"{growth(runs)}\n\n{deep_table()}\n\n{laziness(runs)}"


STUDY = Study("switches", grid(), tables, draw)

if __name__ == "__main__":
    raise SystemExit(STUDY.main(HERE))
