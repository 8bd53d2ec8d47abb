"""Engine on a device: lines 7 to 10 of Algorithm 7 for the runs that have collected something."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from lpo.engine.device.setting import Setting
from lpo.engine.device.state import Axes, Ended, Group, Walk, choose, stream
from lpo.engine.learner import START, TrainState, viewed
from lpo.engine.learner import learn as learn_from
from lpo.types import Rollout


def learn(s: Setting, walk: Walk, group: Group, axes: Axes) -> tuple[Group, dict[str, Array]]:
    """Lines 7 to 10; a run that has collected nothing stays as it is. Metrics [R]."""
    worked = walk.rows > 0
    rollout = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), walk.buffer)
    rollout = rollout._replace(last_obs=walk.moving.worlds.obs, memory=group.moving.memory)

    def learn_one(state: TrainState, known: Any, rollout: Rollout, axes: Axes, steps: Array):
        train, metrics = learn_from(s.parts_of(axes), state, rollout)
        key = jax.random.fold_in(stream(state.seed, START), steps)
        known, covered = s.start(axes).update(
            known, state.params, state.moments, viewed(s.parts, rollout), key
        )
        return train, known, metrics | covered

    rows: Any = Rollout(*(0 for _ in Rollout._fields))
    if s.in_step:
        rollout, rows = rollout._replace(valid=rollout.valid[0]), rows._replace(valid=None)
    train, known, metrics = jax.vmap(learn_one, in_axes=(0, 0, rows, 0, 0))(
        group.train, group.known, rollout, dict(axes), walk.moving.env_steps
    )
    train, known = choose(worked, (train, known), (group.train, group.known))
    metrics |= walk.looked | episode_metrics(walk.ended)
    metrics["switch/count"] = train.iteration
    metrics["switch/rollout_steps"] = walk.rows * s.num_envs
    metrics["env_steps"] = walk.moving.env_steps
    return Group(train, walk.switch, known, walk.moving), metrics


def episode_metrics(ended: Ended) -> dict[str, Array]:
    """Means over the episodes that ended; not a number where none did."""
    count = jnp.where(ended.episodes > 0, ended.episodes, jnp.nan)
    return {
        "rollout/return": ended.ret / count,
        "rollout/length": ended.length / count,
        "rollout/success": ended.success / count,
        "rollout/episodes": ended.episodes,
        "rollout/overflow": ended.overflow,
    }
