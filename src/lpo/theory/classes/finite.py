"""An explicit finite list of functions, every question answered exactly (theory room)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lpo.errors import LPOError
from lpo.theory.classes.base import FunctionClass, Sensed


@dataclass
class FiniteSensed(Sensed):
    """Ẑ with the squared distance ‖f_i − f_j‖²_Ẑ of every two functions."""

    apart: np.ndarray = field(kw_only=True)


class Finite(FunctionClass[FiniteSensed]):
    """F = {f_1..f_m} as a table [m, P]; a sample costs O(m²), whatever |Ẑ| is."""

    def __init__(self, table: np.ndarray) -> None:
        table = np.asarray(table, float)
        if table.ndim != 2 or not table.size or not np.isfinite(table).all():
            raise LPOError(
                "a finite class is a non-empty, finite (functions, pairs) table; fix it."
            )
        self.table, self.num_pairs = table, table.shape[1]
        self.W = float(np.abs(table).max())
        upper = np.triu_indices(len(table), 1)
        self.first, self.second = upper

    def empty(self) -> FiniteSensed:
        return FiniteSensed(np.zeros(self.num_pairs), apart=np.zeros(len(self.first)))

    def _squares(self, z: int | np.ndarray) -> np.ndarray:
        return (self.table[self.first][:, z] - self.table[self.second][:, z]) ** 2

    def add(self, sensed: FiniteSensed, z: int, copies: float) -> None:
        sensed.apart += copies * self._squares(z)
        sensed.counts[z] += copies
        sensed.additions += 1

    def sensitivity(self, sensed: FiniteSensed, z: np.ndarray, cap: float) -> np.ndarray:
        """The maximum over all pairs of functions; 0 for a single function."""
        names, back = np.unique(z, return_inverse=True)
        ratio = self._squares(names) / (np.minimum(sensed.apart, cap) + 1.0)[:, None]
        return ratio.max(axis=0, initial=0.0)[back]

    def width(self, sensed: FiniteSensed, epsilon: float) -> np.ndarray:
        self._check_epsilon(epsilon)
        close = sensed.apart <= epsilon
        squares = (self.table[self.first[close]] - self.table[self.second[close]]) ** 2
        return np.sqrt(squares.max(axis=0, initial=0.0))

    def fit(self, counts: np.ndarray, targets: np.ndarray) -> np.ndarray:
        seen = counts > 0
        loss = ((self.table[:, seen] - targets[seen]) ** 2) @ counts[seen]
        return self.table[loss.argmin()].copy()

    def log_covering(self, radius: float) -> float:
        return float(np.log(len(self.table)))

    def distance(self, z: int) -> np.ndarray:
        return np.abs(self.table - self.table[:, [z]]).max(axis=0)
