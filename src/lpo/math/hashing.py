"""Names for observations: equal ones have equal hashes, others almost never."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int, Key, UInt8, UInt32

CELLS, SHADES = (8, 11), 8  # rows and columns of a coarse image, and its greys


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


def coarse(
    image: UInt8[Array, "*B H W C"], cells: tuple[int, int] = CELLS, shades: int = SHADES
) -> Float[Array, "*B D"]:
    """Returns the grey ``image`` in few cells and shades, so that alike images have one hash.

    These are Go-Explore's cells (Ecoffet et al. 2021). All sums are of whole numbers: an image has
    the same shades in any program.
    """
    *_, high, wide, channels = image.shape
    rows, columns = overlaps(high, cells[0]), overlaps(wide, cells[1])
    grey = image.astype(jnp.int32).sum(-1)
    mean = jnp.einsum("ih,...hw,jw->...ij", rows, grey, columns) // (high * wide * channels)
    return (mean * shades // 256).astype(jnp.float32).reshape(*image.shape[:-3], -1)


def overlaps(pixels: int, cells: int) -> Int[np.ndarray, "I P"]:
    """Returns how much of each pixel lies in each cell, in units of 1/``cells`` of a pixel."""
    pixel, cell = np.arange(pixels) * cells, np.arange(cells)[:, None] * pixels
    inside = np.minimum(pixel + cells, cell + pixels) - np.maximum(pixel, cell)
    return np.maximum(inside, 0).astype(np.int32)
