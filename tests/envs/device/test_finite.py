"""The tables on the device against the environments of the host, pair by pair."""

from __future__ import annotations

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo.envs.tabular import TabularEnv

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
