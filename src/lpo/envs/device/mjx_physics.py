"""Device environments: physics by MJX, on MuJoCo Warp or in JAX.

The scratch memory of MJX (`mjx.Data`) is made anew at each env step: it decides nothing, so a
world's state stays small, and the steps are the same to the bit as when it is kept.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mujoco.mjx
import numpy as np
from jax import Array

from lpo.envs.device.physics import CONTACTS, ROWS, Body, Simulated

mjx: Any = mujoco.mjx
ROW_BITS, CONTACT_BITS = 0b11, 0b11100  # of OverflowType in MJX's copy of MuJoCo Warp


def make(body: Body) -> Callable[..., Simulated]:
    """Returns the function that steps W worlds."""
    on_warp = body.simulator == "mjx-warp"

    def many(qpos: Array, qvel: Array, warmstart: Array, ctrl: Array) -> Simulated:
        model, blank = _model(body), _blank(body, qpos.shape[0])

        def one(q: Array, v: Array, w: Array, u: Array) -> Simulated:
            data = blank.replace(qpos=q, qvel=v, qacc_warmstart=w, ctrl=u)
            data = jax.lax.fori_loop(0, body.frame_skip, lambda _, d: mjx.step(model, d), data)
            bits = data._impl.overflow if on_warp else jnp.zeros((), jnp.int32)
            rows = jnp.where(bits & ROW_BITS != 0, ROWS, 0)
            overflow = rows | jnp.where(bits & CONTACT_BITS != 0, CONTACTS, 0)
            return Simulated(data.qpos, data.qvel, data.qacc_warmstart, overflow)

        # A GPU rounds products to 10 bits otherwise; and MJX broadcasts as it likes.
        with jax.default_matmul_precision("highest"), jax.numpy_rank_promotion("allow"):
            return jax.vmap(one)(qpos, qvel, warmstart, ctrl)

    return many


@functools.cache
def _model(body: Body) -> Any:
    if body.simulator == "jax":
        return _put(body)
    warp: Any = importlib.import_module("warp")
    warp.config.log_level = max(warp.config.log_level, warp.LOG_WARNING)  # no line for each kernel
    model = _put(body)
    quiet = model.opt._impl.replace(warn_overflow=0)  # the bits are read; nothing is printed
    return model.replace(opt=model.opt.replace(_impl=quiet))


def _put(body: Body) -> Any:
    with jax.ensure_compile_time_eval():
        return mjx.put_model(body.model, impl=_impl(body))


def _blank(body: Body, count: int) -> Any:
    """Returns scratch memory with one world's arrays and the contacts of ``count`` worlds."""
    return jax.tree.map(_constant, _blank_on_host(body, count))


@functools.cache
def _blank_on_host(body: Body, count: int) -> Any:
    sizes = {"naconmax": count * body.sizes.contacts, "njmax": body.sizes.rows}
    with jax.ensure_compile_time_eval():
        data = mjx.make_data(
            body.model, impl=_impl(body), **({} if body.simulator == "jax" else sizes)
        )
        return jax.tree.map(np.asarray, data)


def _constant(x: np.ndarray) -> Array:
    """Returns ``x`` in a form that a program need not store where all its entries are equal."""
    uniform = x.size and (x == x.flat[0]).all()
    return jnp.full(x.shape, x.flat[0], x.dtype) if uniform else jnp.asarray(x)


def _impl(body: Body) -> str:
    return body.simulator.removeprefix("mjx-")
