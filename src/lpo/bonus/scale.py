"""RND's scaling of a bonus, which all bonuses use, and the bonuses of a width (eq. E5).

A bonus is divided by the running standard deviation of its discounted sums. The sums run over time
in each environment, and no mean is subtracted (Burda et al. 2018). The LPO paper does not say how
it scales the bonus.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lpo.bonus.base import BonusOptions
from lpo.errors import LPOError, named
from lpo.math.features import Inputs
from lpo.math.normalize import Moments, update_moments
from lpo.options import Axis, Positive, Short, options

Shape = Literal["raw", "indicator", "lpo"]


@options
class WidthOptions(BonusOptions):
    """Options of a bonus that is computed from a width ω."""

    inputs: Annotated[Inputs, Short("bonus_inputs")] = "sa"
    """What the bonus reads: (s,a), s′ or s."""
    shape: Annotated[Shape, Short("bonus_shape")] = "raw"
    """Bonus from the width ω: raw is ω itself, indicator ENIAC's 1{ω ≥ β}/(1−γ), lpo eq. (E5)."""
    threshold: Annotated[Axis[Positive], Short("bonus_threshold")] = 0.1
    """β of eq. (E3), not the weight beta: (s,a) is known when its width is below it."""

    def check(self, run: Any) -> None:
        if self.shape != "raw" and run.ppo.gamma_ext == 1:
            raise LPOError(
                f"The {self.shape} bonus is a multiple of 1/(1−γ), and {named('gamma_ext')} is 1; "
                f"lower it, or use {named('bonus_shape')} raw."
            )


class Scaled(NamedTuple):
    bonus: Array  # [T, N] divided by the scale
    discounted: Array  # [N]
    returns: Moments
    metrics: dict[str, Array]


def discounted_sums(start: Array, b: Array, valid: Array, gamma: float) -> tuple[Array, Array]:
    """Returns the last row and all rows of c_t = γ c_{t−1} + b_t, along time [T, N]."""

    def forward(c, x):
        b_t, valid_t = x
        c = jnp.where(valid_t, gamma * c + b_t, c)
        return c, c

    return jax.lax.scan(forward, start, (b, valid))


def scaled(discounted: Array, returns: Moments, b: Array, valid: Array, gamma: float) -> Scaled:
    """Divides ``b`` [T, N] by the standard deviation of its discounted sums so far.

    ``b`` must be zero where it is not valid.
    """
    last, sums = discounted_sums(discounted, b, valid, gamma)
    returns = update_moments(returns, sums.reshape(-1, 1), valid.reshape(-1))
    scale = jnp.sqrt(returns.var[0] + 1e-8)
    count = jnp.maximum(valid.sum(), 1)
    metrics = {
        "bonus/raw_mean": b.sum() / count,
        "bonus/scale": scale,
        "bonus/mean": b.sum() / count / scale,
        "bonus/max": b.max() / scale,
    }
    return Scaled(b / scale, last, returns, metrics)


def shaped(shape: Shape, width: Array, threshold: float, gamma: float) -> Array:
    """Returns the bonus of a width ω; z is known when ω(z) < β = ``threshold`` (eq. E3, on pairs).

    raw: ω. indicator (PC-PG, ENIAC): 1{ω ≥ β}/(1−γ). lpo (eq. E5, on the pair as in Algorithm 1):
    3/(1−γ)·1{ω ≥ β} + (2/β)·ω·1{ω < β}. Eq. E5 itself calls a state known when all its actions are,
    which cannot be checked for continuous actions.
    """
    unknown = width >= threshold
    if shape == "indicator":
        return unknown / (1 - gamma)
    if shape == "lpo":
        return jnp.where(unknown, 3 / (1 - gamma), 2 / threshold * width)
    return width


def width_metrics(width: Array, threshold: float, valid: Array) -> dict[str, Array]:
    """Returns the mean width and the share of unknown samples."""
    count = jnp.maximum(valid.sum(), 1)
    return {
        "bonus/width": (width * valid).sum() / count,
        "bonus/unknown": ((width >= threshold) & valid).sum() / count,
    }
