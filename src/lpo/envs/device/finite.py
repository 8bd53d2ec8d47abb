"""Device environments: DeepSea and the combination lock, stepped from ``lpo.finite``.

The tables are constants of the compiled program. Observations are one-hot states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int

from lpo import finite
from lpo.envs.device.base import Transition
from lpo.envs.device.describe import describe
from lpo.finite import Table
from lpo.math.distributions import ActionSpec

TABLES: dict[str, Callable[..., Table]] = {
    "lpo/DeepSea-v0": finite.deep_sea,
    "lpo/CombinationLock-v0": finite.combination_lock,
}


@cache
def _table(env_id: str, kwargs: tuple[tuple[str, Any], ...]) -> Table:
    return TABLES[env_id](**dict(kwargs))


@dataclass(frozen=True)
class Finite:
    """A ``Table`` as an environment; an episode ends in its last state."""

    id: str
    kwargs: tuple[tuple[str, Any], ...] = ()

    horizon = None  # every episode of a table ends by itself

    @property
    def table(self) -> Table:
        return _table(self.id, self.kwargs)

    @property
    def obs_size(self) -> int:
        return self.table.reward.shape[0]

    @property
    def action(self) -> ActionSpec:
        return ActionSpec(nvec=(self.table.reward.shape[1],), scalar=True)

    @property
    def params(self) -> dict[str, Any]:
        return {}

    @property
    def description(self) -> dict[str, Any]:
        table = self.table
        return describe(self.id, self.obs_size, dict(self.kwargs)) | {
            "horizon": table.horizon,
            "max_return": table.max_return,
            "success_return": table.success_return,
        }

    def reset(
        self, key: Array, params: dict[str, Any]
    ) -> tuple[Int[Array, ""], Float[Array, " O"]]:
        state = jnp.zeros((), jnp.int32)
        return state, self._observe(state)

    def step(
        self, state: Int[Array, ""], action: Float[Array, " 1"], key: Array, params: dict[str, Any]
    ) -> Transition:
        table, pair = self.table, (state, action[0].astype(jnp.int32))
        first, second = jnp.asarray(table.successor, jnp.int32)[pair]
        after = first
        if table.chance.any():
            chance = jnp.asarray(table.chance, jnp.float32)[pair]
            after = jnp.where(jax.random.uniform(key) < chance, second, first)
        reward = jnp.asarray(table.reward, jnp.float32)[pair]
        return Transition(after, self._observe(after), reward, after == self.obs_size - 1)

    def _observe(self, state: Int[Array, ""]) -> Float[Array, " O"]:
        return jax.nn.one_hot(state, self.obs_size, dtype=jnp.float32)


def deep_sea(**kwargs: Any) -> Finite:
    """Returns DeepSea; the keyword arguments are those of ``lpo.finite.deep_sea``."""
    return _made("lpo/DeepSea-v0", kwargs)


def combination_lock(**kwargs: Any) -> Finite:
    """Returns the lock; the keyword arguments are those of ``lpo.finite.combination_lock``."""
    return _made("lpo/CombinationLock-v0", kwargs)


def _made(env_id: str, kwargs: dict[str, Any]) -> Finite:
    TABLES[env_id](**kwargs)  # refuses what makes no table, hashable or not
    return Finite(env_id, tuple(kwargs.items()))
