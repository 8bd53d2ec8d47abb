"""How the samples grow with 1/ε, d, 1/(1−γ) and A, beside the theorem's exponents.

    python experiments/theory/scaling.py           # tables of the packed runs
    python experiments/theory/scaling.py --run     # runs what is missing first

1/ε: the theorem's schedule, K = 16/ε², N = M = 40/ε², η = 3/sqrt(K), κ = sqrt(K)/4, the output
being the mixture. The other axes: the practical constants, steps until the last iterate is within
.1·V* for the first time. Three MDPs an axis, 20 seeds; the sizes were set in a pilot with one seed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from study import Run, Study, markdown, mean, slope, spoken

from lpo.report.figures import colors, panel
from lpo.theory.algorithms import Options
from lpo.theory.compare import Cell

SEEDS = 20
FOUR = (0.8, 0.57, 0.4, 0.28)
TARGETS = {"lpo": (*FOUR, 0.2), "copoe": FOUR, "eniac": FOUR}
CHAINS = ("chain:3,gamma=0.8", "riverswim:3,gamma=0.8", "random:3,num_actions=2,gamma=0.8")
LINEAR = "linear:{},num_states={},num_actions=3"
AXES: dict[str, dict[str, list[tuple[float, str]]]] = {  # axis → MDP → (x, its MDP)
    "d": {
        "chain": [(2 * n, f"chain:{n}") for n in (3, 6, 12)],
        "deepsea": [(n * (n + 1) + 2, f"deepsea:{n}") for n in (3, 4, 6)],
        "linear": [(n, LINEAR.format(n, 3 * n)) for n in (4, 8, 16)],
    },
    "1/(1−γ)": {
        name: [(1 / (1 - g), f"{spec},gamma={g}") for g in (0.8, 0.9, 0.95)]
        for name, spec in (("chain", "chain:4"), ("riverswim", "riverswim:4"),
                           ("linear", LINEAR.format(6, 18)))
    },
    "A": {
        "lock": [(n, f"lock:2,num_actions={n},gamma=0.9") for n in (2, 3, 4, 6)],
        "random": [(n, f"random:5,num_actions={n}") for n in (2, 4, 8)],
        "linear": [(n, f"linear:6,num_states=18,num_actions={n}") for n in (2, 4, 8)],
    },
}  # fmt: skip
THEOREM = {"d": "3", "1/(1−γ)": "8 (audited: 12)", "A": "0 (ln A)"}
PARTS = ("M", "K/(κ+1)", "switches", "steps a trajectory")


def scheduled(name: str, mdp: str, target: float, seed: int) -> Cell:
    K, N = round(16 / target**2), round(40 / target**2)
    kappa = max(round(np.sqrt(K) / 4), 1)
    constants = (("K", K), ("eta", round(3 / np.sqrt(K), 6)), ("kappa", kappa))
    options = Options(reuse="kappa", estimator="sum", roll_in="law")
    return Cell(name, mdp, seed, N, N, 600.0, options, constants, epoch=10)


def plain(mdp: str, seed: int) -> Cell:
    return Cell("lpo", mdp, seed, 2000, 200, 600.0, Options(roll_in="law"), (("K", 10),))


def grid() -> list[Cell]:
    cells = [
        scheduled(name, mdp, target, seed)
        for name, targets in TARGETS.items()
        for target in targets
        for mdp in CHAINS
        for seed in range(SEEDS)
    ]
    specs = [spec for mdps in AXES.values() for points in mdps.values() for _, spec in points]
    return cells + [plain(spec, seed) for spec in dict.fromkeys(specs) for seed in range(SEEDS)]


def parts(run: Run) -> list[float]:
    """The factors of the steps: M, datasets an update, updates, steps a trajectory."""
    datasets = -(-dict(run.cell.constants)["K"] // (dict(run.cell.constants)["kappa"] + 1))
    if run.cell.algorithm == "eniac":  # fresh data in every inner iteration
        datasets = dict(run.cell.constants)["K"]
    rest = run["env_steps"] / (run.cell.M * datasets * run["switches"])
    return [run.cell.M, datasets, run["switches"], rest]


def accuracy(runs: list[Run]) -> str:
    found = {run.cell: run for run in runs}
    lines = []
    for name, targets in TARGETS.items():
        x = 1 / np.array(targets)
        for mdp in CHAINS:
            cells = [[found[scheduled(name, mdp, t, s)] for s in range(SEEDS)] for t in targets]
            steps = np.array([[r["env_steps"] for r in row] for row in cells])
            each = np.array([[parts(r) for r in row] for row in cells])
            gaps = np.array([[r["relative_gap_mixture"] for r in row] for row in cells])
            split = [spoken(slope(x, each[:, :, i])) for i in range(len(PARTS))]
            worst = (gaps.mean(1) / targets).max()
            lines.append([name, mdp.split(",")[0], spoken(slope(x, steps)), *split, f"{worst:.2f}"])
    head = ["algorithm", "MDP", "steps", *PARTS, "largest gap / target"]
    return markdown(head, lines)


def counted(runs: list[Run]) -> str:
    """Mean steps at each target, with the mixture's mean gap in brackets."""
    found = {run.cell: run for run in runs}
    lines = []
    for name, targets in TARGETS.items():
        for mdp in CHAINS:
            line = [name, mdp.split(",")[0]]
            for target in TARGETS["lpo"]:
                mine = [found[scheduled(name, mdp, target, s)] for s in range(SEEDS)
                        if target in targets]  # fmt: skip
                steps, gap = (
                    [r[key] for r in mine] for key in ("env_steps", "relative_gap_mixture")
                )
                line.append(f"{np.mean(steps):.1e} ({np.mean(gap):.3f})" if mine else "–")
            lines.append(line)
    return markdown(["algorithm", "MDP", *(f"ε = {t:g}" for t in TARGETS["lpo"])], lines)


def others(runs: list[Run]) -> str:
    found = {run.cell: run for run in runs}
    lines = []
    for axis, mdps in AXES.items():
        for name, points in mdps.items():
            cells = [[found[plain(spec, s)] for s in range(SEEDS)] for _, spec in points]
            never = sum(r["steps_to_tenth"] is None for row in cells for r in row)
            x = np.array([x for x, _ in points])
            steps = np.array(
                [[r["env_steps"] if r["steps_to_tenth"] is None else max(r["steps_to_tenth"], 1)
                  for r in row] for row in cells], float)  # fmt: skip
            switches = np.array([[r["switches"] for r in row] for row in cells])
            middle = " / ".join(f"{m:.1e}" for m in np.median(steps, axis=1))
            lines.append([
                axis, name, " / ".join(f"{v:g}" for v in x), middle, spoken(slope(x, steps)),
                spoken(slope(x, switches)), THEOREM[axis], str(never),
            ])  # fmt: skip
    head = ["axis", "MDP", "values", "median steps to 0.1·V*", "exponent of the steps",
            "exponent of the switches", "theorem, steps", "never there"]  # fmt: skip
    return markdown(head, lines)


def draw(runs: list[Run], out: Path) -> None:
    """Steps against the accuracy that was reached, one panel for each MDP of the schedule."""
    found = {run.cell: run for run in runs}
    color = colors(list(TARGETS))
    with panel(out, "scaling", height=7.5, rows=len(CHAINS)) as axes:
        for ax, mdp in zip(axes, CHAINS, strict=True):
            for name, targets in TARGETS.items():
                cells = [[found[scheduled(name, mdp, t, s)] for s in range(SEEDS)] for t in targets]
                gap = [mean([r["relative_gap_mixture"] for r in row]) for row in cells]
                x = np.array([[1 / e.value, 1 / e.value - 1 / e.high, 1 / e.low - 1 / e.value]
                              for e in gap])  # fmt: skip
                steps = [np.mean([r["env_steps"] for r in row]) for row in cells]
                ax.errorbar(x[:, 0], steps, xerr=x[:, 1:].T, fmt="o-", ms=3, lw=1.2,
                            color=color[name], label=name)  # fmt: skip
            ax.set(xscale="log", yscale="log", ylabel="environment steps", title=mdp.split(",")[0])
        axes[-1].set_xlabel("V* / measured gap of the mixture")
        axes[-1].set_xticks([2, 5, 10, 20, 40], ["2", "5", "10", "20", "40"])
        axes[-1].set_xticks([], minor=True)
        axes[0].legend()


def tables(runs: list[Run]) -> str:
    return "\n\n".join([counted(runs), accuracy(runs), others(runs)])


STUDY = Study("scaling", grid(), tables, draw)

if __name__ == "__main__":
    raise SystemExit(STUDY.main(Path(__file__).parent))
