"""The physics of the locomotion tasks on a device: env steps/s, and errors against MuJoCo in C.

    python benchmarks/physics.py --device gpu --worlds 512 2048 8192 32768
    python benchmarks/physics.py --device cpu --worlds 256 --simulators planar warp --errors 4000

Speeds are with random actions and resets. An error is that of one env step from a random pose, in
units of the largest number of the state. Ends with one JSON line for each task and simulator.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import jax
import numpy as np

from lpo.envs.device.locomotion import Locomotion, locomotion
from lpo.envs.device.physics import stepper
from lpo.envs.device.worlds import advance, begin
from lpo.envs.host.physics import mj, random_pose
from lpo.envs.specs import LOCOMOTION, SparseLocomotion

STEPS = 100
CROSSED = -0.08  # limbs that overlap by more than this part in no defined direction


def speed(env: Locomotion, worlds: int) -> float:
    """Env steps/s; the first call compiles and is left out."""
    params, actions = env.params, len(env.action.low)

    @jax.jit
    def go(state: Any, key: jax.Array) -> Any:
        def one(state: Any, key: jax.Array) -> Any:
            action = jax.random.uniform(key, (worlds, actions), minval=-1.0)
            return jax.vmap(lambda w, a: advance(env, w, a, params)[0])(state, action), None

        return jax.lax.scan(one, state, jax.random.split(key, STEPS))[0]

    keys = jax.random.split(jax.random.key(0), worlds)
    state = jax.vmap(lambda key: begin(env, key, params))(keys)
    state = jax.block_until_ready(go(state, jax.random.key(1)))
    began = time.perf_counter()
    jax.block_until_ready(go(state, jax.random.key(2)))
    return worlds * STEPS / (time.perf_counter() - began)


def speed_of_c(task: SparseLocomotion, model: Any) -> float:
    """Env steps/s of one simulator on one core."""
    data, rng = mj.MjData(model), np.random.default_rng(0)
    began = time.perf_counter()
    for _ in range(20 * STEPS):
        data.ctrl[:] = rng.uniform(-1, 1, model.nu)
        mj.mj_step(model, data, task.frame_skip)
    return 20 * STEPS / (time.perf_counter() - began)


def errors(env: Locomotion, poses: int) -> dict[str, Any]:
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
    marks = dict(
        zip(("median", "99 %", "largest"), np.percentile(error, [50, 99, 100]), strict=True)
    )
    return {"poses": len(error)} | marks


def main() -> None:
    parser = argparse.ArgumentParser(description="Physics on a device")
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--worlds", type=int, nargs="+", default=[512, 2048, 8192, 32768])
    parser.add_argument("--simulators", nargs="+", default=["planar"])
    parser.add_argument("--errors", type=int, default=0, help="this many poses")
    options = parser.parse_args()
    jax.config.update("jax_default_device", jax.devices(options.device)[0])
    for task in LOCOMOTION.values():
        c = speed_of_c(task, locomotion(task).body.model)
        print(json.dumps({"task": task.id, "simulator": "C", "env_steps_per_s": round(c)}))
        for simulator in options.simulators:
            env = locomotion(task, simulator=simulator)
            found: dict[str, Any] = {"task": task.id, "simulator": simulator}
            found["env_steps_per_s"] = {w: round(speed(env, w)) for w in options.worlds}
            if options.errors:
                found["errors"] = errors(env, options.errors)
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
