"""Sensitivity within the episode, φᵀ(Σ + λI)⁻¹φ with Σ = Σ φφᵀ over the episode so far.

This is Algorithm 2's quantity for the linear class {θᵀφ} with differences of norm at most ρ and
λ = 1/ρ², over the samples of the episode (before it is cut at 1). E3B (Henaff et al. 2022) uses it
as a bonus.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import jax.numpy as jnp
from jax import Array

from lpo.bonus.base import Bonus
from lpo.bonus.episode import EpisodePart, episode_metrics
from lpo.bonus.inverse import inverse_model
from lpo.math.arrays import Scalar
from lpo.math.episodes import alike, over_episodes
from lpo.math.features import EvenInt, fourier
from lpo.options import Axis, Positive, Rare, Short, options
from lpo.problem import Problem
from lpo.types import Rollout

LEARNING_RATE = 3e-4  # of the inverse model
Encoder = Literal["fourier", "inverse"]


@EpisodePart.kinds.add
@options
class Sensitivity(EpisodePart):
    """φᵀ(Σ + λI)⁻¹φ over the states of the episode, for vectors (E3B)."""

    kind: ClassVar[str] = "sensitivity"
    encoder: Annotated[Encoder, Short("episode_encoder")] = "fourier"
    """φ: random Fourier features of s′, or the encoder of an inverse model (E3B's)."""
    size: Annotated[Rare[EvenInt], Short("episode_features")] = 64
    """Number of features; an even number."""
    ridge: Annotated[Rare[Axis[Positive]], Short("episode_ridge")] = 0.1
    """λ = 1/ρ²."""

    def make(self, problem: Problem) -> Bonus:
        make = of_inverse_model if self.encoder == "inverse" else of_fourier
        return sensitivity(make(problem, self.size), self.size, problem.num_envs, self.ridge)


def of_fourier(problem: Problem, size: int) -> Bonus:
    """Returns random features as something that scores: b [T, N, D] are the features of s′.

    ``rollout.obs`` are scored by the same state in ``sensitivity``.
    """
    numbers, read = problem.plain
    phi = fourier(numbers, size, 1.0)

    def score(state: Any, rollout: Rollout):
        x = read(rollout.next_obs)
        state = phi.observe(state, x.reshape(-1, x.shape[-1]), rollout.valid.reshape(-1))
        return jnp.stack([phi.apply(state, read(rollout.obs)), phi.apply(state, x)]), state, {}

    return Bonus(0, phi.init, score, lambda state, rollout, key: (state, {}))


def of_inverse_model(problem: Problem, size: int) -> Bonus:
    """Returns the encoder of an inverse model in the same form."""
    model = inverse_model(problem, size, LEARNING_RATE)

    def score(state: Any, rollout: Rollout):
        state = model.observe(state, rollout)
        both = [model.encode(state, x) for x in (rollout.obs, rollout.next_obs)]
        return jnp.stack(both), state, {}

    return Bonus(0, model.init, score, model.update)


class Ellipse(NamedTuple):
    """What an episode has covered, [N, …]."""

    inverse: Array  # [N, D, D] (Σ + λI)⁻¹
    length: Array  # [N] samples in Σ


class SensitivityState(NamedTuple):
    features: Any
    ellipse: Ellipse


def sensitivity(features: Bonus, size: int, num_envs: int, ridge: Scalar) -> Bonus:
    """Returns the factor over ``features``, whose score is φ of s and of s′, [2, T, N, D]."""
    nothing = Ellipse(jnp.eye(size) / ridge, jnp.int32(0))

    def init(key: Array) -> SensitivityState:
        return SensitivityState(features.init(key), alike(nothing, num_envs))

    def covered(at: Ellipse, phi: Array, where: Array) -> tuple[Ellipse, Array]:
        """Returns the ellipse with ``phi`` [N, D] in it (Sherman–Morrison), and its novelty."""
        u = jnp.einsum("nij,nj->ni", at.inverse, phi)
        b = (phi * u).sum(-1)
        less = u[:, :, None] * u[:, None, :] / (1 + b)[:, None, None]
        return Ellipse(at.inverse - less * where[:, None, None], at.length + where), b

    def step(at: Ellipse, phi: tuple[Array, Array]) -> tuple[Ellipse, Array]:
        at, _ = covered(at, phi[0], at.length == 0)  # s_0
        return covered(at, phi[1], jnp.full(num_envs, True))

    def score(state: SensitivityState, rollout: Rollout):
        phi, moved, _ = features.score(state.features, rollout)
        start = state.ellipse
        at, b = over_episodes(step, start, alike(nothing, num_envs), (phi[0], phi[1]), rollout)
        b = b * rollout.valid
        return b[None], SensitivityState(moved, at), episode_metrics(b, rollout)

    def update(state: SensitivityState, rollout: Rollout, key: Array):
        moved, metrics = features.update(state.features, rollout, key)
        return state._replace(features=moved), metrics

    return Bonus(1, init, score, update)
