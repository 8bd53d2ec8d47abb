"""The bonuses of a width ω (eq. E5)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import jax.numpy as jnp
from jax import Array

from lpo.bonus.compose import ScaledOptions
from lpo.errors import LPOError, named
from lpo.math.features import Inputs
from lpo.options import Axis, Positive, Short, options

Shape = Literal["raw", "indicator", "lpo"]


@options
class WidthOptions(ScaledOptions):
    """Options of a bonus that is computed from a width ω."""

    inputs: Annotated[Inputs, Short("bonus_inputs")] = "sa"
    """What the bonus reads: (s,a), s′ or s."""
    shape: Annotated[Shape, Short("bonus_shape")] = "raw"
    """Bonus from the width ω: raw is ω itself, indicator ENIAC's 1{ω ≥ β}/(1−γ), lpo eq. (E5)."""
    threshold: Annotated[Axis[Positive], Short("bonus_threshold")] = 0.1
    """β of eq. (E3), not the weight beta: (s,a) is known when its width is below it."""

    def check(self, run: Any) -> None:
        ScaledOptions.check(self, run)
        if self.shape != "raw" and run.ppo.gamma_ext == 1:
            raise LPOError(
                f"The {self.shape} bonus is a multiple of 1/(1−γ), and {named('gamma_ext')} is 1; "
                f"lower it, or use {named('bonus_shape')} raw."
            )


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
