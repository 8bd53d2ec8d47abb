"""Environments: DeepSea and the bidirectional combination lock, stepped from ``lpo.finite``.

Observations are one-hot states. An episode ends in the last state of its table.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from lpo.finite import Table, combination_lock, deep_sea


class TabularEnv(gymnasium.Env):
    """A ``Table`` as a Gymnasium environment."""

    def __init__(self, table: Table):
        self.table, self.state = table, 0
        self.num_states, num_actions = table.reward.shape
        self.max_return, self.horizon = table.max_return, table.horizon
        self.observation_space = spaces.Box(0.0, 1.0, (self.num_states,), np.float32)
        self.action_space = spaces.Discrete(num_actions)

    def _observe(self) -> np.ndarray:
        obs = np.zeros(self.num_states, np.float32)
        obs[self.state] = 1.0
        return obs

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.state = 0
        return self._observe(), {}

    def step(self, action):
        pair = self.state, int(action)
        reward = float(self.table.reward[pair])
        second = self.np_random.random() < self.table.chance[pair]
        self.state = int(self.table.successor[pair][int(second)])
        return self._observe(), reward, self.state == self.num_states - 1, False, {}


def make_deep_sea(size: int = 10, slip: float = 0.0, layout: int = 0) -> TabularEnv:
    return TabularEnv(deep_sea(size, slip, layout))


def make_combination_lock(length: int = 5, num_actions: int = 10, layout: int = 0) -> TabularEnv:
    return TabularEnv(combination_lock(length, num_actions, layout))


TABULAR = (
    {
        "id": "lpo/DeepSea-v0",
        "creator": "make_deep_sea",
        "reward": "1 for going right all the way to the far corner, 0.01/size for going left",
    },
    {
        "id": "lpo/CombinationLock-v0",
        "creator": "make_combination_lock",
        "reward": "1 for opening the better lock, 0.4 the other, 0.2/length for each other step",
    },
)
