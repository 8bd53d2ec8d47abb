"""The grids of the second search for the default: how soon, and how far, the bonus fades.

    python experiments/default/fade.py build/fade
    lpo sweep build/fade/cheetah.toml --device gpu --out runs/fade/cheetah

Development tasks, with seeds that no other grid has on them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from confirm import ORIGINAL
from search import grid_text, write_grids


def fading(later: float, share: float, least: float = 0.5) -> dict[str, Any]:
    return {"beta_earned": later, "earned_share": share, "earned_least": least}


ROWS: dict[str, dict[str, Any]] = {
    "d": fading(0.025, 0.3, 0.0),
    "tiny": {"beta": 0.002, "beta_earned": 0.002},
    "zero": fading(0.0, 0.01),
    "ent": fading(0.002, 0.01) | {"entropy_coef": 0.001},
} | {
    f"b{str(later)[2:]}m{str(share)[2:]}": fading(later, share)
    for later in (0.002, 0.005, 0.025)
    for share in (0.003, 0.01, 0.03, 0.1)
}
# name: (task, steps, seeds), and further options of the grid
TASKS: dict[str, tuple[str, int, int, dict[str, Any]]] = {
    "cheetah": ("lpo/SparseHalfCheetah-v0", 1_000_000, 12, {"threshold": "half"}),
    "cheetah4": ("lpo/SparseHalfCheetah-v0", 2_500_000, 12, {"threshold": 4.0}),
    "hopper": ("lpo/SparseHopper-v0", 600_000, 12, {"threshold": "half"}),
    "lock": ("lpo/CombinationLock-v0", 300_000, 16, {"env_kwargs": {"length": 10}}),
    "maze": ("lpo/PointMaze-v0", 300_000, 16, {}),
    "sea": ("lpo/DeepSea-v0", 600_000, 12, {"env_kwargs": {"size": 20}}),
}


def grid(name: str) -> str:
    """Returns the grid of a task as TOML."""
    env, steps, seeds, options = TASKS[name]
    top: dict[str, Any] = {"name": f"fade-{name}", "envs": [env], "steps": steps}
    top["seeds"] = list(range(500, 500 + seeds))
    options = {"eval_every": steps // 10} | options
    if "threshold" in options:
        top["thresholds"] = [options.pop("threshold")]
    rows = {label: {"algo": "lpo-w", **ORIGINAL, **row} for label, row in ROWS.items()}
    return grid_text(top, options, rows)


if __name__ == "__main__":
    write_grids(Path(sys.argv[1]), {name: grid(name) for name in TASKS})
