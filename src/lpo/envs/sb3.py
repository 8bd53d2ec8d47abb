"""Environments: stable-baselines3's vector environments as Gymnasium's, and ours as SB3's.

Only this module imports SB3. ``lpo.Agent`` takes a ``VecEnv`` as it is; ``make_vec_env`` gives a
task of ours, stepped as one native batch where there is one, to SB3's own algorithms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

try:
    from stable_baselines3.common.vec_env import VecEnv  # pyright: ignore[reportMissingImports]
except ImportError as error:
    from lpo.errors import LPOError

    raise LPOError(
        "SB3's vector environments need stable-baselines3; run `pip install stable-baselines3`."
    ) from error

from lpo.envs.make import EnvLike, make_batch
from lpo.envs.success import reported
from lpo.types import BatchEnv


class FromVecEnv(VectorEnv):
    """A ``VecEnv`` of SB3 as a vector environment of Gymnasium, which resets in the same step."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, venv: VecEnv):
        self.venv, self.num_envs = venv, venv.num_envs
        self.single_observation_space = venv.observation_space
        self.single_action_space = venv.action_space
        self.observation_space = batch_space(venv.observation_space, venv.num_envs)
        self.action_space = batch_space(venv.action_space, venv.num_envs)
        # A wrapper may change rewards and observations, and then the task's own figures mislead.
        self.spec = venv.get_attr("spec")[0] if venv.unwrapped is venv else None

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts every environment; environment i has the seed ``seed`` + i."""
        if seed is not None:
            self.venv.seed(seed)
        return self.venv.reset(), {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Takes a step; what SB3 says in its infos goes where Gymnasium has it."""
        obs, reward, done, infos = self.venv.step(actions)
        truncated = np.array([bool(info.get("TimeLimit.truncated")) for info in infos]) & done
        info: dict[str, Any] = {}
        if done.any():
            final = np.empty(self.num_envs, object)
            for i in done.nonzero()[0]:
                final[i] = infos[i]["terminal_observation"]
            told = [reported(info) for info in infos]
            said = np.array([one is not None for one in told]) & done
            success = np.array([bool(one) for one in told])
            info["final_obs"] = final
            if said.any():
                info["final_info"] = {"is_success": success, "_is_success": said}
        return obs, reward, done & ~truncated, truncated, info

    def close(self, **kwargs: Any) -> None:
        """Closes the environments."""
        self.venv.close()


def make_vec_env(env: EnvLike, num_envs: int = 8, seed: int = 0, **options: Any) -> ToVecEnv:
    """Returns ``num_envs`` copies of a task as a ``VecEnv`` of SB3.

    ``options`` are those of ``lpo.envs.make_batch``: ``threshold``, ``preset``, ``threads``, ….
    """
    return ToVecEnv(make_batch(env, num_envs, **options), seed)


class ToVecEnv(VecEnv):
    """A batch of ours as a ``VecEnv``: flat observations and actions, the true last observation."""

    def __init__(self, batch: BatchEnv, seed: int = 0):
        self.batch = batch  # first: the line below asks for its attributes
        super().__init__(batch.num_envs, batch.observation_space, batch.action_space)
        self._seed, self._actions = seed, np.empty(0)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Sets the seed of the next ``reset``."""
        self._seed = self._seed if seed is None else seed
        return [self._seed] * self.num_envs

    def reset(self) -> np.ndarray:
        """Starts every environment anew."""
        return self.batch.reset(self._seed)

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Takes a step in every environment; an ended episode is followed by the next one."""
        step = self.batch.step(self._actions)
        done = step.terminated | step.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in done.nonzero()[0]:
            infos[i] = {
                "terminal_observation": step.next_obs[i],
                "TimeLimit.truncated": bool(step.truncated[i] and not step.terminated[i]),
            }
            if step.success is not None:
                infos[i]["is_success"] = bool(step.success[i])
        return step.obs, step.reward.astype(np.float32), done, infos

    def close(self) -> None:
        """Closes the batch."""
        self.batch.close()

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Returns False for each: the environments of a batch are no objects of their own."""
        return [False] * self._count(indices)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Returns an attribute of the batch, once for each environment."""
        return [getattr(self.batch, attr_name, None)] * self._count(indices)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError("The environments of a batch have no attributes of their own.")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        raise NotImplementedError("The environments of a batch have no methods of their own.")

    def _count(self, indices: Any) -> int:
        return len(list(self._get_indices(indices)))
