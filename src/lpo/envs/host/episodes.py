"""Environments: a batch of Gymnasium ``Env`` objects whose episodes can be replayed.

Every episode is reset with a seed of its own, a function of (seed, environment, episode number),
so the state of an environment is a function of that seed and the actions since. A checkpoint holds
these. Loading it replays the current episodes and checks that the last observations are bit-equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from lpo.envs.angles import Angles, described
from lpo.envs.codec import Codec
from lpo.envs.faults import Misfit, broken, check_finite, limited
from lpo.errors import LPOError
from lpo.types import Step


def episode_seed(seed: int, index: int, episode: int) -> int:
    """Returns the reset seed of an episode: 31 bits, which every environment accepts."""
    sequence = np.random.SeedSequence(seed, spawn_key=(index, episode))
    return int(sequence.generate_state(1)[0]) & 0x7FFFFFFF


class EpisodeBatch:
    """Steps a list of environments one after another; a ``BatchEnv``."""

    def __init__(
        self,
        envs: Sequence[gymnasium.Env],
        description: dict[str, Any],
        angles: Angles = (),
        step_timeout: float | None = None,
    ):
        self._envs = [limited(env, step_timeout) for env in envs]
        self.num_envs = len(self._envs)
        self.description = described(description, angles)
        self._name = str(description["id"])
        self.codec = Codec(self._name, envs[0].observation_space, envs[0].action_space, angles)
        self.observation_space = self.codec.observation_space
        self.action_space = self.codec.action_space
        spec = self._envs[0].spec
        self.resumable = not (spec is not None and spec.nondeterministic)
        self._seed: int | None = None
        self._episode = [0] * self.num_envs
        self._actions: list[list[np.ndarray]] = [[] for _ in self._envs]
        self._obs = self._empty()

    def _empty(self) -> np.ndarray:
        shape = (self.num_envs, *self.observation_space.shape)
        return np.empty(shape, self.observation_space.dtype)

    def reset(self, seed: int) -> np.ndarray:
        """Starts every environment on episode 0 of ``seed``."""
        self._seed = int(seed)
        self._episode = [0] * self.num_envs
        obs = self._empty()
        for i in range(self.num_envs):
            self._begin(i, obs)
        check_finite(self._name, obs, None, self._age)
        self._obs = obs.copy()
        return obs

    def step(self, action: np.ndarray) -> Step:
        """Takes one step in every environment; an ended episode is followed by the next one."""
        if self._seed is None:
            raise LPOError(f"{self._name} was stepped before it was reset; call reset(seed).")
        taken = self.codec.take(action, self.num_envs)
        decoded = self.codec.action(taken)
        next_obs = self._empty()
        reward = np.empty(self.num_envs)
        terminated = np.empty(self.num_envs, bool)
        truncated = np.empty(self.num_envs, bool)
        infos: list[dict[str, Any]] = [{}] * self.num_envs
        for i in range(self.num_envs):
            self._actions[i].append(taken[i])
            end = self._step_one(i, decoded[i], next_obs)
            reward[i], terminated[i], truncated[i], infos[i] = end
        check_finite(self._name, next_obs, reward, self._age)
        done = terminated | truncated
        obs, success = next_obs, None
        if done.any():
            success = _success(done, infos)
            obs = self._next_episodes(done, next_obs)
        self._obs = obs.copy()
        valid = np.ones(self.num_envs, bool)
        return Step(obs, reward, terminated, truncated, next_obs, valid, success)

    def _step_one(
        self, i: int, action: Any, into: np.ndarray
    ) -> tuple[float, bool, bool, dict[str, Any]]:
        """Steps environment ``i``; its observation goes into row ``i`` of ``into``."""
        try:
            obs, reward, terminated, truncated, info = self._envs[i].step(action)
            into[i] = self.codec.observation(obs)
            if not isinstance(info, dict):
                raise Misfit(f"its information is {info!r} and must be a dictionary")
            return float(reward), bool(terminated), bool(truncated), info
        except Exception as error:
            raise broken(self._name, i, self._age(i), error) from error

    def _next_episodes(self, done: np.ndarray, next_obs: np.ndarray) -> np.ndarray:
        """Begins the next episode where one is ``done``; returns what the policy sees next."""
        obs = next_obs.copy()
        for i in done.nonzero()[0].tolist():
            self._episode[i] += 1
            self._begin(i, obs)
        check_finite(self._name, obs, None, self._age)
        return obs

    def _begin(self, i: int, into: np.ndarray) -> None:
        """Resets environment ``i`` with the seed of its current episode."""
        self._actions[i] = []
        seed = episode_seed(self._seed or 0, i, self._episode[i])
        try:
            obs, _ = self._envs[i].reset(seed=seed)
            into[i] = self.codec.observation(obs)
        except Exception as error:
            raise broken(self._name, i, 0, error) from error

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
        rows = [row for actions in self._actions for row in actions]
        empty = np.empty((0, *self.codec.action_shape), self.action_space.dtype)
        return {
            "seed": np.array([self._seed], np.uint64),
            "episode": np.array(self._episode, np.int64),
            "elapsed": np.array([self._age(i) for i in range(self.num_envs)], np.int64),
            "actions": np.stack(rows) if rows else empty,
            "obs": self._obs,
        }

    def set_state(self, state: dict[str, np.ndarray]) -> np.ndarray:
        """Replays the saved episodes; raises if the observations differ."""
        saved = np.asarray(state["obs"])
        if saved.shape != self._obs.shape:
            raise LPOError(
                f"The saved observations of {self._name} have shape {saved.shape} and this batch "
                f"needs {self._obs.shape}; resume with the num_envs of the run that saved them."
            )
        self._seed = int(state["seed"][0])
        self._episode = [int(k) for k in state["episode"]]
        ends = np.cumsum(state["elapsed"])
        obs = self._empty()
        for i, actions in enumerate(np.split(state["actions"], ends[:-1])):
            self._replay(i, actions, obs)
            if obs[i].tobytes() != saved[i].tobytes():
                raise self._irreproducible(i)
        self._obs = obs.copy()
        return obs

    def _replay(self, i: int, actions: np.ndarray, into: np.ndarray) -> None:
        self._begin(i, into)
        for action in actions:
            self._actions[i].append(action)
            _, terminated, truncated, _ = self._step_one(i, self.codec.action(action), into)
            if terminated or truncated:
                raise self._irreproducible(i)

    def _irreproducible(self, i: int) -> LPOError:
        return LPOError(
            f"{self._name} (environment {i}) is not deterministic given its seed: the same actions "
            "now lead to another state than before the checkpoint; draw all randomness from "
            "self.np_random, keep no state over a reset (as a normalising wrapper does), and train "
            "again."
        )

    def close(self) -> None:
        """Closes every environment."""
        for env in self._envs:
            env.close()


def _success(done: np.ndarray, infos: Sequence[dict[str, Any]]) -> np.ndarray | None:
    """Returns which ended episodes succeeded, by ``info["is_success"]``; None if none says so."""
    ended = done.nonzero()[0].tolist()
    if not any("is_success" in infos[i] for i in ended):
        return None
    success = np.zeros(len(done), bool)
    for i in ended:
        success[i] = bool(infos[i].get("is_success", False))
    return success
