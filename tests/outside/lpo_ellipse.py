"""A novelty of the episode of another package: E3B's φᵀ(Σ + λI)⁻¹φ over random features of s′."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lpo.bonus import Bonus
from lpo.bonus.episode import EpisodePart
from lpo.math.episodes import alike, over_episodes
from lpo.options import Positive, PositiveInt, options
from lpo.problem import Problem
from lpo.types import Rollout


class State(NamedTuple):
    weights: Array  # [O, D] of the features
    inverse: Array  # [N, D, D] (Σ + λI)⁻¹ of the episodes under way


@options
class Ellipse(EpisodePart):
    """How little of s′ the episode has covered."""

    kind: ClassVar[str] = "ellipse"
    size: PositiveInt = 8
    """Number of features."""
    ridge: Positive = 0.5
    """λ."""

    def make(self, problem: Problem) -> Bonus:
        size, read = problem.plain
        fresh = alike(jnp.eye(self.size) / self.ridge, problem.num_envs)

        def init(key: Array) -> State:
            return State(jax.random.normal(key, (size, self.size)), fresh)

        def step(inverse: Array, phi: Array):
            u = jnp.einsum("nij,nj->ni", inverse, phi)
            b = (phi * u).sum(-1)
            return inverse - u[:, :, None] * u[:, None] / (1 + b)[:, None, None], b

        def score(state: State, rollout: Rollout):
            phi = jnp.tanh(read(rollout.next_obs) @ state.weights)
            inverse, b = over_episodes(step, state.inverse, fresh, phi, rollout)
            return (
                (b * rollout.valid)[None],
                state._replace(inverse=inverse),
                {"bonus/ellipse": b.mean()},
            )

        return Bonus(1, init, score, lambda state, rollout, key: (state, {}))
