"""Clip by the global norm, Adam, and the new parameters as one GPU kernel (Pallas, on Triton).

Optax reads and writes the parameters about a dozen times: gradients are joined to one vector,
summed, clipped, averaged, and the updates are cut and added. Here a program of the grid has one
network: it sums the squares of its gradients, then reads g, p, m, v once and writes p, m, v in
place. The state is Optax's, with m and v as flat vectors; numbers equal Optax's up to rounding.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import PyTree

from lpo.math.descent import Adam, Params, descend

LARGEST = 2**16  # weights of a run: one program treats all of them, so more would be slow


class Numbers(NamedTuple):
    """What a step needs beside the arrays."""

    max_norm: Any
    rate: Any
    fix1: Any  # 1 − β₁ᵗ
    fix2: Any  # 1 − β₂ᵗ
    eps: Any


class FusedAdam(NamedTuple):
    """``descend`` by a kernel for networks of usual size. Call it as ``descend``."""

    num_warps: int = 8
    chunk: int = 1024  # numbers that a program treats at once
    interpret: bool = False  # run the kernel as plain JAX, on any device: for tests

    def __call__(
        self, adam: Adam, params: Params, state: PyTree, grads: Params
    ) -> tuple[Params, PyTree]:
        leaves, tree = jax.tree.flatten(params)
        if sum(leaf.size for leaf in leaves) > LARGEST:
            return descend(adam, params, state, grads)
        (count, m, v), layout = jax.tree.flatten(state)  # all that Optax's chain keeps
        count = jnp.where(count < jnp.iinfo(count.dtype).max, count + 1, count)
        norm = jnp.inf if adam.max_norm is None else adam.max_norm
        b1, b2 = adam.b1, adam.b2
        numbers = Numbers(norm, adam.learning_rate, 1 - b1**count, 1 - b2**count, adam.eps)
        old = [leaf.reshape(-1) for leaf in leaves if leaf.size]
        slope = [g.reshape(-1) for g in jax.tree.leaves(grads) if g.size]
        flat = jnp.stack([jnp.asarray(x, jnp.float32) for x in numbers])
        *new, m, v = self.call([len(x) for x in old], adam.max_norm is not None, (b1, b2))(
            flat, *slope, *old, m, v
        )
        rest = iter(new)
        leaves = [next(rest).reshape(leaf.shape) if leaf.size else leaf for leaf in leaves]
        return cast(Params, tree.unflatten(leaves)), layout.unflatten([count, m, v])

    def call(self, sizes: list[int], clips: bool, betas: tuple[float, float]) -> Any:
        """Returns the kernel for leaves of these sizes: (numbers, *g, *p, m, v) ↦ (*p, m, v)."""
        n = len(sizes)
        total = sum(sizes)
        shapes = [jax.ShapeDtypeStruct((size,), jnp.float32) for size in (*sizes, total, total)]
        return pl.pallas_call(
            partial(kernel, sizes, self.chunk, clips, betas),
            out_shape=shapes,
            input_output_aliases={1 + n + i: i for i in range(n + 2)},  # p, m and v in place
            compiler_params=triton.CompilerParams(num_warps=self.num_warps),
            interpret=self.interpret,
            name="adam",
        )


def kernel(
    sizes: list[int], chunk: int, clips: bool, betas: tuple[float, float], *refs: Any
) -> None:
    """One step of one network."""
    b1, b2 = betas
    n = len(sizes)
    numbers, gs, olds, (m, v) = (
        refs[0],
        refs[1 : n + 1],
        refs[n + 1 : 2 * n + 1],
        refs[2 * n + 1 :][:2],
    )
    *news, m_new, v_new = refs[2 * n + 3 :]
    c = Numbers(*(numbers[i] for i in range(len(Numbers._fields))))
    scale = clip(gs, sizes, chunk, c.max_norm) if clips else jnp.float32(1)
    start = 0
    for g_ref, old, new, size in zip(gs, olds, news, sizes, strict=True):

        def step(at: Array, mask: Array | None, g_ref=g_ref, old=old, new=new, start=start) -> None:
            g = load(g_ref, at, mask) * scale
            mean = b1 * load(m, start + at, mask) + (1 - b1) * g
            square = b2 * load(v, start + at, mask) + (1 - b2) * g * g
            change = mean / c.fix1 / (jnp.sqrt(square / c.fix2) + c.eps)
            store(m_new, start + at, mask, mean)
            store(v_new, start + at, mask, square)
            store(new, at, mask, load(old, at, mask) - c.rate * change)

        for_chunks(size, chunk, lambda at, mask, _: step(at, mask), None)
        start += size


def clip(gs: tuple[Any, ...], sizes: list[int], chunk: int, max_norm: Array) -> Array:
    """Returns min(1, max_norm / ‖g‖) over all leaves."""
    total = jnp.float32(0)
    for g_ref, size in zip(gs, sizes, strict=True):

        def add(at: Array, mask: Array | None, total: Array, g_ref=g_ref) -> Array:
            g = load(g_ref, at, mask)
            return total + (g * g).sum()

        total = for_chunks(size, chunk, add, total)
    norm = jnp.sqrt(total)
    return jnp.where(norm < max_norm, 1.0, max_norm / norm)


def for_chunks(size: int, chunk: int, body: Any, carry: Any) -> Any:
    """Calls ``body(indices, mask, carry)`` on every chunk of a vector, with powers of two."""
    width = min(chunk, pl.next_power_of_2(size))
    lanes = jax.lax.iota(jnp.int32, width)
    whole, rest = divmod(size, width)
    if whole == 1:
        carry = body(lanes, None, carry)
    elif whole:
        carry = jax.lax.fori_loop(0, whole, lambda i, c: body(i * width + lanes, None, c), carry)
    return for_rest(size, size - rest, body, carry) if rest else carry


def for_rest(size: int, start: int, body: Any, carry: Any) -> Any:
    """The last chunk of a vector, whose width is no power of two."""
    at = start + jax.lax.iota(jnp.int32, pl.next_power_of_2(size - start))
    return body(at, at < size, carry)


def load(ref: Any, at: Array, mask: Array | None) -> Array:
    return triton.load(ref.at[at], mask=mask, other=None if mask is None else 0.0)


def store(ref: Any, at: Array, mask: Array | None, x: Array) -> None:
    triton.store(ref.at[at], x, mask=mask)
