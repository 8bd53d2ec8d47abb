"""Environments: the sparse tasks as Gymnasium environments.

Each is Gymnasium's own environment with another reward. Termination, observations and reset noise
are unchanged, and the time limit is the one of the registration (``registry.py``).
"""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.envs.registration import load_env_creator

from lpo.envs.specs import LOCOMOTION, MOUNTAIN_CAR, Threshold


class ThresholdReward(gymnasium.Wrapper):
    """Reward 1.0 when ``info[quantity]`` strictly exceeds the threshold, else 0.0."""

    def __init__(self, env: gymnasium.Env, threshold: Threshold):
        super().__init__(env)
        self.threshold = threshold

    def step(self, action):
        obs, _, terminated, truncated, info = self.env.step(action)
        reward = 1.0 if info[self.threshold.quantity] > self.threshold.value else 0.0
        return obs, reward, terminated, truncated, info


class GoalReward(gymnasium.Wrapper):
    """The goal's reward on the step that terminates, else 0.0."""

    def __init__(self, env: gymnasium.Env, goal_reward: float):
        super().__init__(env)
        self.goal_reward = goal_reward

    def step(self, action):
        obs, _, terminated, truncated, info = self.env.step(action)
        return obs, self.goal_reward if terminated else 0.0, terminated, truncated, info


def make_locomotion(
    task: str, preset: str | None = None, threshold: float | None = None, **kwargs: Any
) -> gymnasium.Env:
    """Returns the sparse task ``task`` without its time limit; ``kwargs`` are Gymnasium's."""
    spec = LOCOMOTION[task]
    return ThresholdReward(_base(spec.base_id, kwargs), spec.threshold(preset, threshold))


def make_mountain_car(**kwargs: Any) -> gymnasium.Env:
    """Returns sparse MountainCarContinuous without its time limit."""
    return GoalReward(_base(MOUNTAIN_CAR.base_id, kwargs), MOUNTAIN_CAR.goal_reward)


def _base(base_id: str, kwargs: dict[str, Any]) -> gymnasium.Env:
    """Returns Gymnasium's environment without wrappers, which our own registration adds."""
    entry_point = gymnasium.spec(base_id).entry_point
    creator: Any = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    return creator(**kwargs)
