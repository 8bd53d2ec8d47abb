"""Generalised advantage estimation for the reward and the bonus stream (eq. 7 of the paper)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Trajectory(NamedTuple):
    """What one environment's stream of ``T`` steps says about one value function."""

    reward: Array  # [T] r_t or b_t
    value: Array  # [T] V(s_t)
    next_value: Array  # [T] V(s′_t), s′ the true next state
    last_value: Array  # [] V of the observation after the last step
    terminated: Array  # [T]
    truncated: Array  # [T]
    valid: Array  # [T] False: padding or a reset step; passed over as if it were not there


def gae(x: Trajectory, gamma: Array, lambda_: float | Array, episodic: Array) -> Array:
    """Â_t = δ_t + γλ·Â_{t+1},  δ_t = r_t + γ·V(next) − V(s_t).

    Episodic: a terminal state is worth nothing, and nothing crosses a reset. Non-episodic (the
    bonus by default): after a terminal state life goes on in the first state of the next episode,
    so V(next) is its value and the sum goes on. In both, a time limit ends the sum and bootstraps
    from the true final observation.
    """

    def backward(carry, t):
        a_after, v_after = carry
        cut = t.truncated & ~t.terminated
        bootstrap = jnp.where(t.terminated, jnp.where(episodic, 0.0, v_after), t.next_value)
        linked = ~cut & ~(t.terminated & episodic)
        delta = t.reward + gamma * bootstrap - t.value
        a = delta + gamma * lambda_ * linked * a_after
        carry = jnp.where(t.valid, a, a_after), jnp.where(t.valid, t.value, v_after)
        return carry, a * t.valid

    steps = x._replace(last_value=jnp.zeros_like(x.reward))
    start = jnp.zeros_like(x.last_value), x.last_value
    return jax.lax.scan(backward, start, steps, reverse=True)[1]


def streams_gae(x: Trajectory, gamma: Array, lambda_: float, episodic: Array) -> Array:
    """``gae`` of S streams in N environments, [S, T, N] (flags [T, N]); each stream has its γ."""
    per_env = jax.vmap(gae, in_axes=(-1, None, None, None), out_axes=-1)
    axes: Any = Trajectory(*(0, 0, 0, 0, None, None, None))  # pyright: ignore
    return jax.vmap(per_env, in_axes=(axes, 0, None, 0))(x, gamma, lambda_, episodic)
