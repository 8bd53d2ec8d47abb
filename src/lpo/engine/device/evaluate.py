"""Engine on a device: episodes of the policies of many runs on fresh worlds."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from lpo.engine.device.setting import Setting, overflowed
from lpo.engine.device.state import Axes, Group, stream, unflat
from lpo.engine.learner import EVAL, TrainState
from lpo.envs.device.worlds import begin
from lpo.types import Obs

SAMPLED = 1 << 30  # what tells the episodes of sampled actions from the others


def evaluate(s: Setting, group: Group, axes: Axes) -> dict[str, Array]:
    """Scores [R] of the policies on fresh worlds, and of their sampled actions on others."""
    now = jax.vmap(lambda seed, n: jax.random.fold_in(stream(seed, EVAL), n))(
        group.train.seed, group.moving.env_steps
    )
    scores = score_episodes(s, group, axes, now, s.config.evaluation.deterministic)
    others = jax.vmap(lambda key: jax.random.fold_in(key, SAMPLED))(now)
    sampled = score_episodes(s, group, axes, others, False)
    overflow = jnp.maximum(scores["overflow"], sampled.pop("overflow"))
    kept = {k: v for k, v in sampled.items() if k in ("return", "normalized_return", "success")}
    return (
        {f"eval/{k}": v for k, v in scores.items()}
        | {f"eval/sampled_{k}": v for k, v in kept.items()}
        | {"eval/overflow": overflow}
    )


def score_episodes(
    s: Setting, group: Group, axes: Axes, now: Array, deterministic: bool
) -> dict[str, Array]:
    """Plays an episode in every world of an evaluation. Returns the means [R]."""
    c, runs = s.config.evaluation, len(group.moving.env_steps)
    keys = jax.vmap(lambda key: jax.random.split(key, c.episodes))(now)
    params = s.params(axes, runs, c.episodes)
    worlds = unflat(jax.vmap(partial(begin, s.held_out))(keys.reshape(-1), params), runs)
    blank = jnp.zeros((runs, c.episodes))

    def step(carry):
        t, worlds, memory, begins, ret, length, success, overflow, running = carry
        noise = jax.vmap(lambda key: jax.random.fold_in(key, t))(now)
        act = partial(act_to_score, s, deterministic=deterministic)
        memory, action = jax.vmap(act)(group.train, memory, worlds.obs, begins, noise)
        worlds, out = s.simulate(worlds, action, params, s.held_out)
        ret, length = ret + out.reward * running, length + running
        ends = running & (out.terminated | out.truncated)
        success = success | (ends & s.succeeded(out, ret))
        overflow = jnp.maximum(overflow, overflowed(out, ret.shape))
        begins = out.terminated | out.truncated
        return t + 1, worlds, memory, begins, ret, length, success, overflow, running & ~ends

    limit = min(c.max_steps, s.space.horizon or c.max_steps)
    memory = s.no_memory(runs, c.episodes)
    start = (
        jnp.int32(0), worlds, memory, blank == 0, blank, blank, blank > 0, blank, blank == 0
    )  # fmt: skip
    _, _, _, _, ret, length, success, overflow, _ = jax.lax.while_loop(
        lambda carry: (carry[0] < limit) & carry[-1].any(), step, start
    )
    scores = {
        "return": ret.mean(1),
        "length": length.mean(1),
        "success": success.mean(1),
        "episodes": jnp.full(runs, c.episodes),
        "overflow": overflow.max(1),
    }
    return scores | normalized(s, ret)


def act_to_score(
    s: Setting,
    state: TrainState,
    memory: Any,
    obs: Obs,
    begins: Array,
    key: Array,
    deterministic: bool,
) -> tuple[Any, Array]:
    """The memories and actions [E] of one run in an evaluation: the most likely ones, or drawn."""
    memory, outputs = s.outputs(state, memory, obs, begins)
    if deterministic:
        return memory, s.parts.dist.act_mode(outputs)
    return memory, s.parts.dist.act(outputs, state.params.log_std, key)


def normalized(s: Setting, ret: Array) -> dict[str, Array]:
    task = s.env.description
    least, largest = task.get("min_return", 0.0), task.get("max_return")
    if largest is None:
        return {}
    score = (ret - least) / (largest - least)
    return {"normalized_return": jnp.clip(score, 0, 1).mean(1)}
