"""What share of SB3's own time the bonus takes.

    OMP_NUM_THREADS=1 python benchmarks/sb3.py

PPO with SB3's defaults on one environment and on eight. Both arms run in turns, a rollout of one
and then a rollout of the other, and CPU seconds of the process are counted. The first rollout of
each is left out: it compiles. Printed: seconds with ``Explore`` over seconds without, less 1.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import lpo  # noqa: F401 - registers SparseHopper
from lpo.sb3 import Explore

torch.set_num_threads(1)


class Arm:
    """A model that learns a rollout at a time."""

    def __init__(self, env: str, num_envs: int, callback: Any):
        vec = make_vec_env(env, n_envs=num_envs, seed=0)
        steps = 2048 // num_envs
        self.model = PPO("MlpPolicy", vec, n_steps=steps, seed=0, device="cpu")
        self.callback = callback
        self.seconds: list[float] = []

    def turn(self) -> None:
        began = time.process_time()
        self.model.learn(2048, callback=self.callback, reset_num_timesteps=False)
        self.seconds.append(time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="lpo/SparseHopper-v0")
    parser.add_argument("--turns", type=int, default=12)
    given = parser.parse_args()
    print("| environments | CPU seconds a rollout, alone | with Explore | share of the bonus |")
    print("|---|---|---|---|")
    for num_envs in (1, 8):
        arms = [Arm(given.env, num_envs, x) for x in (None, Explore())]
        for _ in range(given.turns + 1):
            for arm in arms:
                arm.turn()
        alone, explore = (np.array(arm.seconds[1:]) for arm in arms)
        share = np.median(explore) / np.median(alone) - 1
        print(f"| {num_envs} | {np.median(alone):.2f} | {np.median(explore):.2f} | {share:.0%} |")


if __name__ == "__main__":
    main()
