"""Environments: EnvPool's, which are stepped in C++, as vector environments of Gymnasium.

``envpool:NAME`` is an id of EnvPool. A pool draws its seeds when it is made, so each ``reset`` with
a seed makes it anew. An ended environment ignores the next action and begins its next episode
(NEXT_STEP). A grid of MiniGrid observes what ours does (``minigrid.py``), so that a policy of one
acts in the other.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import cache
from typing import Any, TypeGuard

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from lpo.envs import minigrid
from lpo.envs.specs import declared
from lpo.errors import LPOError, nearest

PREFIX = "envpool:"
SEEDS = 2**30  # EnvPool adds the number of an environment to its seed, in 31 bits


def is_pool(env: Any) -> TypeGuard[str]:
    """Returns whether ``env`` is an id of EnvPool."""
    return isinstance(env, str) and env.startswith(PREFIX)


def name_in_pool(env_id: str) -> str:
    """Returns the id as EnvPool has it. Raises LPOError where EnvPool is missing or has no such."""
    name, known = env_id.removeprefix(PREFIX), package().list_all_envs()
    if name not in known:
        raise LPOError(f"EnvPool has no environment {name!r}; {nearest(name, known, SEE)}")
    return name


SEE = "see `python -c 'import envpool; print(envpool.list_all_envs())'`."


def drawn_as(env_id: str) -> str:
    """Returns the id of Gymnasium's whose drawing is that of an environment of EnvPool."""
    name = name_in_pool(env_id)
    if not name.startswith("MiniGrid-"):
        raise LPOError(
            f"{env_id} is stepped by EnvPool, which draws no clips; train on the id that Gymnasium "
            "has for one."
        )
    return name


def package() -> Any:
    """Returns the package, an extra of ours."""
    try:
        import envpool  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise LPOError(
            f"Ids that begin with {PREFIX} need EnvPool ({error}); run "
            "`pip install 'lpo-rl[envpool]'`."
        ) from error
    return envpool


class FromEnvPool(VectorEnv):
    """``num_envs`` environments of EnvPool; each reset with a seed draws them anew."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, env_id: str, num_envs: int, threads: int, kwargs: dict[str, Any]):
        name = name_in_pool(env_id)
        self._name, self._arguments = name, {"num_threads": min(threads, num_envs), **kwargs}
        self.num_envs, self.spec = num_envs, None
        self._pool = self._made(0)
        config = self._pool.spec.config
        self._read, space = reader(name, self._pool.single_observation_space, kwargs)
        self.single_observation_space = space
        self.single_action_space = self._pool.single_action_space
        self.observation_space = batch_space(space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.description: dict[str, Any] = {"id": env_id, "horizon": config.max_episode_steps}
        if name.startswith("MiniGrid-"):
            self.description |= minigrid.RETURNS
        self.description |= declared(name, space.shape, None)
        self.description |= {"env_kwargs": kwargs} if kwargs else {}

    def _made(self, seed: int) -> Any:
        make = package().make_gymnasium
        try:
            return make(self._name, num_envs=self.num_envs, seed=seed, **self._arguments)
        except Exception as error:
            raise LPOError(
                f"EnvPool could not make {self._name}, {type(error).__name__}: {error}; check "
                f"env_kwargs {self._arguments}."
            ) from error

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts every environment; with a seed, on episodes that the seed decides."""
        if seed is not None:
            self._pool.close()
            drawn = np.random.SeedSequence(seed).generate_state(1)[0]
            self._pool = self._made(int(drawn) % SEEDS)
        return self._read(self._pool.reset()[0]), {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Takes a step. Of its information nothing is said in a way of Gymnasium's."""
        obs, reward, terminated, truncated, _ = self._pool.step(actions)
        return self._read(obs), reward, terminated, truncated & ~terminated, {}

    def close(self, **kwargs: Any) -> None:
        """Ends the threads."""
        self._pool.close()


def reader(
    name: str, space: spaces.Space[Any], kwargs: dict[str, Any]
) -> tuple[Callable[[Any], Any], spaces.Space[Any]]:
    """Returns what an observation of EnvPool becomes, and its space."""
    parts = getattr(space, "spaces", {})
    if not name.startswith("MiniGrid-") or set(parts) != {"direction", "image", "mission"}:
        return lambda obs: obs, space
    image, codes, missions = parts["image"], minigrid.codes, _missions(name) if not kwargs else None
    if missions is None:
        raise LPOError(
            f"{PREFIX}{name} takes no env_kwargs, since they may change its missions; leave them "
            "out."
        )
    found = {"direction": parts["direction"], "image": codes(image.shape)}
    if len(missions) == 1:
        return lambda obs: {k: obs[k] for k in found}, spaces.Dict(found)
    size = parts["mission"].shape[0]
    places = {m.encode()[:size].ljust(size, b"\0"): i for i, m in enumerate(missions)}
    found["mission"] = spaces.Discrete(len(missions))

    def read(obs: Any) -> Any:
        mission = np.array([places[row.tobytes()] for row in obs["mission"]])
        return {"direction": obs["direction"], "image": obs["image"], "mission": mission}

    return read, spaces.Dict(found)


@cache
def _missions(name: str) -> list[str]:
    """Returns the missions of a grid, as MiniGrid has them."""
    minigrid.register(name)
    with closing(gymnasium.make(name)) as env:
        return minigrid.missions(env.observation_space["mission"])  # type: ignore[index]
