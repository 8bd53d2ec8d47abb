"""Evaluation on environments of its own, with the policy and its normaliser frozen."""

from __future__ import annotations

import numpy as np

from lpo.engine.rollout import Episode, HostPolicy
from lpo.types import BatchEnv


def evaluate(
    env: BatchEnv, policy: HostPolicy, seed: int, deterministic: bool, max_steps: int
) -> list[Episode]:
    """One episode in every environment of the batch, all stepped together.

    An episode that outlasts ``max_steps`` counts as it stands then.
    """
    rng = np.random.Generator(np.random.Philox(seed))
    obs = env.reset(seed).astype(np.float32)
    ret, length = np.zeros(env.num_envs), np.zeros(env.num_envs, np.int64)
    running = np.ones(env.num_envs, bool)
    for _ in range(max_steps):
        if deterministic:
            action = policy.mode(obs)
        else:
            noise = policy.dist.draw(rng, (env.num_envs, policy.dist.noise_size))
            action = policy.sample(obs, noise)
        step = env.step(policy.dist.to_env(action))
        counts = running & step.valid
        ret += step.reward * counts
        length += counts
        running &= ~(step.terminated | step.truncated)
        if not running.any():
            break
        obs = step.obs.astype(np.float32)
    return [Episode(float(r), int(n)) for r, n in zip(ret, length, strict=True)]


def success_rate(episodes: list[Episode], max_return: float | None) -> float:
    """Mean share of the largest possible return; where none is known, of episodes with reward."""
    returns = np.array([e.ret for e in episodes])
    if max_return is None:
        return float((returns > 0).mean())
    return float(np.clip(returns / max_return, 0, 1).mean())
