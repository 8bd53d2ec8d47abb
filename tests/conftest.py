"""Settings of the whole suite: shapes are checked, and compiled code is kept for the session."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

_CACHE = tempfile.mkdtemp(prefix="lpo-xla-")
# subprocesses of the tests inherit these
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XDG_STATE_HOME"] = _CACHE  # what the command remembers of runs
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", _CACHE)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")  # broadcasting is spelled out

from . import shapes  # noqa: E402

shapes.install()  # before lpo is imported

import gymnasium  # noqa: E402
import hypothesis  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from gymnasium import spaces  # noqa: E402

from lpo.config import Config, configure  # noqa: E402

hypothesis.settings.register_profile("same", derandomize=True, database=None)
hypothesis.settings.load_profile("same")  # a change fails or passes by itself, not by luck


def pytest_unconfigure():
    shutil.rmtree(_CACHE, ignore_errors=True)


class Countdown(gymnasium.Env):
    """Observation t; reward t; ends after ``length`` steps by ``how``."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, length: int = 3, how: str = "terminated"):
        self.length, self.how, self.t = length, how, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        end = self.t == self.length
        terminated, truncated = end and self.how == "terminated", end and self.how == "truncated"
        return np.full(1, self.t, np.float32), float(self.t), terminated, truncated, {}


@pytest.fixture
def countdown():
    return Countdown


@pytest.fixture
def tiny():
    """A configuration that trains in a blink; keyword arguments override it."""

    def make(**overrides) -> Config:
        small: dict[str, Any] = dict(
            algo="lpo",
            env="lpo/SparseHopper-v0",
            steps=1200,
            num_envs=4,
            rollout=160,
            batch_size=16,
            epochs=2,
            hidden=(8,),
            eval_every=400,
            eval_episodes=2,
            eval_max_steps=50,
            checkpoint_every=300,
            threads=1,
        )
        return configure(**(small | overrides))

    return make


@pytest.fixture
def faulty(monkeypatch):
    """Lets `--env faulty:Raises-v0` find tests/outside/faulty.py."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "outside"))
