"""Is this commit as fast as another? Both train in one run, slice by slice in turn.

    git worktree add ../old b386400
    cd ../old && python3 -m venv .venv && .venv/bin/pip install . && cd -
    python benchmarks/commits.py --old ../old/.venv/bin/python

Each side is a process of its own on a core of its own; after half of the slices they change cores.
Prints the median of the slices' ratios of env steps/s, new over old, for each task.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from typing import Any

WORKER = """
import json, os, sys, time
from lpo import LPO
task, batch = sys.argv[1], int(sys.argv[2])
options = {"threads": 1} if task.startswith("lpo/Sparse") else {}
agent = LPO(task, num_envs=8, rollout=2048, batch_size=batch, eval_every=0,
            growth_iterations=100_000, **options)
agent.learn(3 * 2048)
for line in sys.stdin:
    core, steps = json.loads(line)
    os.sched_setaffinity(0, {core})
    before, began = agent.env_steps, time.perf_counter()
    agent.learn(steps)
    print(json.dumps((agent.env_steps - before) / (time.perf_counter() - began)), flush=True)
"""
TASKS = (("lpo/SparseHopper-v0", 32), ("lpo/SparseHalfCheetah-v0", 16), ("lpo/DeepSea-v0", 32))


def begin(python: str, task: str, batch: int) -> Any:
    flags = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(
        [python, "-c", WORKER, task, str(batch)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **flags, "OPENBLAS_NUM_THREADS": "1"},
    )


def ask(process: Any, core: int, steps: int) -> float:
    process.stdin.write(json.dumps([core, steps]) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def compare(old: str, task: str, batch: int, slices: int, steps: int) -> list[float]:
    """Returns new over old of each pair of slices; the core changes with every pair."""
    sides = [begin(python, task, batch) for python in (old, sys.executable)]
    cores = sorted(os.sched_getaffinity(0))
    ratios = []
    for i in range(slices):
        core = cores[i % len(cores)]
        order = (0, 1) if i % 4 < 2 else (1, 0)
        speed = {side: ask(sides[side], core, steps) for side in order}
        ratios.append(speed[1] / speed[0])
    for side in sides:
        side.stdin.close()
        side.wait()
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description="Is this commit as fast as another?")
    parser.add_argument("--old", required=True, help="python of the other checkout")
    parser.add_argument("--slices", type=int, default=24)
    parser.add_argument("--steps", type=int, default=4 * 2048)
    options = parser.parse_args()
    found = {}
    for task, batch in TASKS:
        ratios = compare(options.old, task, batch, options.slices, options.steps)
        found[task] = statistics.median(ratios)
        low, *_, high = statistics.quantiles(ratios, n=4)
        print(f"{task:28s} new/old {found[task]:.3f} (quartiles {low:.3f}, {high:.3f})", flush=True)
    print(json.dumps({"new_over_old": found}))


if __name__ == "__main__":
    main()
