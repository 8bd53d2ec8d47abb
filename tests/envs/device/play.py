"""What the tests of device environments share: options, worlds as a batch, actions."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lpo.envs.device import DeviceEnv, Stepped, World, advance, begin, make_device


def options(env: str, threshold: Any = None, **env_kwargs: Any) -> Any:
    return SimpleNamespace(env=env, threshold=threshold, env_kwargs=env_kwargs or None, periodic=())


def make(env: str, **env_kwargs: Any) -> DeviceEnv:
    return make_device(options(env, **env_kwargs))


def defaults(env: DeviceEnv) -> dict[str, Any]:
    return {name: jnp.asarray(value) for name, value in env.params.items()}


def _play(
    env: DeviceEnv, keys: jax.Array, actions: jax.Array, params: dict[str, Any]
) -> tuple[World, Stepped]:
    """Begins a world for each key and plays ``actions`` [T, N, A]; steps have the axes [T, N]."""
    worlds = jax.vmap(begin, (None, 0, None))(env, keys, params)
    return _go_on(env, worlds, actions, params)


def _go_on(
    env: DeviceEnv, worlds: World, actions: jax.Array, params: dict[str, Any]
) -> tuple[World, Stepped]:
    """Plays ``actions`` [T, N, A] in worlds that are under way."""

    def step(worlds: World, action: jax.Array) -> tuple[World, Stepped]:
        return jax.vmap(advance, (None, 0, 0, None))(env, worlds, action, params)

    return jax.lax.scan(step, worlds, actions)


optimised_play = jax.jit(_play, static_argnums=0)
# Compiled in half the time: most programs of the tests run once.
quickly = partial(jax.jit, static_argnums=0, compiler_options={"xla_backend_optimization_level": 0})
play, go_on = quickly(_play), quickly(_go_on)


def worlds_at(states: np.ndarray, obs: np.ndarray) -> World:
    """Returns worlds at the start of an episode, in given states."""
    count = len(obs)
    keys = np.arange(2 * count, dtype=np.uint32).reshape(count, 2)
    return World(states, obs, np.zeros(count, np.int32), keys)  # type: ignore[arg-type]


def draw(env: DeviceEnv, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Returns actions that often lie on the bounds, or choices, as the policy stores them."""
    if env.action.nvec:
        size = (*shape, len(env.action.nvec))
        return rng.integers(env.action.nvec, size=size).astype(np.float32)
    low, high = np.array(env.action.low), np.array(env.action.high)
    return np.clip(rng.normal(size=(*shape, len(low))), low, high).astype(np.float32)
