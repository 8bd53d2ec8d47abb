"""Bonuses compose: b = how new in this life × how new in this episode, over a scale.

Each function here takes bonuses and returns a bonus. No state of one is in the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from lpo.bonus.base import Bonus, BonusOptions
from lpo.bonus.episode import EpisodePart, NoEpisode
from lpo.bonus.scale import ByReturns, Scale, ScaleOptions
from lpo.errors import LPOError, named
from lpo.math.arrays import Scalar
from lpo.options import Short, Unit, options
from lpo.problem import Problem
from lpo.types import Rollout

A = TypeVar("A")  # the state of a bonus
B = TypeVar("B")  # of another one, or of a scale
Join = Callable[[Array, Array], Array]


class Both(NamedTuple, Generic[A, B]):
    life: A  # state of the first bonus
    episode: B  # and of the second


def times(life: Bonus[A], episode: Bonus[B]) -> Bonus[Both[A, B]]:
    """Returns the bonus b = b₁·b₂."""
    return _joined(life, episode, jnp.multiply)


def plus(one: Bonus[A], other: Bonus[B]) -> Bonus[Both[A, B]]:
    """Returns the bonus b = b₁ + b₂."""
    return _joined(one, other, jnp.add)


def _joined(one: Bonus[A], other: Bonus[B], join: Join) -> Bonus[Both[A, B]]:
    def init(key: Array) -> Both[A, B]:
        return Both(one.init(key), other.init(jax.random.fold_in(key, 1)))

    def score(state: Both[A, B], rollout: Rollout):
        a, life, found = one.score(state.life, rollout)
        b, episode, more = other.score(state.episode, rollout)
        return join(a, b), Both(life, episode), found | more

    def update(state: Both[A, B], rollout: Rollout, key: Array):
        life, found = one.update(state.life, rollout, key)
        episode, more = other.update(state.episode, rollout, jax.random.fold_in(key, 1))
        return Both(life, episode), found | more

    return Bonus(1, init, score, update)


def difference(bonus: Bonus[A], share: Scalar) -> Bonus[A]:
    """Returns NovelD's bonus max{b(s′) − share·b(s), 0} of a bonus that reads s′ (Zhang 2021)."""

    def score(state: A, rollout: Rollout):
        here, _, _ = bonus.score(state, rollout._replace(next_obs=rollout.obs))
        there, state, metrics = bonus.score(state, rollout)
        return jnp.maximum(there - share * here, 0.0), state, metrics

    return bonus._replace(score=score)


class ScaledState(NamedTuple, Generic[A, B]):
    novelty: A  # of the bonus that is scaled
    discounted: Array  # [N] Σ γ^i b_{t−i}, summed over time in each environment
    returns: B  # what the scale remembers


def scaled(bonus: Bonus[A], scale: Scale[B], num_envs: int) -> Bonus[ScaledState[A, B]]:
    """Returns ``bonus`` divided by its scale."""

    def init(key: Array) -> ScaledState[A, B]:
        return ScaledState(bonus.init(key), jnp.zeros(num_envs), scale.init())

    def score(state: ScaledState[A, B], rollout: Rollout):
        b, novelty, metrics = bonus.score(state.novelty, rollout)
        out = scale.apply(state.discounted, state.returns, b[0], rollout.valid)
        after = ScaledState(novelty, out.discounted, out.returns)
        return out.bonus[None], after, metrics | out.metrics

    def update(state: ScaledState[A, B], rollout: Rollout, key: Array):
        novelty, metrics = bonus.update(state.novelty, rollout, key)
        return state._replace(novelty=novelty), metrics

    return Bonus(1, init, score, update)


@options
class ScaledOptions(BonusOptions):
    """Options of a novelty that may count by episode and is divided by a scale."""

    scale: ScaleOptions = ByReturns()
    """What the bonus is divided by."""
    episode: EpisodePart = NoEpisode()
    """How new a state is in its episode; the bonus is multiplied by it."""
    difference: Annotated[Unit, Short("novelty_difference")] = 0.0
    """NovelD: b(s′) less this share of b(s), at least 0. 0: b alone."""

    def novelty(self, problem: Problem) -> Bonus:
        """Returns how new a transition is in the life of the agent, without a scale."""
        raise NotImplementedError

    def make(self, problem: Problem) -> Bonus:
        novelty = self.novelty(problem)
        if self.difference:
            novelty = difference(novelty, self.difference)
        novelty = times(novelty, self.episode.make(problem))
        return scaled(novelty, self.scale.make(self.gamma_int), problem.num_envs)

    def check(self, run: Any) -> None:
        self.scale.check(run)
        if self.difference and getattr(self, "inputs", "next") != "next":
            raise LPOError(
                f"{named('novelty_difference')} is a difference between s′ and s, and this bonus "
                f"reads {self.inputs!r}; add {named('bonus_inputs')} next."  # pyright: ignore[reportAttributeAccessIssue]
            )
        if type(self).make is not ScaledOptions.make and not isinstance(self.episode, NoEpisode):
            raise LPOError(
                f"The bonus {self.kind!r} does not take {named('episode')}; leave it out, or write "
                "the bonus as a method novelty(problem) instead of make(problem)."
            )
