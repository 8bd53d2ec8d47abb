"""The search for the default: random options on development tasks, many in one program.

    python experiments/default/search.py first build/search      # a grid for each task
    lpo sweep build/search/maze.toml --device gpu --out runs/search/maze
    python experiments/default/search.py scores runs/search/* > scores.jsonl
    python experiments/default/search.py second scores.jsonl build/second   # the best 64 draws
    python experiments/default/search.py third build/third       # eight settings, 32 seeds
    python experiments/default/search.py fourth build/fourth     # two more, 16 seeds
    python experiments/default/search.py pack first=scores.jsonl second=… third=… fourth=…
    python experiments/default/search.py table                   # the tables of docs/origin.md

Every task gets the same draws, so that a draw has a score on each of them. A score is the mean of
the last five evaluations, over the largest return. The second round has the draws with the largest
mean score, with more seeds. The third and the fourth have settings between the best draws, on new
seeds.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

PACKED = Path(__file__).parent / "results" / "search.parquet"
DRAWS, SEED = 256, 14
LOOKED_AT: dict[str, Callable[[dict[str, float]], float]] = {
    "size of the bonus, in units of the reward": lambda d: d["beta"] * d["weighing_floor"],
    "what is left of it once reward is earned": lambda d: round(d["beta_earned"] / d["beta"], 2),
    "discount of the bonus": lambda d: d["gamma_int"],
    "advantage floor": lambda d: d["advantage_floor"],
    "learning rate": lambda d: d["learning_rate"],
    "learning rate of the predictor": lambda d: d["predictor_learning_rate"],
    "share m′": lambda d: d["earned_share"],
    "entropy": lambda d: d["entropy_coef"],
    "clip": lambda d: d["clip"],
}
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
FOURTH = {"lock": TASKS["lock"] | {"seeds": list(range(50, 66))}}
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
STRONG_LONG = NAMED["fixed-strong"] | {"gamma_int": 0.997}
LAST: dict[str, dict[str, float]] = {
    "strong-long": STRONG_LONG,  # the default since
    "strong-long-quick": STRONG_LONG | {"predictor_learning_rate": 1e-3},
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


def grid_text(top: dict[str, Any], options: dict[str, Any], rows: dict[str, dict[str, Any]]) -> str:
    """Returns a grid with these rows as TOML."""
    lines = [f"{k} = {toml(v)}" for k, v in top.items()]
    lines += ["", "[overrides]", *(f"{k} = {toml(v)}" for k, v in options.items())]
    for label, changes in rows.items():
        lines += ["", f"[variants.{label}]", *(f"{k} = {toml(v)}" for k, v in changes.items())]
    return "\n".join(lines) + "\n"


def write_grids(out: Path, texts: dict[str, str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (out / f"{name}.toml").write_text(text)


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


def pack(files: Iterable[str], out: Path = PACKED) -> None:
    """Writes one row for each run: its score, its best evaluation and its first reward."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = []
    for file in files:
        turn, _, path = file.partition("=")
        for line in Path(path).read_text().splitlines():
            run = json.loads(line)
            task, _, name = run["run"].partition("/")
            label, seed = re.sub("-[A-Z].*", "", name), name.rpartition("-s")[2]
            values = [score for _, score in run["evals"]]
            rows.append({
                "round": turn, "task": task, "options": label,
                "seed": int(seed), "score": round(statistics.mean(values[-5:]), 4),
                "best": max(values), "met": run["met"],
            })  # fmt: skip
    out.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), out, compression="zstd")


def table() -> str:
    """Returns the mean scores by option of the draws, and the scores of the named settings."""
    import pyarrow.parquet as pq

    rows = pq.read_table(PACKED).to_pylist()
    drawn = [row for row in rows if row["round"] in ("first", "second")]
    return by_option(drawn) + "\n\n" + by_setting([row for row in rows if row not in drawn])


def by_option(rows: list[dict[str, Any]]) -> str:
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    lines = [f"| option | values | {' | '.join(tasks)} |", "|---|---|" + "---|" * len(tasks)]
    for name, of in LOOKED_AT.items():
        value = {label: of(options) for label, options in draws().items()}
        found = ranges(sorted(value.values()))
        cells = [", ".join(text for text, _, _ in found)]
        for task in tasks:
            own = [(value[row["options"]], row["score"]) for row in rows if row["task"] == task]
            means = ([s for v, s in own if low <= v <= high] for _, low, high in found)
            cells.append(", ".join(f"{statistics.mean(x):.2f}" if x else "–" for x in means))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ranges(values: list[float]) -> list[tuple[str, float, float]]:
    """Returns the values where they are few, and thirds of them otherwise."""
    levels = sorted(set(values))
    if len(levels) < 6:
        return [(f"{x:g}", x, x) for x in levels]
    edges = [values[0], *statistics.quantiles(values, n=3), values[-1]]
    return [(f"{low:.2g} – {high:.2g}", low, high) for low, high in itertools.pairwise(edges)]


def by_setting(rows: list[dict[str, Any]]) -> str:
    import numpy as np

    from lpo.report.stats import estimate, iqm

    tasks = list(dict.fromkeys(row["task"] for row in rows))
    lines = [f"| setting | {' | '.join(tasks)} |", "|---|" + "---|" * len(tasks)]
    for label in dict.fromkeys(row["options"] for row in rows):
        cells = []
        for task in tasks:
            x = np.array([r["score"] for r in rows if (r["task"], r["options"]) == (task, label)])
            e = estimate(iqm, [x]) if x.size else None
            half = f"{(x > 0.5).sum()} of {x.size}"
            cells.append(f"{e.value:.2f} [{e.low:.2f}, {e.high:.2f}], {half}" if e else "–")
        lines.append(f"| `{label}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    what, *rest = sys.argv[1:]
    if what == "scores":
        for folder in rest:
            for row in scores(Path(folder)):
                print(json.dumps(row))
        return
    if what in ("pack", "table"):
        pack(rest) if what == "pack" else print(table())
        return
    out = Path(rest[-1])
    if what == "first":
        tasks, variants = TASKS, draws()
    elif what == "second":
        rows = map(json.loads, Path(rest[0]).read_text().splitlines())
        tasks, variants = SECOND, best(rows)
    elif what == "third":
        tasks, variants = THIRD, NAMED
    else:
        tasks, variants = FOURTH, LAST
    out.mkdir(parents=True, exist_ok=True)
    for name, task in tasks.items():
        (out / f"{name}.toml").write_text(grid(name, task, variants))


if __name__ == "__main__":
    main()
