"""Replayable episodes: seeds, round trips, and environments that cannot keep the promise."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from lpo.envs import make_batch
from lpo.envs.host.episodes import episode_seed
from lpo.errors import LPOError

from .toys import Counter, Unseeded, Walk, same_step


def drive(batch, steps, seed):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        yield batch.step(rng.uniform(-1, 1, (batch.num_envs, 1)).astype(np.float32))


def test_episode_seeds_differ_and_repeat():
    seeds = [episode_seed(s, i, k) for s in range(4) for i in range(4) for k in range(4)]
    assert len(set(seeds)) == 64
    assert seeds == [episode_seed(s, i, k) for s in range(4) for i in range(4) for k in range(4)]
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_each_episode_is_reset_with_its_seed():
    seen = []

    class Spy(Counter):
        def reset(self, *, seed=None, options=None):
            seen.append(seed)
            return super().reset(seed=seed, options=options)

    batch = make_batch(Spy(), 1)
    batch.reset(7)
    for _ in range(5):
        batch.step(np.zeros(1, np.int64))
    assert seen == [episode_seed(7, 0, k) for k in range(3)]


def test_environment_does_not_depend_on_its_neighbours():
    """Environment 0 of a batch of 1 and of a batch of 3 live the same life."""
    one, three = make_batch(Walk, 1), make_batch(Walk, 3)
    assert np.array_equal(one.reset(3)[0], three.reset(3)[0])
    for _ in range(50):
        a, b = one.step(np.zeros((1, 1))), three.step(np.zeros((3, 1)))
        assert np.array_equal(a.next_obs[0], b.next_obs[0])
        assert np.array_equal(a.obs[0], b.obs[0])


@pytest.mark.parametrize("steps", [0, 1, 40])
def test_round_trip_is_bit_equal(steps):
    batch, other = make_batch(Walk, 3), make_batch(Walk, 3)
    obs = batch.reset(1)
    for step in drive(batch, steps, seed=0):
        obs = step.obs
    state = batch.get_state()
    assert np.array_equal(other.set_state(state), obs)
    ended = 0
    for expected, got in zip(drive(batch, 60, 9), drive(other, 60, 9), strict=True):
        assert same_step(expected, got)
        ended += int(expected.terminated.sum())
    assert ended >= 3


@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", "MountainCarContinuous-v0", "lpo/SparseMountainCarContinuous-v0"]
)
def test_round_trip_of_registered_environments(env_id):
    batch, other = make_batch(env_id, 2), make_batch(env_id, 2)
    batch.action_space.seed(0)
    batch.reset(0)
    actions = [np.stack([batch.action_space.sample() for _ in range(2)]) for _ in range(120)]
    for action in actions[:60]:
        batch.step(action)
    other.set_state(batch.get_state())
    for action in actions[60:]:
        assert same_step(batch.step(action), other.step(action))


def test_unseeded_environment_is_found_out():
    batch = make_batch(Unseeded, 2)
    batch.reset(0)
    list(drive(batch, 5, 0))
    with pytest.raises(LPOError, match=r"not deterministic given its seed.*np_random"):
        batch.set_state(batch.get_state())


def test_state_carried_over_a_reset_is_found_out():
    """The counter numbers its episodes, so a replayed one has another number."""
    batch = make_batch(Counter, 2)
    batch.reset(0)
    for _ in range(4):
        batch.step(np.zeros(2, np.int64))
    with pytest.raises(LPOError, match="not deterministic"):
        batch.set_state(batch.get_state())


def test_callers_may_write_into_observations():
    batch, other = make_batch(Walk, 1), make_batch(Walk, 1)
    batch.reset(0)[:] = 9.0
    other.set_state(batch.get_state())
    batch.step(np.zeros((1, 1))).obs[:] = 9.0
    other.set_state(batch.get_state())


def test_registered_as_nondeterministic():
    gymnasium.register("LpoTest/Dice-v0", entry_point=lambda **_: Walk(), nondeterministic=True)
    try:
        batch = make_batch("LpoTest/Dice-v0", 1)
        batch.reset(0)
        assert not batch.resumable
        with pytest.raises(LPOError, match="nondeterministic"):
            batch.get_state()
    finally:
        del gymnasium.registry["LpoTest/Dice-v0"]


def test_misuse():
    batch = make_batch(Walk, 2)
    with pytest.raises(LPOError, match="call reset"):
        batch.step(np.zeros((2, 1)))
    with pytest.raises(LPOError, match="call reset"):
        batch.get_state()
    batch.reset(0)
    with pytest.raises(LPOError, match="one row per environment"):
        batch.step(np.zeros((3, 1)))
    with pytest.raises(LPOError, match="num_envs"):
        make_batch(Walk, 3).set_state(batch.get_state())
