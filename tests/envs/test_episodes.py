"""Replayable episodes: seeds, round trips, and environments that cannot keep the promise."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from lpo.envs import make_batch
from lpo.envs.host.episodes import episode_seed
from lpo.envs.host.vector import VectorBatch
from lpo.errors import LPOError

from .toys import Counter, DictCounter, Goal, Unseeded, Walk, same_step


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


# -- True final observations in every autoreset mode, worked out by hand on the counter

# per step: obs, reward, terminated, truncated, next_obs, valid
WITHIN_STEP = [
    ([0, 1], 1, False, False, [0, 1], True),
    ([0, 2], 2, False, False, [0, 2], True),
    ([1, 0], 3, False, True, [0, 3], True),
    ([1, 1], 11, False, False, [1, 1], True),
    ([2, 0], 12, True, False, [1, 2], True),
    ([2, 1], 21, False, False, [2, 1], True),
]
NEXT_STEP = [
    ([0, 1], 1, False, False, [0, 1], True),
    ([0, 2], 2, False, False, [0, 2], True),
    ([0, 3], 3, False, True, [0, 3], True),
    ([1, 0], 0, False, False, [1, 0], False),
    ([1, 1], 11, False, False, [1, 1], True),
    ([1, 2], 12, True, False, [1, 2], True),
    ([2, 0], 0, False, False, [2, 0], False),
    ([2, 1], 21, False, False, [2, 1], True),
]


def assert_follows(batch, table, columns=(0, 1)):
    """Every environment of ``batch`` goes through ``table``."""
    n = batch.num_envs
    columns = list(columns)
    assert np.array_equal(batch.reset(0)[:, columns], [[0, 0]] * n)
    for obs, reward, terminated, truncated, next_obs, valid in table:
        step = batch.step(np.zeros(n, np.int64))
        assert np.array_equal(step.obs[:, columns], [obs] * n)
        assert np.array_equal(step.reward, [reward] * n)
        assert np.array_equal(step.terminated, [terminated] * n)
        assert np.array_equal(step.truncated, [truncated] * n)
        assert np.array_equal(step.next_obs[:, columns], [next_obs] * n)
        assert np.array_equal(step.valid, [valid] * n)


def test_batch_of_environments():
    assert_follows(make_batch(Counter, 3), WITHIN_STEP)


def test_single_instance():
    assert_follows(make_batch(Counter(), 1), WITHIN_STEP)


@pytest.mark.parametrize("kind", [Counter, DictCounter])
@pytest.mark.parametrize(
    ("mode", "table"),
    [
        (AutoresetMode.SAME_STEP, WITHIN_STEP),
        (AutoresetMode.DISABLED, WITHIN_STEP),
        (AutoresetMode.NEXT_STEP, NEXT_STEP),
    ],
)
def test_vector_environment(kind, mode, table):
    vector = SyncVectorEnv([kind] * 2, autoreset_mode=mode)
    batch = make_batch(vector, 2)
    assert batch.description["autoreset_mode"] == mode.value
    assert_follows(batch, table)  # the dictionary flattens in the order of its sorted keys: k, t
    batch.close()


def one_step_apart(kinds: list[type[Counter]], mode: AutoresetMode) -> VectorBatch:
    """Two environments in their first episode; the second one is a step ahead."""
    vector = SyncVectorEnv(kinds, autoreset_mode=mode)
    batch = VectorBatch(vector)
    batch.reset(0)
    ahead = vector.envs[1].unwrapped
    assert isinstance(ahead, Counter)
    ahead.t = 1
    return batch


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_environments_that_end_apart(mode):
    """One environment is a step ahead: rows reset alone and the others are left as they are."""
    batch = one_step_apart([Counter, Counter], mode)
    first, second = (batch.step(np.zeros(2, np.int64)) for _ in range(2))
    assert np.array_equal(first.next_obs, [[0, 1], [0, 2]])
    assert np.array_equal(second.next_obs, [[0, 2], [0, 3]])
    assert np.array_equal(second.truncated, [False, True])
    shown = [0, 3] if mode == AutoresetMode.NEXT_STEP else [1, 0]
    assert np.array_equal(second.obs, [[0, 2], shown])
    third = batch.step(np.zeros(2, np.int64))
    assert np.array_equal(third.next_obs[0], [0, 3])
    assert np.array_equal(third.valid, [True, mode != AutoresetMode.NEXT_STEP])


def test_buffers_of_the_vector_environment_are_copied():
    vector = SyncVectorEnv([Counter], copy=False, autoreset_mode=AutoresetMode.NEXT_STEP)
    batch = make_batch(vector, 1)
    first = batch.reset(0)
    batch.step(np.zeros(1, np.int64))
    assert np.array_equal(first, [[0, 0]])


def test_vector_environment_cannot_be_saved():
    batch = make_batch(SyncVectorEnv([Counter] * 2), 2)
    assert not batch.resumable
    batch.reset(0)
    with pytest.raises(LPOError, match="pass the id or a function"):
        batch.get_state()
    with pytest.raises(LPOError, match="pass the id or a function"):
        batch.set_state({})


def test_vector_environment_must_say_when_it_resets():
    vector = SyncVectorEnv([Counter])
    del vector.metadata["autoreset_mode"]
    with pytest.raises(LPOError, match="AutoresetMode"):
        make_batch(vector, 1)


def test_missing_final_observation():
    class Forgetful(SyncVectorEnv):
        def step(self, actions):
            obs, reward, terminated, truncated, info = super().step(actions)
            info.pop("final_obs", None)
            return obs, reward, terminated, truncated, info

    batch = make_batch(Forgetful([Counter], autoreset_mode=AutoresetMode.SAME_STEP), 1)
    batch.reset(0)
    batch.step(np.zeros(1, np.int64))
    batch.step(np.zeros(1, np.int64))
    with pytest.raises(LPOError, match="final_obs"):
        batch.step(np.zeros(1, np.int64))


N, F, T = None, False, True  # no episode ended; it ended without success; with success


def successes(batch, steps: int):
    """What ``success`` says about environment 0 on each step."""
    taken = [batch.step(np.zeros(batch.num_envs, np.int64)) for _ in range(steps)]
    return [None if step.success is None else bool(step.success[0]) for step in taken]


def test_success_is_what_the_last_info_says():
    """At t = 2 of episode 0 the info says success too, but that is not its last step."""
    batch = make_batch(Goal, 2)
    batch.reset(0)
    assert successes(batch, 6) == [N, N, F, N, T, N]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (AutoresetMode.SAME_STEP, [N, N, F, N, T, N]),
        (AutoresetMode.DISABLED, [N, N, F, N, T, N]),
        (AutoresetMode.NEXT_STEP, [N, N, F, N, N, T, N, N]),
    ],
)
def test_success_of_a_vector_environment(mode, expected):
    batch = make_batch(SyncVectorEnv([Goal] * 2, autoreset_mode=mode), 2)
    batch.reset(0)
    assert successes(batch, len(expected)) == expected


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_without_an_entry_nothing_is_said_of_success(mode):
    batch = make_batch(SyncVectorEnv([Counter] * 2, autoreset_mode=mode), 2)
    batch.reset(0)
    assert successes(batch, 6) == [N] * 6
    single = make_batch(Counter, 2)
    single.reset(0)
    assert successes(single, 6) == [N] * 6


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_success_of_another_environment_does_not_count(mode):
    """The one that ends on the second step has no entry; the one that has goes on to the third."""
    batch = one_step_apart([Goal, Counter], mode)
    assert successes(batch, 3) == [N, N, F]
    batch = one_step_apart([Counter, Goal], mode)
    steps = [batch.step(np.zeros(2, np.int64)) for _ in range(3)]
    assert steps[1].success is not None and steps[1].success.tolist() == [False, False]
    assert steps[0].success is None and steps[2].success is None


def test_success_per_environment():
    """Both in one batch: the second environment is in its odd episode when the first is not."""
    ahead = Goal()
    ahead.k = 0  # its first episode is number 1 and ends at t = 2 with success
    made = iter([Goal(), ahead])
    batch = make_batch(lambda: next(made), 2)
    batch.reset(0)
    steps = [batch.step(np.zeros(2, np.int64)) for _ in range(3)]
    assert steps[0].success is None
    assert [s.success.tolist() for s in steps[1:] if s.success is not None] == [
        [False, True],
        [False, False],
    ]
