"""Device environments: what a task of the registry says of itself."""

from __future__ import annotations

from typing import Any

import jax

from lpo.envs.registry import find_spec
from lpo.envs.specs import TASKS, declared


def describe(env_id: str, obs_size: int, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the description of a host batch of ``env_id``, but for what steps it."""
    spec = find_spec(env_id)
    row: dict[str, Any] = {
        "id": env_id,
        "horizon": spec.max_episode_steps,
        "backend": "device",
        "jax": jax.__version__,
    }
    if env_id in TASKS:
        row["max_return"] = TASKS[env_id].max_return
    row |= declared(env_id, (obs_size,), spec.reward_threshold)
    return row | ({"env_kwargs": kwargs} if kwargs else {})
