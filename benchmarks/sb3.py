"""What share of SB3's own time the bonus takes.

    OMP_NUM_THREADS=1 python benchmarks/sb3.py [vectors|memory|images]

``vectors``: PPO with SB3's defaults on SparseHopper, on one environment and on eight. ``memory``:
the same with RecurrentPPO. ``images``: PPO with 84 × 84 × 4 bytes, the sizes of the zoo for Atari.
All arms run in turns, a rollout each, and CPU seconds of the process are counted. The first rollout
of each is left out: it compiles. Printed: seconds with ``Explore`` over seconds without, less 1.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import lpo  # noqa: F401 - registers SparseHopper
from lpo.sb3 import Explore

torch.set_num_threads(1)
HOPPER = "lpo/SparseHopper-v0"


class Frames(gymnasium.Env):
    """84 × 84 × 4 bytes that cost nothing to make, and no reward."""

    observation_space = spaces.Box(0, 255, (84, 84, 4), np.uint8)
    action_space = spaces.Discrete(6)

    def __init__(self) -> None:
        self.pool = np.random.default_rng(0).integers(0, 255, (16, 84, 84, 4)).astype(np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.pool[0], {}

    def step(self, action):
        self.t += 1
        return self.pool[self.t % 16], 0.0, False, self.t >= 100, {}


def vectors(num_envs: int) -> Any:
    vec = make_vec_env(HOPPER, n_envs=num_envs, seed=0)
    return PPO("MlpPolicy", vec, n_steps=2048 // num_envs, seed=0, device="cpu")


def memory(num_envs: int) -> Any:
    from sb3_contrib import RecurrentPPO

    vec = make_vec_env(HOPPER, n_envs=num_envs, seed=0)
    return RecurrentPPO("MlpLstmPolicy", vec, n_steps=1024 // num_envs, seed=0, device="cpu")


def images(num_envs: int) -> Any:
    sizes: Any = {"n_steps": 1024 // num_envs, "batch_size": 256, "n_epochs": 4}
    return PPO("CnnPolicy", make_vec_env(Frames, n_envs=num_envs), seed=0, device="cpu", **sizes)


Made = tuple[Callable[[int], Any], tuple[int, ...], list[dict[str, Any]]]
TASKS: dict[str, Made] = {  # what makes a model, numbers of environments, options of Explore
    "vectors": (vectors, (1, 8), [{}]),
    "memory": (memory, (8,), [{}]),
    "images": (images, (8,), [{}, {"epochs": 4, "batch_size": 256}]),
}


class Arm:
    """A model that learns a rollout at a time."""

    def __init__(self, model: Any, callback: Any):
        self.model, self.callback = model, callback
        self.seconds: list[float] = []

    def turn(self) -> None:
        began = time.process_time()
        steps = self.model.n_steps * self.model.n_envs
        self.model.learn(steps, callback=self.callback, reset_num_timesteps=False)
        self.seconds.append(time.process_time() - began)

    @property
    def median(self) -> float:
        return float(np.median(self.seconds[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", nargs="?", choices=TASKS, default="vectors")
    parser.add_argument("--turns", type=int, default=12)
    given = parser.parse_args()
    make, numbers, choices = TASKS[given.task]
    print(
        "| environments | Explore | CPU seconds a rollout, alone | with it | share of the bonus |"
    )
    print("|---|---|---|---|---|")
    for num_envs in numbers:
        arms = [Arm(make(num_envs), x) for x in (None, *(Explore(**k) for k in choices))]
        for _ in range(given.turns + 1):
            for arm in arms:
                arm.turn()
        alone = arms[0].median
        for options, arm in zip(choices, arms[1:], strict=True):
            said, share = ", ".join(f"{k}={v}" for k, v in options.items()), arm.median / alone - 1
            print(f"| {num_envs} | {said} | {alone:.2f} | {arm.median:.2f} | {share:.0%} |")


if __name__ == "__main__":
    main()
