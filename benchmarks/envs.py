"""How near the native batch is to raw physics, and how far from Gymnasium's vector environment.

    taskset -c 1 python benchmarks/envs.py

Four contestants take the same actions from the same resets, in turn, round after round:

- ``raw``        a loop over ``mj_step(model, data, frame_skip)`` on Gymnasium's model, nothing else
- ``raw lean``   the same loop on the lean model that the native batch steps
- ``native``     the whole step of the native batch: physics, rewards, observations, resets
- ``gymnasium``  the whole step of ``SyncVectorEnv``

Figures are medians over the rounds, in environment steps per second. The last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import gymnasium
import numpy as np
from checkout import commit
from gymnasium.vector import AutoresetMode

from lpo.envs import make_batch
from lpo.envs.host.native import NativeBatch
from lpo.envs.host.physics import load_physics, mj, without_profiling
from lpo.envs.specs import LOCOMOTION, SparseLocomotion


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--envs", type=int, default=8, help="environments in a batch")
    parser.add_argument("--steps", type=int, default=500, help="batch steps in a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1, help="threads of the native batch")
    options = parser.parse_args()
    print(f"commit {commit()}, mujoco {mj.__version__}, gymnasium {gymnasium.__version__}")
    print(f"{options.envs} environments, {options.threads} thread(s), {options.rounds} rounds")
    result = {}
    for task in LOCOMOTION.values():
        row = compare(task, options.envs, options.steps, options.rounds, options.threads)
        result[task.id] = row
        figures = ", ".join(f"{name} {value:,}" for name, value in row.items())
        print(f"{task.id}: {figures}")
    print(json.dumps(result))


def compare(task: SparseLocomotion, n: int, steps: int, rounds: int, threads: int):
    """Medians and ratios of one task."""
    batch = make_batch(task.id, n, threads=threads)
    assert isinstance(batch, NativeBatch)
    shape = (steps, n, *(batch.action_space.shape or ()))
    actions = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    resets = record_resets(batch, actions)
    with contextlib.closing(gymnasium.make(task.base_id)) as env:
        plain: Any = env.unwrapped
        raw = replayer(plain.model, task.frame_skip, actions, resets)
    lean = replayer(load_physics(task.xml).model, task.frame_skip, actions, resets)
    profiled = contextlib.nullcontext()  # the bindings' own clock, which a user's program has
    contestants: dict[str, tuple[AbstractContextManager[None], Callable[[], float]]] = {
        "raw": (profiled, raw),
        "raw_lean": (without_profiling, lean),
        "native": (profiled, lambda: run_native(batch, actions)),  # takes the clock out itself
        "gymnasium": (profiled, gymnasium_runner(task.id, actions)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, (clock, run) in contestants.items():
            with clock:
                seconds[name].append(run())
    batch.close()
    rate = {name: steps * n / statistics.median(times) for name, times in seconds.items()}
    row: dict[str, float] = {f"{name}_steps_per_s": round(value) for name, value in rate.items()}
    row["native_over_raw"] = round(rate["native"] / rate["raw"], 3)
    row["native_over_raw_lean"] = round(rate["native"] / rate["raw_lean"], 3)
    row["native_over_gymnasium"] = round(rate["native"] / rate["gymnasium"], 3)
    return row


def record_resets(batch: NativeBatch, actions: np.ndarray) -> list[dict[int, np.ndarray]]:
    """The physical states that episodes begin from, by batch step and environment."""
    batch.reset(0)
    resets = [dict(enumerate(batch.get_state()["physics"]))]
    for action in actions:
        step = batch.step(action)
        ended = np.flatnonzero(step.terminated | step.truncated)
        physics = batch.get_state()["physics"] if ended.size else None
        resets.append({int(i): physics[i] for i in ended} if physics is not None else {})
    return resets


def replayer(model: Any, frame_skip: int, actions: np.ndarray, resets: list) -> Callable:
    """A run of bare physics through the recorded episodes; only ``mj_step`` is timed."""
    datas = [mj.MjData(model) for _ in range(actions.shape[1])]
    full = mj.mjtState.mjSTATE_INTEGRATION

    def run() -> float:
        spent = 0.0
        for action, starts in zip(actions, resets[:-1], strict=True):
            for i, state in starts.items():
                mj.mj_setState(model, datas[i], state, full)
            for data, row in zip(datas, action, strict=True):
                data.ctrl[:] = row
            start = time.perf_counter()
            for data in datas:
                mj.mj_step(model, data, frame_skip)
            spent += time.perf_counter() - start
        return spent

    return run


def run_native(batch: NativeBatch, actions: np.ndarray) -> float:
    batch.reset(0)
    start = time.perf_counter()
    for action in actions:
        batch.step(action)
    return time.perf_counter() - start


def gymnasium_runner(env_id: str, actions: np.ndarray) -> Callable[[], float]:
    env = gymnasium.make_vec(
        env_id,
        actions.shape[1],
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
    )

    def run() -> float:
        env.reset(seed=0)
        start = time.perf_counter()
        for action in actions:
            env.step(action)
        return time.perf_counter() - start

    return run


if __name__ == "__main__":
    main()
