"""Engine on a device: the state of many runs, and trees of arrays with an axis of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lpo.engine.learner import TrainState
from lpo.envs.device.worlds import World
from lpo.types import Rollout

Axes = Mapping[str, Array]  # short name of an option → one value for each run


class Moving(NamedTuple):
    """What a step of the environments changes."""

    worlds: World  # [R, N, …]
    returns: Array  # [R, N] of the episodes under way
    lengths: Array  # [R, N]
    env_steps: Array  # [R]
    plans: Any  # of the start
    memory: Any = ()  # [R, N, …] of the policies


class Group(NamedTuple):
    """R runs under way: every array has a leading axis [R]."""

    train: TrainState
    switch: Any
    known: Any  # of the start
    moving: Moving


class Ended(NamedTuple):
    """Sums over the episodes that ended in a rollout, [R] each."""

    episodes: Array
    ret: Array
    length: Array
    success: Array
    overflow: Array  # bits of the buffers of the physics that were too small


class Walk(NamedTuple):
    """A rollout under way."""

    row: Array  # [] rows so far
    last: Array  # [] rows at which it ends, at the latest
    moving: Moving
    switch: Any
    buffer: Rollout  # [T, R, N, …]
    ended: Ended
    seen: Array  # [R] rows at the last look
    due: Array  # [R] rows at the next look
    rows: Array  # [R] rows that each run collected
    fired: Array  # [R] its switch has fired, or its budget is spent
    looked: dict[str, Array]  # [R] metrics of the last look


def stream(seed: Array, component: int) -> Array:
    """Returns the key of a component of a run."""
    return jax.random.fold_in(jax.random.key(seed), component)


def flat(tree: Any) -> Any:
    """[R, N, …] → [R·N, …]."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


def unflat(tree: Any, runs: int) -> Any:
    """[R·N, …] → [R, N, …]."""
    return jax.tree.map(lambda x: x.reshape(runs, -1, *x.shape[1:]), tree)


def choose(which: Array, new: Any, old: Any) -> Any:
    """Returns ``new`` for the runs that ``which`` [R] marks, and ``old`` for the others."""

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(which.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, new, old)


def host(tree: Any) -> Any:
    """Returns the arrays of a tree as NumPy's."""
    return jax.tree.map(np.asarray, jax.device_get(tree))
