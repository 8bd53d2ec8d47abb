"""Device environments: Gymnasium's CartPole and Acrobot.

Gymnasium keeps their states in float64; here they are float32, so that episodes part slowly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from lpo.envs.device.base import Transition
from lpo.envs.device.describe import describe
from lpo.math.distributions import ActionSpec

GRAVITY = 9.8


@dataclass(frozen=True)
class Pole:
    """What both have in common: a state of four numbers, and starts near 0."""

    obs_size = 4
    action = ActionSpec(nvec=(2,), scalar=True)
    horizon = 500
    id = ""
    spread = 0.0  # of the start, to each side

    @property
    def params(self) -> dict[str, Any]:
        return {}

    @property
    def description(self) -> dict[str, Any]:
        return describe(self.id, self.obs_size, {})

    def reset(self, key: Array, params: dict[str, Any]) -> tuple[Array, Float[Array, " O"]]:
        state = jax.random.uniform(key, (4,), minval=-self.spread, maxval=self.spread)
        return state, self.observe(state)

    def observe(self, state: Float[Array, " 4"]) -> Float[Array, " O"]:
        return state


@dataclass(frozen=True)
class CartPole(Pole):
    """A pole on a cart that is to stay up; the state is (x, ẋ, θ, θ̇)."""

    id = "CartPole-v1"
    spread = 0.05

    def step(
        self, state: Array, action: Float[Array, " 1"], key: Array, params: dict[str, Any]
    ) -> Transition:
        (_, x_dot, angle, angle_dot), force = state, jnp.where(action[0] > 0.5, 10.0, -10.0)
        pole, total, half = 0.1, 1.1, 0.5  # masses, and half the length of the pole
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        push = (force + pole * half * angle_dot**2 * sine) / total
        inertia = half * (4 / 3 - pole * cosine**2 / total)
        angle_acc = (GRAVITY * sine - cosine * push) / inertia
        x_acc = push - pole * half * angle_acc * cosine / total
        state = state + 0.02 * jnp.stack([x_dot, x_acc, angle_dot, angle_acc])
        fallen = (jnp.abs(state[0]) > 2.4) | (jnp.abs(state[2]) > math.radians(12))
        return Transition(state, state, jnp.ones(()), fallen)


@dataclass(frozen=True)
class Acrobot(Pole):
    """Two links that hang, and a motor between them; the state is (θ₁, θ₂, θ̇₁, θ̇₂).

    −1 a step until the tip is a link's length above the upper end. Links have mass 1, length 1,
    their centre of mass in the middle, and moment of inertia 1.
    """

    id = "Acrobot-v1"
    obs_size = 6
    action = ActionSpec(nvec=(3,), scalar=True)
    spread = 0.1

    def step(
        self, state: Array, action: Float[Array, " 1"], key: Array, params: dict[str, Any]
    ) -> Transition:
        state = runge_kutta(lambda s: accelerated(s, action[0] - 1), state, 0.2)
        angles = jnp.mod(state[:2] + jnp.pi, 2 * jnp.pi) - jnp.pi
        fastest = jnp.array([4 * jnp.pi, 9 * jnp.pi])
        state = jnp.concatenate([angles, jnp.clip(state[2:], -fastest, fastest)])
        up = -jnp.cos(angles[0]) - jnp.cos(angles.sum()) > 1
        return Transition(state, self.observe(state), jnp.where(up, 0.0, -1.0), up)

    def observe(self, state: Float[Array, " 4"]) -> Float[Array, " 6"]:
        upper, lower = state[0], state[1]
        turned = [jnp.cos(upper), jnp.sin(upper), jnp.cos(lower), jnp.sin(lower)]
        return jnp.concatenate([jnp.stack(turned), state[2:]])


def accelerated(state: Float[Array, " 4"], torque: Float[Array, ""]) -> Float[Array, " 4"]:
    """Returns the time derivative of an acrobot's state (Sutton and Barto's equations)."""
    upper, lower, upper_dot, lower_dot = state
    sine, cosine = jnp.sin(lower), jnp.cos(lower)
    d1, d2 = 3.5 + cosine, 1.25 + 0.5 * cosine
    pull2 = 0.5 * GRAVITY * jnp.sin(upper + lower)
    swing = 0.5 * lower_dot**2 * sine + lower_dot * upper_dot * sine
    pull1 = 1.5 * GRAVITY * jnp.sin(upper) + pull2 - swing
    lower_acc = torque + d2 / d1 * pull1 - 0.5 * upper_dot**2 * sine - pull2
    lower_acc = lower_acc / (1.25 - d2**2 / d1)
    upper_acc = -(d2 * lower_acc + pull1) / d1
    return jnp.stack([upper_dot, lower_dot, upper_acc, lower_acc])


def runge_kutta(slope: Any, state: Array, seconds: float) -> Array:
    """Returns the state after ``seconds``, by one classical step of fourth order."""
    k1 = slope(state)
    k2 = slope(state + seconds / 2 * k1)
    k3 = slope(state + seconds / 2 * k2)
    k4 = slope(state + seconds * k3)
    return state + seconds / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def cart_pole() -> CartPole:
    """Returns Gymnasium's cart and pole."""
    return CartPole()


def acrobot() -> Acrobot:
    """Returns Gymnasium's acrobot."""
    return Acrobot()
