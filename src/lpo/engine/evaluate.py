"""Engine: episodes of a frozen policy on separate environments, and their metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lpo.engine.rollout import Episode, HostPolicy
from lpo.types import BatchEnv

SAMPLED = ("return", "normalized_return", "success")  # what is told of sampled actions


def evaluate(
    env: BatchEnv, policy: HostPolicy, seed: int, deterministic: bool, max_steps: int
) -> list[Episode]:
    """Returns one episode of every environment of the batch, all stepped together.

    An episode that is longer than ``max_steps`` is cut off there and counts as it is.
    """
    rng = np.random.Generator(np.random.Philox(seed))
    cast = env.codec.spec.cast
    obs = cast(env.reset(seed))
    policy.begin(env.num_envs)
    ret, length = np.zeros(env.num_envs), np.zeros(env.num_envs, np.int64)
    success: list[bool | None] = [None] * env.num_envs
    running = np.ones(env.num_envs, bool)
    for _ in range(max_steps):
        step = env.step(policy.dist.to_env(policy.act(obs, rng, deterministic)))
        counts = running & step.valid
        ret += step.reward * counts
        length += counts
        ends = running & (step.terminated | step.truncated)
        if step.success is not None:
            for i in np.flatnonzero(ends):
                success[i] = bool(step.success[i])
        running &= ~ends
        if not running.any():
            break
        obs = cast(step.obs)
        policy.forget(step.terminated | step.truncated)
    return [Episode(float(r), int(n), s) for r, n, s in zip(ret, length, success, strict=True)]


def normalized_return(episodes: Sequence[Episode], task: dict[str, Any]) -> float | None:
    """Returns the mean of return / largest return, clipped to [0, 1].

    Where the task declares a least return, that counts 0. Returns None where it declares no
    largest one.
    """
    least, largest = task.get("min_return", 0.0), task.get("max_return")
    if largest is None:
        return None
    returns = np.array([e.ret for e in episodes])
    return float(np.clip((returns - least) / (largest - least), 0, 1).mean())


def success_rate(episodes: Sequence[Episode], task: dict[str, Any]) -> float | None:
    """Returns the share of episodes that succeeded by the task's own definition.

    An environment may report success itself (``info["is_success"]``). Otherwise an episode succeeds
    when its return is at least ``success_return`` of the task. Returns None where there is neither.
    """
    least = task.get("success_return")
    if all(e.success is None for e in episodes) and least is None:
        return None
    reached = [least is not None and e.ret >= least for e in episodes]
    said = [r if e.success is None else e.success for e, r in zip(episodes, reached, strict=True)]
    return float(np.mean(said))


def score(prefix: str, episodes: Sequence[Episode], task: dict[str, Any]) -> dict[str, float]:
    """Returns the metrics of episodes; those that the task does not define are absent."""
    if not episodes:
        return {}
    metrics = {
        "return": float(np.mean([e.ret for e in episodes])),
        "length": float(np.mean([e.length for e in episodes])),
        "normalized_return": normalized_return(episodes, task),
        "success": success_rate(episodes, task),
        "episodes": len(episodes),
    }
    return {f"{prefix}/{name}": value for name, value in metrics.items() if value is not None}


def as_sampled(metrics: Mapping[str, float]) -> dict[str, float]:
    """Returns the metrics of an evaluation under the names of sampled actions."""
    return {
        f"eval/sampled_{name}": metrics[f"eval/{name}"]
        for name in SAMPLED
        if f"eval/{name}" in metrics
    }


def means(found: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Returns the mean of every metric over batches of episodes, without what stands before /."""
    rows = [{k.split("/")[-1]: v for k, v in row.items()} for row in found]
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
