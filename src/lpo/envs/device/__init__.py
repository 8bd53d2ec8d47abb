"""Environments on the device: a small protocol, our tasks that keep it, and adapters.

`make_device` is the door by id, `register_device` adds an id, `gymnax_like` and `playground` take
environments of other packages.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any, Protocol

from lpo.envs.angles import Periodic, chosen
from lpo.envs.device.adapters import gymnax_like, playground
from lpo.envs.device.angles import turned
from lpo.envs.device.base import DeviceEnv, Transition, check
from lpo.envs.device.worlds import Stepped, World, advance, begin
from lpo.envs.registry import register_foreign, without_package
from lpo.errors import LPOError, named

__all__ = [
    "DeviceEnv",
    "Stepped",
    "Transition",
    "World",
    "advance",
    "begin",
    "check",
    "device_ids",
    "gymnax_like",
    "has_device_form",
    "make_device",
    "playground",
    "register_device",
]

Maker = Callable[..., DeviceEnv]  # its keyword arguments are env_kwargs, and threshold if any

# A maker, or "module:function" where loading it is worth putting off.
_MAKERS: dict[str, Maker | str] = {
    "MountainCarContinuous-v0": "lpo.envs.device.classic:mountain_car",
    "lpo/SparseMountainCarContinuous-v0": "lpo.envs.device.classic:sparse_mountain_car",
    "CartPole-v1": "lpo.envs.device.poles:cart_pole",
    "Acrobot-v1": "lpo.envs.device.poles:acrobot",
    "lpo/DeepSea-v0": "lpo.envs.device.finite:deep_sea",
    "lpo/CombinationLock-v0": "lpo.envs.device.finite:combination_lock",
    "lpo/PointMaze-v0": "lpo.envs.device.maze:small_maze",
    "lpo/PointMazeLarge-v0": "lpo.envs.device.maze:large_maze",
    "lpo/SwingUp-v0": "lpo.envs.device.swingup:swing_up",
    "lpo/SparseHopper-v0": "lpo.envs.device.locomotion:sparse_hopper",
    "lpo/SparseWalker2d-v0": "lpo.envs.device.locomotion:sparse_walker2d",
    "lpo/SparseHalfCheetah-v0": "lpo.envs.device.locomotion:sparse_half_cheetah",
    "Hopper-v5": "lpo.envs.device.locomotion:hopper",
    "Walker2d-v5": "lpo.envs.device.locomotion:walker2d",
    "HalfCheetah-v5": "lpo.envs.device.locomotion:half_cheetah",
}
MINIGRIDS = [
    "DoorKey-5x5-v0",
    "DoorKey-6x6-v0",
    "DoorKey-8x8-v0",
    "DoorKey-16x16-v0",
    "KeyCorridorS3R1-v0",
    "KeyCorridorS3R2-v0",
    "KeyCorridorS3R3-v0",
    "KeyCorridorS4R3-v0",
    "KeyCorridorS5R3-v0",
    "KeyCorridorS6R3-v0",
    "MultiRoom-N2-S4-v0",
    "MultiRoom-N4-S5-v1",
    "MultiRoom-N6-v0",
    "LavaGapS7-v0",
    "LavaCrossingS9N1-v0",
    "LavaCrossingS9N3-v0",
    "LavaCrossingS11N5-v0",
    "SimpleCrossingS9N3-v0",
    "FourRooms-v0",
    "UnlockPickup-v0",
    "BlockedUnlockPickup-v0",
    "ObstructedMaze-1Dl-v0",
    "ObstructedMaze-1Dlh-v0",
    "ObstructedMaze-1Dlhb-v0",
    "ObstructedMaze-2Dl-v0",
    "ObstructedMaze-2Dlh-v0",
    "ObstructedMaze-2Dlhb-v1",
    "ObstructedMaze-1Q-v1",
    "ObstructedMaze-2Q-v1",
    "ObstructedMaze-Full-v1",
]


def _minigrid(env_id: str) -> Maker:
    def make(**kwargs: Any) -> DeviceEnv:
        from lpo.envs.device.minigrid import grid  # MiniGrid is an extra

        return grid(env_id, **kwargs)

    return make


_MAKERS |= {f"MiniGrid-{name}": _minigrid(f"MiniGrid-{name}") for name in MINIGRIDS}


class Task(Protocol):
    """What `make_device` reads of a task's options."""

    @property
    def env(self) -> str: ...

    @property
    def threshold(self) -> float | str | None: ...

    @property
    def env_kwargs(self) -> dict[str, Any] | None: ...

    @property
    def periodic(self) -> Periodic: ...


def register_device(env_id: str, maker: Maker | str) -> None:
    """Adds the environment that ``maker(**env_kwargs)`` returns under ``env_id``."""
    _MAKERS[env_id] = maker


def device_ids() -> list[str]:
    """Returns the ids that have a device form, those of installed packages included."""
    register_foreign()
    return sorted(_MAKERS)


def has_device_form(env_id: str) -> bool:
    """Returns whether ``env_id`` can run on the device; its package must have been imported."""
    register_foreign()
    return without_package(env_id) in _MAKERS


def device_name(env_id: str) -> str:
    """Returns the id without its package. Raises LPOError where it has no device form."""
    if not has_device_form(env_id):
        raise LPOError(
            f"{env_id} runs on the host only; leave {named('device')} out, or choose one of "
            f"{', '.join(device_ids())}."
        )
    return without_package(env_id)


def make_device(task: Task) -> DeviceEnv:
    """Returns the device environment of a task; raises LPOError where there is none."""
    maker, kwargs = _maker(device_name(task.env)), dict(task.env_kwargs or {})
    if task.threshold is not None:
        if "threshold" not in inspect.signature(maker).parameters:
            raise LPOError(f"{task.env} has no threshold; leave {named('threshold')} out.")
        kwargs["threshold"] = task.threshold
    try:
        env = maker(**kwargs)
        return turned(env, chosen(task.periodic, lambda: getattr(env, "free_angles", ())))
    except LPOError:
        raise
    except Exception as error:
        raise LPOError(
            f"{task.env} could not be made on the device, {type(error).__name__}: {error}; "
            f"install what it needs and check {named('env_kwargs')} {kwargs}."
        ) from error


def _maker(env_id: str) -> Maker:
    maker = _MAKERS[env_id]
    if not isinstance(maker, str):
        return maker
    module, _, function = maker.partition(":")
    return getattr(importlib.import_module(module), function)
