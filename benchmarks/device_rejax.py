"""Our `ppo` and `lpo` beside Rejax's PPO: one GPU, one task, one network, one batch size, in turns.

    python benchmarks/device_rejax.py --task MountainCarContinuous-v0 --runs 256 1024

Both sides step the same environment (ours, behind Gymnax's interface for Rejax), with 8 worlds an
agent, rollouts of 4,096 steps, minibatches of 64, 10 epochs, tanh networks of 64 × 64, normalised
observations and Adam. Whole iterations are timed in turns; the ratio is that of the medians.
Rejax's PPO trains two networks; `lpo` trains three and a bonus. Ends with one JSON line for each
number of agents.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from checkout import commit

from lpo.config import configure, with_options
from lpo.engine.device import Program
from lpo.envs.device import make_device
from lpo.envs.device.base import DeviceEnv
from lpo.envs.device.worlds import World, advance, begin

WORLDS, ROLLOUT, BATCH, EPOCHS, HIDDEN, RATE = 8, 4096, 64, 10, (64, 64), 3e-4


class AsGymnax:
    """One of our environments behind the interface that Rejax calls."""

    def __init__(self, env: DeviceEnv):
        self.env, self.default_params = env, {k: jnp.float32(v) for k, v in env.params.items()}

    def reset(self, key: jax.Array, params: Any) -> tuple[Any, World]:
        world = begin(self.env, key, params)
        return world.obs, world

    def step(self, key: jax.Array, state: World, action: jax.Array, params: Any):
        world, out = advance(self.env, state, action, params)
        return world.obs, world, out.reward, out.terminated | out.truncated, {}

    def observation_space(self, params: Any) -> Any:
        spaces: Any = importlib.import_module("gymnax.environments.spaces")
        return spaces.Box(-np.inf, np.inf, (self.env.obs_size,))

    def action_space(self, params: Any) -> Any:
        spaces: Any = importlib.import_module("gymnax.environments.spaces")
        a = self.env.action
        return spaces.Box(np.array(a.low), np.array(a.high), (len(a.low),))


def rejax_side(env: DeviceEnv, runs: int) -> Callable[[], None]:
    """Returns a function that runs one iteration of Rejax's PPO for every agent."""
    algo = importlib.import_module("rejax").PPO.create(  # no dependency of ours
        env=AsGymnax(env),
        num_envs=WORLDS,
        num_steps=ROLLOUT // WORLDS,
        num_minibatches=ROLLOUT // BATCH,
        num_epochs=EPOCHS,
        learning_rate=RATE,
        max_grad_norm=0.5,
        ent_coef=0.0,
        gamma=0.99,
        normalize_observations=True,
        agent_kwargs={"hidden_layer_sizes": HIDDEN, "activation": "tanh"},
    )
    iterate = jax.jit(jax.vmap(algo.train_iteration), donate_argnums=0)
    state = [jax.jit(jax.vmap(algo.init_state))(jax.random.split(jax.random.key(0), runs))]

    def turn() -> None:
        state[0] = jax.block_until_ready(iterate(state[0]))

    return turn


def our_side(algo: str, env: DeviceEnv, task: str, runs: int) -> Callable[[], None]:
    """Returns a function that runs one iteration of ours for every run."""
    c = configure(
        algo, env=task, num_envs=WORLDS, rollout=ROLLOUT, batch_size=BATCH, epochs=EPOCHS,
        hidden=HIDDEN, learning_rate=RATE, steps=2**30,
    )  # fmt: skip
    if algo == "lpo":
        c = with_options(c, {"growth_iterations": 10**6})  # rollouts of the same length
    program = Program(c, env)
    advance_all = partial(program.advance, axes={}, until=jnp.int32(2**30), iterations=1)
    group = [program.init(range(runs), {})]

    def turn() -> None:
        group[0], _ = jax.block_until_ready(advance_all(group[0]))

    return turn


def measure(task: str, runs: int, repeats: int) -> dict[str, Any]:
    env = make_device(configure("ppo", env=task).task)
    sides = {
        "rejax": rejax_side(env, runs),
        "ppo": our_side("ppo", env, task, runs),
        "lpo": our_side("lpo", env, task, runs),
    }
    compiled, seconds = {}, {name: [] for name in sides}
    for name, turn in sides.items():
        began = time.perf_counter()
        turn()
        compiled[name] = time.perf_counter() - began
    for _ in range(repeats):
        for name, turn in sides.items():
            began = time.perf_counter()
            turn()
            seconds[name].append(time.perf_counter() - began)
    rates = {name: runs * ROLLOUT / statistics.median(s) for name, s in seconds.items()}
    return {
        "task": task,
        "agents": runs,
        "env_steps_per_s": rates,
        "ppo_over_rejax": rates["ppo"] / rates["rejax"],
        "lpo_over_rejax": rates["lpo"] / rates["rejax"],
        "compile_s": compiled,
        "device": jax.devices()[0].device_kind,
        "commit": commit(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Our ppo and lpo beside Rejax's PPO")
    parser.add_argument("--task", default="MountainCarContinuous-v0")
    parser.add_argument("--runs", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    for runs in options.runs:
        print(json.dumps(measure(options.task, runs, options.repeats)), flush=True)


if __name__ == "__main__":
    main()
