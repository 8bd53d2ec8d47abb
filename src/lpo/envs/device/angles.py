"""Device environments: free angles as (cos, sin), as ``lpo.envs.angles`` has them on the host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from lpo.envs.angles import Angles, described
from lpo.envs.device.base import DeviceEnv, Transition
from lpo.errors import LPOError, named
from lpo.math.distributions import ActionSpec


@dataclass(frozen=True)
class Turned:
    """An environment whose angles are observed as (cos, sin)."""

    env: DeviceEnv
    angles: Angles

    @property
    def obs_size(self) -> int:
        return self.env.obs_size + len(self.angles)

    @property
    def action(self) -> ActionSpec:
        return self.env.action

    @property
    def horizon(self) -> int | None:
        return self.env.horizon

    @property
    def params(self) -> dict[str, Any]:
        return self.env.params

    @property
    def description(self) -> dict[str, Any]:
        return described(self.env.description, self.angles)

    def reset(self, key: Array, params: dict[str, Any]) -> tuple[Any, Float[Array, " O"]]:
        state, obs = self.env.reset(key, params)
        return state, self._turn(obs)

    def step(
        self, state: Any, action: Float[Array, " A"], key: Array, params: dict[str, Any]
    ) -> Transition:
        step = self.env.step(state, action, key, params)
        return step._replace(obs=self._turn(step.obs))

    def grown(self, overflow: int) -> Turned:
        """Returns the environment with larger buffers, where its physics has buffers."""
        env: Any = self.env
        return replace(self, env=env.grown(overflow))

    def _turn(self, obs: Float[Array, " P"]) -> Float[Array, " O"]:
        places = jnp.array(self.angles)
        angle = obs[places]
        return jnp.concatenate([obs.at[places].set(jnp.cos(angle)), jnp.sin(angle)])


def turned(env: DeviceEnv, angles: Angles) -> DeviceEnv:
    """Returns ``env`` with these angles as (cos, sin). Raises LPOError where one is not in it."""
    if not angles:
        return env
    if angles[-1] >= env.obs_size:
        raise LPOError(
            f"{named('angles')} names number {angles[-1]} of an observation, and those of "
            f"{env.description['id']} have {env.obs_size}; pass places from 0 to "
            f"{env.obs_size - 1}."
        )
    return Turned(env, angles)
