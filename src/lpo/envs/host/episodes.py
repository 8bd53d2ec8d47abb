"""Environments: a batch of Gymnasium ``Env`` objects whose episodes can be replayed.

Every episode is reset with a seed of its own, a function of (seed, environment, episode number),
so the state of an environment is a function of that seed and the actions since. A checkpoint holds
these. Loading it replays the current episodes and checks that the last observations are bit-equal.

So it does not matter who steps the environments: a batch that begins in this process can go on in
others (``workers.py``), which replay its current episodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from lpo.envs.angles import described
from lpo.envs.codec import Codec
from lpo.envs.faults import check_finite
from lpo.envs.host.frame import SUCCEEDED
from lpo.envs.host.stepper import Played, Stepper
from lpo.errors import LPOError
from lpo.types import Obs, Step

# When ``env_workers`` is "auto", by benchmarks/workers.py:
PATIENCE = 1.0  # seconds of steps before the choice: about what it costs to start the processes
SLOW = 2e-3  # seconds: a step of the whole batch that takes longer gains by being shared


def episode_seed(seed: int, index: int, episode: int) -> int:
    """Returns the reset seed of an episode: 31 bits, which every environment accepts."""
    sequence = np.random.SeedSequence(seed, spawn_key=(index, episode))
    return int(sequence.generate_state(1)[0]) & 0x7FFFFFFF


class Choice:
    """Whether to share the steps among processes, by the time that the first ones take."""

    def __init__(self, hire: Callable[[], Stepper]):
        self.hire, self.seconds, self.steps = hire, 0.0, 0

    def due(self, seconds: float) -> bool:
        """Adds a step; returns whether enough of them have been seen."""
        self.seconds += seconds
        self.steps += 1
        return self.seconds >= PATIENCE

    @property
    def slow(self) -> bool:
        return self.seconds > SLOW * self.steps


def as_numbers(rows: np.ndarray) -> np.ndarray:
    """Returns rows as they are, or the bytes of rows that have fields."""
    return rows if rows.dtype.names is None else rows.view(np.uint8).reshape(len(rows), -1)


class EpisodeBatch:
    """Environments that ``stepper`` steps; a ``BatchEnv``.

    ``hire`` returns another stepper, which takes over where the first steps turn out to be slow.
    """

    def __init__(
        self,
        stepper: Stepper,
        codec: Codec,
        description: dict[str, Any],
        *,
        resumable: bool = True,
        hire: Callable[[], Stepper] | None = None,
    ):
        self._stepper, self.codec = stepper, codec
        self.num_envs, self.resumable = stepper.num_envs, resumable
        self.description = described(description, codec.angles)
        self._name = str(description["id"])
        self.observation_space, self.action_space = codec.observation_space, codec.action_space
        self._choice = Choice(hire) if hire is not None and resumable else None
        self._seed: int | None = None
        self._episode = [0] * self.num_envs
        self._next_seeds = np.zeros(self.num_envs, np.int64)
        self._actions: list[list[np.ndarray]] = [[] for _ in range(self.num_envs)]
        self._obs = self.codec.rows.empty(self.num_envs)

    def reset(self, seed: int) -> Obs:
        """Starts every environment on episode 0 of ``seed``."""
        self._seed = int(seed)
        self._episode = [-1] * self.num_envs
        self._next_seeds[:] = [self._seed_of(i, 0) for i in range(self.num_envs)]
        obs = self.codec.rows.empty(self.num_envs)
        self._begin(list(range(self.num_envs)), obs)
        self._obs = obs.copy()
        return self.codec.views(obs)

    def step(self, action: np.ndarray) -> Step:
        """Takes one step in every environment; an ended episode is followed by the next one."""
        if self._seed is None:
            raise LPOError(f"{self._name} was stepped before it was reset; call reset(seed).")
        taken = self.codec.take(action, self.num_envs)
        for i in range(self.num_envs):
            self._actions[i].append(taken[i])
        began = 0.0 if self._choice is None else time.perf_counter()
        next_obs, reward, terminated, truncated, said = self._stepper.step(
            taken, self._next_seeds, self._age
        )
        check_finite(self._name, next_obs, reward, self._age)
        done = terminated | truncated
        obs, success = next_obs, None
        if done.any():
            success = None if said is None else said == SUCCEEDED
            obs = next_obs.copy()
            self._begin(done.nonzero()[0].tolist(), obs)
        self._obs = obs.copy()
        if self._choice is not None and self._choice.due(time.perf_counter() - began):
            self._choose(self._choice)
        valid, see = np.ones(self.num_envs, bool), self.codec.views
        return Step(see(obs), reward, terminated, truncated, see(next_obs), valid, success)

    def _begin(self, rows: list[int], obs: np.ndarray) -> None:
        """Begins the next episode of ``rows``; what the policy sees then goes into ``obs``."""
        seeds = self._next_seeds.copy()
        for i in rows:
            self._episode[i] += 1
            self._actions[i] = []
            self._next_seeds[i] = self._seed_of(i, self._episode[i] + 1)
        self._stepper.begin(rows, seeds, obs)
        check_finite(self._name, obs, None, self._age)

    def _seed_of(self, i: int, episode: int) -> int:
        return episode_seed(self._seed or 0, i, episode)

    def _choose(self, choice: Choice) -> None:
        """Lets the other stepper take over if steps are slow and it plays the episodes alike."""
        self._choice = None
        if not choice.slow:
            return
        with suppress(LPOError):
            new = choice.hire()
            try:
                obs, ended = new.replay(self._current())
                self._check(obs, self._obs, ended)
            except BaseException:
                new.close()
                raise
            old, self._stepper = self._stepper, new
            with suppress(Exception):
                old.close()

    def _current(self) -> list[Played]:
        """Returns the episodes that are under way."""
        nothing = np.empty((0, *self.codec.action_shape), self.action_space.dtype)
        return [
            Played(i, self._seed_of(i, k), np.stack(actions) if actions else nothing)
            for i, (k, actions) in enumerate(zip(self._episode, self._actions, strict=True))
        ]

    def _age(self, i: int) -> int:
        """Returns the steps of environment ``i`` in its episode."""
        return len(self._actions[i])

    def get_state(self) -> dict[str, np.ndarray]:
        """Returns seeds, the current episodes' actions and the observations after them."""
        if not self.resumable:
            raise LPOError(
                f"{self._name} is registered as nondeterministic, so its state cannot be saved; "
                "run without saving simulator states."
            )
        if self._seed is None:
            raise LPOError(f"{self._name} has no state before its first reset; call reset(seed).")
        return {
            "seed": np.array([self._seed], np.uint64),
            "episode": np.array(self._episode, np.int64),
            "elapsed": np.array([self._age(i) for i in range(self.num_envs)], np.int64),
            "actions": np.concatenate([played.actions for played in self._current()]),
            "obs": as_numbers(self._obs),
        }

    def set_state(self, state: dict[str, np.ndarray]) -> Obs:
        """Replays the saved episodes; raises if the observations differ."""
        saved = np.asarray(state["obs"])
        needed = as_numbers(self._obs).shape
        if saved.shape != needed:
            raise LPOError(
                f"The saved observations of {self._name} have shape {saved.shape} and this batch "
                f"needs {needed}; resume with the num_envs of the run that saved them."
            )
        self._seed = int(state["seed"][0])
        self._episode = [int(k) for k in state["episode"]]
        parts = np.split(state["actions"], np.cumsum(state["elapsed"])[:-1])
        self._actions = [list(actions) for actions in parts]
        for i, k in enumerate(self._episode):
            self._next_seeds[i] = self._seed_of(i, k + 1)
        obs, ended = self._stepper.replay(self._current())
        self._check(obs, saved, ended)
        self._obs = obs.copy()
        return self.codec.views(obs)

    def _check(self, obs: np.ndarray, saved: np.ndarray, ended: set[int]) -> None:
        """Raises where a replayed episode has led to another observation than the first time."""
        for i in range(self.num_envs):
            if i in ended or obs[i].tobytes() != saved[i].tobytes():
                raise LPOError(
                    f"{self._name} (environment {i}) is not deterministic given its seed: the same "
                    "actions now lead to another state than before the checkpoint; draw all "
                    "randomness from self.np_random, keep no state over a reset (as a normalising "
                    "wrapper does), and train again."
                )

    def close(self) -> None:
        """Closes every environment."""
        self._stepper.close()
