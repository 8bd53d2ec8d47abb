"""When may the policy change? The contract, and the schedules that are known beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from lpo.types import Rollout


class Look(NamedTuple):
    """What a switch is shown: the rollout so far, which rows are new, and who acted."""

    rollout: Rollout  # the whole padded buffer
    rows: Any  # range of rows collected since the last look
    params: Any = None  # networks, frozen since the last switch
    moments: Any = None  # of the observations, as the policy normalised them
    steps: Any = None  # environment steps since the last look, where ``rows`` were cut away


class Switch(NamedTuple):
    """The engine collects ``wait(state)`` steps, asks ``update``, and learns when it fires."""

    capacity: int  # the largest rollout it can ask for, in environment steps: fixes all shapes
    init: Callable  # key → state
    wait: Callable  # state → environment steps to collect before the next look
    update: Callable  # (state, look) → (fire, state, metrics)


class ScheduleState(NamedTuple):
    k: Array  # policy changes so far


def schedule(sizes: np.ndarray) -> Switch:
    """Rollout k has ``sizes[k]`` steps; beyond the end the last size stays."""
    table = jnp.asarray(sizes, jnp.int32)

    def wait(state: ScheduleState) -> Array:
        return table[jnp.minimum(state.k, len(sizes) - 1)]

    def update(state: ScheduleState, look: Look):
        return jnp.bool_(True), ScheduleState(state.k + 1), {}

    return Switch(int(sizes.max()), lambda key: ScheduleState(jnp.int32(0)), wait, update)


def every(n: int) -> Switch:
    """A policy change every ``n`` steps (PPO, RND, ENIAC)."""
    return schedule(np.array([n]))


def growth_sizes(n: int, iterations: int) -> np.ndarray:
    """Line 5 of Algorithm 7: T_k = ⌈(1 + 1/K)^k N⌉ for k = 0 … K−1."""
    k = np.arange(iterations)
    return np.ceil((1 + 1 / iterations) ** k * n - 1e-9).astype(np.int64)


def growth_iterations(n: int, budget: int) -> int:
    """The K for which the rollouts of Algorithm 7 add up to the step budget: Σ_k T_k ≥ budget.

    The paper gives K no value of its own (its table lists T = 2e6, the number of steps).
    """
    low, high = 1, max(1, -(-budget // n))
    while low < high:
        middle = (low + high) // 2
        if growth_sizes(n, middle).sum() >= budget:
            high = middle
        else:
            low = middle + 1
    return low


def growth(n: int, iterations: int) -> Switch:
    """LPO's coarse stand-in for sensitivity sampling: rollouts grow by 1 + 1/K each."""
    return schedule(growth_sizes(n, iterations))
