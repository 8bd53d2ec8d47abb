"""Epochs of shuffled minibatches with a dynamic trip count: a growing rollout compiles once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Int, Key

Carry = TypeVar("Carry")  # a pytree: parameters and the optimiser's state
Data = TypeVar("Data")  # a pytree of [M, …] arrays; a minibatch is the same pytree of [B, …]
Stats = TypeVar("Stats")  # a pytree of arrays


def shuffled(
    key: Key[Array, ""], valid: Bool[Array, " M"], epochs: int
) -> Int[Array, "{epochs} M"]:
    """Returns ``epochs`` random orders of the rows; the valid rows come first in each."""
    rows = jnp.arange(len(valid), dtype=jnp.uint32)
    bits = jax.random.bits(key, (epochs, len(valid)), jnp.uint32)
    last = jnp.where(valid, jnp.uint32(0), jnp.uint32(1 << 31))
    if len(valid) > 1 << 14:  # too many rows to leave enough random bits beside them
        order = jnp.broadcast_to(rows, bits.shape)
        return jax.lax.sort(((bits >> 1) | last[None], order), num_keys=1)[1].astype(jnp.int32)
    # Sorting single words is several times faster than sorting pairs: the row rides in the low
    # 14 bits under 17 random ones. Two rows that draw the same keep their order, which is rare.
    low = jnp.uint32((1 << 14) - 1)
    words = jnp.sort((bits >> 1 & ~low) | rows[None] | last[None], axis=1)
    return (words & low).astype(jnp.int32)


def gathered(data: Data) -> Callable[[Int[Array, " B"]], Data]:
    """Returns what takes rows of ``data``: one gather for all columns of numbers, and one for each
    leaf of another shape or type."""
    leaves, treedef = jax.tree.flatten(data)
    plain = [leaf.ndim == 2 and leaf.dtype == jnp.float32 for leaf in leaves]
    columns = [leaf for leaf, here in zip(leaves, plain, strict=True) if here]
    cuts = np.cumsum([leaf.shape[1] for leaf in columns])[:-1]
    table = jnp.concatenate(columns, axis=1) if columns else None

    def gather(rows: Int[Array, " B"]) -> Data:
        split = iter(() if table is None else jnp.split(table[rows], cuts, axis=1))
        taken = [
            next(split) if here else leaf[rows] for leaf, here in zip(leaves, plain, strict=True)
        ]
        return treedef.unflatten(taken)

    return gather


def sweep(
    step: Callable[[Carry, Data], tuple[Carry, Stats]],
    carry: Carry,
    data: Data,
    valid: Bool[Array, " M"],
    key: Key[Array, ""],
    epochs: int,
    batch_size: int,
) -> tuple[Carry, Stats]:
    """Runs ``carry, stats = step(carry, minibatch)`` over every minibatch.

    Returns the last carry and the mean of the stats. Rows of ``data`` with ``valid`` False are
    never drawn. The last minibatch of an epoch is filled up from the front of the same order, so
    all have ``batch_size`` rows.
    """
    gather = gathered(data)
    order = shuffled(key, valid, epochs)
    count = valid.sum()
    num = -(-count // batch_size)
    lanes = jnp.arange(batch_size, dtype=jnp.int32)

    def minibatch(i: Int[Array, ""]) -> Data:
        rows = order[i // num, (i % num * batch_size + lanes) % count]
        return gather(rows)

    def body(i: Int[Array, ""], state: tuple[Carry, Stats]) -> tuple[Carry, Stats]:
        carry, total = state
        carry, stats = step(carry, minibatch(i))
        return carry, jax.tree.map(jnp.add, total, stats)

    shapes = jax.eval_shape(lambda c: step(c, minibatch(jnp.int32(0)))[1], carry)
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    trips = epochs * num
    carry, total = jax.lax.fori_loop(0, trips, body, (carry, zeros))
    return carry, jax.tree.map(lambda x: x / jnp.maximum(trips, 1), total)
