"""Environments: observations of any space as vectors, for a bonus beside another trainer.

Vectors and codes stay as they are, choices become one-hot, and the parts of a Dict or Tuple stand
one after the other, as ``gymnasium.spaces.flatten`` has them. A picture becomes a small grey one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from lpo.envs import codec
from lpo.errors import LPOError

LARGEST_GRID = 32 * 32  # cells; a larger image is a picture
SIDE = 12  # rows and columns of a small picture


class Vectors(NamedTuple):
    """``read`` takes observations [T, N, …] of a space, and returns [T, N, ``size``]."""

    size: int
    read: Callable[[Any], np.ndarray]


def vectors(space: spaces.Space) -> Vectors:
    """Returns what reads observations of ``space``. Raises LPOError for a space of no numbers."""
    if isinstance(space, spaces.Dict):
        return _joined([(key, vectors(part)) for key, part in space.spaces.items()])
    if isinstance(space, spaces.Tuple):
        return _joined([(i, vectors(part)) for i, part in enumerate(space.spaces)])
    if isinstance(space, spaces.Discrete):
        names = np.eye(int(space.n), dtype=np.float32)
        start = int(space.start)
        return Vectors(len(names), lambda x: names[np.asarray(x).astype(int) - start])
    if isinstance(space, spaces.MultiDiscrete):
        return _choices(space)
    if not isinstance(space, spaces.Box | spaces.MultiBinary):
        raise LPOError(
            f"A bonus cannot read {space}; wrap the environment in a gymnasium.ObservationWrapper "
            "that returns numbers."
        )
    shape = space.shape
    if is_picture(space):
        return Vectors(SIDE * SIDE, lambda x: small(np.asarray(x), shape))
    size = int(np.prod(shape))
    return Vectors(size, lambda x: _flat(np.asarray(x), len(shape), size))


def is_picture(space: spaces.Space) -> bool:
    """Returns whether a leaf is an image with more cells than a grid of codes has."""
    image = isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3
    return image and int(np.prod(sorted(space.shape)[1:])) > LARGEST_GRID  # type: ignore[arg-type]


def is_grid(space: spaces.Space) -> bool:
    """Returns whether ``space`` holds codes alone, some of them as a small image."""
    return codec.is_grid(space) and not any(map(is_picture, codec.leaves_of(space)))


def small(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Returns images [T, N, *shape] as grey ones of 12 × 12 values in [0, 1], by means of patches.

    The shortest axis of an image holds its channels.
    """
    channels = x.ndim - 3 + int(np.argmin(shape))
    grey = x.mean(axis=channels, dtype=np.float32) / 255
    for axis in (-2, -1):
        n = grey.shape[axis]
        cuts = np.linspace(0, n, SIDE, endpoint=False).astype(int)
        widths = np.diff([*cuts, n]).astype(np.float32)
        sums = np.add.reduceat(grey, cuts, axis=axis)
        grey = sums / (widths[:, None] if axis == -2 else widths)
    return grey.reshape(*x.shape[:-3], -1)


def _flat(x: np.ndarray, rank: int, size: int) -> np.ndarray:
    return x.reshape(*x.shape[: x.ndim - rank], size).astype(np.float32)


def _joined(parts: list[tuple[Any, Vectors]]) -> Vectors:
    def read(obs: Any) -> np.ndarray:
        return np.concatenate([part.read(obs[key]) for key, part in parts], axis=-1)

    return Vectors(sum(part.size for _, part in parts), read)


def _choices(space: spaces.MultiDiscrete) -> Vectors:
    nvec, start = space.nvec.reshape(-1), np.asarray(space.start).reshape(-1)
    names = [np.eye(int(n), dtype=np.float32) for n in nvec]

    def read(x: Any) -> np.ndarray:
        x = _flat(np.asarray(x), len(space.shape), len(nvec)).astype(int) - start
        return np.concatenate([name[x[..., i]] for i, name in enumerate(names)], axis=-1)

    return Vectors(int(nvec.sum()), read)
