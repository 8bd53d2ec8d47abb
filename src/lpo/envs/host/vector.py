"""Environments: a ready Gymnasium ``VectorEnv``.

Vector environments differ in when they reset an ended episode. ``Step`` hides that: ``next_obs``
is always the true final observation, and a step that only resets is marked not ``valid``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from lpo.envs.angles import Angles, described
from lpo.envs.codec import Codec
from lpo.envs.faults import broken, check_finite, limited
from lpo.envs.specs import declared
from lpo.envs.success import name_in
from lpo.errors import LPOError
from lpo.types import Obs, Step


def autoreset_mode(env: VectorEnv) -> AutoresetMode:
    """Returns when ``env`` resets an ended episode; raises if its metadata do not tell."""
    mode = env.metadata.get("autoreset_mode")
    try:
        return mode if isinstance(mode, AutoresetMode) else AutoresetMode(mode)
    except ValueError as error:
        raise LPOError(
            f"The vector environment {env} does not declare when it resets (autoreset_mode is "
            f"{mode!r}); set env.metadata['autoreset_mode'] to a gymnasium.vector.AutoresetMode."
        ) from error


class VectorBatch:
    """A ``BatchEnv`` over a vector environment in any autoreset mode.

    It cannot be resumed, because a vector environment does not show its states and random streams.
    """

    resumable = False

    def __init__(
        self,
        env: VectorEnv,
        angles: Angles = (),
        step_timeout: float | None = None,
        flat: bool = True,
    ):
        self._env: VectorEnv = limited(env, step_timeout)
        self._mode = autoreset_mode(env)
        self.num_envs = env.num_envs
        spec, told = env.spec, getattr(env, "description", {})  # of EnvPool, which has no spec
        name = spec.id if spec is not None else type(env.unwrapped).__name__
        self._name = str(told.get("id", name))
        self.codec = Codec(
            self._name, env.single_observation_space, env.single_action_space, angles, flat
        )
        self.observation_space = self.codec.observation_space
        self.action_space = self.codec.action_space
        self.description: dict[str, Any] = {
            "id": self._name,
            "horizon": spec.max_episode_steps if spec is not None else None,
            "backend": "vector",
            "autoreset_mode": self._mode.value,
        }
        if spec is not None:
            shape = env.single_observation_space.shape
            self.description |= declared(spec.id, shape, spec.reward_threshold)
        self.description |= told
        self.description = described(self.description, angles)
        self._started = False
        self._done = np.zeros(self.num_envs, bool)  # of the step before
        self._elapsed = np.zeros(self.num_envs, np.int64)

    def reset(self, seed: int) -> Obs:
        """Starts every environment; the vector environment makes their seeds from ``seed``."""
        self._done = np.zeros(self.num_envs, bool)
        self._elapsed[:] = 0
        self._started = True
        return self.codec.views(self._reset(seed=int(seed)))

    def _reset(self, **arguments: Any) -> np.ndarray:
        try:
            obs = self._observations(self._env.reset(**arguments)[0])
        except Exception as error:
            raise broken(self._name, None, None, error) from error
        check_finite(self._name, obs, None, self._age)
        return obs

    def _age(self, i: int) -> int:
        """Returns the steps of environment ``i`` in its episode."""
        return int(self._elapsed[i])

    def _observations(self, obs: Any) -> np.ndarray:
        return self.codec.observations(self._env.observation_space, obs, self.num_envs)

    def step(self, action: np.ndarray) -> Step:
        """Takes one step of the vector environment."""
        if not self._started:
            raise LPOError(f"{self._name} was stepped before it was reset; call reset(seed).")
        actions = self.codec.action(self.codec.take(action, self.num_envs))
        obs, reward, terminated, truncated, info = self._step(actions)
        valid = np.ones(self.num_envs, bool)
        if self._mode == AutoresetMode.NEXT_STEP:
            valid = ~self._done
        self._elapsed = np.where(valid, self._elapsed + 1, 0)
        check_finite(self._name, obs, reward, self._age)
        done = terminated | truncated
        next_obs, success = obs, None
        if done.any():
            success = self._success(done, info)
        if done.any() and self._mode == AutoresetMode.SAME_STEP:
            next_obs = self._with_final(obs, done, info)
        self._elapsed[done] = 0
        if done.any() and self._mode == AutoresetMode.DISABLED:
            obs = self._reset(options={"reset_mask": done.copy()})
        self._done, see = done, self.codec.views
        return Step(see(obs), reward, terminated, truncated, see(next_obs), valid, success)

    def _step(
        self, actions: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        try:
            obs, reward, terminated, truncated, info = self._env.step(actions)
            flags = np.array(terminated, bool), np.array(truncated, bool)
            return self._observations(obs), np.array(reward, np.float64), *flags, info
        except Exception as error:
            raise broken(self._name, None, None, error) from error

    def _with_final(self, obs: np.ndarray, done: np.ndarray, info: dict[str, Any]) -> np.ndarray:
        """Returns ``obs`` with the final observations of ended episodes in their rows."""
        if "final_obs" not in info:
            raise LPOError(
                f"{self._name} resets in the same step but returns no info['final_obs']; make it "
                "with autoreset_mode=AutoresetMode.NEXT_STEP."
            )
        next_obs = obs.copy()
        for i in done.nonzero()[0].tolist():
            try:
                next_obs[i] = self.codec.observation(_row(info["final_obs"], i))
            except Exception as error:
                raise broken(self._name, i, self._age(i), error) from error
        check_finite(self._name, next_obs, None, self._age)
        return next_obs

    def _success(self, done: np.ndarray, info: dict[str, Any]) -> np.ndarray | None:
        """Returns which ended episodes succeeded, by ``is_success`` or ``success``; None if none
        says so.

        Gymnasium batches the infos of the environments and marks in ``_is_success`` which of them
        have the entry. A reset in the same step moves the last info to ``final_info``.
        """
        if self._mode == AutoresetMode.SAME_STEP:
            info = info.get("final_info", {})
        name = name_in(info)
        if name is None:
            return None
        try:
            said = done & np.asarray(info.get(f"_{name}", True), bool)
            return said & np.asarray(info[name], bool) if said.any() else None
        except Exception as error:
            raise broken(self._name, None, None, error) from error

    def get_state(self) -> dict[str, np.ndarray]:
        """Raises: the state of a vector environment cannot be read."""
        raise LPOError(
            f"The state of the vector environment {self._name} cannot be saved; pass the id or a "
            "function that makes one environment, with num_envs, for a run that can resume."
        )

    def set_state(self, state: dict[str, np.ndarray]) -> Obs:
        """Raises: the state of a vector environment cannot be set."""
        del state
        return self.get_state()["obs"]

    def close(self) -> None:
        """Closes the vector environment."""
        self._env.close()


def _row(batch: Any, i: int) -> Any:
    """Returns row ``i`` of an info entry, which is nested where observations are dictionaries."""
    if isinstance(batch, dict):
        return {key: _row(value, i) for key, value in batch.items() if not key.startswith("_")}
    return batch[i]
