"""An environment that takes 2 ms a step: one process, two workers, and SB3's SubprocVecEnv.

    python benchmarks/slow.py [--how busy|sleep] [--repeats 5]

Steps a second by the clock on the wall, since workers use several cores; the sides run in turn, and
the medians of their ratios are printed, with the load of the machine. ``busy`` computes for 2 ms,
as a simulator does; ``sleep`` waits, as a game of its own process does. PPO with the same rollout,
minibatch and epochs; 8 environments; SB3 starts a process for each of them.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

ENVS, ROLLOUT, BATCH, EPOCHS, STEP = 8, 1024, 256, 4, 0.002


class Slow(gymnasium.Env):
    """16 random numbers, 2 ms a step."""

    observation_space = spaces.Box(-1.0, 1.0, (16,), np.float32)
    action_space = spaces.Discrete(4)

    how = "busy"

    def see(self) -> np.ndarray:
        return self.np_random.uniform(-1, 1, 16).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.see(), {}

    def step(self, action):
        if self.how == "sleep":
            time.sleep(STEP)
        began = time.thread_time()
        while self.how == "busy" and time.thread_time() - began < STEP:
            pass
        self.t += 1
        return self.see(), float(action == 0), False, self.t >= 100, {}


class Sleepy(Slow):
    how = "sleep"


ENTRIES = {"busy": "slow:Busy-v0", "sleep": "slow:Sleepy-v0"}  # which workers import, too
if __name__ == "slow":
    gymnasium.register("Busy-v0", "slow:Slow")
    gymnasium.register("Sleepy-v0", "slow:Sleepy")


def ours(how: str, workers: int) -> Callable[[int], Any]:
    from lpo import Agent  # here: the processes of an environment need none of it

    agent = Agent(
        ENTRIES[how], algo="ppo", num_envs=ENVS, rollout=ROLLOUT, batch_size=BATCH,
        epochs=EPOCHS, eval_every=0, env_workers=workers,
    )  # fmt: skip
    return lambda steps: agent.learn(steps, progress_bar=False)


def theirs(how: str) -> Callable[[int], Any]:
    import torch  # pyright: ignore[reportMissingImports]
    from stable_baselines3 import PPO  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.vec_env import (  # pyright: ignore[reportMissingImports]
        SubprocVecEnv,
    )

    torch.set_num_threads(1)
    env = SubprocVecEnv([partial(gymnasium.make, ENTRIES[how])] * ENVS)
    model = PPO(
        "MlpPolicy", env, n_steps=ROLLOUT // ENVS, batch_size=BATCH, n_epochs=EPOCHS, device="cpu"
    )
    return lambda steps: model.learn(steps, reset_num_timesteps=False)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--how", choices=["busy", "sleep"], default="busy")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    sys.path[:] = [str(Path(__file__).parent), *sys.path]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    sides = {
        "one process": ours(asked.how, 0),
        "two workers": ours(asked.how, 2),
        "SubprocVecEnv": theirs(asked.how),
    }
    for learn in sides.values():
        learn(ROLLOUT)  # compiles
    rows = []
    for _ in range(asked.repeats):
        speed = {}
        for name, learn in sides.items():
            began = time.perf_counter()
            learn(ROLLOUT)
            speed[name] = ROLLOUT / (time.perf_counter() - began)
        rows.append(speed)
        said = ", ".join(f"{name} {x:.0f}" for name, x in speed.items())
        print(f"{said} steps/s; load {os.getloadavg()[0]:.1f}", flush=True)
    for other in ("one process", "SubprocVecEnv"):
        ratio = np.median([row["two workers"] / row[other] for row in rows])
        print(f"{asked.how}: two workers beside {other}: median {ratio:.2f}×")


if __name__ == "__main__":
    main()
