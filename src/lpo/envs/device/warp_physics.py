"""Device environments: physics by MuJoCo Warp, called from JAX.

MuJoCo Warp keeps its scratch memory, some 20 kB a world, on the device, outside of what JAX holds.
A call copies the state of all worlds in, takes all physics steps of an env step, and copies the
state out. On a GPU those are one CUDA graph: its buffers are always the same ones, whatever
addresses JAX passes, so that it is captured once for each compiled program.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mujoco_warp
import warp
from jax import Array

from lpo.envs.device.physics import CONTACTS, ROWS, Body, Simulated

wp: Any = warp  # types of kernels are made at run time, which no type checker can follow
mjw: Any = mujoco_warp
wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)  # no line for each kernel

ROW_BITS = int(mjw.OverflowType.NEFC | mjw.OverflowType.NJMAX_NNZ)
CONTACT_BITS = int(
    mjw.OverflowType.BROADPHASE | mjw.OverflowType.NARROWPHASE | mjw.OverflowType.CCD
)
GRAPH = wp.JaxCallableGraphMode.WARP_STAGED_EX  # on a GPU; a CPU has no graphs


def make(body: Body) -> Callable[..., Simulated]:
    """Returns the function that steps W worlds."""

    def many(qpos: Array, qvel: Array, warmstart: Array, ctrl: Array) -> Simulated:
        step = _worlds(body, qpos.shape[0], jax.devices()[0])
        qpos, qvel, warmstart, bits = step(qpos, qvel, warmstart, ctrl)
        return Simulated(qpos, qvel, warmstart, overflow_of(bits))

    return many


def overflow_of(bits: Array) -> Array:
    """Returns ROWS | CONTACTS from MuJoCo Warp's bits, which say more (limits of iterations)."""
    rows = jnp.where(bits & ROW_BITS != 0, ROWS, 0)
    return rows | jnp.where(bits & CONTACT_BITS != 0, CONTACTS, 0)


@functools.cache
def _worlds(body: Body, count: int, device: Any) -> Callable[..., Any]:
    """Returns a call that steps ``count`` worlds; kept, because compiled programs hold on to it."""
    host, on = body.model, wp.device_from_jax(device)
    with wp.ScopedDevice(on):
        model = _model(body, device)
        data = mjw.make_data(host, nworld=count, nconmax=body.sizes.contacts, njmax=body.sizes.rows)
        mjw.step(model, data)  # compiles the kernels, which cannot be done within a graph
        wp.synchronize_device(on)  # JAX calls from a stream of its own

    def steps(qpos, qvel, warmstart, ctrl, qpos_out, qvel_out, warmstart_out, bits_out) -> None:
        wp.copy(data.qpos, qpos)
        wp.copy(data.qvel, qvel)
        wp.copy(data.qacc_warmstart, warmstart)
        wp.copy(data.ctrl, ctrl)
        data.overflow.zero_()
        for _ in range(body.frame_skip):
            mjw.step(model, data)
        wp.copy(qpos_out, data.qpos)
        wp.copy(qvel_out, data.qvel)
        wp.copy(warmstart_out, data.qacc_warmstart)
        wp.copy(bits_out, data.overflow)

    floats, ints = wp.array(dtype=float, ndim=2), wp.array(dtype=int, ndim=1)
    steps.__annotations__ = dict.fromkeys(steps.__code__.co_varnames[:7], floats)
    steps.__annotations__ |= {"bits_out": ints, "return": None}
    return wp.jax_callable(
        steps,
        num_outputs=4,
        graph_mode=GRAPH if on.is_cuda else wp.JaxCallableGraphMode.NONE,
        output_dims={
            "qpos_out": (count, host.nq),
            "qvel_out": (count, host.nv),
            "warmstart_out": (count, host.nv),
            "bits_out": (count,),
        },
    )


@functools.cache
def _model(body: Body, device: Any) -> Any:
    with wp.ScopedDevice(wp.device_from_jax(device)):
        model = mjw.put_model(body.model)
    model.opt.warn_overflow = 0  # the bits are read; nothing is printed from a kernel
    model.opt.deterministic = int(mjw.DeterminismType.ALL) if body.deterministic else 0
    return model


def bytes_per_world(body: Body) -> int:
    """Returns the scratch memory of a world."""
    with wp.ScopedDevice("cpu"):
        data = mjw.make_data(
            body.model, nworld=1, nconmax=body.sizes.contacts, njmax=body.sizes.rows
        )
    parts = [vars(data), vars(data.contact), vars(data.efc)]
    arrays = [x for part in parts for x in part.values() if isinstance(x, wp.array)]
    return sum(x.size * wp.types.type_size_in_bytes(x.dtype) for x in arrays)
