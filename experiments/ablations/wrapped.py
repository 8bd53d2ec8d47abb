"""SparseHalfCheetah whose body angle is seen modulo a turn: `wrapped:WrappedHalfCheetah-v0`.

MuJoCo's angle counts whole turns: one more than ever before is new to a policy and to a bonus.
Reward and physics are those of the task, threshold `half`.
"""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.wrappers import TransformObservation

from lpo.envs.sparse import make_locomotion
from lpo.envs.specs import LOCOMOTION

TASK = "lpo/SparseHalfCheetah-v0"
PITCH = 1  # of an observation


def wrap(observation: np.ndarray) -> np.ndarray:
    wrapped = observation.copy()
    wrapped[PITCH] = np.mod(observation[PITCH] + np.pi, 2 * np.pi) - np.pi
    return wrapped


def make(render_mode: str | None = None) -> gymnasium.Env:
    env = make_locomotion(TASK, preset="half", render_mode=render_mode)
    return TransformObservation(env, wrap, env.observation_space)


gymnasium.register(
    "WrappedHalfCheetah-v0",
    entry_point=f"{__name__}:make",
    max_episode_steps=LOCOMOTION[TASK].horizon,
)
