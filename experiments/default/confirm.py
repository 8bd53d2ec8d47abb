"""The grids that confirm the default where the device has the task: 64 seeds that chose nothing.

    python experiments/default/confirm.py build/confirm
    lpo sweep build/confirm/maze.toml --device gpu --out runs/confirm/maze

Budgets were fixed before the first run of the default on any of these tasks.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from search import toml

SEEDS = list(range(100, 164))
ROWS = {"default": "lpo-w", "lpo": "lpo", "rnd": "rnd", "ppo": "ppo"}
FIGURE_1 = ROWS | {"eniac": "eniac", "lpo-s": "lpo-s"}
TASKS: dict[str, dict[str, Any]] = {
    "car": {"envs": ["MountainCarContinuous-v0"], "steps": 300_000},
    "sparse-car": {"envs": ["lpo/SparseMountainCarContinuous-v0"], "steps": 300_000},
    "maze": {"envs": ["lpo/PointMazeLarge-v0"], "steps": 1_000_000},
    "swing-up": {"envs": ["lpo/SwingUp-v0"], "steps": 1_000_000},
    "lock15": {
        "envs": ["lpo/CombinationLock-v0"], "steps": 1_000_000, "env_kwargs": {"length": 15},
    },
    "sea30": {"envs": ["lpo/DeepSea-v0"], "steps": 2_000_000, "env_kwargs": {"size": 30}},
    "hopper": {
        "envs": ["lpo/SparseHopper-v0"], "steps": 2_000_000, "thresholds": ["half"],
        "rows": FIGURE_1,
    },
    "walker": {
        "envs": ["lpo/SparseWalker2d-v0"], "steps": 2_000_000, "thresholds": ["half", "hard"],
        "rows": FIGURE_1,
    },
    "cheetah": {
        "envs": ["lpo/SparseHalfCheetah-v0"], "steps": 2_000_000, "thresholds": ["half", "hard"],
        "rows": FIGURE_1,
    },
}  # fmt: skip


def grid(name: str, task: dict[str, Any]) -> str:
    """Returns the grid of a task as TOML."""
    top = {"name": f"confirm-{name}", "seeds": SEEDS}
    top |= {key: task[key] for key in ("envs", "steps", "thresholds") if key in task}
    fixed = {"eval_every": task["steps"] // 20}
    fixed |= {key: task[key] for key in ("env_kwargs",) if key in task}
    lines = [f"{k} = {toml(v)}" for k, v in top.items()]
    lines += ["", "[overrides]", *(f"{k} = {toml(v)}" for k, v in fixed.items())]
    for label, algo in task.get("rows", ROWS).items():
        lines += ["", f"[variants.{label}]", f"algo = {toml(algo)}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, task in TASKS.items():
        (out / f"{name}.toml").write_text(grid(name, task))


if __name__ == "__main__":
    main()
