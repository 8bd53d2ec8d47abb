"""A network of another package: images as patches, each of which goes through one layer."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from lpo.network import Network, NetworkPart, feed_forward
from lpo.options import PositiveInt, options
from lpo.types import ObsSpec


@options
class Patches(NetworkPart):
    """The mean of a layer over patches of an image."""

    kind: ClassVar[str] = "patches"
    side: PositiveInt = 8
    """Pixels of a side of a patch."""
    width: PositiveInt = 12
    """Numbers that are made of a patch."""

    def make(self, spec: ObsSpec) -> Network:
        high, wide, channels = spec.leaves[0][1].shape
        side, rows, columns = self.side, high // self.side, wide // self.side

        def init(key):
            shape = side * side * channels, self.width
            return jax.random.normal(key, shape) / shape[0] ** 0.5

        def apply(weights, images):
            x = images[:, : rows * side, : columns * side].astype(jnp.float32) / 255
            x = x.reshape(-1, rows, side, columns, side, channels).transpose(0, 1, 3, 2, 4, 5)
            return jnp.tanh(x.reshape(len(x), rows * columns, -1) @ weights).mean(1)

        return feed_forward(self.width, init, apply)
