"""The record of a run: values at every policy change, and the mixture's (theory room)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lpo.theory.classes.base import Sensed
from lpo.theory.mdp import MDP, value


@dataclass
class Trace:
    """One row per policy: when it came, what it cost, how good it and the mixture so far are.

    `gap_last` is that of the last inner iterate, `gap_policy` that of the inner mixture π^n, and
    `gap_mixture` that of Unif(π^0, …, π^n), Algorithm 1's output up to there.
    """

    mdp: MDP
    steps: list[int] = field(default_factory=list)  # environment steps when the policy was ready
    iteration: list[int] = field(default_factory=list)  # n at which it started to act
    gap_last: list[float] = field(default_factory=list)
    gap_policy: list[float] = field(default_factory=list)
    gap_mixture: list[float] = field(default_factory=list)
    additions: int = 0
    distinct: int = 0
    copies: float = 0.0
    inner: int = 0
    seconds: float = 0.0
    last_policy: np.ndarray | None = None
    transfer: list[float] = field(default_factory=list)  # max_k ε_k^n, with Options.transfer
    _steps: int = 0
    _n: int = 0
    _value_sum: float = 0.0

    @property
    def switches(self) -> int:
        """Policy changes after π^0."""
        return len(self.steps) - 1

    @property
    def total_steps(self) -> int:
        return self._steps

    @property
    def iterations(self) -> int:
        """Outer iterations done: d-samples, or episodes for value-based peers."""
        return self._n

    def policy(self, stack: np.ndarray, steps: int, inner: int = 0) -> None:
        """A policy is ready after `steps` more environment steps."""
        v = value(self.mdp, stack)[:, self.mdp.start]
        best = self.mdp.optimal_value
        self._steps += steps
        self.inner += inner
        self.steps.append(self._steps)
        self.iteration.append(self._n)
        self.gap_last.append(best - float(v[-1]))
        self.gap_policy.append(best - float(v.mean()))
        self.gap_mixture.append(best - (self._value_sum + float(v.mean())) / (self._n + 1))
        self.last_policy = stack[-1]

    def served(self, iterations: int, steps: int, sensed: Sensed | None = None) -> None:
        """The newest policy acted for `iterations` samples."""
        self._steps += steps
        self._n += iterations
        self._value_sum += iterations * (self.mdp.optimal_value - self.gap_policy[-1])
        if sensed is not None:
            self.additions, self.distinct = sensed.additions, sensed.distinct
            self.copies = sensed.copies

    @property
    def final_gap_mixture(self) -> float:
        """Of Algorithm 1's output, each policy weighted by the iterations it served."""
        return self.mdp.optimal_value - self._value_sum / max(self._n, 1)

    def switches_before(self, n: int) -> int:
        """Policy changes up to iteration n."""
        return int(np.searchsorted(self.iteration[1:], n))

    def gap_before(self, steps: int) -> float:
        """Gap of the last iterate of the policy that was ready after so many environment steps."""
        return self.gap_last[int(np.searchsorted(self.steps, steps, side="right")) - 1]

    def late_gap(self, share: float = 0.25) -> float:
        """Mean gap of the last iterates that acted in the last `share` of the iterations."""
        starts = np.asarray(self.iteration, float)
        ends = np.append(starts[1:], self._n)
        weight = np.maximum(ends - np.maximum(starts, (1.0 - share) * self._n), 0.0)
        return float(weight @ np.asarray(self.gap_last)) / max(float(weight.sum()), 1e-300)

    def steps_until(self, target: float) -> int | None:
        """Steps after which the last iterate's gap is at most `target` for the first time."""
        good = np.flatnonzero(np.asarray(self.gap_last) <= target)
        return self.steps[int(good[0])] if len(good) else None

    def steps_to(self, target: float) -> int | None:
        """Steps after which the last iterate's gap stays at most `target` to the end of the run."""
        gaps = np.asarray(self.gap_last)
        bad = np.flatnonzero(gaps > target)
        first = 0 if not len(bad) else int(bad[-1]) + 1
        return None if first >= len(gaps) else self.steps[first]
