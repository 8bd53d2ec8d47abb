"""Images as small vectors: what a bonus reads that knows vectors alone.

A picture becomes a small grey one: with few shades, so that alike pictures have one hash, or with
all of them, for features. Vectors and codes stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int, UInt8

from lpo.types import Leaf, Obs, ObsSpec

LARGEST_GRID = 32 * 32  # cells of a small image of codes; a larger image shows pixels
CELLS, SHADES = (8, 11), 8  # rows and columns of a coarse image, and its greys
GREYS = (12, 12)


def channels_first(shape: tuple[int, ...]) -> bool:
    """Returns whether an image is [C, H, W] and not [H, W, C]: the channels are the fewest."""
    return shape[-3] < shape[-1]


def image_shape(leaf: Leaf) -> tuple[int, int, int]:
    """Returns height, width and channels of a leaf as convolutions see it."""
    if leaf.kind == "grid":
        return leaf.shape[0], leaf.shape[1], sum(leaf.sizes)
    *stack, a, b, c = leaf.shape
    frames = stack[0] if stack else 1
    return (b, c, a * frames) if channels_first(leaf.shape) else (a, b, c * frames)


def upright(x: Any, leaf: Leaf) -> Any:
    """Returns images [*B, *shape] as [*B, H, W, C]; frames of a stack become channels."""
    if channels_first(leaf.shape):
        x = x.swapaxes(-3, -2).swapaxes(-2, -1)
    if len(leaf.shape) == 4:
        x = x.swapaxes(-4, -3).swapaxes(-3, -2)  # [*B, K, H, W, C] -> [*B, H, W, K, C]
        x = x.reshape(*x.shape[:-2], -1)
    return x


def last_frame(leaf: Leaf) -> Leaf:
    """Returns the form of the last frame of an image: its last three channels, or its last one."""
    high, wide, channels = image_shape(leaf)
    return Leaf((high, wide, 3 if channels % 3 == 0 else 1), "uint8", "image")


def frame(x: Any, leaf: Leaf) -> Any:
    """Returns the last frames [*B, H, W, 3 or 1] of images [*B, *shape]."""
    return upright(x, leaf)[..., -last_frame(leaf).shape[-1] :]


def means(image: UInt8[Array, "*B H W C"], cells: tuple[int, int]) -> Int[Array, "*B I J"]:
    """Returns the mean bytes of ``image`` in few cells. All sums are of whole numbers: an image has
    the same means in any program."""
    *_, high, wide, channels = image.shape
    rows, columns = overlaps(high, cells[0]), overlaps(wide, cells[1])
    grey = image.astype(jnp.int32).sum(-1)
    return jnp.einsum("ih,...hw,jw->...ij", rows, grey, columns) // (high * wide * channels)


def coarse(
    image: UInt8[Array, "*B H W C"], cells: tuple[int, int] = CELLS, shades: int = SHADES
) -> Float[Array, "*B D"]:
    """Returns the grey ``image`` in few cells and shades, so that alike images have one hash.

    These are Go-Explore's cells (Ecoffet et al. 2021).
    """
    return flat(means(image, cells) * shades // 256)


def known(image: UInt8[Array, "*B H W C"]) -> Float[Array, "*B D"]:
    """Returns the bytes of a small ``image``, which may hold codes; of a larger one few shades."""
    *_, high, wide, _ = image.shape
    if high * wide > LARGEST_GRID:
        return coarse(image)
    return image.astype(jnp.float32).reshape(*image.shape[:-3], -1)


def greys(image: UInt8[Array, "*B H W C"]) -> Float[Array, "*B D"]:
    """Returns the grey ``image`` in few cells, from 0 to 1."""
    return flat(means(image, GREYS)) / 255


def flat(x: Array) -> Array:
    return x.astype(jnp.float32).reshape(*x.shape[:-2], -1)


def overlaps(pixels: int, cells: int) -> Int[np.ndarray, "I P"]:
    """Returns how much of each pixel lies in each cell, in units of 1/``cells`` of a pixel."""
    pixel, cell = np.arange(pixels) * cells, np.arange(cells)[:, None] * pixels
    inside = np.minimum(pixel + cells, cell + pixels) - np.maximum(pixel, cell)
    return np.maximum(inside, 0).astype(np.int32)


class Plain(NamedTuple):
    """An observation as one vector."""

    size: int
    read: Callable[[Obs], Array]  # trees of [*B, …] -> [*B, size]


def plain(spec: ObsSpec, picture: Callable[[Array], Array]) -> Plain:
    """Returns what reads observations of a form; ``picture`` makes a vector of images."""
    if spec.size is not None:
        return Plain(spec.size, lambda obs: obs)

    def read_leaf(leaf: Leaf, x: Array) -> Array:
        if leaf.kind == "vector":
            return x
        if leaf.kind == "image":
            return picture(frame(x, leaf))
        return x.astype(jnp.float32).reshape(*x.shape[: x.ndim - len(leaf.shape)], -1)

    def size(leaf: Leaf) -> int:
        if leaf.kind != "image":
            return int(np.prod(leaf.shape))
        return picture(jnp.zeros(last_frame(leaf).shape, jnp.uint8)).shape[-1]

    def read(obs: Obs) -> Array:
        if spec.bare:
            return read_leaf(spec.leaves[0][1], obs)
        return jnp.concatenate([read_leaf(leaf, obs[path]) for path, leaf in spec.leaves], axis=-1)

    return Plain(sum(size(leaf) for _, leaf in spec.leaves), read)
