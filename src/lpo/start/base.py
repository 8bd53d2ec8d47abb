"""The contract of a start (where do rollouts begin?), and the start at the environment's reset.

On the host a start is NumPy code, as rollouts are: its state is a pytree of NumPy arrays. For
rollouts on a device it has a second form in JAX (``OnDevice``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import jax.numpy as jnp
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


class OnDevice(NamedTuple):
    """A start in JAX, for the N worlds of one run; the engine adds the axis of the runs.

    Its state has two halves: what changes at a switch (``known``) and what changes with a step
    (``plans``), so that a step does not copy the first.
    """

    init: Callable[..., Any]  # (key, num_envs, params, moments) → (known, plans)
    act: Callable[..., Any]  # (known, plans, obs, action, key) → action; it came from the policy
    follow: Callable[..., Any]  # (known, plans, done, key) → (plans, rows [N] to learn from)
    update: Callable[..., Any]  # (known, params, moments, rollout, key) → (known, metrics)
    all_rows: bool = False  # True: every row may be learned from


class Start(NamedTuple):
    """``sample`` returns what acts in a rollout; ``update`` follows each policy change."""

    init: Init  # (key, num_envs, params, moments) → state
    sample: Sample  # (state, policy, rng) → (actor, state); the actor changes arrays of the state
    update: Update  # (state, params, moments, rollout, rng) → (state, metrics), at a switch
    on_device: OnDevice | None = None  # None: this start runs on the host only
    anew: Callable[[Any], Any] = lambda state: state  # state → state, when all episodes begin anew


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
        OnDevice(
            init=lambda key, num_envs, params, moments: (NoState(), NoState()),
            act=lambda known, plans, obs, action, key: action,
            follow=lambda known, plans, done, key: (plans, jnp.ones(done.shape, bool)),
            update=lambda known, params, moments, rollout, key: (known, {}),
            all_rows=True,
        ),
    )
