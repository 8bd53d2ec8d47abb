"""What a run claims of its best policy, and how the default acts by its mode and sampled.

    python experiments/verdicts/ways.py runs/ways [TASK …]
    python experiments/verdicts/tables.py

Each task is one program of several seeds, which were used for nothing else. After the training the
best and the last policy of every run are loaded from its files, as `lpo eval` does it, and play new
episodes on the host. Each line of ``results/ways.jsonl`` is one run; those that are there are not
made again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lpo import config
from lpo.engine.evaluate import evaluate, score
from lpo.policy import Policy
from lpo.runs.directory import RunDirectory
from lpo.sweep.device import sweep_on_device
from lpo.sweep.grid import Grid, Item

OUT = Path(__file__).parent / "results" / "ways.jsonl"
FIRST_SEED = 700
AGAIN = 20_000  # seed of the episodes that are played again
LOCK, SEA = "lpo/CombinationLock-v0", "lpo/DeepSea-v0"
HOPPER, WALKER, CHEETAH = (f"lpo/Sparse{b}-v0" for b in ("Hopper", "Walker2d", "HalfCheetah"))


class Task(NamedTuple):
    env: str
    steps: int
    runs: int
    full: int  # steps of the confirmation, docs/results/default.md
    options: dict[str, Any] = {}  # noqa: RUF012 - never written to
    episodes: int = 200  # that are played again, for each policy and way
    evaluations: int = 10


TASKS = {
    "MountainCarContinuous": Task("MountainCarContinuous-v0", 150_000, 8, 300_000, evaluations=20),
    "SparseMountainCarContinuous": Task(
        "lpo/SparseMountainCarContinuous-v0", 150_000, 8, 300_000, evaluations=20
    ),
    "Acrobot": Task("Acrobot-v1", 150_000, 8, 300_000, evaluations=20),
    "SwingUp": Task("lpo/SwingUp-v0", 204_800, 4, 1_000_000, {}, 50),
    "PointMazeLarge": Task("lpo/PointMazeLarge-v0", 245_760, 4, 1_000_000, {}, 100),
    "SparseHopper (half)": Task(HOPPER, 163_840, 4, 2_000_000, {"threshold": "half"}, 50),
    "CombinationLock (length=15)": Task(
        LOCK, 245_760, 4, 1_000_000, {"env_kwargs": {"length": 15}}
    ),
    "SparseHalfCheetah (half)": Task(CHEETAH, 163_840, 4, 2_000_000, {"threshold": "half"}, 50),
    "SparseWalker2d (half)": Task(WALKER, 163_840, 4, 2_000_000, {"threshold": "half"}, 50),
    "DeepSea (size=30)": Task(SEA, 245_760, 4, 2_000_000, {"env_kwargs": {"size": 30}}),
    "SparseHalfCheetah (hard)": Task(CHEETAH, 163_840, 4, 2_000_000, {"threshold": "hard"}, 50),
    "SparseWalker2d (hard)": Task(WALKER, 163_840, 4, 2_000_000, {"threshold": "hard"}, 50),
}


def slug(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name).strip("-").lower()


def train(name: str, root: Path) -> list[Path]:
    """Trains the runs of a task, or goes on with them. Returns their directories."""
    task = TASKS[name]
    base = config.configure(
        None,
        env=task.env,
        steps=task.steps,
        eval_every=task.steps // task.evaluations,
        **task.options,
    )
    items = [
        Item(f"s{seed}", "default", config.with_options(base, {"seed": seed}))
        for seed in range(FIRST_SEED, FIRST_SEED + task.runs)
    ]
    folder = root / slug(name)
    if sweep_on_device(Grid(slug(name), items), folder, "cpu"):
        raise KeyboardInterrupt
    return [folder / item.name for item in items]


def played(policy: Policy, way: str, episodes: int) -> dict[str, float]:
    """Returns the means of new episodes, and the spread of a single one."""
    env = policy.config.task.make(episodes, flat=policy.config.network.flat)
    longest = policy.config.evaluation.max_steps
    found = evaluate(env, policy.actor, AGAIN, way == "mode", longest)
    scores = score("eval", found, env.description)
    env.close()
    kept = {k: scores[f"eval/{k}"] for k in ("return", "success") if f"eval/{k}" in scores}
    return kept | {"sd": float(np.std([e.ret for e in found], ddof=1)), "episodes": episodes}


def judge(name: str, run: Path) -> dict[str, Any]:
    """Returns what a run claims, and what its policies do in new episodes."""
    task, rows = TASKS[name], RunDirectory.open(run).metrics()
    end = rows[-1]
    best, last = Policy.load(run, "best"), Policy.load(run, "last")
    highest = max(row["eval/return"] for row in rows if "eval/return" in row)
    claim = {k: end[f"best/{k}"] for k in ("return", "success", "episodes") if f"best/{k}" in end}
    return {
        "task": name, "run": run.name, "steps": task.steps,
        "claim": claim | {"env_steps": end["best/env_steps"], "acts": best.way()},
        "highest": highest,  # evaluation by the mode
        "again": played(best, best.way(), task.episodes),
        "mode": played(last, "mode", task.episodes),
        "sampled": played(last, "sampled", task.episodes),
        "last_acts": last.way(), "max_return": best.task.get("max_return"),
    }  # fmt: skip


def lines_of(path: Path = OUT) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def make(root: Path, names: Sequence[str]) -> None:
    for name in TASKS:
        done = {row["run"] for row in lines_of() if row["task"] == name}
        if (names and slug(name) not in names) or len(done) == TASKS[name].runs:
            continue
        began = time.process_time()
        for run in train(name, root):
            if run.name not in done:
                with OUT.open("a") as file:
                    file.write(json.dumps(judge(name, run)) + "\n")
        print(f"{name}: {time.process_time() - began:.0f} CPU seconds", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Claims, and ways of acting")
    parser.add_argument("root", type=Path, help="where the runs go")
    parser.add_argument("tasks", nargs="*", help="such as swingup; all by default")
    given = parser.parse_args()
    make(given.root, given.tasks)


if __name__ == "__main__":
    main()
