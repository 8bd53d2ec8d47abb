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
from lpo.envs.device.minigrid import (
    BALL,
    BOX,
    DROP,
    FORWARD,
    GOAL,
    LAVA,
    MOVES,
    PICKUP,
    TOGGLE,
    WALL,
)  # fmt: skip
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
    "MiniGrid-DoorKey-8x8-v0", "MiniGrid-KeyCorridorS3R3-v0", "MiniGrid-MultiRoom-N4-S5-v1",
    "MiniGrid-LavaCrossingS9N1-v0", "MiniGrid-ObstructedMaze-1Dlhb-v0",
    "MiniGrid-ObstructedMaze-1Q-v1",
]  # fmt: skip  # fmt: skip
WEIGHTS = np.array([2, 2, 6, 4, 1, 4, 1]) / 20  # of the actions: it must pick up, drop and toggle


def played_on_the_host(env_id: str, seed: int, rng: np.random.Generator, facing: int | None = None):
    """An episode from the start of ``seed``, or with the agent set before a cell of a kind."""
    env: Any = with_codes(gymnasium.make(env_id))
    codec = Codec(env_id, env.observation_space, env.action_space)
    env.reset(seed=seed)
    base = env.unwrapped
    if facing is not None:
        cells = base.grid.encode()
        wanted = base.obj.encode() if facing == BALL else (facing,)
        there = np.argwhere((cells[..., : len(wanted)] == wanted).all(-1))[0]
        ways = [d for d, move in enumerate(MOVES) if cells[tuple(there - move)][0] != WALL]
        base.agent_dir = ways[0]
        base.agent_pos = tuple(there - MOVES[ways[0]])
    start = np.array(base.agent_pos, np.int32), np.int32(base.agent_dir)
    script = {None: [], BOX: [PICKUP, DROP, TOGGLE, PICKUP, DROP], BALL: [PICKUP]}
    first = script.get(facing, [FORWARD])
    rows, ended = [], False
    while not ended and (facing is None or len(rows) < 30):
        action = first[len(rows)] if len(rows) < len(first) else rng.choice(7, p=WEIGHTS)
        obs, reward, terminated, truncated, _ = env.step(int(action))
        rows.append((action, codec.observation(obs), reward, terminated))
        ended = terminated or truncated
    return start, [np.array(column) for column in zip(*rows, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("env_id", GRIDS)
def test_grids_are_those_of_the_host(env_id):
    """Random episodes, and one that begins before the ball, goal, box or lava, step by step."""
    pytest.importorskip("minigrid")
    env: Any = make(env_id)
    rng = np.random.default_rng(0)
    check(env)
    assert env.horizon is not None
    starts = env.layouts.starts

    @jax.jit
    def replay(state, actions):
        def step(state, action):
            out = env.step(state, action[None].astype(jnp.float32), jax.random.key(0), {})
            return out.state, (out.obs, out.reward, out.terminated)

        return jax.lax.scan(step, state, actions)[1]

    obs = np.zeros(0)
    for seed, facing in ((0, None), (1, None), (2, None), (3, None), *before(env_id)):
        (pos, direction), (actions, *expected) = played_on_the_host(env_id, seed, rng, facing)
        state = jax.tree.map(lambda x, i=seed: jnp.asarray(x[i]), starts)
        state = state._replace(pos=jnp.asarray(pos), direction=jnp.asarray(direction))
        padded = np.concatenate([actions, np.zeros(env.horizon - len(actions), int)])
        obs, reward, terminated = (np.asarray(x)[: len(actions)] for x in replay(state, padded))
        np.testing.assert_array_equal(obs, expected[0])
        np.testing.assert_allclose(reward, expected[1], atol=1e-6)
        np.testing.assert_array_equal(terminated, expected[2])
        assert facing not in (BALL, GOAL) or reward[-1] > 0.98
        assert facing != LAVA or (terminated[-1] and reward[-1] == 0)
    host = make_batch(env_id, 1)
    found = {k: env.description[k] for k in ("id", "horizon", "max_return", "success_return")}
    assert found == {k: host.description[k] for k in found} and env.obs_size == obs.shape[-1]
    assert env.action == action_spec(host.action_space)


def before(env_id: str) -> list[tuple[int, int]]:
    """Returns the seeds and the kinds of cells before which an episode begins."""
    if "Corridor" in env_id:
        return [(4, BALL)]
    if "Obstructed" in env_id:
        return [(4, BALL), (5, BOX), (6, BOX), (7, BOX)]
    return [(4, GOAL), (5, LAVA)] if "Lava" in env_id else [(4, GOAL)]


def test_evaluations_play_layouts_that_training_does_not():
    pytest.importorskip("minigrid")
    env: Any = make("MiniGrid-DoorKey-5x5-v0")
    mine, others = env.layouts.starts, env.held_out.layouts.starts
    host: Any = with_codes(gymnasium.make("MiniGrid-DoorKey-5x5-v0"))
    host.reset(seed=1_000_000)
    np.testing.assert_array_equal(others.grid[0, ..., :3], host.unwrapped.grid.encode())
    assert len(mine.grid) == 4096 and len(others.grid) == 1024
    assert env.held_out.held_out == env.held_out and hash(env.held_out) != hash(env)
