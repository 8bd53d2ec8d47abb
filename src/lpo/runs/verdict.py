"""Runs: which policy is the best one, how it acts, and what may be claimed of it.

Every evaluation plays episodes by the mode of the policy and others by sampled actions. A policy is
ranked by the mean return of the last three evaluations, for the better of the two ways. So one
lucky evaluation of few episodes does not make a policy the best.

At the end of a run the best policy and the last one are tested by new episodes. The winner plays
other new episodes, and their mean is the claim. No episode of the claim has decided anything, so a
later evaluation finds the same mean, up to chance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from lpo.engine.trainer import Acts
from lpo.errors import LPOError

P = TypeVar("P")
Means = Mapping[Acts, Mapping[str, Any]]  # of some episodes, for each way of acting
Play = Callable[[P, Sequence[Acts], range], Means]  # (policy, ways, occasions) → means
Choose = Callable[[np.ndarray, P, P], P]  # (which, new, old) → new for the runs that are marked
Metrics = Mapping[str, Any]

WINDOW = 3  # evaluations that rank a policy
SHARE = 0.03  # of the steps of a run that a test may take, beyond its smallest size
FIRST, CLAIM, MOST = 1, 4, 5  # batches of the choice and of the claim; the largest factor of both
APART = 0.2  # difference of two success rates, or of two returns in proportion, that is told


class Ranked(NamedTuple):
    """The rank of a policy or of R policies, and whether their sampled actions are the better."""

    score: np.ndarray  # -inf until there are enough evaluations
    sampled: np.ndarray


class Recent:
    """The last evaluations of a run, or of R runs side by side."""

    def __init__(self, kept: Iterable[Any] = ()):
        self.kept: deque[np.ndarray] = deque((np.asarray(x, float) for x in kept), WINDOW)

    def add(self, metrics: Metrics) -> Ranked:
        """Takes in an evaluation. Returns the rank of the policy that it was of."""
        mode = metrics["eval/return"]
        self.kept.append(np.array([mode, metrics.get("eval/sampled_return", mode)], float))
        return self.rank()

    def rank(self) -> Ranked:
        mode, sampled = np.mean(self.kept, 0) if self.kept else (np.array(0.0), np.array(0.0))
        full = len(self.kept) == WINDOW
        return Ranked(np.maximum(mode, sampled) if full else mode - np.inf, sampled > mode)

    def to_json(self) -> list[list[float]]:
        return [x.tolist() for x in self.kept]


def recent_of(found: Any) -> Recent:
    """Returns the evaluations in a checkpoint's record. Raises LPOError where they are none."""
    try:
        kept = np.asarray([] if found is None else found, float).reshape(-1, 2)
    except (ValueError, TypeError) as error:
        raise LPOError(f"The evaluations {found!r} are not pairs; pass a complete run.") from error
    return Recent(kept)


class Claim(NamedTuple):
    """What a test of a run found, or of R runs side by side."""

    last: np.ndarray  # the last policy won
    sampled: np.ndarray  # the winner acts by sampled actions
    last_sampled: np.ndarray  # so does the last policy
    metrics: dict[str, Any]  # best/return, best/success, best/episodes, …


def test(
    play: Play[P], policies: Sequence[P], choose: Choose[P], ways: Sequence[Acts], factor: int = 1
) -> Claim:
    """Chooses among ``policies``, the best and the last or the last alone, and tests the winner.

    ``play`` returns means of batches of episodes, with ``sampled``: whether actions were sampled.
    Equal occasions have equal seeds. Where returns
    are equal, the policy and the way that stand first win.
    """
    tried = [play(policy, ways, range(FIRST * factor)) for policy in policies]
    returns = np.array([found[way]["return"] for found in tried for way in ways], float)
    samples = np.array([way == "sampled" for way in ways])
    won = returns.argmax(0)  # over policies and their ways
    last, sampled = won // len(ways) == len(policies) - 1, samples[won % len(ways)]
    winner = choose(last, policies[-1], policies[0])
    needed: list[Acts] = [way for way in ways if np.any(sampled == (way == "sampled"))]
    new = range(FIRST * factor, (FIRST + CLAIM) * factor)
    found = play(winner, needed, new)
    metrics: dict[str, Any] = {}
    for name, value in found[needed[-1]].items():
        metrics[f"best/{name}"] = np.where(sampled, value, found[needed[0]][name])
    metrics["best/episodes"] = metrics["best/episodes"] * len(new)  # batches of equal size
    return Claim(last, sampled, samples[returns[-len(ways) :].argmax(0)], metrics)


test.__test__ = False  # type: ignore[attr-defined]  # no test of pytest


def factor(steps: int, episodes: int, length: float, arms: int) -> int:
    """Returns how many times its smallest size a test may have."""
    smallest = (arms * FIRST + CLAIM) * episodes * max(length, 1.0)
    return int(np.clip(SHARE * steps / smallest, 1, MOST))


def at_end(metrics: Metrics) -> list[str]:
    """Returns what a run says of itself at its end: the last evaluation, and the best policy."""
    if "eval/return" not in metrics:
        return []
    lines = [f"last   {in_words(metrics)}"]
    if (different := apart(metrics)) is not None:
        lines.append(f"note   {different}")
    if "best/return" in metrics:
        way = "sampled actions" if metrics["best/sampled"] else "its mode"
        lines.append(
            f"best   {one_way(metrics, 'best/')} by {way}, over {metrics['best/episodes']:.0f} new "
            f"episodes (policy of step {metrics['best/env_steps']:,})"
        )
    return lines


def in_words(metrics: Metrics) -> str:
    """Returns the scores of an evaluation: one, or both ways where they are known."""
    if "eval/sampled_return" not in metrics:
        return one_way(metrics, "eval/")
    return f"mode: {one_way(metrics, 'eval/')}; sampled: {one_way(metrics, 'eval/sampled_')}"


def one_way(metrics: Metrics, prefix: str) -> str:
    success = metrics.get(f"{prefix}success")
    shown = "" if success is None else f"success {success:.0%}, "
    return f"{shown}return {metrics[f'{prefix}return']:.4g}"


def apart(metrics: Metrics) -> str | None:
    """Returns a sentence where mode and sampled actions of one policy differ much."""
    if "eval/sampled_return" not in metrics:
        return None
    name = next(n for n in ("success", "normalized_return", "return") if f"eval/{n}" in metrics)
    mode, sampled = metrics[f"eval/{name}"], metrics[f"eval/sampled_{name}"]
    size = max(abs(mode), abs(sampled), 1e-12) if name == "return" else 1.0
    if abs(mode - sampled) < APART * size:
        return None
    of = {"normalized_return": "score"}.get(name, name)
    form = "{:.0%}" if name == "success" else "{:.3g}"
    texts = form.format(mode), form.format(sampled)
    why = "is stuck without the noise of its actions" if sampled > mode else "is hurt by its noise"
    return f"By its mode the policy has {of} {texts[0]}, sampled {texts[1]}: it {why}."
