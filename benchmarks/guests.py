"""Images, memory, masks and grids beside SB3: steps per CPU second, both sides in turn.

    python benchmarks/guests.py images|memory|masks|grid|pool [--repeats 3]

The same environment, number of environments, rollout, minibatch, epochs and sizes of layers on both
sides; one thread each. ``grid`` is MiniGrid-DoorKey-8x8 with one-hot codes; ``pool`` is the same
grid, stepped by EnvPool on our side. It needs torch, stable-baselines3 and sb3-contrib. The last
line has the median ratio.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from lpo import Agent
from lpo.envs import minigrid

ENVS, ROLLOUT, BATCH, EPOCHS = 8, 1024, 256, 4


class Frames(gymnasium.Env):
    """84 × 84 × 4 bytes that cost nothing to make."""

    observation_space = spaces.Box(0, 255, (84, 84, 4), np.uint8)
    action_space = spaces.Discrete(6)

    def __init__(self) -> None:
        drawn = np.random.default_rng(0).integers(0, 255, (16, 84, 84, 4))
        self.pool = drawn.astype(np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.pool[0], {}

    def step(self, action):
        self.t += 1
        return self.pool[self.t % 16], float(action == self.t % 6), False, self.t >= 100, {}


class Vector(gymnasium.Env):
    """16 numbers; of 20 actions half are allowed."""

    observation_space = spaces.Box(-1.0, 1.0, (16,), np.float32)
    action_space = spaces.Discrete(20)

    def see(self) -> np.ndarray:
        self.open = self.np_random.random(20) < 0.5
        self.open[self.np_random.integers(20)] = True
        return self.np_random.uniform(-1, 1, 16).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.see(), {}

    def step(self, action):
        self.t += 1
        return self.see(), float(action == 0), False, self.t >= 100, {}


class Masked(Vector):
    def action_masks(self) -> np.ndarray:
        return self.open


GRID = "MiniGrid-DoorKey-8x8-v0"


def grid() -> gymnasium.Env:
    """Returns a grid of MiniGrid's as it is, with its codes as one-hot vectors."""
    minigrid.register(GRID)
    env = minigrid.with_codes(gymnasium.make(GRID, disable_env_checker=True))
    del env.unwrapped.gen_obs  # pyright: ignore[reportAttributeAccessIssue] - our faster view
    return gymnasium.wrappers.FlattenObservation(env)


class Pair(NamedTuple):
    env: Callable[[], gymnasium.Env]
    steps: int
    theirs: Callable[[Any, dict[str, Any]], Any]  # (vector environment, options) -> model
    ours: dict[str, Any]
    mine: Any = None  # the environment on our side, where it is another one


def sb3_images(env: Any, options: dict[str, Any]) -> Any:
    from stable_baselines3 import PPO  # pyright: ignore[reportMissingImports]

    sizes = {"features_extractor_kwargs": {"features_dim": 512}, "net_arch": [64]}
    return PPO("CnnPolicy", env, policy_kwargs=sizes, **options)


def sb3_memory(env: Any, options: dict[str, Any]) -> Any:
    from sb3_contrib import RecurrentPPO  # pyright: ignore[reportMissingImports]

    return RecurrentPPO("MlpLstmPolicy", env, policy_kwargs={"lstm_hidden_size": 128}, **options)


def sb3_plain(env: Any, options: dict[str, Any]) -> Any:
    from stable_baselines3 import PPO  # pyright: ignore[reportMissingImports]

    return PPO("MlpPolicy", env, **options)


def sb3_masks(env: Any, options: dict[str, Any]) -> Any:
    from sb3_contrib import MaskablePPO  # pyright: ignore[reportMissingImports]

    return MaskablePPO("MlpPolicy", env, **options)


PAIRS = {
    "images": Pair(Frames, 2048, sb3_images, {"image_features": 512, "hidden": [64]}),
    "memory": Pair(Vector, 8192, sb3_memory, {"network": "lstm", "memory_size": 128}),
    "masks": Pair(Masked, 16384, sb3_masks, {}),
    "grid": Pair(grid, 8192, sb3_plain, {"env_workers": 0}, GRID),
    "pool": Pair(grid, 8192, sb3_plain, {}, f"envpool:{GRID}"),
}


def seconds(call: Callable[[], Any]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def main() -> None:
    import torch  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.env_util import (  # pyright: ignore[reportMissingImports]
        make_vec_env,
    )

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser()
    parser.add_argument("pair", choices=PAIRS)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    pair = PAIRS[asked.pair]
    options = {"n_steps": ROLLOUT // ENVS, "batch_size": BATCH, "n_epochs": EPOCHS, "device": "cpu"}
    model = pair.theirs(make_vec_env(pair.env, ENVS), options)
    agent = Agent(
        pair.mine or pair.env, algo="ppo", num_envs=ENVS, rollout=ROLLOUT, batch_size=BATCH,
        epochs=EPOCHS, eval_every=0, **pair.ours,
    )  # fmt: skip
    agent.learn(ROLLOUT, progress_bar=False)  # compiles
    model.learn(ROLLOUT)
    ratios = []
    for _ in range(asked.repeats):
        theirs = seconds(lambda: model.learn(pair.steps, reset_num_timesteps=False))
        ours = seconds(lambda: agent.learn(pair.steps, progress_bar=False))
        ratios.append(theirs / ours)
        print(f"{pair.steps / theirs:.0f} beside {pair.steps / ours:.0f}, {ratios[-1]:.2f}×")
    print(f"{asked.pair}: median {np.median(ratios):.2f}×")


if __name__ == "__main__":
    main()
