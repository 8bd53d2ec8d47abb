"""One big run: env steps/s of whole training, and seconds until a task is solved.

    python benchmarks/device_big.py --task lpo/SparseHopper-v0 --solved 900

Solved means that an evaluation of the policy without noise returns at least ``--solved`` in the
mean; one follows whenever the training episodes do. The clock starts before the first compilation;
``solved_s`` leaves the compilation out, ``solved_with_compile_s`` does not. The preset ``gpu``
decides; each of ``--options`` is a JSON object of options to change. Ends with a JSON line each.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from checkout import commit

from lpo.config import configure
from lpo.engine.device import Program
from lpo.envs.device import make_device

TURNS = 4  # between two visits of the host


def measure(task: str, algo: str, solved: float | None, seconds: float, options: dict) -> dict:
    c = configure(algo, env=task, preset="gpu", **options)
    began = time.perf_counter()
    program = Program(c, make_device(c.task))
    group = program.init([c.seed], {})
    until = jnp.int32(2**31 - 1 - c.switch.rollout * 8)
    warm, _ = jax.block_until_ready(program.advance(group, {}, until, iterations=TURNS))
    jax.block_until_ready(program.evaluate(warm, {}))
    compiled = time.perf_counter() - began
    began, met, solved_s, log = time.perf_counter(), None, None, []
    while time.perf_counter() - began < seconds and solved_s is None:
        group, metrics = jax.block_until_ready(program.advance(group, {}, until, iterations=TURNS))
        now = time.perf_counter() - began
        metrics = {k: np.asarray(v)[:, 0] for k, v in metrics.items()}
        ret = float(np.nan_to_num(metrics["rollout/return"][-1]))
        log.append((round(now, 2), int(metrics["env_steps"][-1]), round(ret, 1)))
        if met is None and metrics["rollout/reward_rate"].max() > 0:
            met = now
        if solved is not None and ret >= 0.7 * solved:
            score = float(program.evaluate(group, {})["eval/return"][0])
            solved_s = time.perf_counter() - began if score >= solved else None
    now = time.perf_counter() - began
    stats = jax.devices()[0].memory_stats() or {}
    return {
        "task": task,
        "algo": algo,
        "options": options,
        "env_steps_per_s": log[-1][1] / log[-1][0],
        "env_steps": log[-1][1],
        "first_reward_s": met,
        "solved_s": solved_s,
        "solved_with_compile_s": None if solved_s is None else solved_s + compiled,
        "compile_s": compiled,
        "curve": log[:: max(1, len(log) // 12)],
        "peak_bytes": stats.get("peak_bytes_in_use"),
        "device": jax.devices()[0].device_kind,
        "commit": commit(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="One big run on a device")
    parser.add_argument("--task", default="lpo/SparseHopper-v0")
    parser.add_argument("--algo", default="lpo")
    parser.add_argument("--solved", type=float)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--options", type=json.loads, nargs="*", default=[{}])
    given: Any = parser.parse_args()
    for options in given.options:
        print(
            json.dumps(measure(given.task, given.algo, given.solved, given.seconds, options)),
            flush=True,
        )


if __name__ == "__main__":
    main()
