"""Networks: rollouts and minibatches in the order of time, for bodies with memory.

A rollout [T, N] is cut into stretches of L steps, which are the rows of a minibatch. A stretch
begins with the memory that the body had there before the update, as in sb3-contrib.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lpo.math.ppo import Batch, Rows, See, as_they_are
from lpo.network.base import Memory, Network, in_blocks
from lpo.types import Obs, Rollout


class Stretch(NamedTuple):
    """What a body needs to go through stretches [M, L] of a rollout."""

    memory: Memory  # [M, …] before the first step
    begins: Array  # [M, L]
    taken: Array  # [M, L]
    weight: Array  # [M, L] 1 where the step is learned from


class Watched(NamedTuple):
    """The features of a rollout, and the memories of the body on the way."""

    here: Array  # [T, N, F] of the observations
    next: Array  # [T, N, F] of the true next ones
    last: Array  # [N, F] after the last step
    memories: Memory  # [T, N, …] after each step


def watch(body: Network, params: Any, rollout: Rollout, obs: Obs, then: Obs, last: Obs) -> Watched:
    """Returns the features of a rollout, whose observations are normalised."""
    begins, taken = rollout.start, rollout.taken
    memories, here = body.unroll(params, rollout.memory, obs, begins, taken)
    if not jax.tree.leaves(memories):
        none = jnp.zeros(begins.shape, bool)
        features = body.unroll(params, (), then, none, none)[1]
        lone = jax.tree.map(lambda x: x[None], last)
        return Watched(here, features, body.unroll(params, (), lone, none[:1], none[:1])[1][0], ())

    def one_more(rows: tuple[Memory, Obs]) -> Array:
        memory, obs = rows
        none = jnp.zeros(len(jax.tree.leaves(memory)[0]), bool)
        return body.step(params, memory, obs, none)[1]

    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (memories, then))
    features = in_blocks(one_more, flat).reshape(*begins.shape, -1)
    end = jax.tree.map(lambda x: x[-1], memories)
    return Watched(here, features, body.step(params, end, last, ended(rollout))[1], memories)


def ended(rollout: Rollout) -> Array:
    """Returns which environments [N] begin an episode after the last step that was taken."""
    done, row = rollout.terminated | rollout.truncated, jnp.arange(len(rollout.taken))[:, None]
    last = jnp.where(rollout.taken, row, -1).max(0)
    return jnp.take_along_axis(done, jnp.maximum(last, 0)[None], axis=0)[0] & (last >= 0)


def memory_before(rollout: Rollout, memories: Memory) -> Memory:
    """Returns the memories [T, N, …] before each step."""
    return jax.tree.map(
        lambda first, x: jnp.concatenate([first[None], x[:-1]]), rollout.memory, memories
    )


def in_stretches(body: Network, rollout: Rollout, memories: Memory, batch: Any) -> Any:
    """Returns ``batch`` of trees [T, N, …] with stretches [M, L, …] as rows, and their validity."""
    length, steps = body.stretch, len(rollout.valid)
    count = -(-steps // length)

    def cut(x: Array) -> Array:
        x = jnp.pad(x, [(0, count * length - steps)] + [(0, 0)] * (x.ndim - 1))
        x = x.reshape(count, length, *x.shape[1:])
        return jnp.moveaxis(x, 2, 1).reshape(-1, length, *x.shape[3:])  # [M, L, …]

    def firsts(x: Array) -> Array:
        return x[::length].reshape(-1, *x.shape[2:])  # [M, …]

    before = jax.tree.map(firsts, memory_before(rollout, memories))
    valid = cut(rollout.valid)
    stretch = Stretch(before, cut(rollout.start), cut(rollout.taken), valid.astype(jnp.float32))
    rows: Batch = jax.tree.map(cut, batch)
    return rows._replace(stretch=stretch), valid.any(1)


def seeing(body: Network) -> See:
    """Returns what makes the rows of a minibatch: features by the parameters under way."""
    if body.stretch > 1:
        return lambda params, batch: through_stretches(body, params, batch)

    def see(params: Any, batch: Batch) -> Rows:
        none = jnp.zeros(len(batch.action), bool)
        return Rows(body.step(params, (), batch.obs, none)[1], batch)

    return as_they_are if body.plain else see


def through_stretches(body: Network, params: Any, batch: Batch) -> Rows:
    """Returns the rows of stretches, whose features are computed in the order of time."""
    memory, begins, taken, weight = batch.stretch
    turned = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), (batch.obs, begins, taken))
    _, features = body.unroll(params, memory, *turned)
    rows = lambda x: x.reshape(-1, *x.shape[2:])  # noqa: E731
    flat = jax.tree.map(rows, batch._replace(obs=(), stretch=()))
    return Rows(rows(jnp.swapaxes(features, 0, 1)), flat, rows(weight))
