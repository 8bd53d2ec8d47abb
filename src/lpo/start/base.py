"""Where do rollouts begin? The contract, and the null object: where the environment resets to.

Rollouts run on the host, so a start is host code: its state is a pytree of NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from lpo.types import Step


class Actor(Protocol):
    """Who acts while a rollout is collected."""

    def sample(self, obs: np.ndarray, noise: np.ndarray) -> np.ndarray: ...

    def follow(self, step: Step) -> np.ndarray:
        """Take note of the step that the last action led to; [N] which rows may be learned from."""
        ...


class Start(NamedTuple):
    init: Callable  # (key, num_envs, params, moments) → state
    sample: Callable  # (state, policy, rng) → (actor, state that the actor keeps up to date)
    update: Callable  # (state, params, moments, rollout, rng) → (state, metrics), at a switch


class NoState(NamedTuple):
    pass


def reset() -> Start:
    """Episodes begin where the environment resets to: the policy is the actor, at no cost."""
    return Start(
        lambda key, num_envs, params, moments: NoState(),
        lambda state, policy, rng: (policy, state),
        lambda state, params, moments, rollout, rng: (state, {}),
    )
