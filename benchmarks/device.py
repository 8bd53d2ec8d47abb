"""Whole training on a device: env steps/s and memory over the number of runs in one program.

    python benchmarks/device.py --device gpu --task lpo/DeepSea-v0 --runs 1 16 256 1024

Bonus, both critics and the switch are on (``--algo``). The first call compiles and is timed apart.
``--parts`` also times the rollout and the learner alone. Ends with one JSON line for each number of
runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from checkout import commit

from lpo.config import configure, with_options
from lpo.engine.device import Group, Program
from lpo.engine.learner import PPO_ORDER, component_key, learn, prepare
from lpo.envs.device import make_device


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Median time of a call; the first one compiles and is left out."""
    jax.block_until_ready(call())
    spent = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(call())
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


def parts_of(program: Program, group: Group, until: jax.Array, repeats: int) -> dict[str, float]:
    """Seconds of the rollout, of what is made from it, and of the two fits, each by itself."""
    collect = jax.jit(lambda g: program.collect(g, {}, until))
    walk = collect(group)
    rollout = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), walk.buffer)
    rollout = rollout._replace(last_obs=walk.moving.worlds.obs)
    del walk
    p = program.parts
    key = lambda state: component_key(state, PPO_ORDER)  # noqa: E731
    ready = jax.jit(jax.vmap(partial(prepare, p)))
    whole = jax.jit(jax.vmap(partial(learn, p)))
    fit = jax.jit(jax.vmap(lambda s, r: p.bonus.update(s.bonus, r, key(s))))
    return {
        "rollout_s": seconds(lambda: collect(group).rows, repeats),
        "learn_s": seconds(lambda: whole(group.train, rollout)[0].params, repeats),
        "of_it_prepare_s": seconds(lambda: ready(group.train, rollout).batch, repeats),
        "of_it_bonus_fit_s": seconds(lambda: fit(group.train, rollout), repeats),
    }


def measure(options: argparse.Namespace, runs: int) -> dict[str, Any]:
    kwargs = json.loads(options.env_kwargs) if options.env_kwargs else None
    c = configure(
        options.algo,
        env=options.task,
        env_kwargs=kwargs,
        num_envs=options.num_envs,
        rollout=options.rollout,
        batch_size=options.batch_size,
        epochs=options.epochs,
        steps=2**30,
    )
    if options.algo == "lpo":
        c = with_options(c, {"growth_iterations": 10**6})
    began = time.perf_counter()
    program = Program(c, make_device(c.task))
    group = program.init(range(runs), {})
    made = time.perf_counter() - began
    until = jnp.int32(2**30)
    began = time.perf_counter()
    group, _ = jax.block_until_ready(program.advance(group, {}, until, iterations=1))
    compiled = time.perf_counter() - began
    rates = []
    for _ in range(options.repeats):
        before = int(group.moving.env_steps[0])
        began = time.perf_counter()
        group, _ = jax.block_until_ready(program.advance(group, {}, until, iterations=1))
        steps = (int(group.moving.env_steps[0]) - before) * runs
        rates.append(steps / (time.perf_counter() - began))
    stats = jax.devices()[0].memory_stats() or {}
    split = parts_of(program, group, until, options.repeats) if options.parts else {}
    return {
        "task": options.task,
        "env_kwargs": kwargs,
        "num_envs": options.num_envs,
        **split,
        "algo": options.algo,
        "runs": runs,
        "batch_size": options.batch_size,
        "rollout": options.rollout,
        "env_steps_per_s": statistics.median(rates),
        "compile_s": compiled,
        "init_s": made,
        "peak_bytes": stats.get("peak_bytes_in_use"),
        "device": jax.devices()[0].device_kind,
        "commit": commit(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Whole training on a device")
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--task", default="lpo/DeepSea-v0")
    parser.add_argument("--env-kwargs")
    parser.add_argument("--algo", default="eniac")
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 16, 256, 1024])
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--rollout", type=int, default=4096)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--parts", action="store_true")
    options = parser.parse_args()
    jax.config.update("jax_default_device", jax.devices(options.device)[0])
    for runs in options.runs:
        print(json.dumps(measure(options, runs)), flush=True)


if __name__ == "__main__":
    main()
