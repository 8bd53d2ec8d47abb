"""Running mean and variance of a stream of vectors, and the normalisation made from them."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array


class Moments(NamedTuple):
    count: Array  # []
    mean: Array  # [D]
    var: Array  # [D]


def init_moments(size: int) -> Moments:
    """A unit Gaussian with next to no weight (SB3's start)."""
    return Moments(jnp.float32(1e-4), jnp.zeros(size), jnp.ones(size))


def update_moments(moments: Moments, x: Array, weight: Array) -> Moments:
    """Merge a batch ``x`` [M, D]; rows with ``weight`` 0 do not count (Chan et al. 1979)."""
    w = weight.astype(x.dtype)[:, None]
    n = w.sum()
    mean = (w * x).sum(0) / jnp.maximum(n, 1)
    var = (w * (x - mean) ** 2).sum(0) / jnp.maximum(n, 1)
    total = moments.count + n
    delta = mean - moments.mean
    m2 = moments.var * moments.count + var * n + delta**2 * moments.count * n / total
    return Moments(total, moments.mean + delta * n / total, m2 / total)


def normalize(moments: Moments, x: Array, clip: float) -> Array:
    return jnp.clip((x - moments.mean) / jnp.sqrt(moments.var + 1e-8), -clip, clip)


def normalizer_host(moments: Moments, clip: float):
    """``normalize`` in NumPy with the statistics folded in, for acting."""
    scale = (1.0 / np.sqrt(np.asarray(moments.var) + 1e-8)).astype(np.float32)
    mean = np.asarray(moments.mean)

    def apply(x: np.ndarray) -> np.ndarray:
        y = (x - mean) * scale
        np.maximum(y, -clip, out=y)
        return np.minimum(y, clip, out=y)

    return apply
