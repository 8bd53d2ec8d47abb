"""The grids of a search at `hard`: which options earn a reward that one step in a thousand pays?

    python experiments/default/hard.py grids build/hard
    lpo sweep build/hard/cheetah.toml --device gpu --out runs/hard-search/cheetah
    python experiments/default/hard.py table experiments/default/results/hard-search.parquet

Random draws around the default, so that each value of an option is met with many values of the
others. `large` has the same draws with larger rollouts and minibatches.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
from search import grid_text, write_grids
from table import score

from lpo.report.runs import Runs
from lpo.report.tables import short_task

SEED, DRAWS, SEEDS, STEPS = 0, 48, [600, 601], 5_000_000
CHOICES: dict[str, list[float]] = {
    "learning_rate": [1e-4, 3e-4],
    "gamma_ext": [0.97, 0.98, 0.99],
    "gae_lambda": [0.9, 0.95],
    "advantage_floor": [0.015, 0.05, 0.15],
    "entropy_coef": [0.0, 0.001, 0.003],
    "clip": [0.1, 0.2],
    "beta_earned": [0.0, 0.002, 0.01],
}
SIZES: dict[str, dict[str, Any]] = {
    "": {},
    "-large": {"rollout": 16_384, "batch_size": 256, "num_envs": 32},
}
TASKS = {"cheetah": "lpo/SparseHalfCheetah-v0", "walker": "lpo/SparseWalker2d-v0"}


def draws() -> dict[str, dict[str, float]]:
    """Returns the options of each draw; every value of an option has the same number of draws."""
    rng, columns = random.Random(SEED), {}
    for name, values in CHOICES.items():
        columns[name] = values * (DRAWS // len(values))
        rng.shuffle(columns[name])
    return {f"h{i:02d}": {n: c[i] for n, c in columns.items()} for i in range(DRAWS)}


def grid(name: str, env: str, sizes: dict[str, Any]) -> str:
    """Returns the grid of a task as TOML."""
    top = {"name": f"hard-{name}", "envs": [env], "thresholds": ["hard"], "seeds": SEEDS}
    options = {"eval_every": STEPS // 20} | sizes
    rows = {label: {"algo": "lpo-w", **row} for label, row in draws().items()}
    return grid_text(top | {"steps": STEPS}, options, rows)


def table(paths: list[Path]) -> str:
    """Returns the mean score of every value of every option, and the score of the best run."""
    cells: dict[str, list[tuple[dict[str, Any], float]]] = {}
    for run in Runs(paths).runs:
        name = f"{short_task(run.task)}, N = {run.options['rollout']:,}"
        cells.setdefault(name, []).append((run.options, score(run)))
    lines = [f"| option | values | {' | '.join(cells)} |", "|---|---|" + "---|" * len(cells)]
    for name, values in CHOICES.items():
        texts = []
        for cell in cells.values():
            means = [np.mean([s for options, s in cell if options[name] == v]) for v in values]
            texts.append(", ".join(f"{mean:.3f}" for mean in means))
        lines.append(f"| `{name}` | {', '.join(map(str, values))} | {' | '.join(texts)} |")
    texts = [f"{max(s for _, s in cell):.3f}" for cell in cells.values()]
    lines.append(f"| the best run | | {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "grids":
        grids = {t + s: grid(t + s, TASKS[t], SIZES[s]) for t in TASKS for s in SIZES}
        write_grids(Path(rest[0]), grids)
    else:
        print(table([Path(path) for path in rest]), end="")
