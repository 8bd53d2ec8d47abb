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
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from lpo.errors import LPOError

Acts = Literal["mode", "sampled"]
P = TypeVar("P")
Play = Callable[[P, Acts, int], Mapping[str, float]]  # (policy, way, occasion) → metrics
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

    def acts(self, deterministic: bool) -> Acts | None:
        """Returns how the policy of a single run acts by default; None before an evaluation."""
        if not self.kept:
            return None
        return "sampled" if not deterministic or bool(self.rank().sampled) else "mode"

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
    """What a test found."""

    name: str  # the policy that won
    acts: Acts
    metrics: dict[str, float]  # best/return, best/success, best/episodes, …
    ways: dict[str, Acts]  # of every policy: the better way


def test(play: Play[P], policies: Mapping[str, P], ways: Sequence[Acts], factor: int = 1) -> Claim:
    """Chooses among ``policies``, which are named in the order of preference, and tests the winner.

    ``play`` returns the metrics of one batch of episodes; equal occasions have equal seeds.
    """
    tried: dict[tuple[str, Acts], dict[str, float]] = {
        (name, way): means(play(policy, way, i) for i in range(FIRST * factor))
        for name, policy in policies.items()
        for way in ways
    }
    ranks = {key: found["return"] for key, found in tried.items()}

    def better(name: str) -> Acts:
        return max(ways, key=lambda way: ranks[name, way])

    best: dict[str, Acts] = {name: better(name) for name in policies}
    name = max(policies, key=lambda n: ranks[n, best[n]])
    new = range(FIRST * factor, (FIRST + CLAIM) * factor)
    found = means(play(policies[name], best[name], i) for i in new)
    found["episodes"] *= len(new)  # a mean over batches of equal size
    found["sampled"] = float(best[name] == "sampled")
    return Claim(name, best[name], {f"best/{k}": v for k, v in found.items()}, best)


test.__test__ = False  # type: ignore[attr-defined]  # no test of pytest


def means(found: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Returns the mean of every metric over batches of episodes, without what stands before /."""
    rows = [{k.split("/")[-1]: v for k, v in row.items()} for row in found]
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


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
