"""Networks: memory. A GRU or an LSTM reads the features of the encoders, step by step.

The heads read the memory and the features together, so what can be seen need not be remembered.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lpo.math.arrays import lift
from lpo.math.nets import Layer, orthogonal_layers
from lpo.network import graph
from lpo.network.base import Memory, Network, NetworkPart, Params
from lpo.network.cnn import encoders
from lpo.options import PositiveInt, Short, options
from lpo.types import Obs, ObsSpec


@options
class Recurrent(NetworkPart):
    """A memory over the encoders of an observation."""

    remembers: ClassVar[bool] = True
    memory: Annotated[PositiveInt, Short("memory_size")] = 128
    """Numbers of the memory."""
    stretch: PositiveInt = 32
    """Steps of a row of a minibatch, through which the gradient goes back; batch_size counts
    steps."""
    features: Annotated[PositiveInt, Short("image_features")] = 256
    """Numbers that the convolutions make of an image."""


@NetworkPart.kinds.add
@options
class GRU(Recurrent):
    """A memory of gated recurrent units (Cho et al. 2014)."""

    kind: ClassVar[str] = "gru"

    def make(self, spec: ObsSpec) -> Network:
        return recurrent(encoders(spec, self.features), self.memory, self.stretch, gru, 3, 1)


@NetworkPart.kinds.add
@options
class LSTM(Recurrent):
    """A long short-term memory (Hochreiter and Schmidhuber 1997)."""

    kind: ClassVar[str] = "lstm"

    def make(self, spec: ObsSpec) -> Network:
        return recurrent(encoders(spec, self.features), self.memory, self.stretch, lstm, 4, 2)


def gru(numpy: Any, fed: Any, recur: Any, memory: Any) -> Any:
    """h′ = (1 − z) ⊙ n + z ⊙ h, with gates of ``fed`` [N, 3H] = W x + b and U h."""
    (h,) = memory
    back = h @ recur.w + recur.b
    r, z, n = numpy.split(fed, 3, axis=-1)
    back_r, back_z, back_n = numpy.split(back, 3, axis=-1)
    z = sigmoid(numpy, z + back_z)
    n = numpy.tanh(n + sigmoid(numpy, r + back_r) * back_n)
    return ((1 - z) * n + z * h,)


def lstm(numpy: Any, fed: Any, recur: Any, memory: Any) -> Any:
    """c′ = f ⊙ c + i ⊙ g and h′ = o ⊙ tanh c′; the forget gate starts open."""
    h, c = memory
    i, f, g, o = numpy.split(fed + h @ recur.w + recur.b, 4, axis=-1)
    c = sigmoid(numpy, f + 1) * c + sigmoid(numpy, i) * numpy.tanh(g)
    return sigmoid(numpy, o) * numpy.tanh(c), c


def sigmoid(numpy: Any, x: Any) -> Any:
    return 0.5 * (numpy.tanh(0.5 * x) + 1)


def recurrent(
    inner: Network, size: int, stretch: int, cell: Any, gates: int, states: int
) -> Network:
    """Returns ``inner`` with a memory of ``states`` arrays [N, ``size``] behind it."""

    def init(key: Array) -> tuple[Params, Layer, Layer]:
        keys = jax.random.split(key)
        cells = orthogonal_layers(
            keys[1], [(inner.size, size)] * gates + [(size, size)] * gates, [1.0] * (2 * gates)
        )
        into, back = cells[:gates], cells[gates:]
        wide = lambda layers: Layer(  # noqa: E731
            jnp.concatenate([layer.w for layer in layers], axis=1),
            jnp.concatenate([layer.b for layer in layers]),
        )
        return inner.init(keys[0]), wide(into), wide(back)

    def memory(n: int) -> Memory:
        return tuple(np.zeros((n, size), np.float32) for _ in range(states))

    def after(feed: Layer, back: Layer, was: Memory, seen: Array, begins: Array):
        fed = seen @ feed.w + lift(feed.b, seen)
        return through(back, was, fed, begins)

    def through(back: Layer, was: Memory, fed: Array, begins: Array) -> Memory:
        was = tuple(jnp.where(begins[:, None], 0.0, x) for x in was)
        return cell(jnp, fed, Layer(back.w, back.b[None]), was)

    def step(params: Params, was: Memory, obs: Obs, begins: Array) -> tuple[Memory, Array]:
        encode, feed, back = params
        _, seen = inner.step(encode, (), obs, begins)
        now = after(feed, back, was, seen, begins)
        return now, jnp.concatenate([now[0], seen], axis=-1)

    def unroll(params: Params, was: Memory, obs: Obs, begins: Array, taken: Array):
        encode, feed, back = params
        _, seen = inner.unroll(encode, (), obs, begins, taken)
        fed = seen @ feed.w + lift(feed.b, seen)

        def one(was: Memory, row: tuple[Array, Array, Array]) -> tuple[Memory, Memory]:
            fed, begins, taken = row
            now = through(back, was, fed, begins)
            now = tuple(jnp.where(taken[:, None], n, w) for n, w in zip(now, was, strict=True))
            return now, now

        _, memories = jax.lax.scan(one, was, (fed, begins, taken))
        return memories, jnp.concatenate([memories[0], seen], axis=-1)

    def acting(numpy: Any, encoder: Any, params: Params):
        encode, feed, back = jax.tree.map(np.asarray, params)
        inside = encoder(encode)

        def act(was: Memory, obs: Obs, begins: Any) -> tuple[Memory, Any]:
            _, seen = inside((), obs, begins)
            anew = begins.reshape(-1, 1)
            was = tuple(numpy.where(anew, np.float32(0), x) for x in was)
            now = cell(numpy, seen @ feed.w + feed.b, back, was)
            return now, numpy.concatenate([now[0], seen], axis=-1)

        return act

    host, onnx = partial(acting, np, inner.host), partial(acting, graph, inner.onnx)
    return Network(inner.size + size, init, step, unroll, host, memory, onnx, stretch)
