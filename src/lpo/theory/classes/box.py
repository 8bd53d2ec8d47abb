"""The tabular box class F = [0, W]^P, every question in closed form (theory room; Section 3)."""

from __future__ import annotations

import numpy as np
from numba import njit

from lpo.errors import LPOError
from lpo.theory.classes.base import FunctionClass, Sensed


@njit(cache=True)
def _absorb(counts, z, u, factor, cap, W2, stop):
    added = 0
    for i in range(len(z)):
        score = factor * W2 / (min(counts[z[i]] * W2, cap) + 1.0)
        copies = 1.0 if score >= 1.0 else np.floor(1.0 / score)
        if u[i] * copies < 1.0:
            counts[z[i]] += copies
            added += 1
            if stop:
                return i + 1, added
    return len(z), added


class Box(FunctionClass[Sensed]):
    """One free number in [0, W] per pair; differences fill [−W, W]^P."""

    def __init__(self, num_pairs: int, W: float) -> None:
        if num_pairs < 1 or not (np.isfinite(W) and W > 0):
            raise LPOError(f"a box needs pairs and a finite W > 0, got {num_pairs} and {W}; fix W.")
        self.num_pairs, self.W = num_pairs, float(W)

    def empty(self) -> Sensed:
        return Sensed(np.zeros(self.num_pairs))

    def add(self, sensed: Sensed, z: int, copies: float) -> None:
        sensed.counts[z] += copies
        sensed.additions += 1

    def sensitivity(self, sensed: Sensed, z: np.ndarray, cap: float) -> np.ndarray:
        """W²/(min{n_z W², cap} + 1): the ratio grows with |Δ(z)| and other pairs only add to it."""
        W2 = self.W**2
        return W2 / (np.minimum(sensed.counts[z] * W2, cap) + 1.0)

    def width(self, sensed: Sensed, epsilon: float) -> np.ndarray:
        """min{W, sqrt(ε/n_z)}."""
        self._check_epsilon(epsilon)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(
                sensed.counts > 0, np.minimum(self.W, np.sqrt(epsilon / sensed.counts)), self.W
            )

    def fit(self, counts: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """The mean of each pair, clipped to [0, W]; 0 without data, where any value would do."""
        return np.where(counts > 0, np.clip(targets, 0.0, self.W), 0.0)

    def log_covering(self, radius: float) -> float:
        """ln ⌈W/(2·radius)⌉ per pair: intervals of half-length `radius`."""
        return self.num_pairs * float(np.log(max(np.ceil(self.W / (2 * radius)), 1.0)))

    def distance(self, z: int) -> np.ndarray:
        out = np.full(self.num_pairs, self.W)
        out[z] = 0.0
        return out

    def absorb(
        self, sensed: Sensed, z: np.ndarray, u: np.ndarray, factor: float, cap: float, stop: bool
    ) -> tuple[int, int]:
        used, added = _absorb(sensed.counts, z, u, factor, cap, self.W**2, stop)
        sensed.additions += added
        return used, added
