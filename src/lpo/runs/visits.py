"""Runs: a histogram of training states over two coordinates that the task declares.

After each rollout, the states that were learned from are counted, separately for each quarter of
the budget. ``visits.json`` holds the counts. Tasks that declare no projection have no histogram.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from lpo.files import parse_json

BINS, QUARTERS = 40, 4
LARGEST = 1e12  # a coordinate


class Visits:
    """Counts [quarter, first axis, second axis]; states outside an axis count in its end bins."""

    def __init__(self, task: dict[str, Any], budget: int, counts: np.ndarray | None = None):
        self.axes: list[dict[str, Any]] = task.get("projection") or []
        self.budget = budget
        empty = np.zeros((QUARTERS, BINS, BINS), np.int64)
        self.counts = empty if counts is None else np.array(counts)

    def add(self, obs: np.ndarray, valid: np.ndarray, env_steps: int) -> None:
        """Counts states [T, N, O] where ``valid`` [T, N], collected from ``env_steps`` on."""
        if not self.axes:
            return
        quarter = min(QUARTERS * env_steps // self.budget, QUARTERS - 1)
        a, b = (self.bins(obs[..., axis["index"]][valid], axis) for axis in self.axes)
        counts = np.bincount(a * BINS + b, minlength=BINS * BINS)
        self.counts[quarter] += counts.reshape(BINS, BINS)

    @staticmethod
    def bins(values: np.ndarray, axis: dict[str, Any]) -> np.ndarray:
        place = (values.astype(np.float64) - axis["low"]) / (axis["high"] - axis["low"]) * BINS
        return np.clip(np.floor(place), 0, BINS - 1).astype(np.int64)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"visits/counts": self.counts} if self.axes else {}

    def to_json(self) -> str | None:
        if not self.axes:
            return None
        axes = [{key: axis[key] for key in ("name", "low", "high")} for axis in self.axes]
        return json.dumps({"axes": axes, "counts": self.counts.tolist()}) + "\n"


def from_json(text: str) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Returns the axes and the counts of a ``visits.json``."""
    values = parse_json(text)
    return checked(values["axes"], np.array(values["counts"], np.int64))


def checked(axes: Any, counts: np.ndarray) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Returns both. Raises ValueError where they are not the visits of a run."""
    named = [(str(axis["name"]), float(axis["low"]), float(axis["high"])) for axis in axes]
    ordered = all(-LARGEST < low < high < LARGEST for _, low, high in named)
    sizes = counts.shape
    if len(named) != 2 or not ordered or len(sizes) != 3 or not counts.size or max(sizes) > 1000:
        raise ValueError("it does not hold the visits of a run")
    return [dict(zip(("name", "low", "high"), axis, strict=True)) for axis in named], counts
