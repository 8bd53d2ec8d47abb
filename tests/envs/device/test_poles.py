"""CartPole and Acrobot on the device against Gymnasium's own."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

from .play import defaults, draw, make

NEAR = {"CartPole-v1": 1e-5, "Acrobot-v1": 1e-3}  # a link turns almost once in a step
SPREAD = {"CartPole-v1": (2.5, 2.0, 0.22, 2.0), "Acrobot-v1": (3.2, 3.2, 13.0, 29.0)}


@pytest.mark.parametrize("env_id", SPREAD)
def test_one_step_from_the_same_state(env_id):
    """From states on both sides of the ends, and of the bounds of angles and speeds."""
    env, rng, count = make(env_id), np.random.default_rng(0), 200
    state = rng.uniform(-1, 1, (count, 4)).astype(np.float32) * np.array(SPREAD[env_id], np.float32)
    action = draw(env, rng, (count,))
    theirs: Any = gymnasium.make(env_id)
    ours = jax.jit(jax.vmap(env.step, (0, 0, None, None)))(
        state, action, jax.random.key(0), defaults(env)
    )
    ends = []
    for i in range(count):
        theirs.reset()
        theirs.unwrapped.state = state[i].astype(np.float64)
        obs, reward, terminated, _, _ = theirs.step(int(action[i, 0]))
        np.testing.assert_allclose(ours.obs[i], obs, rtol=1e-4, atol=NEAR[env_id])
        assert ours.terminated[i] == terminated
        assert ours.reward[i] == reward
        ends.append(terminated)
    assert 0 < np.mean(ends) < 1


@pytest.mark.parametrize("env_id", SPREAD)
def test_starts_and_limits_are_gymnasiums(env_id):
    env, theirs = make(env_id), gymnasium.make(env_id)
    keys = jax.random.split(jax.random.key(0), 500)
    _, obs = jax.vmap(env.reset, (0, None))(keys, defaults(env))
    first = np.stack([theirs.reset(seed=i)[0] for i in range(200)])
    assert obs.shape[1:] == first.shape[1:] and theirs.spec is not None
    np.testing.assert_allclose(obs.min(0), first.min(0), atol=5e-3)
    np.testing.assert_allclose(obs.max(0), first.max(0), atol=5e-3)
    assert env.horizon == theirs.spec.max_episode_steps
