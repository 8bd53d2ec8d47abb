"""Rules for the weight of the reward that were tried for the default; neither is in lpo.

``costs``: as long as all rewards are equal and no episode ends by itself, every policy returns the
same. So the reward advantage is an error of its critic, and has no weight.
``unit``: where the largest reward so far is at least half of the largest return so far, a success
pays at once, and that reward is the unit if it is below 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lpo.bonus.weigh import SizedFading, Streams, Weigh, Weighing, earned, weight_metrics
from lpo.math.normalize import Average, add_to_average, no_average
from lpo.options import options
from lpo.types import Rollout

AT_ONCE = 0.5  # least share of the largest return that a success pays at once


class State(NamedTuple):
    largest: Array  # [] reward
    best: Array  # [] return of an episode, or of its part in a rollout
    met: Array  # [] rewards have told policies apart
    earned: Average
    int: Average


def returns(rollout: Rollout) -> Array:
    """Returns the sum of rewards [T, N] since the episode or the rollout began."""

    def forward(before: Array, now: tuple[Array, Array, Array]):
        reward, ended, valid = now
        here = before + reward * valid
        return jnp.where(ended, 0.0, here), here

    start = jnp.zeros(rollout.reward.shape[1])
    steps = rollout.reward, rollout.terminated | rollout.truncated, rollout.valid
    return jax.lax.scan(forward, start, steps)[1]


def not_zero(rollout: Rollout) -> Array:
    return (rollout.valid & (rollout.reward != 0)).any()


def tells_apart(rollout: Rollout) -> Array:
    """Returns whether the return may depend on the policy, as far as a rollout shows it."""
    valid, reward = rollout.valid, rollout.reward
    least, largest = (jnp.where(valid, reward, x) for x in (jnp.inf, -jnp.inf))
    differ, ends = least.min() < largest.max(), (valid & rollout.terminated).any()
    return not_zero(rollout) & (differ | ends)


def rule(w: Any, measured: bool, apart: Callable[[Rollout], Array]) -> Weigh:
    """Returns the default's rule with another unit, or another word for rewards that are met."""

    def update(s: State, streams: Streams, a: Array, rollout: Rollout):
        valid, reward = rollout.valid, rollout.reward
        largest = jnp.maximum(s.largest, jnp.where(valid, reward, -jnp.inf).max())
        best = jnp.maximum(s.best, returns(rollout).max())
        at_once = (largest > 0) & (largest >= AT_ONCE * best) & (largest < w.earned_reward)
        full = jnp.where(at_once & measured, largest, w.earned_reward)
        total = earned(rollout, streams.gammas[0], full, w.earned_least).sum()
        m = add_to_average(s.earned, total, valid.sum(), w.memory)
        size = add_to_average(s.int, (a[1] ** 2).sum(), valid.sum(), w.memory)
        met = s.met | apart(rollout)
        alpha, beta = streams.weights
        beta = beta + (w.beta_earned - beta) * jnp.minimum(1.0, m.value / w.earned_share)
        alpha = alpha * w.earned_reward / full * met
        weights = jnp.array([alpha, beta / jnp.sqrt(size.value + 1e-16)])
        found = weight_metrics(weights) | {"rollout/earned": m.value}
        return weights, State(largest, best, met, m, size), found

    def init() -> State:
        low = jnp.float32(-jnp.inf)
        return State(low, low, jnp.bool_(False), no_average(), no_average())

    return Weigh(init, update)


@Weighing.kinds.add
@options
class Costs(SizedFading):
    """Equal costs count for nothing until an episode ends."""

    kind: ClassVar[str] = "costs"

    def make(self) -> Weigh:
        return rule(self, False, tells_apart)


@Weighing.kinds.add
@options
class Unit(SizedFading):
    """The unit is measured."""

    kind: ClassVar[str] = "unit"

    def make(self) -> Weigh:
        return rule(self, True, not_zero)


NAMES = (Costs.kind, Unit.kind)
