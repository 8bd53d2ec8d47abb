"""Environments: the sparse tasks, declared (the locomotion tasks of the paper's section 5).

A task is data: which Gymnasium environment it stands on, how long an episode lasts and which
threshold pays. The Gymnasium environments (``sparse.py``) and the native batch (``native.py``)
are both built from these lines, so they cannot disagree. A published task never changes; a
changed one gets a new version in its id.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from lpo.errors import LPOError

Quantity = Literal["x_velocity", "x_position"]
DEFAULT_PRESET = "half"
UNITS = MappingProxyType({"x_velocity": "m/s", "x_position": "m"})


@dataclass(frozen=True)
class Threshold:
    """Reward 1 on a step whose ``quantity`` strictly exceeds ``value``, else 0."""

    preset: str  # the name a figure prints; "custom" when the user gave the number
    quantity: Quantity
    value: float

    def __str__(self) -> str:
        return f"{self.quantity} > {self.value:g} {UNITS[self.quantity]}"


@dataclass(frozen=True)
class SparseLocomotion:
    """A MuJoCo task of Gymnasium v5 with its reward replaced by a threshold."""

    id: str
    base_id: str
    xml: str  # model file shipped with Gymnasium
    frame_skip: int
    reset_noise: float
    velocity_noise: Literal["uniform", "normal"]
    clip_velocity: float | None  # observations hold velocities clipped to ± this
    healthy_z: tuple[float, float] | None  # None: the task never terminates
    healthy_angle: tuple[float, float] | None
    healthy_state: float | None  # |state| below this, z and x left out
    presets: MappingProxyType[str, Threshold]
    horizon: int = 1000

    @property
    def max_return(self) -> float:
        """A reward on every step."""
        return float(self.horizon)

    def threshold(self, preset: str | None = None, threshold: float | None = None) -> Threshold:
        """The threshold that ``preset`` names, or a velocity of ``threshold`` m/s."""
        if preset is not None and threshold is not None:
            raise LPOError(
                f"{self.id} was given both preset={preset!r} and threshold={threshold!r}; "
                "pass one of them."
            )
        if threshold is not None:
            if isinstance(threshold, bool) or not _is_finite(threshold):
                raise LPOError(
                    f"The threshold of {self.id} is {threshold!r}; pass a finite velocity in m/s."
                )
            return Threshold("custom", "x_velocity", float(threshold))
        name = DEFAULT_PRESET if preset is None else preset
        if name not in self.presets:
            raise LPOError(
                f"{self.id} has no preset {name!r}; choose one of {', '.join(self.presets)}, "
                "or pass threshold=<m/s>."
            )
        return self.presets[name]

    def describe(self) -> dict[str, Any]:
        """What ``lpo list`` prints."""
        return {
            "id": self.id,
            "base": self.base_id,
            "horizon": self.horizon,
            "default_preset": DEFAULT_PRESET,
            "presets": {name: str(t) for name, t in self.presets.items()},
            "reward": "1 on a step above the threshold, else 0",
        }


@dataclass(frozen=True)
class SparseGoal:
    """A goal task of Gymnasium that pays at the goal and nowhere else."""

    id: str
    base_id: str
    goal_reward: float
    horizon: int

    @property
    def max_return(self) -> float:
        return self.goal_reward

    def describe(self) -> dict[str, Any]:
        """What ``lpo list`` prints."""
        return {
            "id": self.id,
            "base": self.base_id,
            "horizon": self.horizon,
            "default_preset": None,
            "presets": {},
            "reward": f"{self.goal_reward:g} at the goal, else 0",
        }


def _is_finite(value: object) -> bool:
    try:
        return math.isfinite(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def _presets(half: float, hard: float, position: float, far: float):
    """``half``: half the top speed of a converged dense-reward PPO as safety-gymnasium publishes
    it, so that no choice of ours decides who wins; ``hard``: 1.5 times that."""
    rows = (
        Threshold("half", "x_velocity", half),
        Threshold("hard", "x_velocity", hard),
        Threshold("unit", "x_velocity", 1.0),
        Threshold("position", "x_position", position),
        Threshold("position-far", "x_position", far),
    )
    return MappingProxyType({row.preset: row for row in rows})


HOPPER = SparseLocomotion(
    id="lpo/SparseHopper-v0",
    base_id="Hopper-v5",
    xml="hopper.xml",
    frame_skip=4,
    reset_noise=5e-3,
    velocity_noise="uniform",
    clip_velocity=10.0,
    healthy_z=(0.7, math.inf),
    healthy_angle=(-0.2, 0.2),
    healthy_state=100.0,
    presets=_presets(half=0.7402, hard=1.1103, position=1.0, far=2.0),
)
WALKER2D = SparseLocomotion(
    id="lpo/SparseWalker2d-v0",
    base_id="Walker2d-v5",
    xml="walker2d_v5.xml",
    frame_skip=4,
    reset_noise=5e-3,
    velocity_noise="uniform",
    clip_velocity=10.0,
    healthy_z=(0.8, 2.0),
    healthy_angle=(-1.0, 1.0),
    healthy_state=None,
    presets=_presets(half=2.3415, hard=3.51225, position=1.0, far=2.0),
)
HALF_CHEETAH = SparseLocomotion(
    id="lpo/SparseHalfCheetah-v0",
    base_id="HalfCheetah-v5",
    xml="half_cheetah.xml",
    frame_skip=5,
    reset_noise=0.1,
    velocity_noise="normal",
    clip_velocity=None,
    healthy_z=None,
    healthy_angle=None,
    healthy_state=None,
    presets=_presets(half=3.2096, hard=4.8144, position=5.0, far=20.0),
)
MOUNTAIN_CAR = SparseGoal(
    id="lpo/SparseMountainCarContinuous-v0",
    base_id="MountainCarContinuous-v0",
    goal_reward=100.0,
    horizon=999,
)

LOCOMOTION = MappingProxyType({task.id: task for task in (HOPPER, WALKER2D, HALF_CHEETAH)})
TASKS = MappingProxyType({**LOCOMOTION, MOUNTAIN_CAR.id: MOUNTAIN_CAR})
