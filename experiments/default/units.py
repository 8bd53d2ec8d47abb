"""The default where a success pays another amount than 1.

    python experiments/default/units.py build/units
    export PYTHONPATH=experiments/default
    lpo sweep build/units/pays-0.1.toml --import units --out runs/units/0.1

`default` is not told what a success pays. `told` has α = 1/R and `earned_reward` = R. The task is
the point maze; it says nothing of its largest return, as a task of somebody else.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.wrappers import TransformReward

from lpo.envs.specs import MAZE

PAYS = (0.1, 100.0)
SEEDS, STEPS = list(range(600, 608)), 200_000


def task(pays: float) -> str:
    return f"units/PointMaze{pays:g}-v0"


def make(pays: float, **kwargs: Any) -> gymnasium.Env:
    return TransformReward(gymnasium.make(MAZE.id, **kwargs), lambda reward: pays * float(reward))


def grid(pays: float) -> str:
    """Returns the grid of both rows as TOML."""
    from grids import grid_text

    told = {"algo": "lpo-w", "alpha": 1 / pays, "earned_reward": pays}
    top = {"name": f"units-{pays:g}", "envs": [task(pays)], "seeds": SEEDS, "steps": STEPS}
    rows = {"default": {"algo": "lpo-w"}, "told": told}
    return grid_text(top, {"eval_every": STEPS // 20}, rows)


for _pays in PAYS:
    gymnasium.register(task(_pays), make, kwargs={"pays": _pays}, reward_threshold=_pays)

if __name__ == "__main__":
    from grids import write_grids

    write_grids(Path(sys.argv[1]), {f"pays-{pays:g}": grid(pays) for pays in PAYS})
