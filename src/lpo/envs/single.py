"""Environments: one Gymnasium environment with the engine's flat spaces, for rendering."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from lpo.envs.angles import Angles
from lpo.envs.codec import Codec


class FlatEnv(gymnasium.Wrapper):
    """An environment whose observations and actions are those of a ``BatchEnv`` row."""

    def __init__(self, env: gymnasium.Env, angles: Angles = (), flat: bool = True):
        super().__init__(env)
        name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        self._codec = Codec(name, env.observation_space, env.action_space, angles, flat)
        self.observation_space = self._codec.observation_space
        self.action_space = self._codec.action_space

    def _flat(self, obs: Any) -> Any:
        """Returns an observation as the engine has it: a vector, an image or a dict of arrays."""
        codec = self._codec
        row = codec.row(obs)
        return row if codec.spec.bare else {path: row[path] for path, _ in codec.spec.leaves}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        obs, info = self.env.reset(seed=seed, options=options)
        return self._flat(obs), info

    def step(self, action):
        flat = np.asarray(action, dtype=self.action_space.dtype)
        obs, reward, terminated, truncated, info = self.env.step(self._codec.action(flat))
        return self._flat(obs), reward, terminated, truncated, info
