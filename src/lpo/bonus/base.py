"""The contract of a bonus: its options, its pure functions, and the bonus that adds nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import jax.numpy as jnp
from jax import Array

from lpo.bonus.weigh import NoState, Stream
from lpo.errors import LPOError
from lpo.math.advantage import ACROSS, ENDS, NEUTRAL
from lpo.options import Axis, Kinds, Names, Part, Short, Unit, options
from lpo.problem import Problem
from lpo.types import Rollout

S = TypeVar("S")  # the state of a bonus: a tree of arrays
Metrics = dict[str, Array]
Ends = Literal["across", "ends", "neutral"]
OF_THE_RUN = {  # what was the bonus's in an earlier contract
    "alpha": "Agent(env, alpha=2.0)",
    "beta": "Agent(env, beta=0.5)",
    "weighing": "Agent(env, weighing='sized')",
}
HOW: dict[Ends, int] = {"across": ACROSS, "ends": ENDS, "neutral": NEUTRAL}


class Bonus(NamedTuple, Generic[S]):
    """``score`` gives each transition of a rollout its bonus; ``update`` then learns from them."""

    num_streams: int  # J: how many value streams it adds (0 or 1)
    init: Callable[[Array], S]  # from a key
    score: Callable[[S, Rollout], tuple[Array, S, Metrics]]  # b [J, T, N], state, metrics
    update: Callable[[S, Rollout, Array], tuple[S, Metrics]]  # (state, rollout, key)


def scored(bonus: Bonus[S], state: S, rollout: Rollout) -> tuple[Array, S, Metrics]:
    """Returns what ``bonus.score`` does. Raises LPOError where that is not by its contract."""
    found = bonus.score(state, rollout)
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
    elsewhere: ClassVar[Mapping[str, str]] = {
        name: f"it is an option of the run, beside the bonus: {example}."
        for name, example in OF_THE_RUN.items()
    }

    def __init_subclass__(cls, **more: Any) -> None:
        """Raises LPOError for a bonus of the former contract, in which it also stated weights."""
        super().__init_subclass__(**more)
        stated = vars(cls)
        if of_run := next((name for name in (*OF_THE_RUN, "weigh") if name in stated), None):
            raise LPOError(
                f"{cls.__name__} has {of_run}, but the weights are options of the run and not of "
                "its bonus; remove it, or give it another name if it means something else."
            )
        if "streams" in stated and len(inspect.signature(stated["streams"]).parameters) > 1:
            raise LPOError(
                f"{cls.__name__}.streams takes more than self; return a tuple of lpo.bonus.Stream "
                "for the bonus alone."
            )

    @property
    def weighed(self) -> bool:
        """Whether it has a value stream, whose advantage is weighed."""
        return bool(self.streams())

    def make(self, problem: Problem) -> Bonus:
        raise NotImplementedError

    def streams(self) -> tuple[Stream, ...]:
        """Returns the value streams that the bonus adds to the reward's."""
        raise NotImplementedError


@options
class BonusOptions(BonusPart):
    """Options of every bonus: its value stream."""

    gamma_int: Axis[Unit] = 0.999
    """Discount of the bonus stream."""
    lambda_int: Axis[Unit] = 0.95
    """λ of the bonus stream's advantage estimates."""
    ends: Annotated[Ends, Short("intrinsic_ends")] = "across"
    """The return of the bonus at the end of an episode. across: it continues in the next episode.
    ends: it ends too. neutral: it is cut, as by a time limit."""
    keys: Annotated[Names, Short("bonus_keys")] = ()
    """Parts of a Dict observation that the bonus reads, as in `position arm`; by default all."""

    def streams(self) -> tuple[Stream, ...]:
        return (Stream(self.gamma_int, self.lambda_int, self.lambda_int, HOW[self.ends]),)


BonusPart.kinds.common = BonusOptions


@BonusPart.kinds.add
@options
class NoBonus(BonusPart):
    """No bonus: no second value stream, no state, no cost."""

    kind: ClassVar[str] = "none"

    def make(self, problem: Problem) -> Bonus:
        return none()

    def streams(self) -> tuple[Stream, ...]:
        return ()


def one() -> Bonus[NoState]:
    """Returns the bonus b = 1."""

    def score(state: NoState, rollout: Rollout) -> tuple[Array, NoState, Metrics]:
        return rollout.valid[None] * 1.0, state, {}

    return Bonus(1, lambda key: NoState(), score, lambda state, rollout, key: (state, {}))


def none() -> Bonus[NoState]:
    """Returns the bonus that adds no stream."""

    def score(state: NoState, rollout: Rollout) -> tuple[Array, NoState, Metrics]:
        return jnp.zeros((0, *rollout.reward.shape)), state, {}

    return Bonus(0, lambda key: NoState(), score, lambda state, rollout, key: (state, {}))
