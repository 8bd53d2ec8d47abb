"""What every function class offers (theory room; eqs. (E1)-(E3), Assumptions 4.2-4.3).

A class F is a set of functions on the pairs z = 0..P−1 of a finite pool. The sampled dataset Ẑ is
stored as weights on the pool, never as copies. F keeps beside it whatever makes the cost of one
more sample independent of the number already seen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from lpo.errors import LPOError


@dataclass
class Sensed:
    """Ẑ: `counts[z]` copies of each pair, and how many additions made it."""

    counts: np.ndarray
    additions: int = 0

    @property
    def copies(self) -> float:
        """|Ẑ| counted with copies, the |Ẑ| of Lemma C.2."""
        return float(self.counts.sum())

    @property
    def distinct(self) -> int:
        return int(np.count_nonzero(self.counts))


S = TypeVar("S", bound=Sensed)


class FunctionClass(ABC, Generic[S]):
    """sup_f ‖f‖_∞ ≤ W (Assumption 4.3); everything else is a question about F and Ẑ."""

    W: float
    num_pairs: int

    @abstractmethod
    def empty(self) -> S:
        """Ẑ = ∅."""

    @abstractmethod
    def add(self, sensed: S, z: int, copies: float) -> None:
        """Put `copies` copies of z into Ẑ, in place."""

    @abstractmethod
    def sensitivity(self, sensed: S, z: np.ndarray, cap: float) -> np.ndarray:
        """Eq. (E1) at each pair of `z`: sup_Δ Δ(z)² / (min{‖Δ‖²_Ẑ, cap} + 1), cap = 4NW²."""

    @abstractmethod
    def width(self, sensed: S, epsilon: float) -> np.ndarray:
        """ω(F̂, z) = sup{|Δ(z)| : Δ ∈ ΔF, ‖Δ‖²_Ẑ ≤ ε} at every pair of the pool."""

    @abstractmethod
    def fit(self, counts: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """argmin_{f∈F} Σ_z counts[z] (f(z) − targets[z])², as values at every pair."""

    @abstractmethod
    def log_covering(self, radius: float) -> float:
        """An upper bound of ln 𝒩(F, radius) in the sup norm."""

    @abstractmethod
    def distance(self, z: int) -> np.ndarray:
        """sup_{f∈F} |f(z) − f(z')| for every z' of the pool."""

    def rounding(self, radius: float) -> np.ndarray:
        """Eq. (E2): for each z the representative ẑ with sup_f |f(z) − f(ẑ)| ≤ radius (greedy)."""
        nearest = np.full(self.num_pairs, -1)
        for z in range(self.num_pairs):
            if nearest[z] < 0:
                nearest[(nearest < 0) & (self.distance(z) <= radius)] = z
        return nearest

    def absorb(
        self, sensed: S, z: np.ndarray, u: np.ndarray, factor: float, cap: float, stop: bool
    ) -> tuple[int, int]:
        """S-Sampling (Alg. 2) over a stream; (samples consumed, additions made).

        `u` are uniforms, one a sample. With `stop` it returns right after the first addition.
        Until an addition Ẑ does not change, so one call of `sensitivity` serves all of the pool.
        """
        at, added, pool = 0, 0, np.arange(self.num_pairs)
        chance, copies = keep_probability(factor * self.sensitivity(sensed, pool, cap))
        while at < len(z):
            block = z[at : at + 4096]
            hits = np.flatnonzero(u[at : at + len(block)] < chance[block])
            if not len(hits):
                at += len(block)
                continue
            pair = int(block[hits[0]])
            self.add(sensed, pair, float(copies[pair]))
            at, added = at + int(hits[0]) + 1, added + 1
            if stop:
                break
            chance, copies = keep_probability(factor * self.sensitivity(sensed, pool, cap))
        return at, added

    def _check_epsilon(self, epsilon: float) -> None:
        if not epsilon >= 0:
            raise LPOError(f"the width radius epsilon is {epsilon}; give a number ≥ 0.")


def keep_probability(score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Alg. 2 lines 4-8: (probability, copies): (1, 1) if s_z ≥ 1, else (1/⌊1/s_z⌋, ⌊1/s_z⌋)."""
    copies = np.floor(1.0 / np.minimum(np.maximum(score, 1e-300), 1.0))
    return 1.0 / copies, copies
