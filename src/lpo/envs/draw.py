"""Environments: drawings of our own tasks, in NumPy alone."""

from __future__ import annotations

from typing import Any

import numpy as np

Colour = tuple[int, int, int]


class Canvas:
    """An RGB image of a rectangle of the plane; y goes up."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], scale: int):
        columns, rows = (round((high - low) * scale) for low, high in (x, y))
        self.image = np.full((rows, columns, 3), 245, np.uint8)
        self._x = x[0] + (np.arange(columns)[None, :] + 0.5) / scale
        self._y = y[1] - (np.arange(rows)[:, None] + 0.5) / scale

    def box(self, low: Any, high: Any, colour: Colour) -> None:
        """Fills the rectangle between two corners."""
        inside = (self._x >= low[0]) & (self._x < high[0])
        self.image[inside & (self._y >= low[1]) & (self._y < high[1])] = colour

    def disc(self, middle: Any, radius: float, colour: Colour) -> None:
        """Fills a disc."""
        self.image[np.hypot(self._x - middle[0], self._y - middle[1]) < radius] = colour

    def rod(self, one: Any, other: Any, radius: float, colour: Colour) -> None:
        """Fills the points within ``radius`` of a segment."""
        way = np.asarray(other, float) - np.asarray(one, float)
        along = (self._x - one[0]) * way[0] + (self._y - one[1]) * way[1]
        share = np.clip(along / (way @ way), 0.0, 1.0)
        gap = np.hypot(self._x - one[0] - share * way[0], self._y - one[1] - share * way[1])
        self.image[gap < radius] = colour
