"""Device environments: Gymnasium's MountainCarContinuous and its sparse form.

The state is the observation (position, velocity). Gymnasium keeps it in float32, too; its cosine is
a float64, so that the two differ in the last bit of a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from lpo.envs.device.base import Transition
from lpo.envs.device.describe import describe
from lpo.envs.specs import MOUNTAIN_CAR
from lpo.math.distributions import ActionSpec

POWER, GRAVITY, MAX_SPEED = 0.0015, 0.0025, 0.07
LEFT, RIGHT, GOAL = -1.2, 0.6, 0.45
START = -0.6, -0.4  # position, drawn evenly


@dataclass(frozen=True)
class MountainCar:
    """An underpowered car that must swing up a hill."""

    id: str
    kwargs: tuple[tuple[str, Any], ...] = ()  # as given, for the description

    obs_size = 2
    action = ActionSpec((-1.0,), (1.0,))
    horizon = MOUNTAIN_CAR.horizon

    @property
    def sparse(self) -> bool:
        """Whether only the goal counts, and not the force."""
        return self.id == MOUNTAIN_CAR.id

    @property
    def params(self) -> dict[str, Any]:
        return {"goal_velocity": float(dict(self.kwargs).get("goal_velocity", 0.0))}

    @property
    def description(self) -> dict[str, Any]:
        return describe(self.id, self.obs_size, dict(self.kwargs))

    def reset(self, key: Array, params: dict[str, Any]) -> tuple[Array, Float[Array, " 2"]]:
        obs = jnp.stack([jax.random.uniform(key, minval=START[0], maxval=START[1]), jnp.zeros(())])
        return obs, obs

    def step(
        self, state: Array, action: Float[Array, " 1"], key: Array, params: dict[str, Any]
    ) -> Transition:
        position, velocity, force = state[0], state[1], action[0]
        velocity = velocity + (force * POWER - GRAVITY * jnp.cos(3 * position))
        velocity = jnp.clip(velocity, -MAX_SPEED, MAX_SPEED)
        position = jnp.clip(position + velocity, LEFT, RIGHT)
        velocity = jnp.where((position == LEFT) & (velocity < 0), 0.0, velocity)
        reached = (position >= GOAL) & (velocity >= params["goal_velocity"])
        reward = jnp.where(reached, MOUNTAIN_CAR.goal_reward, 0.0)
        cost = 0.0 if self.sparse else 0.1 * force**2
        state = jnp.stack([position, velocity])
        return Transition(state, state, reward - cost, reached)


def mountain_car(**kwargs: Any) -> MountainCar:
    """Returns Gymnasium's dense task."""
    return _checked(MountainCar(MOUNTAIN_CAR.base_id, tuple(kwargs.items())), **kwargs)


def sparse_mountain_car(**kwargs: Any) -> MountainCar:
    """Returns the task that pays at the goal only."""
    return _checked(MountainCar(MOUNTAIN_CAR.id, tuple(kwargs.items())), **kwargs)


def _checked(env: MountainCar, goal_velocity: float = 0.0) -> MountainCar:
    """Returns ``env``; another keyword raises TypeError."""
    return env
