"""The contract of a start (where do rollouts begin?), and the start at the environment's reset.

Rollouts run on the host, so a start is host code: its state is a pytree of NumPy arrays.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from jax import Array

from lpo.math.nets import ActorCritic
from lpo.math.normalize import Moments
from lpo.options import Kinds, Part, options
from lpo.problem import Problem
from lpo.types import Rollout, Step


class Actor(Protocol):
    """What chooses the actions of a rollout: the policy, or a roll-in and then the policy."""

    def sample(self, obs: np.ndarray, noise: np.ndarray) -> np.ndarray: ...

    def follow(self, step: Step) -> np.ndarray:
        """Records the step after the last action. Returns which rows [N] may be learned from."""
        ...


class Init(Protocol):
    def __call__(
        self, key: Array, num_envs: int, params: ActorCritic, moments: Moments, /
    ) -> Any: ...


class Sample(Protocol):
    def __call__(
        self, state: Any, policy: Any, rng: np.random.Generator, /
    ) -> tuple[Actor, Any]: ...


class Update(Protocol):
    def __call__(
        self,
        state: Any,
        params: ActorCritic,
        moments: Moments,
        rollout: Rollout,
        rng: np.random.Generator,
        /,
    ) -> tuple[Any, dict[str, float]]: ...


class Start(NamedTuple):
    """``sample`` returns what acts in a rollout; ``update`` follows each policy change."""

    init: Init  # (key, num_envs, params, moments) → state
    sample: Sample  # (state, policy, rng) → (actor, state); the actor changes arrays of the state
    update: Update  # (state, params, moments, rollout, rng) → (state, metrics), at a switch


class StartPart(Part):
    """The options of a start. ``make`` returns the start itself."""

    kinds: ClassVar[Kinds[StartPart]] = Kinds("start", "lpo.starts")

    def make(self, problem: Problem) -> Start:
        raise NotImplementedError


class NoState(NamedTuple):
    pass


@StartPart.kinds.add
@options
class Reset(StartPart):
    """Episodes begin at the environment's reset."""

    kind: ClassVar[str] = "reset"

    def make(self, problem: Problem) -> Start:
        return reset()


def reset() -> Start:
    """Returns the start without a roll-in: the policy acts from the first step on."""
    return Start(
        lambda key, num_envs, params, moments: NoState(),
        lambda state, policy, rng: (policy, state),
        lambda state, params, moments, rollout, rng: (state, {}),
    )
