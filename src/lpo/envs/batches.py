"""Environments: whole rollouts of any space as the engine sees them, for a bonus beside another
trainer.

``lpo.envs.codec`` decides the form, and this module reads arrays [T, N, …] at once. One form
differs: a small image of bytes is a grid of codes here, as MiniGrid's is, and becomes numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from lpo.envs import codec
from lpo.envs.faults import Misfit
from lpo.envs.onehot import OneHot, one_hot
from lpo.errors import LPOError
from lpo.types import Leaf, Obs, ObsSpec, vector

NAME = "The environment"


class Batches(NamedTuple):
    """``read`` takes observations [T, N, …] of a space, and returns them in the form ``spec``."""

    spec: ObsSpec
    read: Callable[[Any], Obs]


class Part(NamedTuple):
    """One leaf of a space: where it is, its form, and what reads arrays of it."""

    path: str
    keys: tuple[Any, ...]
    leaf: Leaf
    read: Callable[[np.ndarray], np.ndarray]

    def of(self, obs: Any) -> np.ndarray:
        try:
            for key in self.keys:
                obs = obs[key]
        except (KeyError, IndexError, TypeError) as error:
            raise LPOError(
                f"Observations have no part {self.path}; pass arrays [steps, environments, …] in a "
                "dictionary or tuple as the space is one."
            ) from error
        return self.read(array(obs))


def batches(space: spaces.Space, flat: bool = True) -> Batches:
    """Returns what reads observations of ``space``. Raises LPOError for a space of no numbers.

    ``flat`` is False where the network reads grids of codes as images.
    """
    codec.refuse_unreadable(NAME, space, tree=True)
    parts = [part_of(keys, part, flat) for keys, part in codec.paths_of(space)]
    if all(part.leaf.kind == "vector" for part in parts):
        size = sum(part.leaf.shape[0] for part in parts)
        return Batches(
            vector(size, codec.parts_of(space)),
            lambda obs: np.concatenate([part.of(obs) for part in parts], axis=-1),
        )
    spec = ObsSpec(tuple((part.path, part.leaf) for part in parts))
    if spec.bare:
        return Batches(spec, parts[0].of)
    return Batches(spec, lambda obs: {part.path: part.of(obs) for part in parts})


def part_of(keys: tuple[Any, ...], space: Any, flat: bool) -> Part:
    path = codec.path_of(keys)
    leaf = codec.leaf_of(path, space, flat)
    if leaf.kind == "image" and not codec.is_picture(space):
        leaf = Leaf((int(np.prod(leaf.shape)),))
    codes = one_hot([((), space)]) if leaf.kind == "vector" else None
    where, shape = f" at {path}" if path else "", space.shape

    def read(x: np.ndarray) -> np.ndarray:
        lead = x.shape[: x.ndim - len(shape)]
        if x.shape != (*lead, *shape):
            raise LPOError(
                f"Observations{where} have shape {x.shape} and one of them has {shape}; pass "
                "[steps, environments, …]."
            )
        x = x if codes is None else coded(codes, x, int(np.prod(lead)), where)
        return x.reshape(*lead, *leaf.shape).astype(leaf.dtype)

    return Part(path, keys, leaf, read)


def coded(codes: OneHot, x: np.ndarray, count: int, where: str) -> np.ndarray:
    """Returns ``count`` observations of codes, which may come as floats, as one-hot rows."""
    try:
        return codes.rows(x.astype(np.int64), count, np.dtype(np.float32))
    except Misfit as error:
        raise LPOError(
            f"Observations{where} have a code that their space does not have; pass them as the "
            "environment gives them."
        ) from error


def array(x: Any) -> np.ndarray:
    """Returns an array of NumPy, JAX or torch as one of NumPy."""
    return np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)
