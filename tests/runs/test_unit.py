"""Rewards too small to make the bonus fade: who is warned, when and of what."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from lpo import Agent
from lpo.config import configure
from lpo.runs.unit import SmallRewards

DEFAULT = configure("lpo-w")  # α = 1, and rewards count from .5 on
UNKNOWN = {"id": "Toy-v0"}


def test_small_rewards_are_told_once():
    watch = SmallRewards(DEFAULT, UNKNOWN)
    assert watch.look(0.0, 100) == [] == watch.look(-1.0, 200)
    (said,) = watch.look(0.05, 300)
    assert "(step 300) are at most 0.05" in said and "rewards of at least 0.5" in said
    assert "If 0.05 is what a success pays, pass alpha 20 earned_reward 0.05; " in said
    assert said.endswith("if a success pays R, alpha 1/R earned_reward R.")
    assert watch.look(0.05, 400) == []


@pytest.mark.parametrize(
    ("algo", "task", "rewards"),
    [
        ("lpo-w", UNKNOWN, [0.5, 0.05]),  # one that counts came first
        ("lpo-w", {"max_return": 1.0}, [0.05]),  # a larger one is known to be there
        ("lpo", UNKNOWN, [0.05]),  # a bonus that does not fade
        ("ppo", UNKNOWN, [0.05]),
    ],
)
def test_nobody_else_is_told(algo, task, rewards):
    watch = SmallRewards(configure(algo), task)
    assert [watch.look(reward, 100) for reward in rewards] == [[]] * len(rewards)


def test_the_unit_scales_alpha():
    """With α = 3 and R = 2 a reward of .1 becomes the unit by α = 3·2/.1."""
    watch = SmallRewards(configure("lpo-w", alpha=3.0, earned_reward=2.0), UNKNOWN)
    (said,) = watch.look(0.1, 100)
    assert "rewards of at least 1." in said and "alpha 60 earned_reward 0.1;" in said
    assert "alpha 6/R earned_reward R" in said


class Payday(gymnasium.Env):
    """Each step pays ``pay``; an episode has five steps."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, pay: float):
        self.pay, self.t = pay, 0

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.zeros(1, np.float32), self.pay, self.t == 5, False, {}


def test_training_warns(recwarn):
    small = {"rollout": 64, "batch_size": 32, "epochs": 1, "hidden": [8], "eval_every": 0}
    options: dict[str, Any] = small | {
        "bonus": "constant"
    }  # it fades as any other, and compiles sooner
    with pytest.warns(UserWarning, match="pass alpha 20 earned_reward 0.05"):
        Agent(lambda: Payday(0.05), **options).learn(128)
    recwarn.clear()
    Agent(lambda: Payday(1.0), **options).learn(64)
    assert not [w for w in recwarn if "earned" in str(w.message)]
