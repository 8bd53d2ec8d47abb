"""Report: IQM, probability of improvement and performance profiles with bootstrap intervals.

The measures are those of Agarwal et al. (2021), *Deep RL at the edge of the statistical precipice*.
The scores of an algorithm are a list with one array of runs per task. The arrays may have further
axes in front, so that one call computes a whole bootstrap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

Scores = Sequence[np.ndarray]  # per task: [..., runs]
REPS = 2000


class Estimate(NamedTuple):
    value: np.ndarray
    low: np.ndarray  # 95 % interval
    high: np.ndarray


def iqm(scores: Scores) -> np.ndarray:
    """Returns the mean of the middle half of all runs of all tasks.

    A quarter of the runs, rounded down, is cut off at each end.
    """
    flat = np.sort(np.concatenate(scores, axis=-1), axis=-1)
    cut = flat.shape[-1] // 4
    return flat[..., cut : flat.shape[-1] - cut].mean(-1)


def rounded(x: np.ndarray, digits: int = 6) -> np.ndarray:
    """Rounds each number to its first digits; infinite ones stay as they are."""
    known = np.where(np.isfinite(x), x, 0.0)
    size = np.floor(np.log10(np.maximum(np.abs(known), 1e-300)))
    place = 10.0 ** (digits - 1 - size)
    return np.where(np.isfinite(x), np.round(known * place) / place, x)


def improvement(x: Scores, y: Scores) -> np.ndarray:
    """Returns P(X > Y) for a random run of each, averaged over tasks; a tie counts half.

    Numbers that agree in six digits are a tie: a device computes and keeps fewer than a host.
    """
    x, y = ([rounded(runs) for runs in scores] for scores in (x, y))
    wins = [
        ((a[..., :, None] > b[..., None, :]) + 0.5 * (a[..., :, None] == b[..., None, :])).mean(
            (-2, -1)
        )
        for a, b in zip(x, y, strict=True)
    ]
    return np.mean(wins, axis=0)


def profile(scores: Scores, taus: np.ndarray) -> np.ndarray:
    """Returns the share of runs with a score above τ: [..., taus]."""
    flat = np.concatenate(scores, axis=-1)
    return (flat[..., :, None] > taus).mean(-2)


def resample(groups: Sequence[Scores], reps: int, seed: int) -> list[list[np.ndarray]]:
    """Draws runs with replacement within each task and group (stratified): arrays [reps, runs].

    If every group and task has the same number of runs, the draws equal rliable's for this seed.
    """
    rng = np.random.RandomState(seed)
    counts = {len(runs) for scores in groups for runs in scores}
    if len(counts) == 1:
        n = counts.pop()
        index = rng.choice(n, (reps, len(groups), n, len(groups[0])))
        return [
            [runs[index[:, g, :, m]] for m, runs in enumerate(scores)]
            for g, scores in enumerate(groups)
        ]
    return [[runs[rng.choice(len(runs), (reps, len(runs)))] for runs in s] for s in groups]


def estimate(
    measure: Callable[..., np.ndarray], *groups: Scores, reps: int = REPS, seed: int = 0
) -> Estimate:
    """Returns ``measure(*groups)`` and its percentile interval over stratified bootstraps."""
    groups = tuple([np.asarray(runs, float) for runs in scores] for scores in groups)
    drawn = measure(*resample(groups, reps, seed))
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    return Estimate(measure(*groups), low, high)


def estimate_curve(curves: np.ndarray, seed: int = 0) -> Estimate:
    """Returns the IQM over runs at every point of ``curves`` [runs, points]."""
    points = [estimate(iqm, [column], seed=seed) for column in curves.T]
    return Estimate(*(np.array(part) for part in zip(*points, strict=True)))


def rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Returns Spearman's correlation: that of the ranks, where ties share their mean rank."""
    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def ranks(values: np.ndarray) -> np.ndarray:
    below = (values[:, None] > values).sum(1)
    return below + ((values[:, None] == values).sum(1) - 1) / 2
