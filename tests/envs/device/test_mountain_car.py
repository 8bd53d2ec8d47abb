"""The mountain car on the device against Gymnasium's own."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from lpo.envs.device import begin

from .play import defaults, draw, go_on, make, worlds_at

IDS = ["MountainCarContinuous-v0", "lpo/SparseMountainCarContinuous-v0"]


def states(rng: np.random.Generator, count: int) -> np.ndarray:
    """Anywhere in the valley, and a third each beside the left wall and beside the goal."""
    position = rng.uniform(-1.2, 0.6, count)
    position[::3] = rng.uniform(-1.2, -1.15, len(position[::3]))
    position[1::3] = rng.uniform(0.4, 0.5, len(position[1::3]))
    return np.stack([position, rng.uniform(-0.07, 0.07, count)], 1).astype(np.float32)


def theirs(env_id: str, state: np.ndarray, action: np.ndarray, **kwargs: Any):
    env = gymnasium.make(env_id, **kwargs)
    body: Any = env.unwrapped
    rows = []
    for s, a in zip(state, action, strict=True):
        env.reset()
        body.state = s
        obs, reward, terminated, _, _ = env.step(a)
        rows.append((obs, reward, terminated))
    obs, reward, terminated = zip(*rows, strict=True)
    return np.array(obs), np.array(reward), np.array(terminated)


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("goal_velocity", [0.0, 0.03])
def test_one_step_from_the_same_state(env_id, goal_velocity):
    env, rng = make(env_id, goal_velocity=goal_velocity), np.random.default_rng(0)
    state, action = states(rng, 300), draw(env, rng, (300,))
    obs, reward, terminated = theirs(env_id, state, action, goal_velocity=goal_velocity)
    step = jax.jit(jax.vmap(env.step, (0, 0, None, None)))
    ours = step(state, action, jax.random.key(0), defaults(env))
    np.testing.assert_allclose(ours.obs, obs, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(ours.obs, ours.state)
    np.testing.assert_allclose(ours.reward, reward, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(ours.terminated, terminated)
    assert 0 < terminated.sum() < 200 and (obs[:, 0] == np.float32(-1.2)).any()


def climb(obs: np.ndarray) -> np.ndarray:
    return np.sign(obs[1:]).astype(np.float32)


def host_episode(env_id: str, first: np.ndarray, actions: np.ndarray | None):
    """Plays from ``first`` to the end: ``actions``, or a climb that follows the velocity."""
    env = gymnasium.make(env_id)
    obs, _ = env.reset(seed=0)
    body: Any = env.unwrapped
    body.state, obs, rows, ended = first, first, [], False
    while not ended:
        action = climb(obs) if actions is None else actions[len(rows)]
        obs, reward, terminated, truncated, _ = env.step(action)
        rows.append((action, obs, reward, terminated, truncated))
        ended = terminated or truncated
    return [np.array(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("climbs", [True, False])
def test_whole_episodes(env_id, climbs):
    """Eight episodes with the same starts and actions stay within 1e-4, and end on the same step:
    a climb at the goal, weak pushes at the time limit of 999."""
    env, rng, count = make(env_id), np.random.default_rng(2), 8
    first = np.stack([rng.uniform(-0.6, -0.4, count), np.zeros(count)], 1).astype(np.float32)
    pushes = 0.5 * draw(env, rng, (999, count))
    hosts = [host_episode(env_id, first[i], None if climbs else pushes[:, i]) for i in range(count)]
    actions = pushes.copy()
    for i, (action, *_) in enumerate(hosts):
        actions[: len(action), i] = action
    _, out = go_on(env, worlds_at(first, first), jnp.asarray(actions), defaults(env))
    for i, (_, obs, reward, terminated, truncated) in enumerate(hosts):
        length = len(obs)
        np.testing.assert_allclose(out.next_obs[:length, i], obs, rtol=0, atol=1e-4)
        np.testing.assert_allclose(out.reward[:length, i], reward, rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(out.terminated[:length, i], terminated)
        np.testing.assert_array_equal(out.truncated[:length, i], truncated)
        assert bool(terminated[-1]) == climbs and (climbs or length == 999)


def test_starts_have_gymnasiums_law():
    """Position even on [−.6, −.4], velocity 0."""
    env = make(IDS[0])
    keys = jax.random.split(jax.random.key(0), 5000)
    obs = np.asarray(jax.vmap(lambda key: begin(env, key, defaults(env)).obs)(keys))
    assert scipy.stats.kstest(obs[:, 0], "uniform", (-0.6, 0.2)).pvalue > 0.01
    assert not obs[:, 1].any()
