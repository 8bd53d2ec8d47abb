"""The scale of a bonus, which all bonuses use: what a bonus is divided by.

``returns`` is RND's (Burda et al. 2018): the running standard deviation of the discounted sums of
the bonus. The sums run over time in each environment, and no mean is subtracted. The LPO paper does
not say how it scales the bonus. The sums start at 0, and the deviation is taken over all that was
ever seen. So the scale shows how the sums began, and depends on γ, on the number of environments
and on the length of the run: a constant bonus comes out at .0049 after 10,000 steps of 8
environments with γ = .999.

``size`` is the root mean square of the recent bonus over 1 − γ. A constant bonus comes out at
1 − γ, so that its discounted sum is 1, for any γ and any number of environments. By Minkowski's
inequality the discounted sums of any other steady bonus have a root mean square of at most 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from lpo.errors import LPOError, named
from lpo.math.arrays import Scalar
from lpo.math.normalize import (
    Average,
    Moments,
    add_to_average,
    init_moments,
    no_average,
    update_moments,
)
from lpo.options import Axis, Kinds, Part, Positive, Rare, Short, options

B = TypeVar("B")  # what a scale remembers: arrays


class Scaled(NamedTuple, Generic[B]):
    bonus: Array  # [T, N] divided by the scale
    discounted: Array  # [N]
    returns: B
    metrics: dict[str, Array]


class Scale(NamedTuple, Generic[B]):
    """``apply(discounted, returns, b, valid)`` divides ``b`` [T, N], which is 0 where not valid."""

    init: Callable[[], B]  # → what it remembers, kept in a bonus's state as ``returns``
    apply: Callable[[Array, B, Array, Array], Scaled[B]]


class ScaleOptions(Part):
    """What the bonus is divided by."""

    kinds: ClassVar[Kinds[ScaleOptions]] = Kinds("bonus scale")

    def make(self, gamma: Scalar) -> Scale:
        """Returns the scale of a bonus stream with discount ``gamma``."""
        raise NotImplementedError


@ScaleOptions.kinds.add
@options
class ByReturns(ScaleOptions):
    """The spread of all discounted sums of the bonus so far (RND's)."""

    kind: ClassVar[str] = "returns"

    def make(self, gamma: Scalar) -> Scale:
        return by_returns(gamma)


def discounted_sums(start: Array, b: Array, valid: Array, gamma: Scalar) -> tuple[Array, Array]:
    """Returns the last row and all rows of c_t = γ c_{t−1} + b_t, along time [T, N]."""

    def forward(c, x):
        b_t, valid_t = x
        c = jnp.where(valid_t, gamma * c + b_t, c)
        return c, c

    return jax.lax.scan(forward, start, (b, valid))


def by_returns(gamma: Scalar) -> Scale[Moments]:
    """Returns the scale √Var(c), where c are the discounted sums so far."""

    def apply(discounted: Array, returns: Moments, b: Array, valid: Array) -> Scaled:
        last, sums = discounted_sums(discounted, b, valid, gamma)
        returns = update_moments(returns, sums.reshape(-1, 1), valid.reshape(-1))
        scale = jnp.sqrt(returns.var[0] + 1e-8)
        return Scaled(b / scale, last, returns, scale_metrics(b, valid, scale))

    return Scale(partial(init_moments, 1), apply)


@ScaleOptions.kinds.add
@options
class BySize(ScaleOptions):
    """The recent size of the bonus over 1−γ: its discounted sums are about 1 on any task."""

    kind: ClassVar[str] = "size"
    memory: Annotated[Rare[Axis[Positive]], Short("scale_memory")] = 20_000.0
    """Half-life of what counts as recent, in environment steps."""

    def check(self, run: Any) -> None:
        if run.bonus.gamma_int == 1:
            raise LPOError(
                f"The bonus scale 'size' is a multiple of 1/(1−γ), and {named('gamma_int')} is 1; "
                f"lower it, or use {named('scale')} returns."
            )

    def make(self, gamma: Scalar) -> Scale:
        return by_size(gamma, self.memory)


def by_size(gamma: Scalar, half_life: Scalar) -> Scale[Average]:
    """Returns the scale √E b² / (1 − γ), where the mean forgets with ``half_life`` samples."""

    def apply(discounted: Array, returns: Average, b: Array, valid: Array) -> Scaled:
        returns = add_to_average(returns, (b**2).sum(), valid.sum(), half_life)
        scale = jnp.maximum(jnp.sqrt(returns.value), 1e-12) / (1 - gamma)
        return Scaled(b / scale, discounted, returns, scale_metrics(b, valid, scale))

    return Scale(no_average, apply)


def scale_metrics(b: Array, valid: Array, scale: Array) -> dict[str, Array]:
    count = jnp.maximum(valid.sum(), 1)
    return {
        "bonus/raw_mean": b.sum() / count,
        "bonus/scale": scale,
        "bonus/mean": b.sum() / count / scale,
        "bonus/max": b.max() / scale,
    }
