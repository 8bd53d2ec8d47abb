"""Sweeps: the test of the best and the last policies of runs on a device; see ``runs.verdict``."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lpo.config import EvaluationOptions
from lpo.runs.verdict import CLAIM, FIRST, factor

LATEST = 2**31 - 1  # no run takes so many steps, so these evaluations have episodes of their own


class Tested(NamedTuple):
    """What the test found, [R] each."""

    last: np.ndarray  # the last policy won
    sampled: np.ndarray  # the winner acts by sampled actions
    last_sampled: np.ndarray  # so does the last policy
    metrics: dict[str, np.ndarray]


def test(
    program: Any, c: EvaluationOptions, axes: Any, group: Any, best: Any, length: float
) -> Tested:
    """Plays new episodes of the best policies and of the last ones, then others of the winners.

    ``best`` has what acting needs: policy, log_std and moments, [R, …] each.
    """
    runs = len(group.moving.env_steps)
    steps = int(np.asarray(group.moving.env_steps).max())
    size = factor(steps, c.episodes, length, 4)
    kept = acting_by(group, best)
    tried = [played(program, axes, g, range(FIRST * size)) for g in (kept, group)]
    ways = ["eval/return", "eval/sampled_return"]
    returns = np.stack([found[way] for found in tried for way in ways])  # [4, R]
    if not c.deterministic:
        returns[[0, 2]] = -np.inf
    won = returns.argmax(0)
    last, sampled = won >= 2, won % 2 == 1
    winner = jax.tree.map(
        lambda a, b: jnp.where(last.reshape(runs, *(1,) * (a.ndim - 1)), a, b),
        acting(group),
        acting(kept),
    )
    found = played(
        program, axes, acting_by(group, winner), range(FIRST * size, (FIRST + CLAIM) * size)
    )
    metrics = {"best/sampled": sampled.astype(float)}
    for name in ("return", "normalized_return", "success"):
        if f"eval/{name}" in found:
            both = found[f"eval/{name}"], found[f"eval/sampled_{name}"]
            metrics[f"best/{name}"] = np.where(sampled, both[1], both[0])
    metrics["best/episodes"] = np.full(runs, CLAIM * size * c.episodes)
    return Tested(last, sampled, returns[3] > returns[2], metrics)


test.__test__ = False  # type: ignore[attr-defined]  # no test of pytest


def acting(group: Any) -> dict[str, Any]:
    """Returns what the policies of a group need to act."""
    train, params = group.train, group.train.params
    return {"policy": params.policy, "log_std": params.log_std, "body": params.body,
            "moments": train.moments}  # fmt: skip


def acting_by(group: Any, own: dict[str, Any]) -> Any:
    """Returns the group with other policies."""
    train = group.train
    params = train.params._replace(**{k: v for k, v in own.items() if k != "moments"})
    return group._replace(train=train._replace(params=params, moments=own["moments"]))


def played(program: Any, axes: Any, group: Any, occasions: range) -> dict[str, np.ndarray]:
    """Returns the means [R] of evaluations with seeds that no evaluation of training has."""
    rows = []
    for i in occasions:
        steps = jnp.full_like(group.moving.env_steps, LATEST - i)
        at = group._replace(moving=group.moving._replace(env_steps=steps))
        rows.append({k: np.asarray(v) for k, v in program.evaluate(at, axes).items()})
    return {name: np.mean([row[name] for row in rows], 0) for name in rows[0]}
