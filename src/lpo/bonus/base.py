"""The contract of a bonus: its options, its pure functions, and the bonus that adds nothing."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array

from lpo.bonus.weigh import Fixed, NoState, Streams, Weigh, Weighing, fixed
from lpo.errors import LPOError
from lpo.math.advantage import ACROSS, ENDS, NEUTRAL
from lpo.options import Axis, Kinds, Names, NonNegative, Part, Short, Unit, options
from lpo.problem import Problem
from lpo.types import Rollout

Metrics = dict[str, Array]
Ends = Literal["across", "ends", "neutral"]
HOW: dict[Ends, int] = {"across": ACROSS, "ends": ENDS, "neutral": NEUTRAL}


class Init(Protocol):
    def __call__(self, key: Array, /) -> Any: ...


class Score(Protocol):
    def __call__(self, state: Any, rollout: Rollout, /) -> tuple[Array, Any, Metrics]: ...


class Update(Protocol):
    def __call__(self, state: Any, rollout: Rollout, key: Array, /) -> tuple[Any, Metrics]: ...


class Bonus(NamedTuple):
    """``score`` gives each transition of a rollout its bonus; ``update`` then learns from them."""

    num_streams: int  # J: how many value streams it adds (0 or 1)
    init: Init  # key → state
    score: Score  # (state, rollout) → (b [J, T, N], state, metrics)
    update: Update  # (state, rollout, key) → (state, metrics)


def scored(bonus: Bonus, state: Any, rollout: Rollout) -> tuple[Array, Any, Metrics]:
    """Returns what ``bonus.score`` does. Raises LPOError where that is not by its contract."""
    found: Any = bonus.score(state, rollout)
    if not isinstance(found, tuple) or len(found) != 3:
        raise LPOError(
            "The score of the bonus must return three things: b, its state, and a dictionary of "
            f"metrics; it returned {type(found).__name__}."
        )
    wanted, shape = (bonus.num_streams, *rollout.reward.shape), jnp.shape(found[0])
    if shape != wanted:
        raise LPOError(
            f"The score of the bonus returned b of shape {shape}; return {wanted}, which is "
            "[streams, steps, environments]."
        )
    return found


class BonusPart(Part):
    """The options of a bonus. ``make`` returns the bonus itself."""

    kinds: ClassVar[Kinds[BonusPart]] = Kinds("bonus", "lpo.bonuses")

    def make(self, problem: Problem) -> Bonus:
        raise NotImplementedError

    def streams(self, gamma: Any, lambda_: Any) -> Streams:
        """Returns the value streams; ``gamma`` and ``lambda_`` are those of the reward."""
        raise NotImplementedError

    def weigh(self) -> Weigh:
        """Returns how the advantages of the streams are weighed."""
        return fixed()


@options
class BonusOptions(BonusPart):
    """Options of every bonus: how it enters Â = α Â_ext + β Â_int (line 8 of Algorithm 7)."""

    gamma_int: Axis[Unit] = 0.999
    """Discount of the bonus stream."""
    lambda_int: Axis[Unit] = 0.95
    """λ of the bonus stream's advantage estimates."""
    alpha: Axis[NonNegative] = 2.0
    """Weight of the reward advantage in Â = α Â_ext + β Â_int."""
    beta: Axis[NonNegative] = 1.0
    """Weight of the bonus advantage."""
    ends: Annotated[Ends, Short("intrinsic_ends")] = "across"
    """The return of the bonus at the end of an episode. across: it continues in the next episode.
    ends: it ends too. neutral: it is cut, as by a time limit."""
    keys: Annotated[Names, Short("bonus_keys")] = ()
    """Parts of a Dict observation that the bonus reads, as in `position arm`; by default all."""
    weighing: Weighing = Fixed()
    """How the two advantages are weighed."""

    def weigh(self) -> Weigh:
        return self.weighing.make()

    def streams(self, gamma: Any, lambda_: Any) -> Streams:
        return Streams(
            gammas=jnp.array([gamma, self.gamma_int]),
            lambdas=jnp.array([lambda_, self.lambda_int]),
            weights=jnp.array([self.alpha, self.beta]),
            ends=jnp.array([ENDS, HOW[self.ends]]),
        )


@BonusPart.kinds.add
@options
class NoBonus(BonusPart):
    """No bonus: no second value stream, no state, no cost."""

    kind: ClassVar[str] = "none"

    def make(self, problem: Problem) -> Bonus:
        return none()

    def streams(self, gamma: Any, lambda_: Any) -> Streams:
        one = jnp.array([1.0])
        return Streams(jnp.array([gamma]), jnp.array([lambda_]), one, jnp.array([ENDS]))


def one() -> Bonus:
    """Returns the bonus b = 1."""

    def score(state: NoState, rollout: Rollout) -> tuple[Array, NoState, Metrics]:
        return rollout.valid[None] * 1.0, state, {}

    return Bonus(1, lambda key: NoState(), score, lambda state, rollout, key: (state, {}))


def none() -> Bonus:
    """Returns the bonus that adds no stream."""

    def score(state: NoState, rollout: Rollout) -> tuple[Array, NoState, Metrics]:
        return jnp.zeros((0, *rollout.reward.shape)), state, {}

    return Bonus(0, lambda key: NoState(), score, lambda state, rollout, key: (state, {}))
