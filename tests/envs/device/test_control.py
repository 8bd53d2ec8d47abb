"""Maze and swing-up on the device against the environments of the host."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from lpo.envs.device import begin
from lpo.envs.maze import LARGE, SMALL

from .play import draw, go_on, make, worlds_at

IDS = ["lpo/PointMaze-v0", "lpo/PointMazeLarge-v0", "lpo/SwingUp-v0"]


def states(env_id: str, rng: np.random.Generator, count: int) -> np.ndarray:
    """States from all over the task, at every speed."""
    if env_id == "lpo/SwingUp-v0":
        high = np.array([2.4, np.pi, 5.0, 12.0])
        state = rng.uniform(-high, high, (count, 4))
        state[::4, 1] *= 0.15  # about upright
        return state.astype(np.float32)
    walls = (SMALL if env_id == "lpo/PointMaze-v0" else LARGE).walls
    cells = np.argwhere(~walls)[rng.integers((~walls).sum(), size=count)]
    place = cells[:, ::-1] + rng.uniform(0.1, 0.9, (count, 2))
    return np.concatenate([place, rng.uniform(-0.45, 0.45, (count, 2))], 1).astype(np.float32)


@pytest.mark.parametrize("env_id", IDS)
def test_one_step_from_the_same_state(env_id):
    env, rng = make(env_id), np.random.default_rng(0)
    state, action = states(env_id, rng, 600), draw(env, rng, (600,))
    ours = jax.jit(jax.vmap(env.step, (0, 0, None, None)))(state, action, jax.random.key(0), {})
    body: Any = gymnasium.make(env_id).unwrapped
    rewards = []
    for i in range(600):
        body.state = state[i]
        obs, reward, terminated, _, _ = body.step(action[i])
        np.testing.assert_allclose(ours.obs[i], obs, rtol=1e-6, atol=2e-6)
        assert (float(ours.reward[i]), bool(ours.terminated[i])) == (reward, terminated)
        rewards.append(reward)
    assert 0 < sum(rewards) < 300


def host_episodes(env_id: str, actions: np.ndarray):
    """Plays ``actions`` [T, N, A] to the end of an episode each; the states are those before."""
    host, episodes = gymnasium.make(env_id), []
    body: Any = host.unwrapped
    for i in range(actions.shape[1]):
        host.reset(seed=i)
        rows, ended = [], False
        while not ended:
            state = body.state.copy()
            row = host.step(actions[len(rows), i])[:4]
            rows.append((state, *row))
            ended = row[2] or row[3]
        episodes.append([np.array(column) for column in zip(*rows, strict=True)])
    return episodes


@pytest.mark.parametrize(("env_id", "horizon"), list(zip(IDS, (200, 400, 500), strict=True)))
def test_whole_episodes(env_id, horizon):
    """Six episodes of pushes that are kept up, step by step from the host's states."""
    env, rng, count = make(env_id), np.random.default_rng(1), 6
    actions = np.repeat(draw(env, rng, (horizon // 10, count)), 10, axis=0)
    step, lengths = jax.jit(jax.vmap(env.step, (0, 0, None, None))), []
    for i, (state, obs, reward, terminated, truncated) in enumerate(host_episodes(env_id, actions)):
        lengths.append(len(obs))
        padded = np.resize(state, (horizon, 4))  # one length, so that one program serves
        ours = step(padded, actions[:, i], jax.random.key(0), {})
        np.testing.assert_allclose(ours.obs[: len(obs)], obs, rtol=1e-6, atol=2e-6)
        np.testing.assert_array_equal(ours.reward[: len(obs)], reward)
        np.testing.assert_array_equal(ours.terminated[: len(obs)], terminated)
        assert truncated[-1] == (len(obs) == horizon)
    assert horizon in lengths


@pytest.mark.parametrize(
    ("env_id", "steps", "tolerance"),
    [(IDS[0], 200, 1e-4), (IDS[1], 400, 1e-4), (IDS[2], 100, 1e-3)],
)
def test_free_runs(env_id, steps, tolerance):
    """From the same starts by themselves: whole episodes of the mazes; two seconds of the swing-up,
    whose errors grow with every fall of the pole. They end on the same steps."""
    env, rng, count = make(env_id), np.random.default_rng(1), 6
    actions = np.repeat(draw(env, rng, (50, count)), 10, axis=0)
    episodes = host_episodes(env_id, actions)
    first = np.stack([state[0] for state, *_ in episodes])
    obs = first if env_id != IDS[2] else np.zeros((count, 5), np.float32)
    _, out = go_on(env, worlds_at(first, obs), jnp.asarray(actions[:steps]), {})
    for i, (_, obs, reward, terminated, truncated) in enumerate(episodes):
        length = min(steps, len(obs))
        np.testing.assert_allclose(out.next_obs[:length, i], obs[:steps], rtol=0, atol=tolerance)
        np.testing.assert_array_equal(out.reward[:length, i], reward[:steps])
        np.testing.assert_array_equal(out.terminated[:length, i], terminated[:steps])
        np.testing.assert_array_equal(out.truncated[:length, i], truncated[:steps])


def test_starts_of_the_mazes():
    """Even within a quarter of a cell of the middle of the start, at rest."""
    for env_id in IDS[:2]:
        obs = starts(env_id)
        for column in (obs[:, 0] - 1.5, obs[:, 1] - 1.5):
            assert scipy.stats.kstest(column, "uniform", (-0.25, 0.5)).pvalue > 0.01
        assert not obs[:, 2:].any()


def test_starts_of_the_swing_up():
    """Even within .05 of hanging at rest: sin θ is the angle from below, to third order."""
    x, cos, sin, v, spin = starts("lpo/SwingUp-v0").T
    for column in (x, sin, v, spin):
        assert scipy.stats.kstest(column, "uniform", (-0.05, 0.1)).pvalue > 0.01
    assert (cos < -0.998).all()


def starts(env_id: str) -> np.ndarray:
    env, keys = make(env_id), jax.random.split(jax.random.key(3), 2000)
    return np.asarray(jax.vmap(lambda key: begin(env, key, {}).obs)(keys))
