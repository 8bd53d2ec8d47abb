"""Policies, their mixtures, and the cover π^{0:n−1} (theory room; Algorithms 1 and 3).

A policy is a table π[s, a]; a mixture is a stack [K, S, A] of which one member, drawn uniformly,
acts for a whole episode. The cover repeats a mixture once for each iteration it served; it stores
the mixture once, with that number beside it.
"""

from __future__ import annotations

import numpy as np

from lpo.theory.mdp import MDP, visitation
from lpo.theory.simulate import action_cdf


def uniform(mdp: MDP) -> np.ndarray:
    """π^0(·|s) = Unif(A), as a mixture of one."""
    return np.full((1, mdp.num_states, mdp.num_actions), 1.0 / mdp.num_actions)


def softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def first_policy(known_pairs: np.ndarray) -> np.ndarray:
    """Alg. 3 lines 2-3 as logits [S, A]: uniform over unknown actions, over all if none is."""
    known_states = known_pairs.all(axis=1, keepdims=True)
    return np.where(known_pairs & ~known_states, -np.inf, 0.0)


class Cover:
    """π_cov = Unif(π^0, …, π^{n−1}), mixtures of mixtures, with multiplicities."""

    def __init__(self, mdp: MDP, laws: bool, walks: bool = True) -> None:
        """`laws` keeps the exact ρ_cov (one linear solve a member), `walks` the tables to walk by.

        Without `walks` all policies but the newest are forgotten, so memory stays flat.
        """
        self.mdp, self.laws, self.walks = mdp, laws, walks
        self._bank = np.empty((64, mdp.num_states, mdp.num_actions))
        self._used = 0
        self.offsets: list[int] = []
        self.sizes: list[int] = []
        self.repeats: list[int] = []
        self._law_sum = np.zeros(mdp.num_pairs)  # Σ_j repeats_j·d^{π^j}, the newest left out
        self._last_law = np.zeros(mdp.num_pairs)

    def append(self, stack: np.ndarray, repeats: int = 1) -> None:
        if not self.walks:
            self._used = 0
        while self._used + len(stack) > len(self._bank):
            self._bank = np.concatenate([self._bank, np.empty_like(self._bank)])
        if self.laws:
            self._law_sum += self.repeats[-1] * self._last_law if self.repeats else 0.0
            self._last_law = visitation(self.mdp, stack).mean(axis=0)
        self._bank[self._used : self._used + len(stack)] = action_cdf(stack)
        self.offsets.append(self._used)
        self.sizes.append(len(stack))
        self.repeats.append(repeats)
        self._used += len(stack)

    def repeat_last(self, more: int) -> None:
        self.repeats[-1] += more

    def __len__(self) -> int:
        """n: the number of iterations covered."""
        return sum(self.repeats)

    @property
    def cdfs(self) -> np.ndarray:
        return self._bank[: self._used]

    @property
    def last(self) -> np.ndarray:
        """The cumulative table of the newest mixture."""
        return self._bank[self.offsets[-1] : self._used]

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Rows of `cdfs`: j uniform over iterations, then a member of π^j for the episode."""
        weight = np.asarray(self.repeats, float)
        j = rng.choice(len(weight), size=count, p=weight / weight.sum())
        inside = (rng.random(count) * np.asarray(self.sizes)[j]).astype(np.int64)
        return np.asarray(self.offsets)[j] + inside

    def law(self) -> np.ndarray:
        """ρ_cov(z) = (1/n) Σ_j d^{π^j}(z), exactly."""
        total = self._law_sum + self.repeats[-1] * self._last_law
        return total / total.sum()

    def last_law(self) -> np.ndarray:
        """d^{π} of the newest mixture, exactly."""
        return self._last_law
