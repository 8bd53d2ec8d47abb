"""Environments: MiniGrid's observations as one-hot codes.

MiniGrid observes an image of codes (object, colour and state of each cell), the agent's direction
and a mission in words. A code is a name and no size, so the codec writes it one-hot. A mission
becomes its place among all missions of the task; where there is only one it is left out.
An episode that succeeds pays 1 − .9·(its share of the time limit), so .1 at least. Others pay 0.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from lpo.envs.gridview import see_faster
from lpo.errors import LPOError

STATES = 4  # a door has three, an agent that is seen four directions
RETURNS = {"max_return": 1.0, "success_return": 0.05}


def register(env_id: str) -> None:
    """Registers MiniGrid's ids if ``env_id`` is one of them. Raises LPOError without MiniGrid."""
    if env_id.startswith("MiniGrid-") and env_id not in gymnasium.registry:
        try:
            import minigrid  # noqa: F401 - it registers
        except ImportError as error:
            raise LPOError(f"{env_id} needs `pip install 'lpo-rl[minigrid]'`.") from error


def is_grid(env: gymnasium.Env) -> bool:
    """Returns whether ``env`` is MiniGrid's. It imports nothing."""
    module = sys.modules.get("minigrid.minigrid_env")
    return module is not None and isinstance(env.unwrapped, module.MiniGridEnv)


def describe(env: gymnasium.Env) -> dict[str, Any]:
    """Returns what MiniGrid does not register: time limit and returns. Others have nothing here."""
    if not is_grid(env):
        return {}
    base: Any = env.unwrapped
    return {"horizon": base.max_steps, **RETURNS}


def with_codes(env: gymnasium.Env) -> gymnasium.Env:
    """Returns a MiniGrid environment that observes codes; any other environment as it is."""
    base: Any = env.unwrapped
    parts: Any = getattr(env.observation_space, "spaces", {})
    if not is_grid(env) or type(parts.get("mission")).__name__ != "MissionSpace":
        return env  # of BabyAI, whose missions are a language, or what a wrapper has changed
    views = (base.agent_view_size,) * 2, (base.width, base.height)  # in front, or the whole grid
    return Codes(env) if any(is_codes(parts["image"], view) for view in views) else env


def is_codes(image: Any, view: tuple[int, int]) -> bool:
    """Returns whether an image holds MiniGrid's codes, and not what a wrapper has made of them."""
    return image.shape == (*view, 3) and bool((image.high == 255).all())


class Codes(gymnasium.ObservationWrapper):
    """A MiniGrid environment whose image, direction and mission are codes."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        see_faster(env.unwrapped)
        space: Any = env.observation_space
        self.missions = missions(space["mission"])
        parts = {"direction": space["direction"], "image": codes(space["image"].shape)}
        if len(self.missions) > 1:
            parts["mission"] = spaces.Discrete(len(self.missions))
        self.observation_space = spaces.Dict(parts)

    def observation(self, observation: Any) -> Any:
        return {**observation, "mission": self.missions.index(observation["mission"])}


def codes(shape: tuple[int, ...]) -> spaces.MultiDiscrete:
    """Returns the space of an image [rows, columns, 3] of codes."""
    from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX

    sizes = [len(OBJECT_TO_IDX), len(COLOR_TO_IDX), STATES]
    return spaces.MultiDiscrete(np.tile(sizes, (*shape[:2], 1)))


def missions(space: Any) -> list[str]:
    """Returns all missions of a task."""
    words = itertools.product(*(space.ordered_placeholders or ()))
    return list(dict.fromkeys(space.mission_func(*chosen) for chosen in words))
