"""Names for observations: equal ones have equal hashes, others almost never."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key, UInt32


def hash_keys(key: Key[Array, ""], size: int) -> UInt32[Array, " D"]:
    """Returns random odd numbers, one for each number of an observation."""
    return jax.random.bits(key, (size,), jnp.uint32) | jnp.uint32(1)


def hashed(keys: UInt32[Array, " D"], x: Float[Array, "*B D"]) -> UInt32[Array, " *B"]:
    """Returns a hash of 32 bits of each row: Σ kᵢ·m(xᵢ) modulo 2³², where m mixes the bits of x."""
    bits = jax.lax.bitcast_convert_type(x + 0.0, jnp.uint32)  # −0 is 0
    bits = (bits ^ (bits >> 16)) * jnp.uint32(0x85EBCA6B)  # whole numbers end in many zeros
    bits ^= bits >> 13
    h = (bits * jax.lax.broadcast_to_rank(keys, x.ndim)).sum(-1, dtype=jnp.uint32)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        h = (h ^ (h >> shift)) * jnp.uint32(factor)
    return h ^ (h >> 16)
