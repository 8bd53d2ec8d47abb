"""A network of two hidden layers as one GPU kernel for each pass (Pallas, on Triton).

``apply_net`` sends the activations of every layer through the memory of the device. Here they stay
on the chip: a program of the grid reads the weights of one network and a block of rows, and writes
the outputs; the backward one computes the hidden layers again and writes dW and db. ``vmap`` adds
programs, and no copies: inputs that networks share are read where they lie.

Products have the precision of XLA's (``jax.default_matmul_precision``), which on these GPUs is
TF32 with sums in float32. A head of one output is summed in float32 throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from lpo.math.nets import Layer, Net, apply_net

ROWS = 64  # of a block; the backward kernel takes one block, plain code takes larger batches
WIDTHS = (16, 32, 64)  # of hidden layers; wider ones need more room on the chip than some GPUs have
INPUTS = OUTPUTS = 64  # at most

Activation: TypeAlias = Callable[[Array], Array]


class Rule(NamedTuple):
    """An activation h = σ(z) and σ′, written as a function of h."""

    value: Activation
    slope: Activation


RULES: dict[Activation, Rule] = {
    jnp.tanh: Rule(jnp.tanh, lambda h: 1 - h * h),
    jax.nn.relu: Rule(lambda z: jnp.maximum(z, 0.0), lambda h: jnp.where(h > 0, 1.0, 0.0)),
}


def fits(net: Net[Array], x: Array, activation: Activation) -> bool:
    """Returns whether the kernels can compute this network; all others are for ``apply_net``."""
    if len(net) != 3 or activation not in RULES or x.ndim < 2 or x.size == 0:
        return False
    arrays = [x, *jax.tree.leaves(net)]
    return (
        all(a.dtype == jnp.float32 for a in arrays)
        and all(layer.w.ndim == 2 and layer.w.shape[1] in WIDTHS for layer in net[:-1])
        and x.shape[-1] <= INPUTS
        and net[-1].b.shape[-1] <= OUTPUTS
    )


def power(n: int) -> int:
    """Returns the smallest power of two that is at least n, and at least 16: a side of a block."""
    return max(16, pl.next_power_of_2(n))


def padded(n: int) -> int:
    """Returns the side of a block for a head of n outputs; one output needs no product."""
    return 1 if n == 1 else power(n)


def product(a: Array, b: Array, over: tuple[int, int] = (1, 0)) -> Array:
    """Returns a @ b, or with other axes ``over`` aᵀ @ b and a @ bᵀ."""
    axes = (((over[0],), (over[1],)), ((), ()))
    return jax.lax.dot_general(a, b, axes, preferred_element_type=jnp.float32)


def inside(shape: tuple[int, ...], *limits: int | Array) -> Array | None:
    """Returns a mask of the block that is True below the limit of each axis."""
    mask = None
    for axis, limit in enumerate(limits):
        if isinstance(limit, int) and limit == shape[axis]:
            continue
        part = jax.lax.broadcasted_iota(jnp.int32, shape, axis) < limit
        mask = part if mask is None else mask & part
    return mask


def load(ref: Any, *limits: int | Array) -> Array:
    """Returns a block; zeros where it lies outside the array."""
    mask = inside(ref.shape, *limits)
    return ref[...] if mask is None else triton.load(ref, mask=mask, other=0.0)


def store(ref: Any, x: Array, *limits: int | Array) -> None:
    """Writes the part of a block that lies inside the array."""
    triton.store(ref, x, mask=inside(ref.shape, *limits))


class Sizes(NamedTuple):
    """Rows, inputs, widths and outputs of a call, as they are before padding."""

    rows: int
    inputs: int
    widths: tuple[int, int]
    outputs: int

    @property
    def block(self) -> int:
        return min(ROWS, power(self.rows))

    @property
    def blocks(self) -> int:
        return -(-self.rows // self.block)

    def net(self) -> list[pl.BlockSpec]:
        """Returns the blocks of w₁, b₁, w₂, b₂, w₃, b₃: each array as a whole."""
        i, (a, b), o = power(self.inputs), self.widths, padded(self.outputs)
        matrix = lambda m, n: pl.BlockSpec((m, n), lambda k: (0, 0))  # noqa: E731
        vector = lambda n: pl.BlockSpec((n,), lambda k: (0,))  # noqa: E731
        return [matrix(i, a), vector(a), matrix(a, b), vector(b), matrix(b, o), vector(o)]

    def table(self, columns: int) -> pl.BlockSpec:
        """Returns the blocks of an array with one row for each row of x."""
        return pl.BlockSpec((self.block, columns), lambda k: (k, 0))

    def here(self) -> int | Array:
        """Returns how many rows the block of this program has."""
        return self.rows if self.blocks == 1 else self.rows - pl.program_id(0) * self.block


class Hidden(NamedTuple):
    """What both kernels have on the chip: the rows, the hidden layers, and the weights above."""

    x: Array
    h1: Array
    h2: Array
    w2: Array
    w3: Array


def hidden(sizes: Sizes, rule: Rule, x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any) -> Hidden:
    """h₁ = σ(x w₁ + b₁), h₂ = σ(h₁ w₂ + b₂)."""
    rows, above = load(x, sizes.here(), sizes.inputs), w2[...]
    h1 = rule.value(product(rows, load(w1, sizes.inputs)) + b1[...][None])
    h2 = rule.value(product(h1, above) + b2[...][None])
    return Hidden(rows, h1, h2, above, load(w3, sizes.widths[1], sizes.outputs))


def forward_kernel(sizes: Sizes, rule: Rule, *refs: Any) -> None:
    """y = h₂ w₃ + b₃."""
    *arrays, b3, y = refs
    on = hidden(sizes, rule, *arrays)
    out = (on.h2 * on.w3.T).sum(1)[:, None] if sizes.outputs == 1 else product(on.h2, on.w3)
    store(y, out + load(b3, sizes.outputs)[None], sizes.here(), sizes.outputs)


def backward_kernel(sizes: Sizes, rule: Rule, *refs: Any) -> None:
    """g = ∂L/∂y ↦ ∂L/∂w and ∂L/∂b of every layer; rows below the last one have g = 0."""
    *arrays, g_ref, dw1, db1, dw2, db2, dw3, db3 = refs
    on = hidden(sizes, rule, *arrays)
    g = load(g_ref, sizes.here(), sizes.outputs)
    one = sizes.outputs == 1
    last = (on.h2 * g).sum(0)[:, None] if one else product(on.h2, g, (0, 0))
    store(dw3, last, sizes.widths[1], sizes.outputs)
    store(db3, g.sum(0), sizes.outputs)
    g = (g * on.w3.T if one else product(g, on.w3, (1, 1))) * rule.slope(on.h2)
    store(dw2, product(on.h1, g, (0, 0)))
    store(db2, g.sum(0))
    g = product(g, on.w2, (1, 1)) * rule.slope(on.h1)
    store(dw1, product(on.x, g, (0, 0)), sizes.inputs)
    store(db1, g.sum(0))


class Fused(NamedTuple):
    """``apply_net`` by kernels where ``fits`` says so, and by plain code elsewhere.

    Call it as ``apply_net``. Gradients of the weights come from a kernel too; the one of x is plain
    code, which the compiler leaves out where nobody asks for it.
    """

    num_warps: int = 4
    interpret: bool = False  # run the kernels as plain JAX, on any device: for tests

    def __call__(self, net: Net[Array], x: Array, activation: Activation = jnp.tanh) -> Array:
        if not fits(net, x, activation):
            return apply_net(net, x, activation)
        rows = x.reshape(-1, x.shape[-1])
        sizes = Sizes(
            len(rows), rows.shape[1], (net[0].b.shape[0], net[1].b.shape[0]), net[2].b.shape[0]
        )
        return self.differentiable(sizes, activation)(net, rows).reshape(*x.shape[:-1], -1)

    def differentiable(self, sizes: Sizes, activation: Activation) -> Callable[..., Array]:
        """Returns the network as a function of weights and rows [M, I], with its gradients."""
        plain: Any = partial(apply_net, activation=activation)
        forward = forward_call(self, sizes, RULES[activation])
        backward = backward_call(self, sizes, RULES[activation])
        apply = jax.custom_vjp(forward)

        def first(net: Net[Array], x: Array) -> tuple[Array, Any]:
            if sizes.blocks > 1:  # weights would be summed over blocks: XLA's products are as good
                return jax.vjp(plain, net, x)
            return forward(net, x), (net, x)

        def second(kept: Any, g: Array) -> tuple[Net[Array], Array]:
            if sizes.blocks > 1:
                return kept(g)
            net, x = kept
            return backward(net, x, g), jax.vjp(partial(plain, net), x)[1](g)[0]

        apply.defvjp(first, second)
        return apply


def forward_call(how: Fused, sizes: Sizes, rule: Rule) -> Callable[..., Array]:
    """Returns the forward pass: (net, x) ↦ y."""
    call = pl.pallas_call(
        partial(forward_kernel, sizes, rule),
        grid=(sizes.blocks,),
        in_specs=[sizes.table(power(sizes.inputs)), *sizes.net()],
        out_specs=sizes.table(padded(sizes.outputs)),
        out_shape=jax.ShapeDtypeStruct((sizes.rows, sizes.outputs), jnp.float32),
        compiler_params=triton.CompilerParams(num_warps=how.num_warps),
        interpret=how.interpret,
        name="mlp_forward",
    )
    return lambda net, x: call(x, *jax.tree.leaves(net))


def backward_call(how: Fused, sizes: Sizes, rule: Rule) -> Callable[..., Net[Array]]:
    """Returns the backward pass for one block of rows: (net, x, ∂L/∂y) ↦ ∂L/∂net."""
    (a, b), i, o = sizes.widths, sizes.inputs, sizes.outputs
    shapes = [(i, a), (a,), (a, b), (b,), (b, o), (o,)]
    blocks = sizes.net()
    call = pl.pallas_call(
        partial(backward_kernel, sizes, rule),
        grid=(1,),
        in_specs=[sizes.table(power(i)), *blocks[:-1], sizes.table(padded(o))],
        out_specs=blocks,
        out_shape=[jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes],
        compiler_params=triton.CompilerParams(num_warps=how.num_warps),
        interpret=how.interpret,
        name="mlp_backward",
    )

    def backward(net: Net[Array], x: Array, g: Array) -> Net[Array]:
        *weights, _ = jax.tree.leaves(net)  # b₃ has no part in it
        out = call(x, *weights, g)
        return tuple(Layer(w, b) for w, b in zip(out[::2], out[1::2], strict=True))

    return backward
