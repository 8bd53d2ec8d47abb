"""Environments: a cart must swing its pole up and hold it there; only an upright pole pays.

Masses, lengths and force are those of the DeepMind control suite's cart-pole, which pays near the
upright, too; bsuite has a task of the same kind. The integrator, the rail and the tolerances are
ours. ``swing`` is written once, for NumPy here and for `jax.numpy` on the device.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from lpo.envs.draw import Canvas

CART, POLE, HALF = 1.0, 0.1, 0.5  # kg, kg, and m from the hinge to the middle of the pole
GRAVITY, FORCE = 9.81, 10.0  # m/s², and N at action 1
SECONDS, SUBSTEPS = 0.02, 2  # a step, and the pieces that it is integrated in
RAIL = 2.4  # m to either side, where the cart stops
UPRIGHT, MIDDLE = 0.95, 1.0  # pays with cos θ above the first and |x| below the second
HANGING = (0.0, math.pi, 0.0, 0.0)  # at rest; an episode starts around it
SPREAD = 0.05


def swing(xp: Any, state: Any, action: Any) -> Any:
    """Returns the state (x, θ, ẋ, θ̇) after one step; θ = 0 is upright.

    ``xp`` is numpy or jax.numpy.
    """
    x, angle, v, spin = state[0], state[1], state[2], state[3]
    for _ in range(SUBSTEPS):
        push, turn = accelerations(xp, angle, spin, FORCE * action[0])
        v, spin = v + push * (SECONDS / SUBSTEPS), spin + turn * (SECONDS / SUBSTEPS)
        x, angle = x + v * (SECONDS / SUBSTEPS), angle + spin * (SECONDS / SUBSTEPS)
        v = xp.where(xp.abs(x) > RAIL, 0.0, v)
        x = xp.clip(x, -RAIL, RAIL)
    angle = angle - 2 * math.pi * xp.floor((angle + math.pi) / (2 * math.pi))
    return xp.stack([x, angle, v, spin])


def accelerations(xp: Any, angle: Any, spin: Any, force: Any) -> tuple[Any, Any]:
    """Returns ẍ and θ̈ of a cart with a uniform pole, both without friction."""
    total, cos, sin = CART + POLE, xp.cos(angle), xp.sin(angle)
    shared = (force + POLE * HALF * spin**2 * sin) / total
    turn = (GRAVITY * sin - cos * shared) / (HALF * (4 / 3 - POLE / total * cos**2))
    return shared - POLE * HALF / total * turn * cos, turn


def observe(xp: Any, state: Any) -> Any:
    """Returns the observation (x, cos θ, sin θ, ẋ, θ̇)."""
    return xp.stack([state[0], xp.cos(state[1]), xp.sin(state[1]), state[2], state[3]])


def pays(xp: Any, obs: Any) -> Any:
    """Returns whether a step with the observation ``obs`` after it pays."""
    return (obs[1] > UPRIGHT) & (xp.abs(obs[0]) < MIDDLE)


class SwingUpEnv(gymnasium.Env):
    """The swing-up as a Gymnasium environment; it never terminates."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012 - Gymnasium's form

    def __init__(self, render_mode: str | None = None):
        self.render_mode = render_mode
        high = np.array([RAIL, 1.0, 1.0, np.inf, np.inf], np.float32)
        self.observation_space = spaces.Box(-high, high, dtype=np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.state = np.zeros(4, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        noise = self.np_random.uniform(-SPREAD, SPREAD, 4)
        self.state = (np.array(HANGING) + noise).astype(np.float32)
        return observe(np, self.state), {}

    def step(self, action):
        pushed = np.clip(np.asarray(action, np.float32), -1.0, 1.0)
        self.state = swing(np, self.state, pushed)
        obs = observe(np, self.state)
        return obs, float(pays(np, obs)), False, False, {}

    def render(self) -> np.ndarray:
        """Returns the cart and its pole from the side."""
        x, angle = float(self.state[0]), float(self.state[1])
        tip = (x + 2 * HALF * math.sin(angle), 2 * HALF * math.cos(angle))
        canvas = Canvas((-2.8, 2.8), (-1.3, 1.3), scale=80)
        canvas.box((-RAIL, -0.02), (RAIL, 0.02), (150, 150, 160))
        canvas.box((-MIDDLE, -0.03), (MIDDLE, 0.03), (120, 190, 120))
        canvas.box((x - 0.2, -0.12), (x + 0.2, 0.12), (70, 70, 80))
        canvas.rod((x, 0.0), tip, 0.04, (200, 80, 60))
        return canvas.image


def make_swing_up(render_mode: str | None = None) -> SwingUpEnv:
    """Returns the swing-up without its time limit."""
    return SwingUpEnv(render_mode)
