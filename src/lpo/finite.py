"""Finite tasks: DeepSea and the combination lock as tables, defined once.

The environments step these tables (``lpo.envs.tabular``), and the theory builds its transition
matrices from them (``lpo.theory.zoo``). This module is a leaf: it needs NumPy and the errors only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lpo.errors import LPOError


class Table(NamedTuple):
    """A finite MDP in which a pair leads to one of two states.

    An episode starts in state 0 and ends in the last state. Rewards lie in [0, 1].
    """

    successor: np.ndarray  # [S, A, 2]
    chance: np.ndarray  # [S, A] probability of the second successor
    reward: np.ndarray  # [S, A]
    horizon: int  # steps of every episode
    max_return: float
    success_return: float  # an episode has succeeded when its return is at least this

    def transitions(self) -> np.ndarray:
        """Returns P [S·A, S] with rows z = s·A + a; the last state is absorbing."""
        pairs = np.arange(self.reward.size)
        P = np.zeros((self.reward.size, len(self.reward)))
        for which, weight in ((0, 1.0 - self.chance), (1, self.chance)):
            np.add.at(P, (pairs, self.successor[..., which].ravel()), weight.ravel())
        return P


def deep_sea(size: int = 10, slip: float = 0.0, layout: int = 0) -> Table:
    """Returns DeepSea (Osband et al. 2019): size² cells; every step goes down, left or right.

    ``layout`` is the seed that decides which of the two actions goes right in each cell. The other
    action goes left and earns .01/size. (The usual task charges .01/size for going right; here all
    rewards are shifted into [0, 1].) With probability ``slip`` the agent goes left although it
    chose right. State = row·size + column; the last state is the end.

    Choosing right in the far corner earns 1. An agent comes there only if it always chooses right
    and never slips, and it earns nothing on the way. So the return is 1 with this reward and at
    most .01 without it.
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
    return Table(successor, chance, reward, size, max_return=1.0, success_return=0.99)


def combination_lock(length: int = 5, num_actions: int = 10, layout: int = 0) -> Table:
    """Returns the bidirectional lock of PC-PG (Agarwal et al. 2020) with antagonistic rewards.

    The first action chooses one of two locks. A lock has ``length`` levels of two good states and a
    dead one. In a good state one action leads on, to either good state of the next level. All other
    actions lead to the dead state, and from there to dead states only. The right action pays
    −1/length; on the last level it also opens the lock, which pays 5 for the first lock and 2 for
    the second. All rewards are then shifted by 1/length and divided by 5, which keeps the order of
    the policies. State 0 is the first, the last state is the end, and the others are
    1 + 3·(side·length + level) + kind.

    An episode that opens the first lock returns 1 + .2/length, any other at most .4 + .2/length.
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
    largest = 1.0 + 0.2 / length
    return Table(successor, chance, reward, length + 1, largest, success_return=1.0)


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise LPOError(f"{name} is {value!r}; pass a whole number of at least {least}.")
    return int(value)
