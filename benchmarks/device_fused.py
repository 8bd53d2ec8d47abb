"""The learner with plain code beside the one with kernels: seconds of ``learn``, in turns.

    python benchmarks/device_fused.py --runs 64 256 1024

Rollouts are random numbers (17 inputs, 6 actions), so no physics is needed. ``ppo`` trains two
networks, ``eniac`` three and a bonus. Every variant is compiled, compared with plain code after one
gradient step, and then timed in turns with the others. A variant that fails is named and left out.
Ends with one JSON line for each row. ``--limit`` seconds after the start no new row is begun.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from checkout import commit

from lpo.config import Config, configure
from lpo.engine.learner import Space, TrainState, assemble, init_state, learn, prepare, problem_of
from lpo.math import ppo
from lpo.math.descent import PLAIN, Compute
from lpo.math.distributions import ActionSpec
from lpo.math.fused import Fused
from lpo.math.fused_adam import FusedAdam
from lpo.types import Rollout, vector

INPUTS, ACTIONS, WORLDS, EPOCHS = 17, 6, 8, 10
SHAPES = {16: 2048, 64: 4096}  # rows of a minibatch → of a rollout
SPACE = Space(vector(INPUTS), ActionSpec((-1.0,) * ACTIONS, (1.0,) * ACTIONS), 1000)
VARIANTS = {
    "plain": PLAIN,
    "nets 4 warps": Compute(apply=Fused(4)),
    "adam": Compute(descend=FusedAdam()),
    "both": Compute(Fused(4), FusedAdam()),
    "both 8 warps": Compute(Fused(8), FusedAdam()),
    "both chunk 2048": Compute(Fused(4), FusedAdam(chunk=2048)),
}
ROWS: Any = Rollout(*(0 for _ in Rollout._fields))._replace(valid=None)  # axes of the runs


def random_rollout(key: jax.Array, runs: int, steps: int) -> Rollout:
    """Returns normal numbers in place of a rollout of every run; no episode ends."""
    keys, shape = jax.random.split(key, 5), (runs, steps // WORLDS, WORLDS)
    return Rollout(
        obs=jax.random.normal(keys[0], (*shape, INPUTS)),
        action=jax.random.normal(keys[1], (*shape, ACTIONS)),
        reward=jax.random.normal(keys[2], shape),
        terminated=jnp.zeros(shape, bool),
        truncated=jnp.zeros(shape, bool),
        next_obs=jax.random.normal(keys[3], (*shape, INPUTS)),
        valid=jnp.ones(shape[1:], bool),
        start=jnp.zeros(shape, bool),
        taken=jnp.ones(shape, bool),
        last_obs=jax.random.normal(keys[4], (runs, WORLDS, INPUTS)),
    )


def learner(c: Config, compute: Compute) -> Callable[[TrainState, Rollout], TrainState]:
    """Returns ``learn`` for many runs as one program."""
    parts = assemble(c, problem_of(c, SPACE, compute))
    every = jax.vmap(lambda state, rollout: learn(parts, state, rollout)[0], in_axes=(0, ROWS))
    return jax.jit(every)


def one_step(c: Config, compute: Compute, state: TrainState, rollout: Rollout) -> Any:
    """Returns gradients of the first minibatch, and parameters after one step along them."""
    parts = assemble(c, problem_of(c, SPACE, compute))

    def of_run(state: TrainState, rollout: Rollout) -> Any:
        ready = prepare(parts, state, rollout)
        batch = jax.tree.map(lambda x: x[: c.ppo.batch_size], ready.batch)
        terms = ppo.coefficients(c.ppo)
        loss = lambda p: ppo.loss(p, batch, parts.dist, terms, compute.apply)[0]  # noqa: E731
        grads = jax.grad(loss)(state.params)
        return grads, compute.descend(parts.adam, state.params, state.opt, grads)[0]

    return jax.jit(jax.vmap(of_run, in_axes=(0, ROWS)))(state, rollout)


def apart(a: Any, b: Any) -> float:
    """Returns max |a − b| over all leaves, relative to max |b| of the leaf."""
    gaps = jax.tree.map(lambda x, y: jnp.abs(x - y).max() / (jnp.abs(y).max() + 1e-12), a, b)
    return max(float(x) for x in jax.tree.leaves(gaps))


def attempt(name: str, call: Callable[[], Any]) -> Any:
    """Returns what a call returns; prints the end of its error and returns None if it fails."""
    try:
        return jax.block_until_ready(call())
    except Exception:  # one variant must not stop the others
        lines = traceback.format_exc().strip().splitlines()[-6:]
        print(f"  {name} FAILED:\n    " + "\n    ".join(x[:300] for x in lines), flush=True)
        return None


def measure(
    algo: str, runs: int, batch: int, names: list[str], repeats: int, epochs: int
) -> dict[str, Any]:
    c = configure(
        algo, env="lpo/DeepSea-v0", num_envs=WORLDS, rollout=SHAPES[batch], batch_size=batch,
        epochs=epochs, steps=2**30,
    )  # fmt: skip
    # a first step of Adam moves every weight by the rate: the sign of g, whatever its size
    gentle = dataclasses.replace(c, ppo=dataclasses.replace(c.ppo, adam_eps=1.0))
    rollout = jax.jit(random_rollout, static_argnums=(1, 2))(jax.random.key(0), runs, SHAPES[batch])
    plain = assemble(c, problem_of(c, SPACE))
    state = jax.jit(jax.vmap(partial(init_state, plain)))(jnp.arange(runs, dtype=jnp.uint32))
    few = lambda tree: jax.tree.map(lambda x: x[:4], tree)  # noqa: E731
    some = few(rollout)._replace(valid=rollout.valid)
    exact = "highest"  # float32 throughout: what both are compared with
    with jax.default_matmul_precision(exact):
        right = one_step(gentle, PLAIN, few(state), some)
    calls, error, compiled = {}, {}, {}
    for name in names:
        compute, began = VARIANTS[name], time.perf_counter()
        made = attempt(name, partial(one_step, gentle, compute, few(state), some))
        if made is None:
            continue
        error[name] = [apart(made[0], right[0]), apart(made[1], right[1])]
        program = learner(c, compute)
        if attempt(name, partial(program, state, rollout)) is None:
            continue
        compiled[name] = time.perf_counter() - began
        calls[name] = partial(program, state, rollout)
        print(
            f"  {name:16} compiled in {compiled[name]:5.1f} s, against float32: gradients "
            f"{error[name][0]:.1e}, parameters {error[name][1]:.1e}",
            flush=True,
        )
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            began = time.perf_counter()
            jax.block_until_ready(call())
            spent[name].append(time.perf_counter() - began)
    seconds = {name: statistics.median(times) for name, times in spent.items()}
    steps = epochs * -(-SHAPES[batch] // batch)
    for name, s in seconds.items():
        ratio = f"{seconds['plain'] / s:5.2f}x" if "plain" in seconds else ""
        each = f"{s / steps * 1e6:6.0f} µs a gradient step"
        print(f"  {name:16} {s * 1e3:8.1f} ms, {each} {ratio}", flush=True)
    return {
        "algo": algo,
        "runs": runs,
        "batch_size": batch,
        "rollout": SHAPES[batch],
        "epochs": epochs,
        "learn_s": seconds,
        "compile_s": compiled,
        "gradient_and_parameter_error": error,
        "device": jax.devices()[0].device_kind,
        "commit": commit(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="The learner with plain code and with kernels")
    parser.add_argument("--runs", type=int, nargs="+", default=[1024, 256, 64])
    parser.add_argument("--algos", nargs="+", default=["ppo", "eniac"])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[64, 16])
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), help="in the first rows")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=75.0)
    options = parser.parse_args()
    began, lines = time.perf_counter(), []
    cases = [(r, b, a) for r in options.runs for b in options.batch_sizes for a in options.algos]
    for i, (runs, batch, algo) in enumerate(cases):
        if time.perf_counter() - began > options.limit:
            print(f"{len(cases) - i} rows left out: {options.limit:g} s are over", flush=True)
            break
        # all variants where it matters most, then the two that are in question
        names = (options.variants or list(VARIANTS)) if i < 2 else ["plain", "both"]
        print(f"{algo}, {runs} runs, minibatches of {batch}", flush=True)
        row = partial(measure, algo, runs, batch, names, options.repeats, options.epochs)
        if (line := attempt(algo, row)) is not None:
            lines.append(line)
    for line in lines:
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
