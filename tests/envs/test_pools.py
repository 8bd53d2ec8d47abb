"""EnvPool's environments beside MiniGrid's own, and what cannot be asked of them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from lpo import Agent
from lpo.config import configure
from lpo.envs import make_batch, make_single
from lpo.envs.make import observes_grid
from lpo.envs.pools import PREFIX, FromEnvPool, reader
from lpo.errors import LPOError
from lpo.policy import Policy

from .toys import same_step


def test_a_missing_package_is_one_sentence(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "envpool", None)
    with pytest.raises(LPOError, match=r"need EnvPool .*; run `pip install 'lpo-rl\[envpool\]'`"):
        make_batch("envpool:MiniGrid-DoorKey-8x8-v0", 2)
    assert not observes_grid("envpool:MiniGrid-DoorKey-8x8-v0")


class Pool:
    """What EnvPool does, by hand: two environments, t counts up, and the first ends at t = 2."""

    def __init__(self, seed: int):
        self.seed, self.t = seed, np.zeros(2, np.int64)
        self.ended = np.zeros(2, bool)

    def reset(self):
        return self.t.copy(), {}

    def step(self, actions):
        self.t = np.where(self.ended, 0, self.t + 1)
        reward = np.where(self.ended, 0.0, 1.0)
        self.ended = np.array([self.t[0] == 2, False])
        return self.t.copy(), reward, self.ended, self.ended, {}

    def close(self): ...


def test_no_transition_crosses_an_episode(monkeypatch):
    """An environment that ended ignores an action: that row is no transition."""
    made = []

    class ByHand(FromEnvPool):
        def __init__(self):
            self.num_envs, self.spec, self._read = 2, None, lambda obs: obs
            box = gymnasium.spaces.Box(0, 9, (), np.int64)
            self.single_observation_space, self.single_action_space = (
                box,
                gymnasium.spaces.Discrete(2),
            )
            self.observation_space = gymnasium.spaces.Box(0, 9, (2,), np.int64)
            self.description = {"id": "envpool:ByHand-v0", "horizon": 2}
            self._pool: Any = self._made(0)

        def _made(self, seed: int) -> Any:
            made.append(seed)
            return Pool(seed)

    batch = make_batch(ByHand(), 2)
    assert batch.reset(7).tolist() == [[0], [0]]
    steps = [batch.step(np.zeros(2, np.int64)) for _ in range(4)]
    assert [s.next_obs[:, 0].tolist() for s in steps] == [[1, 1], [2, 2], [0, 3], [1, 4]]
    assert [bool(s.terminated[0]) for s in steps] == [False, True, False, False]
    assert not any(s.terminated[1] for s in steps)
    assert not any(s.truncated.any() for s in steps)  # what ends is not cut as well
    assert [s.valid.tolist() for s in steps] == [[True] * 2, [True] * 2, [False, True], [True] * 2]
    for seed in (7, 8):
        batch.reset(seed)
    assert made[1] == made[2] != made[3] and max(made) < 2**30


@pytest.mark.parametrize("name", ["MiniGrid-Empty-8x8-v0", "MiniGrid-DistShift1-v0"])
def test_a_grid_is_the_one_of_minigrid(name):
    """These two draw nothing at random, so that the same actions lead to the same steps."""
    pytest.importorskip("envpool")
    pytest.importorskip("minigrid")
    one, other = make_batch(PREFIX + name, 1), make_batch(name, 1)
    assert one.codec.raw_observation_space == other.codec.raw_observation_space
    assert one.description["horizon"] == other.description["horizon"]
    assert one.description["success_return"] == other.description["success_return"]
    assert np.array_equal(one.reset(0), other.reset(0))
    rng, ended = np.random.default_rng(0), 0
    for _ in range(1500):
        action = np.array([rng.choice([0, 1, 2, 2, 2])])
        x = one.step(action)
        if not x.valid[0]:
            x = one.step(action)
        y = other.step(action)
        assert np.array_equal(x.next_obs, y.next_obs)
        assert x.reward == pytest.approx(y.reward, abs=1e-6)
        assert (x.terminated, x.truncated) == (y.terminated, y.truncated)
        ended += int(y.terminated[0] | y.truncated[0])
    assert ended >= 10


def test_seeds_decide_a_pool():
    pytest.importorskip("envpool")
    one, other = (make_batch("envpool:MiniGrid-DoorKey-6x6-v0", 3, threads=k) for k in (1, 2))
    assert np.array_equal(one.reset(4), other.reset(4))
    rng = np.random.default_rng(0)
    for _ in range(50):
        action = rng.integers(7, size=3)
        assert same_step(one.step(action), other.step(action))
    first = one.reset(4)
    assert np.array_equal(first, other.reset(4)) and not np.array_equal(first, one.reset(5))


def test_missions_are_codes():
    pytest.importorskip("envpool")
    pytest.importorskip("minigrid")
    name = "MiniGrid-Fetch-5x5-N2-v0"
    pool, plain = make_batch(PREFIX + name, 8), make_batch(name, 1)
    assert pool.codec.raw_observation_space == plain.codec.raw_observation_space
    missions = pool.codec.raw_observation_space["mission"].n  # type: ignore[index]
    rows = pool.reset(1)
    codes = {tuple(row[-missions:].nonzero()[0]) for row in rows}
    assert all(len(code) == 1 for code in codes) and len(codes) > 1


def test_a_policy_of_one_acts_in_the_other(tmp_path):
    pytest.importorskip("envpool")
    pytest.importorskip("minigrid")
    name = "MiniGrid-Empty-8x8-v0"
    assert observes_grid(PREFIX + name)
    small: dict[str, Any] = dict(
        algo="ppo", rollout=64, batch_size=16, epochs=1, hidden=(4,), num_envs=2, eval_every=0
    )
    with Agent(PREFIX + name, **small) as agent:
        path = agent.learn(128).policy.save(tmp_path / "policy")
    policy = Policy.load(path)
    env = make_single(PREFIX + name)
    assert env.unwrapped.spec is not None and env.unwrapped.spec.id == name
    plain = make_batch(name, 1)
    assert policy.codec.observation_space == plain.observation_space
    assert configure("ppo", env=PREFIX + name).task.native


@pytest.mark.parametrize(
    ("env", "options", "message"),
    [
        ("envpool:MiniGrid-DoorKey-9x9-v0", {}, "did you mean 'MiniGrid-DoorKey-"),
        ("envpool:CartPole-v1", {"preset": "half"}, "preset='half' does not apply"),
        ("envpool:CartPole-v1", {"env_workers": 2}, "stepped by the threads of EnvPool"),
        ("envpool:CartPole-v1", {"wrapper": "a:b"}, "wrapper a:b cannot wrap"),
        (
            "envpool:CartPole-v1",
            {"env_kwargs": {"colour": 3}},
            "EnvPool could not make CartPole-v1",
        ),
        ("envpool:MiniGrid-Empty-8x8-v0", {"env_kwargs": {"size": 9}}, "takes no env_kwargs"),
    ],
)
def test_refused(env, options, message):
    pytest.importorskip("envpool")
    with pytest.raises(LPOError, match=message):
        make_batch(env, 2, **options)
    with pytest.raises(LPOError, match="draws no clips"):
        make_single("envpool:CartPole-v1")


def test_other_spaces_stay_as_they_are():
    space = gymnasium.spaces.Box(-1, 1, (4,))
    read, same = reader("CartPole-v1", space, {})
    assert same is space and read("anything") == "anything"
