"""How the two advantages are weighed: Â = w_ext Â_ext + w_int Â_int (line 8 of Algorithm 7).

The paper's weights are fixed, w = (α, β). Two other rules, alone or together:

sized: w = (α, β/σ_int), where σ is the recent root mean square of an advantage. So β is the size
    of the bonus advantage, in units of the reward. Until a reward other than 0 has been met, Â_ext
    is an error of the critic and nothing else, and its weight is 0.

fading: β becomes β + (β′ − β)·min{1, m/m′}: β where no reward is earned, and β′ once the share m of
    steps that earn reward has reached m′. A step counts by the next reward r of its episode, k
    steps later: γ^k·min{1, r/R}, the largest of these. So small rewards on the way count little,
    and not at all where they are below a given part of R.
    m is the recent mean. It is 1 where every step pays R, .63 where a path of 100 steps ends in a
    reward of R (γ = .99), and it falls again when the reward is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from lpo.errors import LPOError, named
from lpo.math.arrays import Scalar
from lpo.math.normalize import Average, add_to_average, no_average
from lpo.options import Axis, Kinds, NonNegative, Part, Positive, Rare, Short, Unit, options
from lpo.types import Rollout


class Stream(NamedTuple):
    """A value stream: how its returns are discounted."""

    gamma: Scalar
    lambda_: Scalar  # of the advantage estimates
    value_lambda: Scalar  # of the returns that its critic learns
    ends: int  # how the returns treat the end of an episode


class Streams(NamedTuple):
    """The value streams of a run: the reward first, then the bonus where there is one."""

    gammas: Array  # [S]
    lambdas: Array  # [S]
    value_lambdas: Array  # [S]
    ends: Array  # [S]
    weights: Array  # [S] α, β


def weighted(streams: Sequence[Stream], weights: Sequence[Scalar]) -> Streams:
    """Returns the streams of a run with their weights."""
    return Streams(
        gammas=jnp.array([s.gamma for s in streams]),
        lambdas=jnp.array([s.lambda_ for s in streams]),
        value_lambdas=jnp.array([s.value_lambda for s in streams]),
        ends=jnp.array([s.ends for s in streams]),
        weights=jnp.array(weights),
    )


class NoState(NamedTuple):
    pass


S = TypeVar("S")  # the state of a rule: arrays
A = TypeVar("A")
B = TypeVar("B")


class Weigh(NamedTuple, Generic[S]):
    """``update(state, streams, advantages [S, T, N], rollout)`` → (weights [S], state, metrics)."""

    init: Callable[[], S]
    update: Callable[[S, Streams, Array, Rollout], tuple[Array, S, dict[str, Array]]]


class Weighing(Part):
    """How the two advantages are weighed."""

    kinds: ClassVar[Kinds[Weighing]] = Kinds("weighing")

    @property
    def weights(self) -> tuple[Scalar, ...]:
        """The weights of the streams, before the rule changes them."""
        raise LPOError(
            f"{type(self).__name__} has no weights; extend lpo.bonus.Weights, which has alpha and "
            "beta."
        )

    def make(self) -> Weigh:
        raise NotImplementedError

    def check(self, run: Any) -> None:
        if run.bonus.weighed == self.implied:
            other = f"leave it out, or pass {named('bonus')} none instead"
            raise LPOError(
                f"{named('weighing')} {self.kind} does not fit {named('bonus')} {run.bonus.kind}; "
                f"{other if self.implied else 'without a bonus it is none'}."
            )


@options
class Weights(Weighing):
    """Options of every rule: the weights in Â = α Â_ext + β Â_int."""

    alpha: Axis[NonNegative] = 2.0
    """Weight of the reward advantage in Â = α Â_ext + β Â_int."""
    beta: Axis[NonNegative] = 1.0
    """Weight of the bonus advantage."""

    @property
    def weights(self) -> tuple[Scalar, ...]:
        return self.alpha, self.beta


Weighing.kinds.common = Weights


@Weighing.kinds.add
@options
class Fixed(Weights):
    """α and β as they are."""

    kind: ClassVar[str] = "fixed"

    def make(self) -> Weigh:
        return fixed()


def fixed() -> Weigh[NoState]:
    """Returns the weights (α, β)."""
    return Weigh(NoState, lambda state, streams, a, rollout: (streams.weights, state, {}))


Memory = Annotated[Rare[Axis[Positive]], Short("weighing_memory")]


@Weighing.kinds.add
@options
class Sized(Weights):
    """β over the size of the bonus advantage: β is in units of the reward."""

    kind: ClassVar[str] = "sized"
    memory: Memory = 20_000.0
    """Half-life of the size, in environment steps."""

    def make(self) -> Weigh:
        return sized(self.memory)


class SizedState(NamedTuple):
    met: Array  # [] a reward other than 0 has been met
    int: Average  # of Â_int²


def sized(half_life: Scalar) -> Weigh[SizedState]:
    """Returns the weights (α, β/σ_int)."""

    def update(state: SizedState, streams: Streams, a: Array, rollout: Rollout):
        met = state.met | (rollout.valid & (rollout.reward != 0)).any()
        bonus = add_to_average(state.int, (a[1] ** 2).sum(), rollout.valid.sum(), half_life)
        weights = streams.weights * jnp.array([met, 1 / jnp.sqrt(bonus.value + 1e-16)])
        return weights, SizedState(met, bonus), weight_metrics(weights)

    return Weigh(lambda: SizedState(jnp.bool_(False), no_average()), update)


@Weighing.kinds.add
@options
class Fading(Weights):
    """β at first, and a smaller weight once the agent earns reward."""

    kind: ClassVar[str] = "fading"
    memory: Memory = 20_000.0
    """Half-life of the share of steps that earn reward, in environment steps."""
    beta_earned: Axis[NonNegative] = 0.03
    """β′: weight of the bonus advantage once reward is earned."""
    earned_share: Axis[Positive] = 0.5
    """m′: share of steps that earn reward at which the weight is β′."""
    earned_reward: Axis[Positive] = 1.0
    """R: a reward of this size counts in full, a smaller one in proportion."""
    earned_least: Axis[Unit] = 0.0
    """Rewards below this fraction of R do not count."""

    def make(self) -> Weigh:
        return self.fade()

    def fade(self) -> Weigh:
        counts = self.earned_reward, self.earned_least
        return fading(self.memory, self.beta_earned, self.earned_share, *counts)


def earned(rollout: Rollout, gamma: Scalar, full: Scalar, least: Scalar = 0.0) -> Array:
    """Returns max_k γ^k·min{1, r_{t+k}/``full``} [T, N] within the episode; at least 0.

    Rewards below ``least``·``full`` do not count.
    """
    gain = jnp.clip(rollout.reward / full, 0.0, 1.0)
    gain = jnp.where(gain < least, 0.0, gain)

    def backward(after: Array, t: tuple[Array, Array, Array]):
        gain, ended, valid = t
        here = jnp.maximum(gain, gamma * ~ended * after)
        return jnp.where(valid, here, after), here * valid

    ended = rollout.terminated | rollout.truncated
    start = jnp.zeros(rollout.reward.shape[1])
    return jax.lax.scan(backward, start, (gain, ended, rollout.valid), reverse=True)[1]


def fading(
    half_life: Scalar, later: Scalar, share: Scalar, full: Scalar, least: Scalar = 0.0
) -> Weigh[Average]:
    """Returns the weights (α, β + (``later`` − β)·min{1, m/``share``})."""

    def update(state: Average, streams: Streams, a: Array, rollout: Rollout):
        total = earned(rollout, streams.gammas[0], full, least).sum()
        state = add_to_average(state, total, rollout.valid.sum(), half_life)
        alpha, beta = streams.weights
        beta = beta + (later - beta) * jnp.minimum(1.0, state.value / share)
        weights = jnp.array([alpha, beta])
        return weights, state, weight_metrics(weights) | {"rollout/earned": state.value}

    return Weigh(no_average, update)


@Weighing.kinds.add
@options
class SizedFading(Sized, Fading):
    """Both: β fades once reward is earned, and is over the size of the bonus advantage."""

    kind: ClassVar[str] = "sized-fading"
    memory: Memory = 20_000.0
    """Half-life of the size and of the share of steps that earn reward, in environment steps."""

    def make(self) -> Weigh:
        return one_after_the_other(
            self.fade(),
            sized(self.memory),
        )


@Weighing.kinds.add
@options
class NoWeighing(Weighing):
    """The reward's advantage as it is, where there is no bonus."""

    kind: ClassVar[str] = "none"
    implied: ClassVar[bool] = True

    @property
    def weights(self) -> tuple[Scalar, ...]:
        return (1.0,)

    def make(self) -> Weigh:
        return fixed()


def one_after_the_other(first: Weigh[A], second: Weigh[B]) -> Weigh[tuple[A, B]]:
    """Returns the rule ``second`` on the weights that ``first`` gives."""

    def update(state: tuple[A, B], streams: Streams, a: Array, rollout: Rollout):
        weights, one, found = first.update(state[0], streams, a, rollout)
        streams = streams._replace(weights=weights)
        weights, two, more = second.update(state[1], streams, a, rollout)
        return weights, (one, two), found | more

    return Weigh(lambda: (first.init(), second.init()), update)


def weight_metrics(weights: Array) -> dict[str, Array]:
    return {"advantage/ext_weight": weights[0], "advantage/int_weight": weights[1]}
