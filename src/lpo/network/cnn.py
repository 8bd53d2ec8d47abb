"""Networks: encoders for the leaves of an observation, joined. Images go through convolutions."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lpo.math.arrays import lift
from lpo.math.images import channels_first, image_shape, upright
from lpo.math.nets import Layer, Net, orthogonal_layers
from lpo.network import graph
from lpo.network.base import Network, NetworkPart, as_it_is, feed_forward
from lpo.options import PositiveInt, Short, options
from lpo.types import Leaf, Obs, ObsSpec

# (channels, side of the kernel, stride) of each layer, by the shorter side of an image.
FRAMES = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # Mnih et al. (2015), from 36 on
PICTURES = ((16, 3, 1), (32, 3, 2), (64, 3, 2))  # from 12 on
GRIDS = ((16, 2, 1), (32, 2, 1), (64, 2, 1))  # from 4 on
LAYERS = ((36, FRAMES), (12, PICTURES), (4, GRIDS), (0, ()))
SQUARE_ROOT_2 = float(np.sqrt(2))


@options
class Encoders(NetworkPart):
    """Convolutions for images, joined with the other leaves of an observation."""

    features: Annotated[PositiveInt, Short("image_features")] = 256
    """Numbers that the convolutions make of an image."""

    def make(self, spec: ObsSpec) -> Network:
        return encoders(spec, self.features)


@NetworkPart.kinds.add
@options
class Auto(Encoders):
    """What fits the observation: mlp for a vector, convolutions for images."""

    kind: ClassVar[str] = "auto"


@NetworkPart.kinds.add
@options
class CNN(Encoders):
    """Convolutions, for small grids of codes too, which mlp reads as one vector."""

    kind: ClassVar[str] = "cnn"
    flat: ClassVar[bool] = False


def encoders(spec: ObsSpec, features: int) -> Network:
    """Returns what makes features of observations: a vector is its own."""
    return as_it_is(spec.size) if spec.size is not None else joined(spec, features)


def joined(spec: ObsSpec, features: int) -> Network:
    """Returns encoders for the leaves of ``spec``, whose features follow one another."""
    leaves = spec.leaves
    size = sum(leaf.shape[0] if leaf.kind == "vector" else features for _, leaf in leaves)

    def init(key: Array) -> tuple[Net, ...]:
        keys = [jax.random.fold_in(key, i) for i in range(len(leaves))]
        return tuple(
            init_encoder(k, leaf, features) for k, (_, leaf) in zip(keys, leaves, strict=True)
        )

    def with_(encode: Any, concatenate: Any):
        def apply(params: tuple[Net, ...], obs: Obs) -> Any:
            given = [obs] if spec.bare else [obs[path] for path, _ in leaves]
            parts = [
                x if leaf.kind == "vector" else encode(net, leaf, x)
                for net, (_, leaf), x in zip(params, leaves, given, strict=True)
            ]
            return parts[0] if len(parts) == 1 else concatenate(parts, axis=-1)

        return apply

    def acting(apply: Any):
        return lambda params: partial(apply, jax.tree.map(np.asarray, params))

    return feed_forward(
        size,
        init,
        with_(encoded, jnp.concatenate),
        acting(with_(encoded_host, np.concatenate)),
        acting(with_(encoded_graph, graph.concatenate)),
    )


# -- images


def pixels(x: Any, leaf: Leaf, numpy: Any) -> Any:
    """Returns images as floats: bytes from 0 to 1, codes one-hot."""
    if leaf.kind == "image":
        return upright(x, leaf).astype(np.float32) * np.float32(1 / 255)
    ones = (1,) * (x.ndim - 1)
    named = [
        x[..., i, None] == numpy.arange(n, dtype=np.uint8).reshape(*ones, n)
        for i, n in enumerate(leaf.sizes)
    ]
    return numpy.concatenate(named, axis=-1).astype(np.float32)


def layers_of(leaf: Leaf) -> tuple[tuple[int, int, int], ...]:
    side = min(image_shape(leaf)[:2])
    return next(layers for least, layers in LAYERS if side >= least)


# -- convolutions


def init_encoder(key: Array, leaf: Leaf, features: int) -> Net:
    """Returns orthogonal layers: convolutions [k·k·C, channels], then a dense one."""
    if leaf.kind == "vector":
        return ()
    height, width, channels = image_shape(leaf)
    shapes = []
    for out, side, stride in layers_of(leaf):
        shapes.append((side * side * channels, out))
        height, width = (height - side) // stride + 1, (width - side) // stride + 1
        channels = out
    shapes.append((height * width * channels, features))
    return orthogonal_layers(key, shapes, [SQUARE_ROOT_2] * len(shapes))


def encoded(net: Net[Array], leaf: Leaf, x: Array) -> Array:
    """Returns the features [M, F] of images [M, *shape]."""
    return convolved(net, leaf, pixels(x, leaf, jnp))


def convolved(net: Net[Array], leaf: Leaf, x: Array) -> Array:
    """Returns the features [M, F] of images as floats [M, H, W, C]."""
    for (w, b), (_, side, stride) in zip(net[:-1], layers_of(leaf), strict=True):
        x = convolution(x, w, side, stride)
        x = jax.nn.relu(x + lift(b, x))
    dense = net[-1]
    x = x.reshape(len(x), -1) @ dense.w
    return jax.nn.relu(x + lift(dense.b, x))


def convolution(x: Array, w: Array, side: int, stride: int) -> Array:
    """Returns the products of all windows of images [M, H, W, C] with ``w`` [side·side·C, O].

    Matrix products instead of XLA's convolution, which is many times slower within a loop on a
    CPU, as the minibatches are. Blocks of stride × stride pixels become channels first, so
    that the windows move by one. Then columns are put side by side, and rows are summed.
    """
    channels, count = x.shape[-1], side
    kernel = w.reshape(side, side, channels, -1)
    if stride > 1 and side % stride == 0:
        x, kernel, count = blocks(x, stride), blocks_of(kernel, stride), side // stride
        stride = 1
    high, wide = ((n - count) // stride + 1 for n in x.shape[1:3])
    across = [x[:, :, j : j + stride * (wide - 1) + 1 : stride] for j in range(count)]
    row = jnp.concatenate(across, axis=-1)
    total = 0.0
    for i in range(count):
        rows = row[:, i : i + stride * (high - 1) + 1 : stride]
        total = total + rows @ kernel[i].reshape(-1, kernel.shape[-1])
    return jnp.asarray(total)


def blocks(x: Array, size: int) -> Array:
    """Returns images whose pixels are blocks of size × size pixels; what is left over is cut."""
    count, high, wide, channels = x.shape
    x = x[:, : high // size * size, : wide // size * size]
    x = x.reshape(count, high // size, size, wide // size, size, channels)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(count, high // size, wide // size, -1)


def blocks_of(kernel: Array, size: int) -> Array:
    """Returns a kernel [k, k, C, O] for images that ``blocks`` made."""
    count, outputs = kernel.shape[0] // size, kernel.shape[-1]
    kernel = kernel.reshape(count, size, count, size, -1, outputs)
    return kernel.transpose(0, 2, 1, 3, 4, 5).reshape(count, count, -1, outputs)


def encoded_host(net: Net[np.ndarray], leaf: Leaf, x: np.ndarray) -> np.ndarray:
    """Returns ``encoded`` in NumPy, for acting."""
    x = pixels(x, leaf, np)
    for layer, (_, side, stride) in zip(net[:-1], layers_of(leaf), strict=True):
        windows = np.lib.stride_tricks.sliding_window_view(x, (side, side), axis=(1, 2))
        windows = windows[:, ::stride, ::stride].transpose(0, 1, 2, 4, 5, 3)
        x = dense_host(layer, windows.reshape(*windows.shape[:3], -1))
    return dense_host(net[-1], x.reshape(len(x), -1))


def dense_host(layer: Layer[np.ndarray], x: np.ndarray) -> np.ndarray:
    x = x @ layer.w
    x += layer.b
    return np.maximum(x, 0, out=x)


# -- convolutions in an ONNX graph


def encoded_graph(net: Net[np.ndarray], leaf: Leaf, x: graph.Value) -> graph.Value:
    """Returns ``encoded`` as arrays of a graph."""
    x = planes(x, leaf)
    for (w, b), (_, side, stride) in zip(net[:-1], layers_of(leaf), strict=True):
        kernel = w.reshape(side, side, -1, w.shape[-1]).transpose(3, 2, 0, 1)
        x = graph.relu(x.graph.add("Conv", x, kernel, b, strides=[stride, stride]))
    dense = net[-1]
    return graph.relu(x.transpose(0, 2, 3, 1).reshape(-1, len(dense.w)) @ dense.w + dense.b)


def planes(x: graph.Value, leaf: Leaf) -> graph.Value:
    """Returns images [N, *shape] as floats [N, C, H, W], as ``pixels`` has them."""
    if leaf.kind == "grid":
        return one_hot(x, leaf).transpose(0, 3, 1, 2)
    if not channels_first(leaf.shape):
        x = x.transpose(*((0, 3, 1, 2) if len(leaf.shape) == 3 else (0, 1, 4, 2, 3)))
    high, wide, channels = image_shape(leaf)
    return x.reshape(-1, channels, high, wide).astype(np.float32) * np.float32(1 / 255)


def one_hot(x: graph.Value, leaf: Leaf) -> graph.Value:
    """Returns the codes [N, H, W, C] of a grid with a number for each code."""
    x, off_on = x.astype(np.int64), np.array([0, 1], np.float32)
    channels = (x.graph.add("Gather", x, np.array(i), axis=3) for i in range(len(leaf.sizes)))
    return graph.concatenate(
        [
            x.graph.add("OneHot", channel, np.array(n), off_on, axis=-1)
            for channel, n in zip(channels, leaf.sizes, strict=True)
        ],
        axis=3,
    )
