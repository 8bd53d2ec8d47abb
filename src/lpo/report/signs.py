"""Report: the numbers that a diagnosis of a run rests on, from its log alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lpo.runs.costs import SIZE, usual_cost
from lpo.runs.unit import fades
from lpo.runs.written import Options, number

ALPHA, BETA = 2.0, 1.0  # where a file does not state the weights
SOLVED = 0.5  # share of episodes, or of the largest return, from which on a run has not failed
WINDOW = 5  # evaluations, for a late score; rows, for peaks
ENDING = 2  # evaluations that say how a run ends: one alone may be chance

SCORES = ("normalized_return", "success")  # the first that a run has, as in the tables of results
Row = Mapping[str, Any]


class Score(NamedTuple):
    """The scores of a run in [0, 1], one for each evaluation (or rollout, where there is none)."""

    values: np.ndarray
    other: float | None  # the end of the other way of acting: by the mode, or sampled
    mode: bool  # the values are of the mode

    @property
    def end(self) -> float:
        return float(self.values[-ENDING:].mean())

    @property
    def late(self) -> float:
        return float(self.values[-WINDOW:].mean())

    @property
    def best(self) -> float:
        return float(smooth(self.values, ENDING).max())

    @property
    def solved(self) -> bool:
        """It ends well, or did on the whole and has not just fallen."""
        return self.end >= SOLVED or (self.late >= SOLVED and self.end >= self.late / 2)


class Signs(NamedTuple):
    """What the log says beside the score."""

    steps: int
    found: int | None  # steps at the end of the first rollout with a positive reward
    largest: float | None  # reward; None where no row tells it
    costs: bool  # some returns are below 0
    cost: float | None  # of every step, where a step does nothing but cost
    rate: float  # share of steps with a positive reward, at the end
    peak: float  # the largest, over some rollouts
    peak_at: int
    length: float | None  # of the episodes at the end
    share: float | None  # of the bonus in the advantage, late; None where no row tells it
    earned: float  # recent share of steps that earn reward, as a fading bonus counts it
    clipped: float  # share of clipped updates, late
    returns: np.ndarray  # of evaluations, or else of rollouts

    @property
    def per_episode(self) -> float | None:
        """Rewarded steps in an episode at the end; None where its length is not known."""
        return None if self.length is None else self.rate * self.length


def smooth(values: np.ndarray, width: int) -> np.ndarray:
    width = min(width, len(values))
    return np.convolve(values, np.ones(width) / width, "valid")


def column(rows: Sequence[Row], *names: str) -> np.ndarray:
    """Returns the values of the first metric that any row has; empty where there is none."""
    name = next((name for name in names if any(name in row for row in rows)), "")
    return np.array([row[name] for row in rows if name in row], float)


def score_of(rows: Sequence[Row]) -> Score | None:
    """Returns the scores by the better way of acting; None where the task defines none."""
    for name in SCORES:
        mode, sampled = column(rows, f"eval/{name}"), column(rows, f"eval/sampled_{name}")
        if len(mode) and len(sampled):
            by_mode = Score(mode, None, True)
            drawn = Score(sampled, None, False)
            best, other = (by_mode, drawn) if by_mode.end >= drawn.end else (drawn, by_mode)
            return best._replace(other=other.end)
        if len(mode):
            return Score(mode, None, True)
    found = column(rows, *(f"rollout/{name}" for name in SCORES))
    return Score(found, None, False) if len(found) else None


def rising(values: np.ndarray) -> bool:
    """Returns whether the last quarter is above the one before, by more than a little."""
    n = max(1, len(values) // 4)
    if len(values) < 2 * n or n == len(values):
        return True  # too short to say that it stands still
    now, before = values[-n:].mean(), values[-2 * n : -n].mean()
    return bool(now > before + 0.05 * max(abs(now), abs(before)))


def signs(rows: Sequence[Row], task: Mapping[str, Any], o: Options) -> Signs:
    """Returns the numbers behind a diagnosis. ``rows`` must not be empty."""
    rate = np.array([row.get("rollout/reward_rate", 0.0) for row in rows])
    steps = np.array([row["env_steps"] for row in rows], int)
    peaks = smooth(rate, WINDOW)
    width = len(rate) - len(peaks) + 1
    rewarded = np.flatnonzero(rate > 0)
    late = rows[len(rows) // 2 :]
    largest = column(rows, "rollout/reward_max")
    lengths = column(rows, "rollout/length", "eval/length")
    horizon = task.get("horizon")
    return Signs(
        steps=int(steps[-1]),
        found=int(steps[rewarded[0]]) if rewarded.size else None,
        largest=float(largest.max()) if largest.size else None,
        costs=any(row.get("rollout/return", row.get("eval/return", 0.0)) < 0 for row in rows),
        cost=cost_of(rows, o),
        rate=float(rate[-max(width, len(rate) // 10) :].mean()),
        peak=float(peaks.max()),
        peak_at=int(steps[int(peaks.argmax()) + width - 1]),
        length=float(lengths[-WINDOW:].mean()) if lengths.size else horizon,
        share=bonus_share(late, o),
        earned=float(np.median([row.get("rollout/earned", 0.0) for row in late])),
        clipped=float(np.mean([row.get("policy/clip_fraction", 0.0) for row in late])),
        returns=column(rows, "eval/return", "rollout/return"),
    )


def cost_of(rows: Sequence[Row], o: Options) -> float | None:
    """Returns what every step costs at the end; None where it is small or the bonus needs no
    reward."""
    last = next((row for row in reversed(rows) if "rollout/return" in row), {})
    cost = usual_cost(last) if fades(o) else None
    return cost if cost is not None and cost >= SIZE else None


def bonus_share(rows: Sequence[Row], o: Options) -> float | None:
    """Returns the median share of the bonus in the weighted advantage.

    Rollouts with reward decide where there are any: before, the reward advantage is noise.
    """
    rows = [row for row in rows if "advantage/int_rms" in row]
    rows = [row for row in rows if row.get("rollout/reward_rate", 0.0) > 0] or rows
    alpha, beta = number(o, "alpha", ALPHA), number(o, "beta", BETA)
    shares = []
    for row in rows:
        bonus = row.get("advantage/int_weight", beta) * row["advantage/int_rms"]
        reward = row.get("advantage/ext_weight", alpha) * row["advantage/ext_rms"]
        shares.append(bonus / max(bonus + reward, 1e-12))
    return float(np.median(shares)) if shares else None
