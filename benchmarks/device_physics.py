"""How fast the physics of the locomotion tasks is on a device, over the number of worlds.

    python benchmarks/device_physics.py                                # on a GPU
    python benchmarks/device_physics.py --simulators warp              # MuJoCo Warp
    python benchmarks/device_physics.py --simulators warp --deterministic  # for equal bits
    python benchmarks/device_physics.py --worlds 8 64 --steps 5        # on a CPU, small
    python benchmarks/device_physics.py --worlds 8 --simulators planar warp --errors 4000

A figure is env steps per second of `step`, with observations, rewards and ends, under random
actions and without learning, the median of the rounds; one compiled program takes all steps of a
round. An error is that of one env step from a random pose against MuJoCo in C, in units of the
largest number of the state. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from checkout import commit

from lpo.envs.device import World, advance, begin
from lpo.envs.device.locomotion import Locomotion, locomotion
from lpo.envs.device.physics import SIMULATORS, stepper
from lpo.envs.host.physics import mj, random_pose
from lpo.envs.specs import LOCOMOTION

WORLDS = [64, 512, 2048, 8192, 32768]
CROSSED = -0.08  # m; limbs that overlap by more part in no defined direction, and are left out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--worlds", type=int, nargs="+", default=WORLDS)
    parser.add_argument("--steps", type=int, default=100, help="env steps of a world in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", nargs="+", default=list(LOCOMOTION), choices=list(LOCOMOTION))
    parser.add_argument("--simulators", nargs="+", default=["planar"], choices=list(SIMULATORS))
    parser.add_argument("--errors", type=int, default=0, help="of this many random poses")
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--graph", help="how `warp` captures CUDA graphs, a JaxCallableGraphMode")
    options = parser.parse_args()
    if options.graph:
        choose_graph(options.graph)
    device = jax.devices()[0]
    print(f"commit {commit()}, jax {jax.__version__}, {device.device_kind}", flush=True)
    rows = []
    for name in options.tasks:
        for simulator in options.simulators:
            env = locomotion(
                LOCOMOTION[name], simulator=simulator, deterministic=options.deterministic
            )
            if options.errors:
                rows.append({"task": name, "simulator": simulator} | errors(env, options.errors))
                print(json.dumps(rows[-1]), flush=True)
            for worlds in options.worlds:
                rows.append(measure(env, worlds, options.steps, options.rounds))
                print(line(rows[-1]), flush=True)
    print(json.dumps({"device": device.device_kind, "commit": commit(), "rows": rows}))


def choose_graph(mode: str) -> None:
    from lpo.envs.device import warp_physics

    warp_physics.GRAPH = warp_physics.wp.JaxCallableGraphMode[mode]


def measure(env: Locomotion, worlds: int, steps: int, rounds: int) -> dict[str, Any]:
    """Speed, seconds to compile, and memory of one number of worlds."""
    params = {name: jnp.asarray(value) for name, value in env.params.items()}
    keys = jax.random.split(jax.random.key(0), worlds)
    state = jax.jit(jax.vmap(lambda key: begin(env, key, params)))(keys)
    began = time.perf_counter()
    program = jax.jit(partial(go, env, steps, params)).lower(state, keys[0]).compile()
    compiled = time.perf_counter() - began
    state, flags = jax.block_until_ready(program(state, keys[0]))
    first = time.perf_counter() - began - compiled
    seconds = []
    for key in keys[1 : rounds + 1]:
        began = time.perf_counter()
        state, flags = jax.block_until_ready(program(state, key))
        seconds.append(time.perf_counter() - began)
    memory = program.memory_analysis()
    assert memory is not None
    return {
        "task": env.id,
        "simulator": env.simulator,
        "worlds": worlds,
        "env_steps_per_s": round(worlds * steps / statistics.median(seconds)),
        "compile_s": round(compiled, 1),
        "first_round_s": round(first, 2),
        "program_bytes_per_world": round(memory.temp_size_in_bytes / worlds),
        "scratch_bytes_per_world": scratch(env),
        "overflow": int(jnp.bitwise_or.reduce(flags)),
    }


def go(env: Locomotion, steps: int, params: dict[str, Any], worlds: World, key: jax.Array):
    """Takes ``steps`` steps in all worlds; returns them and the overflows."""
    low, high = jnp.asarray(env.action.low), jnp.asarray(env.action.high)
    count = len(worlds.clock)

    def one(worlds: World, key: jax.Array) -> tuple[World, jax.Array]:
        action = jax.random.uniform(key, (count, len(low)), minval=low[None], maxval=high[None])
        worlds, step = jax.vmap(partial(advance, env), (0, 0, None))(worlds, action, params)
        assert step.overflow is not None
        return worlds, jnp.bitwise_or.reduce(step.overflow)

    return jax.lax.scan(one, worlds, jax.random.split(key, steps))


def errors(env: Locomotion, poses: int) -> dict[str, Any]:
    """The median, 99 % and largest error of an env step."""
    model, rng = env.body.model, np.random.default_rng(1)
    qpos = np.stack([random_pose(model, rng) for _ in range(poses)])
    qpos[:, 0] = 0.0
    qvel, ctrl = rng.normal(0, 3, (poses, model.nv)), rng.uniform(-1.3, 1.3, (poses, model.nu))
    qpos, qvel, ctrl = (x.astype(np.float32) for x in (qpos, qvel, ctrl))
    found = jax.jit(stepper(env.body))(qpos, qvel, np.zeros_like(qvel), ctrl)
    ours = np.concatenate([found.qpos, found.qvel], axis=1)
    data, error = mj.MjData(model), []
    for i in range(poses):
        mj.mj_resetData(model, data)
        data.qpos[:], data.qvel[:], data.ctrl[:] = qpos[i], qvel[i], ctrl[i]
        crossed = False
        for _ in range(env.task.frame_skip):
            mj.mj_step(model, data)
            crossed |= any(c.geom1 != 0 and c.dist < CROSSED for c in data.contact)
        after = np.concatenate([data.qpos, data.qvel])
        if not crossed:
            error.append(np.abs(ours[i] - after).max() / np.abs(after).max())
    marks = zip(("median", "99 %", "largest"), np.percentile(error, [50, 99, 100]), strict=True)
    return {"poses": len(error)} | {name: float(f"{value:.2g}") for name, value in marks}


def scratch(env: Locomotion) -> int:
    """Bytes a world that the simulator keeps outside of the program."""
    if env.simulator != "warp":
        return 0
    from lpo.envs.device.warp_physics import bytes_per_world

    return bytes_per_world(env.body)


def line(row: dict[str, Any]) -> str:
    return (
        f"{row['task']:26s} {row['simulator']:9s} {row['worlds']:6,} worlds "
        f"{row['env_steps_per_s']:12,} env steps/s, compiled in {row['compile_s']} s, "
        f"{row['program_bytes_per_world'] + row['scratch_bytes_per_world']:,} bytes a world"
    )


if __name__ == "__main__":
    main()
