"""Where do rollouts begin? The contract, and the null object: where the environment resets to.

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
    """Who acts while a rollout is collected."""

    def sample(self, obs: np.ndarray, noise: np.ndarray) -> np.ndarray: ...

    def follow(self, step: Step) -> np.ndarray:
        """Takes note of the step that the last action led to.

        Returns which rows [N] the policy may learn from.
        """
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
    init: Init  # (key, num_envs, params, moments) → state
    sample: Sample  # (state, policy, rng) → (actor, state that the actor keeps up to date)
    update: Update  # (state, params, moments, rollout, rng) → (state, metrics), at a switch


class StartPart(Part):
    """Where do rollouts begin? Options of a start and the factory that makes it."""

    kinds: ClassVar[Kinds[StartPart]] = Kinds("start", "lpo.starts")

    def make(self, problem: Problem) -> Start:
        raise NotImplementedError


class NoState(NamedTuple):
    pass


@StartPart.kinds.add
@options
class Reset(StartPart):
    """Episodes begin where the environment resets to."""

    kind: ClassVar[str] = "reset"

    def make(self, problem: Problem) -> Start:
        return reset()


def reset() -> Start:
    """Returns the start in which the policy itself acts from the first step on, at no cost."""
    return Start(
        lambda key, num_envs, params, moments: NoState(),
        lambda state, policy, rng: (policy, state),
        lambda state, params, moments, rollout, rng: (state, {}),
    )
