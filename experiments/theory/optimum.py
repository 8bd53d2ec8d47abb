"""Does LPO reach the optimum? Ten seeds a task, exact and sampled critic, both outputs reported.

    python experiments/theory/optimum.py                 # all rows, resumes where it stopped
    python experiments/theory/optimum.py --only sampled

A row succeeds when the last iterate's gap is at most 1 % (exact critic) or 2 % (sampled) of V*.
The thresholds, constants and seeds were written down before the first run.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from study import pack_lines, unpack_lines

from lpo.theory import zoo
from lpo.theory.algorithms import Critic, Options
from lpo.theory.constants import Constants
from lpo.theory.runner import run, summary

HERE = Path(__file__).parent / "results"
SEEDS = range(10)
FRESH = range(10, 20)  # for the rows added after the first table, see docs/theory.md
THRESHOLD = {"exact": 0.01, "sampled": 0.02}
Task = tuple[str, int, int, int]  # MDP, size, N, M
Tasks = dict[Critic, list[Task]]
TASKS: Tasks = {
    "exact": [
        ("deepsea", 8, 10_000, 1),
        ("deepsea", 10, 20_000, 1),
        ("riverswim", 6, 10_000, 1),
        ("lock", 5, 30_000, 1),
        ("lock", 10, 100_000, 1),
    ],
    "sampled": [
        ("deepsea", 8, 10_000, 1000),
        ("deepsea", 10, 20_000, 1000),
        ("riverswim", 6, 10_000, 1000),
        ("linear", 20, 10_000, 3000),
        ("lock", 5, 10_000, 3000),
    ],
}
# The first table missed one seed of RiverSwim, one of the linear MDP and two of the lock. The
# theorem's own M = N was then tried on seeds that had not been used.
SECOND: Tasks = {
    "sampled": [
        ("riverswim", 6, 10_000, 10_000),
        ("linear", 20, 10_000, 10_000),
        ("lock", 5, 10_000, 10_000),
    ]
}
# That mended RiverSwim and the linear MDP. On the lock all misses had seen 299 of the 300 reachable
# pairs: N was too small, not M. Twice the N, the first M, seeds unused so far:
THIRD: Tasks = {"sampled": [("lock", 5, 20_000, 3000)]}
# Patience (a switch only after 5 % more additions) is ours, not the paper's; same fresh seeds.
PATIENT: Tasks = {
    "sampled": [
        ("lock", 5, 50_000, 10_000),
        ("lock", 10, 200_000, 30_000),
        ("deepsea", 10, 20_000, 1000),
        ("deepsea", 20, 100_000, 10_000),
    ]
}
PLAN: list[tuple[Critic, Task, range, float]] = [
    (critic, task, seeds, patience)
    for table, seeds, patience in (
        (TASKS, SEEDS, 0),
        (SECOND, FRESH, 0),
        (PATIENT, FRESH, 0.05),
        (THIRD, range(20, 30), 0),
    )
    for critic, tasks in table.items()
    for task in tasks
]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=sorted(TASKS), default=None)
    only = parser.parse_args().only
    HERE.mkdir(exist_ok=True)
    path = HERE / "optimum.jsonl"
    unpack_lines(path)
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(*group_of(r), r["seed"]) for r in rows}
    for critic, (name, size, N, M), seeds, patience in PLAN:
        for seed in seeds if only in (None, critic) else []:
            task = f"{name}({size})"
            if (critic, task, N, M, patience, seed) in done:
                continue
            mdp = zoo.make(name, size)
            options = Options(critic=critic, roll_in="law", patience=patience)
            trace = run("lpo", mdp, Constants.practical(mdp, N, M=M), seed, options)
            row = {"critic": critic, "task": task, "seed": seed, "N": N, "M": M}
            row |= {"patience": patience, **summary(trace)}
            row["success"] = bool(row["relative_gap_last"] <= THRESHOLD[critic])
            rows.append(row)
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
    report(rows)
    pack_lines(path)


def group_of(row: dict) -> tuple:
    return row["critic"], row["task"], row["N"], row["M"], row.get("patience", 0)


def report(rows: list[dict]) -> None:
    print("| critic | task | N | M | solved | worst last gap | mixture gap | switches | steps |")
    print("|---|---|---|---|---|---|---|---|---|")
    for critic, task, N, M, patience in sorted({group_of(r) for r in rows}):
        group = [r for r in rows if group_of(r) == (critic, task, N, M, patience)]
        mean = {k: sum(r[k] for r in group) / len(group)
                for k in ("relative_gap_mixture", "switches", "env_steps")}  # fmt: skip
        label = f"{critic}, patience {patience}" if patience else critic
        trajectories = M if critic == "sampled" else "–"
        solved = sum(r["success"] for r in group)
        worst = max(r["relative_gap_last"] for r in group)
        print(
            f"| {label} | {task} | {N} | {trajectories} | {solved}/{len(group)} "
            f"| {worst:.4f} | {mean['relative_gap_mixture']:.3f} "
            f"| {mean['switches']:.0f} | {mean['env_steps']:.2g} |"
        )


if __name__ == "__main__":
    main()
