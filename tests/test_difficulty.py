"""The hit rates of experiments/difficulty: hand-worked episodes, and the sparse tasks."""

import importlib.util
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from lpo.envs.specs import HOPPER, LOCOMOTION, Threshold

SCRIPT = Path(__file__).parents[1] / "experiments" / "difficulty" / "measure.py"
spec = importlib.util.spec_from_file_location("difficulty_measure", SCRIPT)
assert spec is not None and spec.loader is not None
measure = importlib.util.module_from_spec(spec)
spec.loader.exec_module(measure)


class Cart(gymnasium.Env):
    """Moves with the velocity it is told for one second a step; an episode has three steps."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = spaces.Box(-10.0, 10.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.x = 0, 0.0
        return np.array([0.0]), {}

    def step(self, action):
        self.t += 1
        self.x += action[0]
        info = {"x_velocity": action[0], "x_position": self.x}
        return np.array([float(self.t)]), -1.0, False, self.t == 3, info


def episode(*speeds):
    x = np.array(speeds, float)
    return measure.Episode(x, np.cumsum(x), np.zeros(len(x)))


def test_hits_of_hand_worked_episodes():
    episodes = [episode(2, 1, 3, 0), episode(0, 0), episode(1, 1)]
    assert measure.hits(episodes, Threshold("", "x_velocity", 1.0)) == {
        "steps": 2 / 8,  # 2 and 3; a velocity of 1 does not exceed 1
        "return": 2 / 3,
        "episodes": 1 / 3,
    }
    assert measure.hits(episodes, Threshold("", "x_position", 1.0)) == {
        "steps": 5 / 8,  # x = 2, 3, 6, 6 and, in the third, 2
        "return": 5 / 3,
        "episodes": 2 / 3,
    }


def test_play_records_whole_episodes():
    episodes = measure.play(Cart(), lambda obs: 2 - obs, steps=4, seed=0)
    assert len(episodes) == 2  # three steps are too few, six are enough
    for played in episodes:
        assert played.x_velocity.tolist() == [2, 1, 0]
        assert played.x_position.tolist() == [2, 3, 3]
        assert played.dense_reward.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("task", LOCOMOTION.values(), ids=lambda task: task.base_id)
def test_one_set_of_episodes_serves_all_presets(task):
    """The sparse task itself pays what the filter says, and shows the policy the same."""

    def follow(env):
        """Plays one episode of pushes that depend on nothing but the step."""
        pushes = iter(np.random.default_rng(0).uniform(-1, 1, (1000, *env.action_space.shape)))
        seen = []

        def act(obs):
            seen.append(obs)
            return next(pushes).astype(np.float32)

        return measure.play(env, act, steps=1, seed=7), np.array(seen)

    body, seen = follow(gymnasium.make(task.base_id))
    for name, threshold in task.presets.items():
        sparse, seen_there = follow(gymnasium.make(task.id, preset=name))
        paid = sparse[0].dense_reward.sum()  # the reward of an environment is in this field
        assert measure.hits(body, threshold)["return"] == paid
        np.testing.assert_array_equal(seen, seen_there)


def test_fresh_policy_acts_as_a_run_begins():
    """Means near 0 and σ = 1 before clipping: about 16 % of the actions on either bound."""
    policy = measure.fresh_policy(HOPPER, seed=3)
    act = measure.network(policy, deterministic=False, seed=0)
    actions = np.array([act(np.zeros(11)) for _ in range(4000)])
    assert actions.shape == (4000, 3) and np.abs(actions).max() == 1
    assert (actions == 1).mean() == pytest.approx(0.1587, abs=0.02)
    mode = measure.network(policy, deterministic=True, seed=0)
    assert np.abs(mode(np.zeros(11))).max() < 0.05


def test_table_leaves_unfinished_training_open():
    rates = {"steps": 0.001, "return": 0.02, "episodes": 0.5}
    row = {"body": "Hopper-v5", "policy": "uniform", "seed": 0, "num_episodes": 3, "length": 20.0}
    row |= {"speed": 0.1, "fastest": 0.5, "farthest": 0.3, "dense_return": 18.0}
    text = measure.table([row | {"presets": dict.fromkeys(HOPPER.presets, rates)}])
    expected = "`half` | x_velocity > 0.7402 m/s | 0.1 % / 0.02 / 50.0 % | – | – | – |"
    assert expected in text
