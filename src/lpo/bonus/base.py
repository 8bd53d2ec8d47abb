"""What a bonus is: a pair of pure functions over a state, and the null object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp


class Bonus(NamedTuple):
    """``score`` values the transitions of a rollout, ``update`` learns from them afterwards."""

    num_streams: int  # J: how many value streams it adds (0 or 1)
    init: Callable  # key → state
    score: Callable  # (state, rollout) → (b [J, T, N], state, metrics)
    update: Callable  # (state, rollout, key) → (state, metrics)


class NoState(NamedTuple):
    pass


def none() -> Bonus:
    """Nothing is novel: no stream, no state, no cost."""

    def score(state: NoState, rollout: Any):
        return jnp.zeros((0, *rollout.reward.shape)), state, {}

    return Bonus(0, lambda key: NoState(), score, lambda state, rollout, key: (state, {}))
