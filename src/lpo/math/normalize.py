"""Running statistics: moments of a stream of vectors and the normalisation made from them, for
one vector and for trees of arrays, and an average that forgets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int

from lpo.math.arrays import Scalar, lift
from lpo.types import ArrayT, Leaf, Obs, ObsSpec

Rows = Float[np.ndarray, "N D"]


class Moments(NamedTuple, Generic[ArrayT]):
    # hides tuple.count; every checkpoint has this name in it
    count: Float[ArrayT, ""]  # pyright: ignore[reportIncompatibleMethodOverride]
    mean: Float[ArrayT, " D"]
    var: Float[ArrayT, " D"]


def init_moments(size: int) -> Moments[Array]:
    """Returns a unit Gaussian with almost no weight (SB3's start)."""
    return Moments(jnp.float32(1e-4), jnp.zeros(size), jnp.ones(size))


def update_moments(
    moments: Moments[Array],
    x: Float[Array, "M D"],
    weight: Bool[Array, " M"] | Float[Array, " M"],
) -> Moments[Array]:
    """Merges a batch ``x``; rows with ``weight`` 0 do not count (Chan et al. 1979)."""
    w = weight.astype(x.dtype)[:, None]
    n = w.sum()
    mean = (w * x).sum(0) / jnp.maximum(n, 1)
    var = (w * (x - mean[None]) ** 2).sum(0) / jnp.maximum(n, 1)
    total = moments.count + n
    delta = mean - moments.mean
    m2 = moments.var * moments.count + var * n + delta**2 * moments.count * n / total
    return Moments(total, moments.mean + delta * n / total, m2 / total)


class Average(NamedTuple):
    """A weighted mean of samples: a sample loses half of its weight in each half-life."""

    weight: Float[Array, ""]  # of all samples so far
    value: Float[Array, "*D"]


def no_average(*shape: int) -> Average:
    """Returns the average of no samples, which is 0."""
    return Average(jnp.float32(0), jnp.zeros(shape))


def add_to_average(
    old: Average, total: Float[Array, "*D"], count: Int[Array, ""], half_life: Scalar
) -> Average:
    """Adds ``count`` samples whose sum is ``total``; ``half_life`` is a number of samples.

    The new samples weigh 1 each, and the old ones ½^(count/half_life) of what they weighed. The
    mean is taken over these weights, so that there is no start to correct for.
    """
    kept = old.weight * 0.5 ** (count / half_life)
    weight = kept + count
    return Average(weight, (kept * old.value + total) / jnp.maximum(weight, 1e-6))


def normalize(
    moments: Moments[Array], x: Float[Array, "*B D"], clip: float
) -> Float[Array, "*B D"]:
    """Returns (x − mean) / √(var + 1e-8), clipped to ± ``clip``."""
    scale = jnp.sqrt(moments.var + 1e-8)
    return jnp.clip((x - lift(moments.mean, x)) / lift(scale, x), -clip, clip)


def normalizer_host(moments: Moments, clip: float) -> Callable[[Rows], Rows]:
    """Returns ``normalize`` in NumPy with the statistics folded in, for acting."""
    scale = (1.0 / np.sqrt(np.asarray(moments.var) + 1e-8)).astype(np.float32)
    mean = np.asarray(moments.mean)

    def apply(x: Rows) -> Rows:
        y = (x - mean) * scale
        np.maximum(y, -clip, out=y)
        return np.minimum(y, clip, out=y)

    return apply


class Observer(NamedTuple):
    """How networks see an observation: vectors normalised, images and codes as they are."""

    init: Callable[[], Any]  # the moments of each leaf; () where it needs none
    update: Callable[[Any, Obs, Array], Any]  # (moments, observations [M, …], weight [M])
    apply: Callable[[Any, Obs], Obs]
    host: Callable[[Any], Callable[[Obs], Obs]]  # moments -> ``apply`` in NumPy


def observer(spec: ObsSpec, clip: float, moving: bool) -> Observer:
    """Returns the observer of a form of observation; the moments stay as they are but if
    ``moving``."""

    def init() -> Any:
        return spec.map(lambda leaf: init_moments(leaf.shape[0]) if is_vector(leaf) else ())

    def update(moments: Any, obs: Obs, weight: Array) -> Any:
        def one(leaf: Leaf, m: Any, x: Array) -> Any:
            return update_moments(m, x, weight) if is_vector(leaf) else m

        return spec.map(one, moments, obs) if moving else moments

    def apply(moments: Any, obs: Obs) -> Obs:
        def one(leaf: Leaf, m: Any, x: Array) -> Array:
            return normalize(m, x, clip) if is_vector(leaf) else x

        return spec.map(one, moments, obs)

    def host(moments: Any) -> Callable[[Obs], Obs]:
        see = spec.map(
            lambda leaf, m: normalizer_host(m, clip) if is_vector(leaf) else lambda x: x, moments
        )
        return lambda obs: spec.map(lambda leaf, f, x: f(x), see, obs)

    return Observer(init, update, apply, host)


def is_vector(leaf: Leaf) -> bool:
    return leaf.kind == "vector"
