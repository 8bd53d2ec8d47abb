"""Policy switches against N, lazy and never lazy, on DeepSea(8) and a 20-dimensional linear MDP.

    python experiments/theory/switches.py      # resumes; writes results/switches.{jsonl,json,png}

One run of N = 10⁶ with the exact critic gives the whole curve, because S-Sampling's factor is held
fixed; a second family lets the factor grow as ln N, as Alg. 2 writes it, with a run for each N.
The never-lazy variant is run for N = 100, 1000 and 3000 and is N by construction.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from lpo.report.theory import fits, switches_against_n
from lpo.theory import zoo
from lpo.theory.algorithms import Options
from lpo.theory.constants import Constants
from lpo.theory.runner import run

HERE = Path(__file__).parent / "results"
GRID = [1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
SEEDS = range(5)
MDPS = [("deepsea", 8), ("linear", 20)]


def jobs():
    for name, size in MDPS:
        for seed in SEEDS:
            yield {"mdp": name, "size": size, "kind": "lazy", "N": GRID[-1], "seed": seed}
        for N in (100, 1000, 3000):
            yield {"mdp": name, "size": size, "kind": "always", "N": N, "seed": 0}
        for N in GRID:
            for seed in range(2):
                yield {"mdp": name, "size": size, "kind": "lazy-lnN", "N": N, "seed": seed}


def work(job: dict) -> dict:
    mdp = zoo.make(job["mdp"], job["size"])
    factor = np.log(job["N"]) / np.log(1000) if job["kind"] == "lazy-lnN" else 1.0
    c = Constants.practical(mdp, job["N"], factor=float(factor))
    algorithm = "lpo-always" if job["kind"] == "always" else "lpo"
    trace = run(algorithm, mdp, c, job["seed"], Options(critic="exact", roll_in="law"))
    at = {str(n): int(np.searchsorted(trace.iteration[1:], n)) for n in GRID if n <= job["N"]}
    return {**job, "switches": trace.switches, "switches_at": at, "copies": trace.copies,
            "distinct": trace.distinct, "additions": trace.additions, "seconds": trace.seconds,
            "relative_gap_last": trace.gap_last[-1] / mdp.optimal_value}  # fmt: skip


def gather(rows: list[dict]) -> tuple[dict, dict]:
    """One MDP's curve for the figure and its figures for the page."""
    kinds = {
        kind: [r for r in rows if r["kind"] == kind] for kind in ("lazy", "always", "lazy-lnN")
    }
    n = np.array(GRID, float)
    lazy = np.array([[r["switches_at"][str(N)] for N in GRID] for r in kinds["lazy"]])
    grow = [float(np.mean([r["switches"] for r in kinds["lazy-lnN"] if r["N"] == N])) for N in GRID]
    always = [(r["N"], r["switches"]) for r in kinds["always"]]
    curve = {"n": n, "lazy": lazy.mean(0), "low": lazy.min(0), "high": lazy.max(0)}
    curve |= {"always_n": [a for a, _ in always], "always": [s for _, s in always]}
    return curve, {
        "N": GRID,
        "lazy_mean": lazy.mean(0).tolist(),
        "lazy_over_ln2_N": (lazy.mean(0) / np.log(n) ** 2).round(3).tolist(),
        "fits_a_b_r2": fits(n, lazy.mean(0)),
        "factor_ln_N_mean": grow,
        "factor_ln_N_over_ln2_N": (np.array(grow) / np.log(n) ** 2).round(3).tolist(),
        "never_lazy": always,
    }


def main() -> None:
    HERE.mkdir(exist_ok=True)
    path = HERE / "switches.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for job in jobs():
        if not any(all(row[k] == v for k, v in job.items()) for row in rows):
            rows.append(work(job))
            with path.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    curves, report = {}, {}
    for name, size in MDPS:
        mine = [r for r in rows if (r["mdp"], r["size"]) == (name, size)]
        curves[f"{name}({size})"], report[f"{name}({size})"] = gather(mine)
    switches_against_n(curves, HERE)
    (HERE / "switches.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
