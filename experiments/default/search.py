"""The search for the default: random options on development tasks, many in one program.

    python experiments/default/search.py first build/search      # a grid for each task
    lpo sweep build/search/maze.toml --device gpu --out runs/search/maze
    python experiments/default/search.py scores runs/search/* > scores.jsonl
    python experiments/default/search.py second scores.jsonl build/second   # the best 64 draws
    python experiments/default/search.py third build/third       # eight settings, 32 seeds

Every task gets the same draws, so that a draw has a score on each of them. A score is the mean of
the last five evaluations, over the largest return. The second round has the draws with the largest
mean score, with more seeds. The third has settings between the best draws, on new seeds.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DRAWS, SEED = 256, 14
TASKS: dict[str, dict[str, Any]] = {  # development tasks alone
    "maze": {"env": "lpo/PointMaze-v0", "steps": 300_000, "seeds": [0, 1, 2, 3]},
    "lock": {
        "env": "lpo/CombinationLock-v0", "steps": 300_000, "seeds": [0, 1, 2, 3],
        "env_kwargs": {"length": 10},
    },
    "sea": {
        "env": "lpo/DeepSea-v0", "steps": 300_000, "seeds": [0, 1, 2, 3],
        "env_kwargs": {"size": 10},
    },
}  # fmt: skip
SECOND: dict[str, dict[str, Any]] = {
    "cheetah": {
        "env": "lpo/SparseHalfCheetah-v0", "steps": 1_000_000, "seeds": list(range(8)),
        "threshold": "half",
    },
}  # fmt: skip
KEPT = 64  # draws of the second round
THIRD: dict[str, dict[str, Any]] = {
    "lock": TASKS["lock"] | {"seeds": list(range(10, 42))},
    "cheetah": SECOND["cheetah"] | {"steps": 800_000, "seeds": list(range(10, 42))},
}
MIDDLE: dict[str, float] = {  # what the good draws have in common
    "learning_rate": 3e-4, "beta": 0.25, "beta_earned": 0.025, "earned_share": 0.3,
    "weighing_floor": 0.5, "gamma_int": 0.99, "advantage_floor": 0.3, "entropy_coef": 0,
    "predictor_learning_rate": 3e-4, "clip": 0.2,
}  # fmt: skip
FIXED = {"alpha": 2e6, "weighing_floor": 1e6}  # a weight of 2 for the reward advantage, any size
NAMED: dict[str, dict[str, float]] = {
    "middle": MIDDLE,
    "middle-long": MIDDLE | {"gamma_int": 0.997},
    "fixed": MIDDLE | FIXED,
    "fixed-long": MIDDLE | FIXED | {"gamma_int": 0.997},
    "fixed-steady": MIDDLE | FIXED | {"beta_earned": 0.25},
    "fixed-strong": MIDDLE | FIXED | {"beta": 0.5, "beta_earned": 0.05},
    "fixed-soon": MIDDLE | FIXED | {"earned_share": 0.1},
    "fixed-fast": MIDDLE | FIXED | {"learning_rate": 5e-4},
}


def draw(rng: random.Random) -> dict[str, float]:
    """Returns the options of one draw; a bonus on s′, weighed by balanced-fading."""

    def log_uniform(low: float, high: float) -> float:
        return round(math.exp(rng.uniform(math.log(low), math.log(high))), 7)

    beta = log_uniform(0.03, 3)
    return {
        "learning_rate": log_uniform(1e-4, 1e-3),
        "beta": beta,
        "beta_earned": round(beta * rng.choice([0, 0.03, 0.1, 0.3, 1]), 7),
        "earned_share": rng.choice([0.1, 0.3, 0.5]),
        "weighing_floor": log_uniform(0.01, 1),
        "weighing_memory": rng.choice([5_000.0, 20_000.0, 100_000.0]),
        "gamma_int": rng.choice([0.95, 0.99, 0.997]),
        "advantage_floor": rng.choice([0, 0.03, 0.1, 0.3, 1]),
        "entropy_coef": rng.choice([0, 0.001, 0.01]),
        "predictor_learning_rate": rng.choice([1e-4, 3e-4, 1e-3]),
        "clip": rng.choice([0.1, 0.2]),
    }


def draws() -> dict[str, dict[str, float]]:
    rng = random.Random(SEED)
    return {f"d{i:03d}": draw(rng) for i in range(DRAWS)}


def grid(name: str, task: dict[str, Any], variants: dict[str, dict[str, float]]) -> str:
    """Returns the grid of a task as TOML."""
    fixed: dict[str, Any] = {
        "bonus_inputs": "next", "scale": "size", "weighing": "balanced-fading", "value_gain": 0.0,
        "alpha": 1.0, "rollout": 4096, "batch_size": 64, "num_envs": 8, "periodic": "auto",
        "eval_every": task["steps"] // 15,
    }  # fmt: skip
    fixed |= {key: task[key] for key in ("env_kwargs",) if key in task}
    top = {
        "name": f"search-{name}", "algos": ["eniac"], "envs": [task["env"]],
        "seeds": task["seeds"], "steps": task["steps"],
    }  # fmt: skip
    if "threshold" in task:
        top["thresholds"] = [task["threshold"]]
    lines = [f"{k} = {toml(v)}" for k, v in top.items()]
    lines += ["", "[overrides]", *(f"{k} = {toml(v)}" for k, v in fixed.items())]
    for label, options in variants.items():
        lines += ["", f"[variants.{label}]", *(f"{k} = {toml(v)}" for k, v in options.items())]
    return "\n".join(lines) + "\n"


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def scores(folder: Path) -> list[dict[str, Any]]:
    """Returns what each run of a sweep scored at its evaluations."""
    found = []
    for log in sorted(folder.glob("*/metrics.jsonl")):
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        key = "eval/normalized_return"
        evals = [(r["env_steps"], round(r.get(key, r["eval/return"]), 4))
                 for r in rows if "eval/return" in r]  # fmt: skip
        met = next((r["env_steps"] for r in rows if r["rollout/reward_rate"] > 0), None)
        rate = [round(r["rollout/reward_rate"], 4) for r in rows][:: max(1, len(rows) // 15)]
        found.append({"run": f"{folder.name}/{log.parent.name}", "evals": evals, "met": met,
                      "rate": rate})  # fmt: skip
    return found


def best(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Returns the draws with the largest mean score over the tasks."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        task, _, name = row["run"].partition("/")
        last = [score for _, score in row["evals"][-5:]]
        own = found.setdefault(name.split("-")[0], {})
        own.setdefault(task, []).append(statistics.mean(last))
    mean = {i: statistics.mean(map(statistics.mean, own.values())) for i, own in found.items()}
    kept = sorted(mean, key=lambda i: -mean[i])[:KEPT]
    return {name: options for name, options in draws().items() if name in kept}


def main() -> None:
    what, *rest = sys.argv[1:]
    if what == "scores":
        for folder in rest:
            for row in scores(Path(folder)):
                print(json.dumps(row))
        return
    out = Path(rest[-1])
    if what == "first":
        tasks, variants = TASKS, draws()
    elif what == "second":
        rows = map(json.loads, Path(rest[0]).read_text().splitlines())
        tasks, variants = SECOND, best(rows)
    else:
        tasks, variants = THIRD, NAMED
    out.mkdir(parents=True, exist_ok=True)
    for name, task in tasks.items():
        (out / f"{name}.toml").write_text(grid(name, task, variants))


if __name__ == "__main__":
    main()
