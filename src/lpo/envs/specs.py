"""Environments: the sparse tasks, declared (the locomotion tasks of the paper's section 5).

A task is data: the Gymnasium environment below it, the length of an episode, the threshold that
pays, the return that counts as success and the two coordinates of its heat maps. The Gymnasium
environments (``sparse.py``) and the native batch (``native.py``) are both built from these lines,
so they cannot disagree. A published task never changes; a changed one gets a new version in its id.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
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
class Coordinate:
    """One number of an observation and the range that a heat map shows of it."""

    name: str
    index: int  # of the observation
    low: float
    high: float


@dataclass(frozen=True)
class Projection:
    """The two coordinates that a heat map of visited states shows."""

    obs_size: int  # of the observations that the indices are about
    axes: tuple[Coordinate, Coordinate]


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
    projection: Projection
    horizon: int = 1000

    @property
    def max_return(self) -> float:
        """The return of an episode with a reward on every step."""
        return float(self.horizon)

    @property
    def success_return(self) -> float:
        """An episode succeeds with half of the largest return."""
        return self.max_return / 2

    def threshold(self, preset: str | None = None, threshold: float | None = None) -> Threshold:
        """Returns the threshold that ``preset`` names, or a velocity of ``threshold`` m/s."""
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
        """Returns what ``lpo list`` prints."""
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
    projection: Projection

    @property
    def max_return(self) -> float:
        """The return of an episode that reaches the goal."""
        return self.goal_reward

    @property
    def success_return(self) -> float:
        """An episode succeeds when it reaches the goal."""
        return self.goal_reward

    def describe(self) -> dict[str, Any]:
        """Returns what ``lpo list`` prints."""
        return {
            "id": self.id,
            "base": self.base_id,
            "horizon": self.horizon,
            "default_preset": None,
            "presets": {},
            "reward": f"{self.goal_reward:g} at the goal, else 0",
        }


@dataclass(frozen=True)
class SparseControl:
    """A task with dynamics of our own."""

    id: str
    creator: str  # "module:function" within lpo.envs
    horizon: int
    max_return: float
    success_return: float
    projection: Projection
    reward: str  # in words

    base_id = None  # no environment of Gymnasium is below it

    def describe(self) -> dict[str, Any]:
        """Returns what ``lpo list`` prints."""
        return {
            "id": self.id,
            "base": None,
            "horizon": self.horizon,
            "default_preset": None,
            "presets": {},
            "reward": self.reward,
        }


def _is_finite(value: object) -> bool:
    try:
        return math.isfinite(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def _presets(
    half: float, hard: float, position: float, far: float
) -> MappingProxyType[str, Threshold]:
    """Returns the five thresholds of a task.

    ``half`` is half the top speed of a converged dense-reward PPO as safety-gymnasium publishes it,
    so that no choice of ours decides who wins; ``hard`` is 1.5 times that.
    """
    rows = (
        Threshold("half", "x_velocity", half),
        Threshold("hard", "x_velocity", hard),
        Threshold("unit", "x_velocity", 1.0),
        Threshold("position", "x_position", position),
        Threshold("position-far", "x_position", far),
    )
    return MappingProxyType({row.preset: row for row in rows})


# Observations of Gymnasium's v5 bodies are positions without x, then velocities.
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
    projection=Projection(
        11, (Coordinate("x_velocity", 5, -2.0, 4.0), Coordinate("height", 0, 0.6, 1.6))
    ),
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
    projection=Projection(
        17, (Coordinate("x_velocity", 8, -2.0, 6.0), Coordinate("height", 0, 0.7, 2.0))
    ),
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
    projection=Projection(
        17, (Coordinate("x_velocity", 8, -4.0, 8.0), Coordinate("pitch", 1, -3.5, 3.5))
    ),
)
MOUNTAIN_CAR = SparseGoal(
    id="lpo/SparseMountainCarContinuous-v0",
    base_id="MountainCarContinuous-v0",
    goal_reward=100.0,
    horizon=999,
    projection=Projection(
        2, (Coordinate("position", 0, -1.2, 0.6), Coordinate("velocity", 1, -0.07, 0.07))
    ),
)


def _maze(env_id: str, creator: str, width: float, height: float, horizon: int) -> SparseControl:
    """Returns the task of a maze of ``width`` times ``height`` cells."""
    axes = Coordinate("x", 0, 0.0, width), Coordinate("y", 1, 0.0, height)
    return SparseControl(
        id=env_id,
        creator=creator,
        horizon=horizon,
        max_return=1.0,
        success_return=1.0,
        projection=Projection(4, axes),
        reward="1 at the goal, else 0",
    )


MAZE = _maze("lpo/PointMaze-v0", "maze:make_small", 7.0, 7.0, horizon=200)
LARGE_MAZE = _maze("lpo/PointMazeLarge-v0", "maze:make_large", 11.0, 9.0, horizon=400)
SWING_UP = SparseControl(
    id="lpo/SwingUp-v0",
    creator="swingup:make_swing_up",
    horizon=500,
    max_return=500.0,
    success_return=250.0,
    projection=Projection(
        5, (Coordinate("cos_angle", 1, -1.0, 1.0), Coordinate("angular_velocity", 4, -15.0, 15.0))
    ),
    reward="1 on a step with the pole upright and the cart near the middle, else 0",
)

LOCOMOTION = MappingProxyType({task.id: task for task in (HOPPER, WALKER2D, HALF_CHEETAH)})
CONTROL = MappingProxyType({task.id: task for task in (MAZE, LARGE_MAZE, SWING_UP)})
TASKS = MappingProxyType({**LOCOMOTION, MOUNTAIN_CAR.id: MOUNTAIN_CAR, **CONTROL})
PROJECTIONS = MappingProxyType(
    {task.id: task.projection for task in TASKS.values()}
    | {MOUNTAIN_CAR.base_id: MOUNTAIN_CAR.projection}
)

# Gymnasium's tasks whose range of returns is known: the return that scores 0, and that scores 1.
RETURNS = MappingProxyType(
    {
        "CartPole-v1": (0.0, 500.0),  # the pole stays up to the time limit
        "Acrobot-v1": (-500.0, -70.0),  # never up in time; about what the fastest policies take
        "MountainCar-v0": (-200.0, -100.0),  # likewise
        "Taxi-v4": (-200.0, 8.0),  # nobody brought in time; Gymnasium's threshold
        "LunarLander-v3": (-200.0, 280.0),  # about a random policy's; about the best known
    }
)
# Tasks of the DeepMind Control Suite: 1,000 steps, each with a reward from 0 to 1 (but not lqr).
SUITE = re.compile(r"dm_control/(?!lqr)[a-z_]+-[a-z_0-9]+-v\d+")
SUITE_STEPS = 1000


def declared(
    env_id: str, obs_shape: tuple[int, ...] | None, reward_threshold: float | None
) -> dict[str, Any]:
    """Returns what is known of a task: ``success_return``, range of returns, ``projection``.

    ``reward_threshold`` is Gymnasium's, for tasks that are not ours. A projection is left out where
    a wrapper or an option has changed the size of the observation.
    """
    task, projection = TASKS.get(env_id), PROJECTIONS.get(env_id)
    success = reward_threshold if task is None else task.success_return
    row: dict[str, Any] = {} if success is None else {"success_return": float(success)}
    if env_id in RETURNS:
        row["min_return"], row["max_return"] = RETURNS[env_id]
    if SUITE.fullmatch(env_id):  # its tasks do not say how long they are
        row |= {"min_return": 0.0, "max_return": float(SUITE_STEPS), "horizon": SUITE_STEPS}
    if projection is not None and obs_shape == (projection.obs_size,):
        row["projection"] = [asdict(axis) for axis in projection.axes]
    return row
