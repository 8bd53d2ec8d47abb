"""What the other files of this room share: names of types, and explicit broadcasting."""

from __future__ import annotations

from typing import TypeAlias

import jax
from jax import Array
from jaxtyping import Float, Shaped

Scalar: TypeAlias = float | Float[Array, ""]  # a number of the configuration, or a traced one


def lift(x: Shaped[Array, " ..."], like: Shaped[Array, " ..."]) -> Shaped[Array, " ..."]:
    """Returns ``x`` with leading axes of length 1, as many as it takes to broadcast to ``like``."""
    return jax.lax.broadcast_to_rank(x, like.ndim)
