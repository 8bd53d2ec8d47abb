"""Environments: which actions are allowed, as a part of the observation.

An environment tells it in one of three ways: ``info["action_mask"]`` (Taxi, PettingZoo), a method
``action_masks()`` (sb3-contrib), or a part ``action_mask`` of its Dict of observations. There is
one mark for each choice of a Discrete space. Those of a MultiDiscrete follow factor by factor.
"""

from __future__ import annotations

import inspect
import sys
from contextlib import suppress
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from lpo.envs.faults import Misfit
from lpo.types import MASK

INNER = "observation"  # the rest of the observation, where it is no Dict


def with_masks(env: gymnasium.Env) -> gymnasium.Env:
    """Returns an environment that observes its masks, if it has some; any other as it is."""
    if not isinstance(env.action_space, spaces.Discrete | spaces.MultiDiscrete):
        return env
    if MASK in getattr(env.observation_space, "spaces", {}):
        return env
    if method_of(env) or (mentioned(env) and told_at_reset(env)):
        return Masked(env)
    return env


def method_of(env: gymnasium.Env) -> Any:
    """Returns ``action_masks`` of an environment or of one of its wrappers; None without."""
    try:
        method = env.get_wrapper_attr("action_masks")
    except AttributeError:
        return None
    return method if callable(method) else None


def mentioned(env: gymnasium.Env) -> bool:
    """Returns whether the module of an environment or of one of its wrappers names masks.

    A reset would tell, but it may change what an environment keeps of its life.
    """
    while True:
        with suppress(OSError, TypeError, KeyError):  # compiled, or made at the prompt
            if MASK in inspect.getsource(sys.modules[type(env).__module__]):
                return True
        if not isinstance(env, gymnasium.Wrapper):
            return False
        env = env.env


def told_at_reset(env: gymnasium.Env) -> bool:
    """Returns whether the information of a reset has a mask. What fails here fails again later."""
    with suppress(Exception):
        return MASK in env.reset(seed=0)[1]
    return False


def choices(space: spaces.Space) -> int:
    """Returns the choices of all factors of an action space; 0 for a Box."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    return int(space.nvec.sum()) if isinstance(space, spaces.MultiDiscrete) else 0


def joined(space: spaces.Space, mask: spaces.Space) -> spaces.Dict:
    """Returns a space of observations with a mask in it."""
    inner = dict(space.spaces) if isinstance(space, spaces.Dict) else {INNER: space}
    return spaces.Dict({**inner, MASK: mask})


def with_mask(space: spaces.Space, obs: Any, mask: Any) -> Any:
    """Returns observations of a space that ``joined`` made, from those of before."""
    own = space.spaces.keys() == {INNER, MASK}  # type: ignore[attr-defined]
    return {INNER: obs, MASK: mask} if own else {**obs, MASK: mask}


class Masked(gymnasium.Wrapper):
    """An environment whose masks are a part of its observations."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        self.size, self.method = choices(env.action_space), method_of(env)
        self.observation_space = joined(env.observation_space, spaces.MultiBinary(self.size))

    def seen(self, obs: Any, info: Any) -> Any:
        """Returns the observation with its mask."""
        mask = self.method() if self.method else info.get(MASK)
        if mask is None:
            raise Misfit(f"its information has no {MASK}, which it had at first")
        mask = np.concatenate([np.ravel(part) for part in mask]) if is_tuple(mask) else mask
        mask = np.asarray(mask, np.int8).reshape(-1)
        if mask.shape != (self.size,):
            raise Misfit(f"its {MASK} has {mask.size} marks for {self.size} choices of actions")
        return with_mask(self.observation_space, obs, mask)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        obs, info = self.env.reset(seed=seed, options=options)
        return self.seen(obs, info), info

    def step(self, action: Any):
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self.seen(obs, info), reward, terminated, truncated, info


def is_tuple(mask: Any) -> bool:
    """Returns whether a mask comes factor by factor, as Gymnasium's spaces sample with it."""
    return isinstance(mask, tuple | list) and len(mask) > 0 and np.ndim(mask[0]) > 0


def batched(space: spaces.Space, obs: Any) -> int | None:
    """Returns the number of observations in a batch; None where it is one observation."""
    while isinstance(space, spaces.Dict | spaces.Tuple):
        key = next(iter(space.spaces)) if isinstance(space, spaces.Dict) else 0
        space, obs = space.spaces[key], obs[key]  # type: ignore[index]
    return len(obs) if np.ndim(obs) > len(space.shape or ()) else None
