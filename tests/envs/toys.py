"""Environments small enough to work out by hand."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from lpo.types import Step


def same_step(a: Step, b: Step) -> bool:
    """Returns whether two steps are equal in every field."""
    arrays = zip(a[:-1], b[:-1], strict=True)
    if a.success is None or b.success is None:
        return a.success is b.success and all(np.array_equal(x, y) for x, y in arrays)
    return np.array_equal(a.success, b.success) and all(np.array_equal(x, y) for x, y in arrays)


class Counter(gymnasium.Env[Any, Any]):
    """Observes [k, t] in its k-th episode after t steps and pays 10 k + t.

    It terminates at t = 2 in odd episodes and is cut off at t = 3 in even ones.
    """

    def __init__(self):
        self.observation_space: spaces.Space[Any] = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = spaces.Discrete(2)
        self.k = -1
        self.t = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.k += 1
        self.t = 0
        return self._obs(), {}

    def _obs(self) -> Any:
        return np.array([self.k, self.t], np.float64)

    def step(self, action) -> Any:
        self.t += 1
        odd = self.k % 2 == 1
        ended = odd and self.t == 2
        cut = not odd and self.t == 3
        return self._obs(), 10.0 * self.k + self.t, ended, cut, {}


class DictCounter(Counter):
    """The counter with its observation in a dictionary, keys out of order."""

    def __init__(self):
        super().__init__()
        box = spaces.Box(-np.inf, np.inf, (1,), np.float64)
        self.observation_space = spaces.Dict({"t": box, "k": box})

    def _obs(self):
        return {"t": np.array([float(self.t)]), "k": np.array([float(self.k)])}


class Goal(Counter):
    """The counter whose info says success at t = 2: in odd episodes that is the last step."""

    def step(self, action):
        obs, reward, ended, cut, _ = super().step(action)
        return obs, reward, ended, cut, {"is_success": self.t == 2}


class Walk(gymnasium.Env):
    """A random walk that its seed decides, plus its action; ends when it leaves (-3, 3)."""

    def __init__(self):
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-1, 1)
        return np.array([self.x]), {}

    def step(self, action):
        self.x += float(action[0]) + self.np_random.normal()
        return np.array([self.x]), 0.0, abs(self.x) > 3, False, {}


class Slow(Walk):
    """A walk whose steps take 10 ms."""

    def step(self, action):
        time.sleep(0.01)
        return super().step(action)


class Obedient(Walk):
    """A walk that goes wrong where its action says so."""

    def step(self, action):
        match round(float(action[0]), 1):
            case 0.4:
                raise RuntimeError("the motor is on fire")
            case 0.5:
                return np.array([np.nan]), 0.0, False, False, {}
            case 0.6:
                return np.zeros(3), 0.0, False, False, {}
            case 0.7:
                time.sleep(600)
            case 0.8:  # as code that never returns to Python
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
                time.sleep(600)
            case 0.9:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class Unseeded(Walk):
    """A walk that takes its randomness from elsewhere than its seed."""

    noise = np.random.default_rng(0)

    def step(self, action):
        self.x += self.noise.normal()
        return np.array([self.x]), 0.0, False, False, {}


class SlowUnseeded(Unseeded):
    """The same, with steps of 10 ms."""

    def step(self, action):
        time.sleep(0.01)
        return super().step(action)


class Stillborn(Walk):
    """It cannot begin."""

    def reset(self, *, seed=None, options=None):
        raise OSError("no licence")


class Mortal(Counter):
    """Its second episode cannot begin."""

    def reset(self, *, seed=None, options=None):
        if self.k == 0:
            raise OSError("no second life")
        return super().reset(seed=seed)


class Local(Walk):
    """It can be made in the process of the tests alone, which marks itself."""

    def __init__(self):
        super().__init__()
        if not hasattr(sys, "of_the_tests"):
            raise ImportError("no module named there")


class Faulty(Counter):
    """A counter that does ``fault`` on its second step."""

    def __init__(self, fault: str):
        super().__init__()
        self.fault = fault

    def step(self, action):
        obs, reward, ended, cut, info = super().step(action)
        if self.t == 2:
            if self.fault == "raise":
                raise RuntimeError("the motor is on fire")
            if self.fault == "nan":
                obs = obs * np.nan
            if self.fault == "inf reward":
                reward = np.inf
            if self.fault == "shape":
                obs = np.zeros(3)
        return obs, reward, ended, cut, info


class Spaces(gymnasium.Env):
    """Zeros in any observation space, and a memory of the last action."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]):
        self.observation_space = observation_space
        self.action_space = action_space
        self.last: Any = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        self.last = action
        return self.observation_space.sample(), 0.0, False, False, {}
