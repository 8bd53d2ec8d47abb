"""State visits: a histogram of training states over two declared coordinates, for heat maps.

Counted once per rollout from the states that were learned from, for each quarter of the budget, and
kept beside the metrics in ``visits.json``. Tasks without a declared projection have none.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

BINS, PARTS = 40, 4


class Axis(NamedTuple):
    name: str
    index: int  # of the observation
    low: float
    high: float


# Observations of Gymnasium's v5 bodies are positions without x, then velocities.
_CAR = (Axis("position", 0, -1.2, 0.6), Axis("velocity", 1, -0.07, 0.07))
PROJECTIONS: dict[str, tuple[Axis, Axis]] = {
    "lpo/SparseHopper-v0": (
        Axis("x_velocity", 5, -2.0, 4.0),
        Axis("height", 0, 0.6, 1.6),
    ),
    "lpo/SparseWalker2d-v0": (
        Axis("x_velocity", 8, -2.0, 6.0),
        Axis("height", 0, 0.7, 2.0),
    ),
    "lpo/SparseHalfCheetah-v0": (
        Axis("x_velocity", 8, -4.0, 8.0),
        Axis("pitch", 1, -3.5, 3.5),
    ),
    "lpo/SparseMountainCarContinuous-v0": _CAR,
    "MountainCarContinuous-v0": _CAR,
}


class Visits:
    """Counts [quarter, first axis, second axis]; states beyond an axis count in its last bin."""

    def __init__(self, env_id: str, budget: int):
        self.axes, self.budget = PROJECTIONS.get(env_id), budget
        self.counts = np.zeros((PARTS, BINS, BINS), np.int64)

    def add(self, obs: np.ndarray, valid: np.ndarray, env_steps: int) -> None:
        """States ``obs`` [T, N, size] where ``valid`` [T, N], collected from ``env_steps`` on."""
        if self.axes is None:
            return
        part = min(PARTS * env_steps // self.budget, PARTS - 1)
        a, b = (self.bins(obs[..., axis.index][valid], axis) for axis in self.axes)
        counts = np.bincount(a * BINS + b, minlength=BINS * BINS)
        self.counts[part] += counts.reshape(BINS, BINS)

    @staticmethod
    def bins(values: np.ndarray, axis: Axis) -> np.ndarray:
        place = (values.astype(np.float64) - axis.low) / (axis.high - axis.low) * BINS
        return np.clip(np.floor(place), 0, BINS - 1).astype(np.int64)

    def arrays(self) -> dict[str, np.ndarray]:
        return {} if self.axes is None else {"visits/counts": self.counts}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        if "visits/counts" in arrays:
            self.counts = np.array(arrays["visits/counts"])

    def to_json(self) -> str | None:
        if self.axes is None:
            return None
        axes = [{"name": a.name, "low": a.low, "high": a.high} for a in self.axes]
        return json.dumps({"axes": axes, "counts": self.counts.tolist()}) + "\n"


def from_json(text: str) -> tuple[list[dict[str, Any]], np.ndarray]:
    """The axes and the counts of a ``visits.json``."""
    values = json.loads(text)
    return values["axes"], np.array(values["counts"], np.int64)
