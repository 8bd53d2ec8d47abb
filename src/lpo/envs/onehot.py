"""Environments: batches of codes as one-hot rows, which ``gymnasium.spaces.flatten`` writes too,
but one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from lpo.envs.faults import Misfit


class OneHot:
    """Writes observations whose leaves are all Discrete or MultiDiscrete; leaf by leaf."""

    def __init__(self, leaves: Sequence[tuple[tuple[Any, ...], Any]]):
        self.keys = [keys for keys, _ in leaves]
        self.each = [np.asarray(sizes_of(space)).reshape(-1) for _, space in leaves]
        starts = [np.asarray(space.start, np.int64).reshape(-1) for _, space in leaves]
        self.sizes, self.starts = np.concatenate(self.each), np.concatenate(starts)
        self.first = np.cumsum(self.sizes) - self.sizes  # place of the first code of each number

    def rows(self, obs: Any, num_envs: int, dtype: np.dtype) -> np.ndarray:
        """Returns a batch of observations as rows; raises ``Misfit`` where they do not fit."""
        numbers = [self.leaf(i, obs, num_envs) for i in range(len(self.keys))]
        codes = np.concatenate(numbers, axis=1) - self.starts
        if (codes < 0).any() or (codes >= self.sizes).any():
            raise Misfit("its observation has a code that its space does not have")
        rows = np.zeros((num_envs, int(self.sizes.sum())), dtype)
        rows[np.arange(num_envs)[:, None], codes + self.first] = 1
        return rows

    def leaf(self, i: int, obs: Any, num_envs: int) -> np.ndarray:
        """Returns the numbers [N, …] of leaf ``i``."""
        for key in self.keys[i]:
            obs = obs[key]
        numbers = np.asarray(obs)
        if numbers.size != num_envs * len(self.each[i]) or numbers.dtype.kind not in "iub":
            raise Misfit(
                f"its observation has {numbers.dtype} of shape {numbers.shape}, and its space "
                f"{len(self.each[i])} codes in each of {num_envs} environments"
            )
        return numbers.reshape(num_envs, -1)


def sizes_of(space: Any) -> Any:
    """Returns how many codes each number of a space has."""
    return space.n if isinstance(space, spaces.Discrete) else space.nvec


def one_hot(leaves: Sequence[tuple[tuple[Any, ...], Any]]) -> OneHot | None:
    """Returns what writes these leaves; None where one of them holds no codes."""
    known = all(isinstance(space, spaces.Discrete | spaces.MultiDiscrete) for _, space in leaves)
    return OneHot(leaves) if known and leaves else None
