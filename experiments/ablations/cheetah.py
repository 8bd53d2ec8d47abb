"""SparseHalfCheetah at `half` with one thing changed.

`cheetah:WrappedHalfCheetah-v0` shows the body's angle modulo a turn. MuJoCo's counts whole turns,
so one more than ever before is new to a policy and to a bonus.

`cheetah:CountedHalfCheetah-v0` shows it so and, last of all, as it was.

`cheetah:UprightHalfCheetah-v0` pays nothing to a body that has turned over. One that rolls is fast
enough for the reward on some of its steps.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.wrappers import TransformObservation

from lpo.envs.sparse import make_locomotion
from lpo.envs.specs import LOCOMOTION

TASK = "lpo/SparseHalfCheetah-v0"
PITCH = 1  # of an observation


def wrap(observation: np.ndarray) -> np.ndarray:
    wrapped = observation.copy()
    wrapped[PITCH] = np.mod(observation[PITCH] + np.pi, 2 * np.pi) - np.pi
    return wrapped


def count(observation: np.ndarray) -> np.ndarray:
    return np.append(wrap(observation), observation[PITCH])


class Upright(gymnasium.Wrapper):
    """No reward where the body is half a turn or more away from where it began."""

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward if abs(obs[PITCH]) < np.pi else 0.0, terminated, truncated, info


def make_wrapped(**options: Any) -> gymnasium.Env:
    env = make_locomotion(TASK, preset="half", **options)
    return TransformObservation(env, wrap, env.observation_space)


def make_counted(**options: Any) -> gymnasium.Env:
    env = make_locomotion(TASK, preset="half", **options)
    shape = (len(count(env.observation_space.sample())),)
    return TransformObservation(env, count, Box(-np.inf, np.inf, shape, np.float64))


def make_upright(**options: Any) -> gymnasium.Env:
    return Upright(make_locomotion(TASK, preset="half", **options))


MAKERS = {"Wrapped": make_wrapped, "Counted": make_counted, "Upright": make_upright}
for name, maker in MAKERS.items():
    gymnasium.register(f"{name}HalfCheetah-v0", maker, max_episode_steps=LOCOMOTION[TASK].horizon)
