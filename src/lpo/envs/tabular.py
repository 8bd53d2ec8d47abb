"""Environments: DeepSea and the bidirectional combination lock, the finite MDPs of the theory.

Observations are one-hot states, rewards lie in [0, 1] as in ``lpo.theory`` (whose MDPs these are,
draw for draw), and an episode ends in the last state, which the theory makes absorbing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from lpo.errors import LPOError


class Table(NamedTuple):
    """A finite MDP in which a pair leads to one of two states; the last state ends an episode."""

    successor: np.ndarray  # [S, A, 2]
    chance: np.ndarray  # [S, A] probability of the second
    reward: np.ndarray  # [S, A]
    horizon: int  # steps of every episode
    max_return: float


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise LPOError(f"{name} is {value!r}; pass a whole number of at least {least}.")
    return int(value)


def deep_sea(size: int = 10, slip: float = 0.0, layout: int = 0) -> Table:
    """DeepSea (Osband et al. 2019): size² cells, one row deeper each step; only rights reach 1.

    ``layout`` seeds which of the two actions is "right" in a cell. Every move but a right earns
    .01/size (the usual cost of a right, shifted into [0, 1]); with ``slip`` a right turns into a
    left that often. State = row·size + column, and the end.
    """
    size, layout = _whole("size", size, 2), _whole("layout", layout, 0)
    if not 0 <= slip < 1:
        raise LPOError(f"slip is {slip!r}; pass a probability below 1.")
    end = size * size
    right = np.random.default_rng(layout).integers(0, 2, size=(size, size)).ravel()
    cell = np.arange(end)
    row, column = cell // size, cell % size
    below = np.where(row < size - 1, (row + 1) * size, end)
    to_left = np.where(row < size - 1, below + np.maximum(column - 1, 0), end)
    to_right = np.where(row < size - 1, below + np.minimum(column + 1, size - 1), end)
    successor = np.full((end + 1, 2, 2), end)
    chance, reward = np.zeros((end + 1, 2)), np.zeros((end + 1, 2))
    successor[cell, right] = np.stack([to_right, to_left], axis=-1)
    successor[cell, 1 - right] = to_left[:, None]
    chance[cell, right] = slip
    reward[cell, 1 - right] = 0.01 / size
    reward[end - 1, right[-1]] = 1.0
    return Table(successor, chance, reward, size, 1.0)


def combination_lock(length: int = 5, num_actions: int = 10, layout: int = 0) -> Table:
    """The bidirectional lock of PC-PG (Agarwal et al. 2020) with antagonistic rewards.

    The first action chooses one of two locks. A lock has ``length`` levels of two good states and a
    dead one; one action per good state goes on to either good state of the next level, the others
    fall into the dead row for good. Going on pays −1/length, opening the first lock 5 and the
    second 2; shifted by 1/length and divided by 5. State = 1 + 3·(side·length + level) + kind.
    """
    length, layout = _whole("length", length, 1), _whole("layout", layout, 0)
    num_actions = _whole("num_actions", num_actions, 2)
    end = 1 + 6 * length
    code = np.random.default_rng(layout).integers(0, num_actions, size=(2, length, 2))
    successor = np.full((end + 1, num_actions, 2), end)
    chance, raw = np.zeros((end + 1, num_actions)), np.zeros((end + 1, num_actions))
    half = (num_actions + 1) // 2
    successor[0, :half], successor[0, half:] = (1, 2), (1 + 3 * length, 2 + 3 * length)
    chance[0] = 0.5
    for side in range(2):
        for level in range(length):
            here, last = 1 + 3 * (side * length + level), level == length - 1
            successor[here : here + 3] = end if last else here + 5
            for kind in range(2):
                key = here + kind, code[side, level, kind]
                successor[key] = end if last else (here + 3, here + 4)
                chance[key] = 0.0 if last else 0.5
                raw[key] = -1.0 / length + ((5.0, 2.0)[side] if last else 0.0)
    reward = (raw + 1.0 / length) / 5.0
    return Table(successor, chance, reward, length + 1, 1.0 + 0.2 / length)


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
        "reward": "1 for going right all the way to the far corner, 0.01/size for a left",
    },
    {
        "id": "lpo/CombinationLock-v0",
        "creator": "make_combination_lock",
        "reward": "1 for opening the better lock, 0.4 the other, 0.2/length for a step off a lock",
    },
)
