"""Environments: what steps the environments of a batch, here or in other processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np

from lpo.envs.codec import Codec
from lpo.envs.faults import Misfit, broken, limited
from lpo.envs.host.frame import FAILED, SUCCEEDED, UNSAID
from lpo.envs.success import reported

Age = Callable[[int], int]  # the steps of an environment in its episode


class Stepped(NamedTuple):
    """One step of every environment, before any of them begins its next episode."""

    next_obs: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    success: np.ndarray | None  # UNSAID, FAILED or SUCCEEDED, by its last information; None: unsaid


class Played(NamedTuple):
    """An episode that is to be played again."""

    row: int
    seed: int
    actions: np.ndarray  # [steps, *A]


class Stepper(Protocol):
    """Steps ``num_envs`` environments. An environment that fails is an LPOError that names it."""

    num_envs: int

    def begin(self, rows: Sequence[int], seeds: np.ndarray, into: np.ndarray) -> None:
        """Begins episodes with ``seeds`` [N] in ``rows``, whose observations go into ``into``."""
        ...

    def step(self, taken: np.ndarray, seeds: np.ndarray, age: Age) -> Stepped:
        """Takes one step in each; ``seeds`` [N] are those of the episodes that follow."""
        ...

    def replay(self, episodes: Sequence[Played]) -> tuple[np.ndarray, set[int]]:
        """Returns the observations after ``episodes``, and the rows whose episode ended."""
        ...

    def close(self) -> None: ...


def take_step(
    env: gymnasium.Env, codec: Codec, action: Any, into: np.ndarray, i: int
) -> tuple[float, bool, bool, int]:
    """Steps ``env``. Its observation goes into row ``i``; the rest is returned."""
    obs, reward, terminated, truncated, info = env.step(action)
    into[i] = codec.observation(obs)
    if not isinstance(info, dict):
        raise Misfit(f"its information is {info!r} and must be a dictionary")
    said = UNSAID
    told = reported(info) if terminated or truncated else None
    if told is not None:
        said = SUCCEEDED if told else FAILED
    return float(reward), bool(terminated), bool(truncated), said


def begin_episode(env: gymnasium.Env, codec: Codec, seed: int, into: np.ndarray, i: int) -> None:
    """Resets ``env``. Its first observation goes into row ``i``."""
    obs, _ = env.reset(seed=seed)
    into[i] = codec.observation(obs)


class LocalStepper:
    """Steps environments of this process one after another."""

    def __init__(
        self,
        envs: Sequence[gymnasium.Env],
        codec: Codec,
        name: str,
        step_timeout: float | None = None,
    ):
        self._envs = [limited(env, step_timeout) for env in envs]
        self.num_envs, self._codec, self._name = len(envs), codec, name

    def begin(self, rows: Sequence[int], seeds: np.ndarray, into: np.ndarray) -> None:
        for i in rows:
            try:
                begin_episode(self._envs[i], self._codec, int(seeds[i]), into, i)
            except Exception as error:
                raise broken(self._name, i, 0, error) from error

    def step(self, taken: np.ndarray, seeds: np.ndarray, age: Age) -> Stepped:
        del seeds  # ``begin`` gets them when they are needed
        n, decoded = self.num_envs, self._codec.action(taken)
        next_obs, reward = self._codec.rows.empty(n), np.empty(n)
        terminated, truncated = np.empty(n, bool), np.empty(n, bool)
        success, codec = None, self._codec
        for i, env in enumerate(self._envs):
            try:
                reward[i], terminated[i], truncated[i], said = take_step(
                    env, codec, decoded[i], next_obs, i
                )
            except Exception as error:
                raise broken(self._name, i, age(i), error) from error
            if said != UNSAID:
                success = np.full(n, UNSAID, np.int8) if success is None else success
                success[i] = said
        return Stepped(next_obs, reward, terminated, truncated, success)

    def replay(self, episodes: Sequence[Played]) -> tuple[np.ndarray, set[int]]:
        obs, ended = self._codec.rows.empty(self.num_envs), set()
        for row, seed, actions in episodes:
            age = 0
            try:
                begin_episode(self._envs[row], self._codec, seed, obs, row)
                for action in actions:
                    age, given = age + 1, self._codec.action(action)
                    _, over, cut, _ = take_step(self._envs[row], self._codec, given, obs, row)
                    if over or cut:
                        ended.add(row)
                        break
            except Exception as error:
                raise broken(self._name, row, age, error) from error
        return obs, ended

    def close(self) -> None:
        for env in self._envs:
            env.close()
