"""The width of a linear class as a bonus (eq. E3): the exact form of PC-PG's √(φᵀΣ⁻¹φ).

Let f = θᵀφ, and let two functions differ by ‖Δθ‖ ≤ ρ and by at most ε on the data: ΔᵀΣΔ ≤ ε. Then

    ω(z) = sup |Δᵀφ(z)| = min over s in [0,1] of √(φᵀ(s Σ/ε + (1−s) I/ρ²)⁻¹φ).

The right side is the convex dual, in one dimension. With much data ω is √ε·‖φ‖_{Σ⁻¹}; without
data it is ρ‖φ‖.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lpo.bonus.base import Bonus, BonusPart
from lpo.bonus.shape import Shape, WidthOptions, shaped, width_metrics
from lpo.math.arrays import lift
from lpo.math.features import FeatureOptions, Features, Fourier
from lpo.options import Axis, Positive, Rare, Short, options
from lpo.problem import Problem
from lpo.types import Rollout

BISECTIONS = 20


@BonusPart.kinds.add
@options
class Elliptic(WidthOptions):
    """The width of a linear class over fixed features (PC-PG's bonus)."""

    kind: ClassVar[str] = "elliptic"
    epsilon: Annotated[Rare[Axis[Positive]], Short("bonus_epsilon")] = 1.0
    """ε of the width: how much two functions may differ on the data (sum of squares)."""
    features: FeatureOptions = Fourier()
    """Features of the inputs of the bonus."""

    def novelty(self, problem: Problem) -> Bonus:
        size, read = problem.reader(self.inputs)
        return elliptic(
            self.features.make(size, problem.plain.size),
            read,
            shape=self.shape,
            threshold=self.threshold,
            epsilon=self.epsilon,
            gamma_ext=problem.gamma,
        )


class EllipticState(NamedTuple):
    features: Any
    gram: Array  # [D, D] Σ = Σ φφᵀ over all the data so far
    eigenvalues: Array  # [D] of Σ
    basis: Array  # [D, D] its eigenvectors, one per column


def width(eigenvalues: Array, basis: Array, phi: Array, epsilon: float, rho: float) -> Array:
    """Returns ω at every row of ``phi`` [..., D], by bisection on the slope in t, s = 1/(1 + e^−t).

    The slope is zero at the minimum. So the error of 40·2⁻²⁰ in t enters ω² only as its square.
    """
    weight = (phi @ basis) ** 2
    fit, ball = lift(jnp.maximum(eigenvalues, 0.0) / epsilon, phi), 1 / rho**2

    def mixed(t):
        """Returns s Σ/ε + (1−s) I/ρ² in Σ's basis; 1 − s = σ(−t) stays positive where Σ is 0."""
        t = t[..., None]
        return jax.nn.sigmoid(t) * fit + jax.nn.sigmoid(-t) * ball

    def narrow(_, bounds):
        low, high = bounds
        t = (low + high) / 2
        slope = (weight * (ball - fit) / mixed(t) ** 2).sum(-1)
        return jnp.where(slope < 0, t, low), jnp.where(slope < 0, high, t)

    start = jnp.full(weight.shape[:-1], -20.0), jnp.full(weight.shape[:-1], 20.0)
    low, high = jax.lax.fori_loop(0, BISECTIONS, narrow, start)
    return jnp.sqrt((weight / mixed((low + high) / 2)).sum(-1))


def elliptic(
    features: Features,
    read: Callable,
    *,
    shape: Shape,
    threshold: float,
    epsilon: float,
    gamma_ext: float,
    rho: float = 1.0,
) -> Bonus:
    """Returns the bonus: ``shape`` of the width at ``read(rollout)``.

    ``gamma_ext`` is the γ in ``shape``.
    """

    def init(key: Array) -> EllipticState:
        size = features.size
        return EllipticState(
            features=features.init(key),
            gram=jnp.zeros((size, size)),
            eigenvalues=jnp.zeros(size),
            basis=jnp.eye(size),
        )

    def score(state: EllipticState, rollout: Rollout):
        x, valid = read(rollout), rollout.valid
        moved = features.observe(state.features, x.reshape(-1, x.shape[-1]), valid.reshape(-1))
        phi = features.apply(moved, x)
        w = width(state.eigenvalues, state.basis, phi, epsilon, rho)
        b = shaped(shape, w, threshold, gamma_ext) * valid
        return b[None], state._replace(features=moved), width_metrics(w, threshold, valid)

    def update(state: EllipticState, rollout: Rollout, key: Array):
        """Line 10 of Algorithm 7: adds D_k to Σ, whose eigenvectors serve until the next switch."""
        phi = features.apply(state.features, read(rollout)).reshape(-1, features.size)
        phi = phi * rollout.valid.reshape(-1, 1)
        gram = state.gram + phi.T @ phi
        eigenvalues, basis = jnp.linalg.eigh(gram)
        inside = eigenvalues / (eigenvalues + 1 / rho**2)
        state = state._replace(gram=gram, eigenvalues=eigenvalues, basis=basis)
        return state, {"bonus/dimension": inside.sum()}

    return Bonus(1, init, score, update)
