"""Device environments: a world under way, with its clock, its time limit and its resets.

A world draws from its own key alone, so its trajectory does not depend on the worlds beside it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, UInt32

from lpo.envs.device.base import DeviceEnv, Transition
from lpo.types import Obs


class World(NamedTuple):
    """One world between two steps: plain arrays, so that a checkpoint can hold them."""

    state: Any
    obs: Obs
    clock: Int[Array, ""]  # steps of the episode so far
    key: UInt32[Array, " K"]  # data of the key that the next step splits


class Stepped(NamedTuple):
    """One step of one world; the fields mean what they mean in `lpo.types.Step`."""

    obs: Obs  # what the policy sees next: s′, or s_0 of a new episode
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]
    next_obs: Obs  # the true s′
    success: Bool[Array, ""] | None  # meaningful where terminated | truncated; None: by return
    overflow: Int[Array, ""] | None = None  # bits of buffers that were too small


def begin(env: DeviceEnv, key: Array, params: dict[str, Any]) -> World:
    """Returns a world at the start of its first episode."""
    key, key_reset = jax.random.split(key)
    state, obs = env.reset(key_reset, params)
    return World(_arrays(state), obs, jnp.zeros((), jnp.int32), jax.random.key_data(key))


def advance(
    env: DeviceEnv, world: World, action: Float[Array, " A"], params: dict[str, Any]
) -> tuple[World, Stepped]:
    """Takes one step; where it ends the episode, the world is at the start of the next one."""
    keys = jax.random.split(jax.random.wrap_key_data(world.key), 3)
    key, key_step, key_reset = keys[0], keys[1], keys[2]
    step = env.step(world.state, action, key_step, params)
    clock = world.clock + 1
    truncated = _truncated(env, clock, step)
    ended = step.terminated | truncated

    fresh = env.reset(key_reset, params)
    state, obs = jax.tree.map(
        lambda new, old: jnp.where(ended, new, old), _arrays(fresh), _arrays((step.state, step.obs))
    )
    after = World(state, obs, jnp.where(ended, 0, clock), jax.random.key_data(key))
    return after, Stepped(
        obs, step.reward, step.terminated, truncated, step.obs, step.success, step.overflow
    )


def _truncated(env: DeviceEnv, clock: Int[Array, ""], step: Transition) -> Bool[Array, ""]:
    """Returns whether the time limit or the environment itself cuts the episode."""
    cut = jnp.zeros((), bool) if step.truncated is None else step.truncated
    return cut if env.horizon is None else cut | (clock >= env.horizon)


def _arrays(tree: Any) -> Any:
    """Returns ``tree`` with its numbers as arrays."""
    return jax.tree.map(jnp.asarray, tree)
