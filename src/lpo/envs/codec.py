"""Environments: any supported space as a flat array, and back.

The engine sees flat Box observations and three kinds of action: a flat Box, a Discrete that starts
at 0, or a flat MultiDiscrete that starts at 0. A space without such a form is refused at start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import iterate

from lpo.envs.angles import Angles, turned, turned_space
from lpo.envs.faults import Misfit
from lpo.errors import LPOError
from lpo.types import FlatActions

LARGEST_GRID = 32 * 32  # cells; a larger image shows pixels


class Codec:
    """Translates one environment's observations and actions to flat arrays and back.

    ``observation_space`` and ``action_space`` are the flat spaces. ``angles`` are places of a flat
    observation that become (cos, sin).
    """

    def __init__(
        self,
        name: str,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        angles: Angles = (),
    ):
        flat = flat_observation_space(name, observation_space)
        self.angles = angles
        self.observation_space: spaces.Box = turned_space(name, flat, angles)
        self.action_space: FlatActions = flat_action_space(name, action_space)
        self.action_shape = self.action_space.shape or ()
        self._name = name
        self.raw_observation_space = observation_space
        self.raw_action_space = action_space
        self._is_box = isinstance(observation_space, spaces.Box)
        self._obs_shape = observation_space.shape if self._is_box else None
        self._size = flat.shape[0]
        self._action_shape = action_space.shape or ()
        self._action_dtype = action_space.dtype
        self._start = _start_of(action_space)
        self._limits = _limits_of(action_space)

    def observation(self, obs: Any) -> np.ndarray:
        """Returns one observation as a flat array; raises ``Misfit`` where it does not fit."""
        if self._is_box:
            array = obs if type(obs) is np.ndarray else np.asarray(obs)
            if array.shape != self._obs_shape:
                raise Misfit(
                    f"its observation has shape {array.shape} and its space {self._obs_shape}"
                )
            if array.dtype.kind not in "fiub":
                raise Misfit(f"its observation is of type {array.dtype}, which is no real number")
            return turned(array if array.ndim == 1 else array.reshape(-1), self.angles)
        flat = np.asarray(spaces.flatten(self.raw_observation_space, obs))
        if flat.shape != (self._size,):
            raise Misfit(
                f"its observation flattens to {flat.size} numbers and its space to {self._size}"
            )
        return turned(flat, self.angles)

    def observations(self, space: spaces.Space, obs: Any, num_envs: int) -> np.ndarray:
        """Returns a vector environment's batched observation as a new array [N, O]."""
        flat = np.empty((num_envs, *self.observation_space.shape), self.observation_space.dtype)
        if self._is_box:
            array = np.asarray(obs)
            if array.shape != (num_envs, *(self._obs_shape or ())):
                raise Misfit(
                    f"its observation has shape {array.shape} and its space "
                    f"{(num_envs, *(self._obs_shape or ()))}"
                )
            flat[:] = turned(array.reshape(num_envs, -1), self.angles)
            return flat
        for i, row in enumerate(iterate(space, obs)):
            flat[i] = self.observation(row)
        return flat

    def take(self, action: np.ndarray, num_envs: int) -> np.ndarray:
        """Returns a copy of a batch of flat actions in their own dtype; refuses a wrong shape."""
        expected = (num_envs, *self.action_shape)
        if np.shape(action) != expected:
            raise LPOError(
                f"{self._name} got actions of shape {np.shape(action)}; pass {expected}, "
                "one row per environment."
            )
        return np.array(action, dtype=self.action_space.dtype)

    def action(self, flat: np.ndarray) -> Any:
        """Returns one flat action, or a batch of them, in the form that the environment takes."""
        lead = flat.shape[: flat.ndim - len(self.action_shape)]
        shifted = flat if self._start is None else flat + self._start
        shaped = shifted.reshape(lead + self._action_shape)
        action = shaped.astype(self._action_dtype, copy=False)[()]
        return action if self._limits is None else np.clip(action, *self._limits)


def flat_observation_space(name: str, space: spaces.Space) -> spaces.Box:
    """Returns the flat Box of ``space``; raises with the name of the part that has none."""
    for part in leaves_of(space):
        if isinstance(part, spaces.Box) and part.dtype == np.uint8 and len(part.shape) >= 3:
            raise LPOError(
                f"{name} observes {part}, and pixels are not supported; wrap it in a "
                "gymnasium.ObservationWrapper that returns a vector of features (or in "
                "gymnasium.wrappers.FlattenObservation if the array is a small symbolic grid)."
            )
        kinds = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
        if not isinstance(part, kinds):
            raise LPOError(
                f"{name} observes {part}, which has no vector form; wrap it in a "
                "gymnasium.ObservationWrapper that returns a Box."
            )
    flat: Any = spaces.flatten_space(space)
    if flat.shape[0] == 0:
        raise LPOError(
            f"{name} observes {space}, which is empty; return at least one number from it."
        )
    dtype = np.result_type(flat.dtype, np.float32)
    return spaces.Box(flat.low.astype(dtype), flat.high.astype(dtype), dtype=dtype.type)


def is_grid(space: spaces.Space) -> bool:
    """Returns whether ``space`` holds codes or whole numbers alone, a small image among them."""
    names = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
    parts = list(leaves_of(space))
    codes = all(
        isinstance(part, names) or (isinstance(part, spaces.Box) and part.dtype.kind in "iub")
        for part in parts
    )
    images = [part.shape for part in parts if part.shape is not None and len(part.shape) > 1]
    return codes and any(np.prod(shape[:2]) <= LARGEST_GRID for shape in images)


def flat_action_space(name: str, space: spaces.Space) -> FlatActions:
    """Returns the flat form of a supported action space; raises for any other."""
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        if np.prod(space.shape) > 0:
            dtype: Any = space.dtype.type
            return spaces.Box(space.low.reshape(-1), space.high.reshape(-1), dtype=dtype)
    elif isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n))
    elif isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec.reshape(-1))
    elif isinstance(space, spaces.MultiBinary):
        return spaces.MultiDiscrete(np.full(int(np.prod(space.shape)), 2))
    raise LPOError(
        f"{name} acts in {space}, which is not supported; wrap it in a gymnasium.ActionWrapper "
        "whose space is a floating-point Box, Discrete, MultiDiscrete or MultiBinary."
    )


def leaves_of(space: spaces.Space) -> Iterator[spaces.Space]:
    """Yields the leaves of nested Dict and Tuple spaces."""
    if isinstance(space, spaces.Dict):
        for part in space.spaces.values():
            yield from leaves_of(part)
    elif isinstance(space, spaces.Tuple):
        for part in space.spaces:
            yield from leaves_of(part)
    else:
        yield space


def _limits_of(space: spaces.Space) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the bounds of a Box that float32 cannot hold: policies clip to the nearest it can."""
    if not isinstance(space, spaces.Box) or space.dtype != np.float64:
        return None
    exact = all(np.array_equal(x, x.astype(np.float32)) for x in (space.low, space.high))
    return None if exact else (space.low, space.high)


def _start_of(space: spaces.Space) -> np.ndarray | None:
    """Returns what to add to a flat action that counts from 0."""
    if isinstance(space, spaces.Discrete) and int(space.start) != 0:
        return np.asarray(space.start)
    if isinstance(space, spaces.MultiDiscrete) and np.any(space.start):
        return np.asarray(space.start).reshape(-1)
    return None
