"""The theorem's schedule at runnable scale: does the sample count grow as its powers of 1/ε say?

    python experiments/theory/exponents.py      # resumes; writes results/exponents.{jsonl,json,png}

For each target ε (a share of V*): K = 16/ε², N = M = 40/ε², η = 3/sqrt(K), κ = sqrt(K)/4 — the
theorem's orders with small constants, on a three-state chain with γ = .8. LPO reuses data for κ
iterations and switches lazily, so it should take ε⁻³ up to logarithms, and so should COPOE; ENIAC,
with its epochs and fresh data, ε⁻⁶ (N·K·M). Measured: each output's gap (the mixture) and steps.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from lpo.report.figures import colors, legend, panel
from lpo.theory import zoo
from lpo.theory.algorithms import Options
from lpo.theory.constants import Constants
from lpo.theory.runner import run, summary

HERE = Path(__file__).parent / "results"
TARGETS = [0.8, 0.57, 0.4, 0.28, 0.2]
SEEDS = range(3)
ALGORITHMS = ("lpo", "copoe", "eniac")
GAP = "relative_gap_mixture"  # of the output, over V*


def work(algorithm: str, target: float, seed: int) -> dict:
    mdp = zoo.chain(3, gamma=0.8)
    K, N = round(16 / target**2), round(40 / target**2)
    schedule = {"K": K, "M": N, "eta": 3.0 / np.sqrt(K), "kappa": max(round(np.sqrt(K) / 4), 1)}
    c = Constants.practical(mdp, N, **schedule)
    options = Options(reuse="kappa", estimator="sum", roll_in="law")
    trace = run(algorithm, mdp, c, seed, options, epoch=10)
    return {"algorithm": algorithm, "target": target, "seed": seed, **schedule, **summary(trace)}


def slope(rows: list[dict], x: str) -> float:
    points = sorted({r["target"] for r in rows})
    mean = [
        [np.mean([r[name] for r in rows if r["target"] == t]) for t in points]
        for name in (x, "env_steps")
    ]
    return float(np.polyfit(np.log(1 / np.array(mean[0])), np.log(mean[1]), 1)[0])


def table(rows: list[dict]) -> str:
    """Means over seeds, as docs/theory.md has them."""
    lines = [
        f"| target ε | {' | '.join(map(str, TARGETS))} "
        "| slope against 1/ε | slope against 1/measured gap |",
        "|---" * (len(TARGETS) + 3) + "|",
    ]
    for name in ALGORITHMS:
        mine = [r for r in rows if r["algorithm"] == name]
        for what, key, form in (("steps", "env_steps", ".1e"), ("gap", GAP, ".2g")):
            means = [np.mean([r[key] for r in mine if r["target"] == t]) for t in TARGETS]
            slopes = [f"{slope(mine, x):.2f}" if what == "steps" else "" for x in ("target", GAP)]
            lines.append(
                " | ".join([f"| {name}, {what}", *(f"{m:{form}}" for m in means), *slopes]) + " |"
            )
    return "\n".join(lines)


def draw(rows: list[dict]) -> None:
    color = colors(list(ALGORITHMS))
    with panel(HERE, "exponents") as ax:
        for name in ALGORITHMS:
            mine = [r for r in rows if r["algorithm"] == name]
            gaps, steps = (np.array([r[k] for r in mine]) for k in (GAP, "env_steps"))
            label = f"{name}: slope {slope(mine, GAP):.2f}"
            ax.plot(1 / gaps, steps, "o", ms=4, color=color[name], label=label)
        ax.set(xscale="log", yscale="log", xlabel="V* / measured gap of the mixture",
               ylabel="environment steps", title="theorem's schedule on chain(3)")  # fmt: skip
        ax.set_xticks([3, 10, 30], ["3", "10", "30"])
        ax.set_xticks([], minor=True)
        legend(ax)


def main() -> None:
    HERE.mkdir(exist_ok=True)
    path = HERE / "exponents.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(r["algorithm"], r["target"], r["seed"]) for r in rows}
    for target in TARGETS:
        for algorithm in ALGORITHMS:
            for seed in SEEDS:
                if (algorithm, target, seed) not in done:
                    rows.append(work(algorithm, target, seed))
                    with path.open("a") as file:
                        file.write(json.dumps(rows[-1]) + "\n")
    report = {}
    for name in ALGORITHMS:
        mine = [r for r in rows if r["algorithm"] == name]
        report[name] = {
            "steps_against_target": round(slope(mine, "target"), 2),
            "steps_against_measured_gap": round(slope(mine, GAP), 2),
            "worst_gap_over_target": round(max(r[GAP] / r["target"] for r in mine), 3),
        }
    (HERE / "exponents.json").write_text(json.dumps(report, indent=1) + "\n")
    draw(rows)
    print(table(rows))
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
