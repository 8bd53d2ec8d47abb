"""lpo-s against lpo, eniac and ppo: return, policy switches and steps to the first success.

    python experiments/components/compare.py run --scale pilot      # resumable: finished runs stay
    python experiments/components/compare.py table

A run is a run directory under ``runs/components``; one that was interrupted is resumed from its
last checkpoint, one that is complete is skipped. ``table`` reads the directories only, prints
a Markdown table and says there which scale and how many seeds it saw.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from lpo import config

HERE = Path(__file__).parent
ALGOS = ("lpo-s", "lpo", "eniac", "ppo")
LOCK_ALGOS = ("pcpg", "eniac-original", *ALGOS)
TASKS: dict[str, dict[str, Any]] = {
    "SparseHopper": {"env": "lpo/SparseHopper-v0", "steps": 2_000_000, "threads": 1},
    "SparseWalker2d": {"env": "lpo/SparseWalker2d-v0", "steps": 2_000_000, "threads": 1},
    "SparseHalfCheetah": {"env": "lpo/SparseHalfCheetah-v0", "steps": 2_000_000, "threads": 1},
    "MountainCar": {"env": "lpo/SparseMountainCarContinuous-v0", "steps": 200_000},
    "DeepSea20": {"env": "lpo/DeepSea-v0", "env_kwargs": '{"size": 20}', "steps": 1_000_000},
}
PILOT: dict[str, dict[str, Any]] = {
    "SparseHopper": {**TASKS["SparseHopper"], "steps": 200_000},
    "DeepSea10": {"env": "lpo/DeepSea-v0", "env_kwargs": '{"size": 10}', "steps": 100_000},
}
LOCKS = {
    f"Lock{length}": {
        "env": "lpo/CombinationLock-v0",
        "env_kwargs": json.dumps({"length": length}),
        "steps": 1_000_000,
    }
    for length in (5, 10, 15)
}
# The first success is the first rollout whose episodes earn on average more than this share of what
# can be had; the lock's dead rows earn .19 to .23 of it and DeepSea's lefts .01.
HITS = {"lpo/DeepSea-v0": 0.05, "lpo/CombinationLock-v0": 0.3}
# Episodes of the lock have length + 1 steps and its rewards pull into the dead rows: larger steps,
# bonuses that end with the episode, and more weight on them; the same for every row with a bonus.
LOCK_OPTIONS = {"learning_rate": 1e-3}
LOCK_BONUS = {"intrinsic_episodic": True, "gamma_int": 0.99, "alpha": 1.0, "beta": 5.0}
LOCK_PILOT = {"Lock5": {**LOCKS["Lock5"], "steps": 200_000}}
SCALES = {  # tasks, algorithms, seeds
    "full": (TASKS, ALGOS, 5),
    "lock": (LOCKS, LOCK_ALGOS, 20),
    "pilot": (PILOT, ALGOS, 3),
    "lock-pilot": (LOCK_PILOT, LOCK_ALGOS, 2),
}


def configuration(algo: str, seed: int, options: dict[str, Any]) -> config.Config:
    c = replace(config.preset("paper", options["env"]), **options)
    if options["env"] == "lpo/CombinationLock-v0":
        c = replace(c, **LOCK_OPTIONS, **({} if algo == "ppo" else LOCK_BONUS))
    return replace(c, algo=algo, seed=seed, checkpoint_every=50_000, keep_checkpoints=1)


def run(scale: str, root: Path) -> None:
    """Every run of the scale that is not complete, seed by seed so that all rows grow alike."""
    from lpo.run import resume, start

    tasks, algos, seeds = SCALES[scale]
    for seed in range(seeds):
        for name, options in tasks.items():
            for algo in algos:
                out = root / scale / f"{name}-{algo}-s{seed}"
                c = configuration(algo, seed, options)
                fresh = not any((out / "checkpoints").glob("[0-9]*.json"))
                if complete(out, c.steps):
                    continue
                with start(c, unused(out)) if fresh else resume(out)[0] as job:
                    job.advance()
                print(f"{name} {algo} seed {seed}: {job.env_steps} steps", flush=True)


def complete(out: Path, steps: int) -> bool:
    file = out / "metrics.jsonl"
    rows = file.read_text().splitlines() if file.exists() else []
    return bool(rows) and json.loads(rows[-1])["env_steps"] >= steps


def unused(out: Path) -> Path:
    """``out``, cleared of a run that was stopped before its first checkpoint."""
    if out.exists():
        out.rename(out.with_name(f"{out.name}.stopped-{os.getpid()}"))
    return out


def read(directory: Path) -> dict[str, float]:
    """Final return, area under the curve, switches and steps to the first success of a run."""
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    evals = [row["eval/return"] for row in rows if "eval/return" in row]
    env = json.loads((directory / "config.json").read_text())["env"]
    hits = [row["env_steps"] for row in rows if row.get("rollout/success", 0) > HITS.get(env, 0.1)]
    return {
        "return": float(np.mean(evals[-3:])),
        "area": float(np.mean(evals)),
        "switches": rows[-1]["switch/count"],
        "first": hits[0] if hits else float("nan"),
    }


def interval(values: np.ndarray, draws: int = 10_000) -> tuple[float, float, float]:
    """Mean and a 95 % bootstrap interval over seeds."""
    rng = np.random.default_rng(0)
    means = rng.choice(values, (draws, len(values))).mean(1)
    return float(values.mean()), *np.quantile(means, [0.025, 0.975]).tolist()


def cell(values: list[float]) -> str:
    found = np.array([v for v in values if np.isfinite(v)])
    if len(found) == 0:
        return "never"
    mean, low, high = interval(found)
    missing = f", {len(values) - len(found)} never" if len(found) < len(values) else ""
    return f"{mean:.4g} [{low:.4g}, {high:.4g}]{missing}"


def table(scale: str, root: Path) -> str:
    """The Markdown table of the complete runs."""
    tasks, algos, seeds = SCALES[scale]
    lines = [
        f"### Scale `{scale}`",
        "",
        "| task | algorithm | seeds | final return | mean return | policy switches "
        "| steps to first success |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, options in tasks.items():
        for algo in algos:
            found = (root / scale / f"{name}-{algo}-s{seed}" for seed in range(seeds))
            done = [read(d) for d in found if complete(d, options["steps"])]
            if done:
                columns = ("return", "area", "switches", "first")
                cells = " | ".join(cell([row[c] for row in done]) for c in columns)
                lines.append(f"| {name} | {algo} | {len(done)}/{seeds} | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="lpo-s against its peers")
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--scale", choices=SCALES, default="pilot")
    parser.add_argument("--root", type=Path, default=Path("runs/components"))
    options = parser.parse_args()
    if options.what == "run":
        run(options.scale, options.root)
    print(table(options.scale, options.root))


if __name__ == "__main__":
    main()
