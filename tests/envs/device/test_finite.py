"""Tables and grids on the device against the environments of the host, step by step."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo.envs import make_batch
from lpo.envs.codec import Codec
from lpo.envs.device import check
from lpo.envs.device.minigrid import BALL, FORWARD, GOAL, MOVES, PICKUP, WALL, layouts
from lpo.envs.minigrid import with_codes
from lpo.envs.tabular import TabularEnv
from lpo.math.distributions import action_spec

from .play import make, play

CASES = [
    ("lpo/DeepSea-v0", {"size": 5, "layout": 2}),
    ("lpo/DeepSea-v0", {"size": 4, "slip": 0.3}),
    ("lpo/CombinationLock-v0", {"length": 4, "num_actions": 5, "layout": 1}),
]


class Coin:
    """Stands in for Gymnasium's generator: always the same number."""

    def __init__(self, number: float):
        self.number = number

    def random(self) -> float:
        return self.number


def host(env_id: str, kwargs: dict) -> TabularEnv:
    table = gymnasium.make(env_id, **kwargs).unwrapped
    assert isinstance(table, TabularEnv)
    return table


def host_step(table: TabularEnv, state: int, action: int, number: float):
    table.state, table._np_random = state, Coin(number)  # type: ignore[assignment]
    obs, reward, terminated, _, _ = table.step(action)
    return int(obs.argmax()), reward, terminated


@pytest.mark.parametrize(("env_id", "kwargs"), CASES)
def test_every_pair(env_id, kwargs):
    """200 keys for each pair: the reward, the successors and their shares, the end."""
    env, table = make(env_id, **kwargs), host(env_id, kwargs)
    states, actions = (x.ravel() for x in np.indices(table.table.reward.shape))
    keys = jax.random.split(jax.random.key(0), 200)

    @jax.jit
    def step(state, action):
        def one(key):
            return env.step(state, action[None].astype(jnp.float32), key, {})

        return jax.vmap(one)(keys)

    out = jax.vmap(step)(jnp.asarray(states, jnp.int32), jnp.asarray(actions))
    after = np.asarray(out.state)
    np.testing.assert_array_equal(out.obs, np.eye(env.obs_size, dtype=np.float32)[after])
    for i, pair in enumerate(zip(states.tolist(), actions.tolist(), strict=True)):
        second, reward, ends = host_step(table, *pair, 0.0)  # below every chance that is not 0
        first, _, first_ends = host_step(table, *pair, 1.0)
        assert set(after[i].tolist()) == {first, second}
        assert np.asarray(out.reward)[i] == pytest.approx(reward, rel=1e-6)
        np.testing.assert_array_equal(
            out.terminated[i], np.where(after[i] == first, first_ends, ends)
        )
        if first != second:  # four standard deviations of 200 draws
            chance = table.table.chance[pair]
            gap = abs((after[i] == second).mean() - chance)
            assert gap < 4 * np.sqrt(chance * (1 - chance) / 200)


def test_an_episode_of_rights_by_hand():
    """Rights earn 1 on the step into the end, which is terminated and not truncated."""
    env = make("lpo/DeepSea-v0", size=4, layout=1)
    right = np.random.default_rng(1).integers(0, 2, size=(4, 4))
    actions = np.array([right[i, i] for i in range(4)] * 2, np.float32).reshape(8, 1, 1)
    _, out = play(env, jax.random.split(jax.random.key(0), 1), jnp.asarray(actions), {})
    assert out.reward[:, 0].tolist() == [0, 0, 0, 1] * 2
    assert out.terminated[:, 0].tolist() == [False, False, False, True] * 2
    assert not out.truncated.any()
    assert out.next_obs[:, 0].argmax(-1).tolist() == [5, 10, 15, 16] * 2
    assert out.obs[:, 0].argmax(-1).tolist() == [5, 10, 15, 0] * 2


GRIDS = [
    "MiniGrid-DoorKey-6x6-v0", "MiniGrid-DoorKey-8x8-v0", "MiniGrid-KeyCorridorS3R3-v0"
]  # fmt: skip
WEIGHTS = np.array([2, 2, 6, 4, 1, 4, 1]) / 20  # of the actions: it must pick up, drop and toggle


def played_on_the_host(env_id: str, seed: int, rng: np.random.Generator, facing: int | None = None):
    """An episode from the start of ``seed``, or with the agent set before a cell of a kind."""
    env: Any = with_codes(gymnasium.make(env_id))
    codec = Codec(env_id, env.observation_space, env.action_space)
    env.reset(seed=seed)
    base = env.unwrapped
    if facing is not None:
        cells = base.grid.encode()[..., 0]
        there = np.argwhere(cells == facing)[0]
        ways = [d for d, move in enumerate(MOVES) if cells[tuple(there - move)] != WALL]
        base.agent_dir = ways[0]
        base.agent_pos = tuple(there - MOVES[ways[0]])
    start = np.array(base.agent_pos, np.int32), np.int32(base.agent_dir)
    rows, ended = [], False
    while not ended:
        action = rng.choice(7, p=WEIGHTS) if facing is None else (PICKUP, FORWARD)[len(rows)]
        obs, reward, terminated, truncated, _ = env.step(int(action))
        rows.append((action, codec.observation(obs), reward, terminated))
        ended = terminated or truncated
    return start, [np.array(column) for column in zip(*rows, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("env_id", GRIDS)
def test_grids_are_those_of_the_host(env_id):
    """Four random episodes, and one that begins before the ball or the goal, step by step."""
    pytest.importorskip("minigrid")
    env, rng = make(env_id), np.random.default_rng(0)
    check(env)
    assert env.horizon is not None
    starts = layouts(env_id).starts

    @jax.jit
    def replay(state, actions):
        def step(state, action):
            out = env.step(state, action[None].astype(jnp.float32), jax.random.key(0), {})
            return out.state, (out.obs, out.reward, out.terminated)

        return jax.lax.scan(step, state, actions)[1]

    target = BALL if "Corridor" in env_id else GOAL
    for seed, facing in ((0, None), (1, None), (2, None), (3, None), (4, target)):
        (pos, direction), (actions, *expected) = played_on_the_host(env_id, seed, rng, facing)
        state = jax.tree.map(lambda x, i=seed: jnp.asarray(x[i]), starts)
        state = state._replace(pos=jnp.asarray(pos), direction=jnp.asarray(direction))
        padded = np.concatenate([actions, np.zeros(env.horizon - len(actions), int)])
        obs, reward, terminated = (np.asarray(x)[: len(actions)] for x in replay(state, padded))
        np.testing.assert_array_equal(obs, expected[0])
        np.testing.assert_allclose(reward, expected[1], atol=1e-6)
        np.testing.assert_array_equal(terminated, expected[2])
        assert facing is None or reward[-1] > 0.99
    host = make_batch(env_id, 1)
    found = {k: env.description[k] for k in ("id", "horizon", "max_return", "success_return")}
    assert found == {k: host.description[k] for k in found} and env.obs_size == obs.shape[1]
    assert env.action == action_spec(host.action_space)
