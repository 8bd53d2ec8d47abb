"""Environments: free angles as (cos, sin).

The angle of a hinge without limits counts turns without end. After a somersault the body is where
it was, and its angle is another number: a bonus finds it new each time, and its running statistics
never settle. (cos, sin) are the same numbers for the same pose.

The cosine takes the place of the angle. The sines follow after the last number, in the order of
their angles. So all other numbers of an observation keep their places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces

from lpo.errors import LPOError, named

Angles = tuple[int, ...]  # places in a flat observation
Periodic = Angles | Literal["auto"]
HINGE = 3  # mujoco.mjtJoint.mjJNT_HINGE
PROBES = (0.1, -0.25)  # radians


def chosen(periodic: Periodic, found: Callable[[], Angles]) -> Angles:
    """Returns the angles that the user named, or those that ``found`` finds."""
    return found() if periodic == "auto" else periodic


def turned(obs: np.ndarray, angles: Angles) -> np.ndarray:
    """Returns observations [..., O] with their angles as (cos, sin) [..., O + A]."""
    if not angles:
        return obs
    places = list(angles)
    angle = obs[..., places]
    out = np.concatenate([obs, np.sin(angle)], axis=-1)
    out[..., places] = np.cos(angle)
    return out


def turned_space(name: str, space: spaces.Box, angles: Angles) -> spaces.Box:
    """Returns the space of turned observations. Raises LPOError where an angle is not in it."""
    if not angles:
        return space
    size = space.shape[0]
    if angles[-1] >= size:
        raise LPOError(
            f"{named('angles')} names number {angles[-1]} of an observation, and those of {name} "
            f"have {size}; pass places from 0 to {size - 1}."
        )
    one = np.ones(len(angles), space.dtype)
    low, high = np.concatenate([space.low, -one]), np.concatenate([space.high, one])
    low[list(angles)], high[list(angles)] = -1, 1
    dtype: Any = space.dtype
    return spaces.Box(low, high, dtype=dtype.type)


def described(row: dict[str, Any], angles: Angles) -> dict[str, Any]:
    """Returns a task's description with its angles; a heat map shows the cosine of an angle."""
    if not angles:
        return row
    new = {**row, "periodic": list(angles)}
    if "projection" in row:
        new["projection"] = [
            {"name": f"cos {axis['name']}", "index": axis["index"], "low": -1.0, "high": 1.0}
            if axis["index"] in angles
            else axis
            for axis in row["projection"]
        ]
    return new


def free_hinges(model: Any) -> list[int]:
    """Returns the places in ``qpos`` of a MuJoCo model's hinges without limits."""
    free = (np.asarray(model.jnt_type) == HINGE) & ~np.asarray(model.jnt_limited, bool)
    return np.asarray(model.jnt_qposadr)[free].tolist()


def free_angles(env: gymnasium.Env) -> Angles:
    """Returns the free angles in the observations of one of Gymnasium's MuJoCo environments.

    Each free hinge is turned a little. A number that moves by the same amount is its angle; an
    environment that observes cosines and sines already has none. Other environments have none.
    """
    base: Any = env.unwrapped
    parts = ("model", "data", "set_state", "_get_obs")
    if not all(hasattr(base, part) for part in parts) or not hasattr(base.model, "jnt_limited"):
        return ()
    if env.observation_space.shape != base.observation_space.shape:
        return ()  # a wrapper observes something else
    qpos, qvel = base.data.qpos.copy(), base.data.qvel.copy()

    def observed(hinge: int, angle: float) -> np.ndarray:
        moved = qpos.copy()
        moved[hinge] += angle
        base.set_state(moved, qvel)
        return np.array(base._get_obs(), np.float64)

    def follows(hinge: int) -> np.ndarray:
        rest = observed(hinge, 0.0)
        moves = [np.abs(observed(hinge, angle) - rest - angle) < 1e-6 for angle in PROBES]
        return np.logical_and.reduce(moves)

    found = [np.flatnonzero(follows(hinge)) for hinge in free_hinges(base.model)]
    base.set_state(qpos, qvel)
    return tuple(sorted({int(place) for places in found for place in places}))


class Drift:
    """Watches for numbers of an observation that grow without bound.

    A number drifts when its size is at least 16 times its first size, and at least 16. Size: on
    the host the maximum over a rollout; on the device the RMS over worlds, maximum over runs.
    """

    FACTOR = 16.0

    def __init__(self, name: str, watched: np.ndarray):
        self.name, self.watched = name, watched.copy()
        self.first: np.ndarray | None = None  # [O]

    def look(self, size: np.ndarray, env_steps: int) -> list[str]:
        """Returns a warning for each number [O] that was found to drift now; each is told once."""
        first = self.first = size if self.first is None else self.first
        limit = self.FACTOR * np.maximum(first, 1.0)
        drifting = np.flatnonzero(self.watched & (size >= limit)).tolist()
        self.watched[drifting] = False
        return [
            f"Number {place} of the observation of {self.name} drifts without bound: its size was "
            f"{first[place]:.3g} at first and is {size[place]:.3g} at step {env_steps:,}; if it is "
            f"an angle, pass {named('angles')} {place}, else leave it out of the observation."
            for place in drifting
        ]


def unbounded(space: spaces.Space[Any]) -> np.ndarray:
    """Returns which numbers [O] of a vector the space does not bound on both sides."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        return np.zeros(0, bool)
    return ~(np.isfinite(space.low) & np.isfinite(space.high))


def largest(obs: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Returns the largest size [O] of each number in a rollout [T, N, O]."""
    return np.abs(obs).max(axis=(0, 1), initial=0.0, where=valid[..., None])


def places(value: Any) -> Any:
    """Reads places from a text such as "0,3" or from a list; anything else stays as it is."""
    if isinstance(value, str) and value != "auto":
        try:
            value = [int(word) for word in value.split(",")]
        except ValueError:
            return value
    if isinstance(value, Sequence) and not isinstance(value, str):
        try:
            return tuple(sorted(set(value)))
        except TypeError:
            return value
    return value
