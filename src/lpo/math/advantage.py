"""Generalised advantage estimation for the reward and the bonus stream (eq. 7 of the paper)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from lpo.math.arrays import Scalar

# How the return of a stream treats the end of an episode.
ACROSS, ENDS, NEUTRAL = range(3)


class Trajectory(NamedTuple):
    """What the steps of an environment say about one value function.

    ``gae`` takes one stream of one environment: STN and TN are [T], SN is []. ``streams_gae`` takes
    S streams of N environments: STN is [S, T, N], SN is [S, N], TN is [T, N].
    """

    reward: Float[Array, "*STN"]  # r_t or b_t
    value: Float[Array, "*STN"]  # V(s_t)
    next_value: Float[Array, "*STN"]  # V(s′_t), s′ the true next state
    last_value: Float[Array, "*SN"]  # V of the observation after the last step
    terminated: Bool[Array, "*TN"]
    truncated: Bool[Array, "*TN"]
    valid: Bool[Array, "*TN"]  # False: padding or a reset step, which is skipped


class _Carry(NamedTuple):
    """What step t needs of the valid step after it."""

    advantage: Float[Array, ""]
    value: Float[Array, ""]


def gae(
    x: Trajectory, gamma: Scalar, lambda_: Scalar, ends: int | Int[Array, ""]
) -> Float[Array, " T"]:
    """Â_t = δ_t + γλ·Â_{t+1},  δ_t = r_t + γ·V(next) − V(s_t).

    ENDS (the reward): a terminal state is worth nothing, and nothing crosses a reset. ACROSS: after
    a terminal state life goes on in the first state of the next episode, so V(next) is its value
    and the sum goes on. NEUTRAL: a terminal state is as if a time limit had cut the episode there.
    In all three a time limit ends the sum and bootstraps from the true final observation.
    """
    neutral, dies = jnp.equal(ends, NEUTRAL), jnp.equal(ends, ENDS)

    def backward(after: _Carry, t: Trajectory) -> tuple[_Carry, Float[Array, ""]]:
        terminated = t.terminated & ~neutral
        cut = (t.truncated | t.terminated) & ~terminated
        bootstrap = jnp.where(terminated, jnp.where(dies, 0.0, after.value), t.next_value)
        linked = ~cut & ~(terminated & dies)
        delta = t.reward + gamma * bootstrap - t.value
        a = delta + gamma * lambda_ * linked * after.advantage
        here = _Carry(
            jnp.where(t.valid, a, after.advantage), jnp.where(t.valid, t.value, after.value)
        )
        return here, a * t.valid

    steps = x._replace(last_value=jnp.zeros_like(x.reward))
    start = _Carry(jnp.zeros_like(x.last_value), x.last_value)
    return jax.lax.scan(backward, start, steps, reverse=True)[1]


def streams_gae(
    x: Trajectory,
    gamma: Float[Array, " S"],
    lambda_: Float[Array, " S"],
    ends: Int[Array, " S"],
) -> Float[Array, "S T N"]:
    """Returns ``gae`` of S streams in N environments; each stream has its own γ and λ."""
    per_env = jax.vmap(gae, in_axes=(-1, None, None, None), out_axes=-1)
    axes: Any = Trajectory(*(0, 0, 0, 0, None, None, None))  # pyright: ignore[reportArgumentType]
    return jax.vmap(per_env, in_axes=(axes, 0, 0, 0))(x, gamma, lambda_, ends)


class Estimates(NamedTuple):
    """What S streams of a trajectory are worth: what the policy follows, what the critics learn."""

    advantages: Float[Array, "S T N"]
    errors: Float[Array, "S T N"]  # targets − V(s_t)
    targets: Float[Array, "S T N"]  # the returns that the critics learn


def estimates(
    x: Trajectory,
    gamma: Float[Array, " S"],
    lambda_: Float[Array, " S"],
    target_lambda: Float[Array, " S"],
    ends: Int[Array, " S"],
) -> Estimates:
    """Line 7 of Algorithm 7: advantages with λ, and value targets with a λ of their own."""
    a = streams_gae(x, gamma, lambda_, ends)
    errors = streams_gae(x, gamma, target_lambda, ends)
    return Estimates(a, errors, errors + x.value)
