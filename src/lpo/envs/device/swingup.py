"""Device environments: the swing-up of ``lpo.envs.swingup``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from lpo.envs.device.base import Transition
from lpo.envs.device.describe import describe
from lpo.envs.specs import SWING_UP
from lpo.envs.swingup import HANGING, SPREAD, observe, pays, swing
from lpo.math.distributions import ActionSpec


@dataclass(frozen=True)
class SwingUp:
    """The swing-up; the state is (x, θ, ẋ, θ̇)."""

    obs_size = 5
    action = ActionSpec((-1.0,), (1.0,))
    horizon = SWING_UP.horizon

    @property
    def params(self) -> dict[str, Any]:
        return {}

    @property
    def description(self) -> dict[str, Any]:
        return describe(SWING_UP.id, self.obs_size, {})

    def reset(self, key: Array, params: dict[str, Any]) -> tuple[Array, Float[Array, " 5"]]:
        noise = jax.random.uniform(key, (4,), minval=-SPREAD, maxval=SPREAD)
        state = jnp.array(HANGING) + noise
        return state, observe(jnp, state)

    def step(
        self, state: Array, action: Float[Array, " 1"], key: Array, params: dict[str, Any]
    ) -> Transition:
        state = swing(jnp, state, action)
        obs = observe(jnp, state)
        reward = pays(jnp, obs).astype(jnp.float32)
        return Transition(state, obs, reward, jnp.zeros((), bool))


def swing_up() -> SwingUp:
    """Returns the swing-up."""
    return SwingUp()
