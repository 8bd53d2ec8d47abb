"""Device environments: the protocol."""

from __future__ import annotations

from typing import Any, NamedTuple

from jax import Array
from jaxtyping import Bool, Float, Int


class Transition(NamedTuple):
    """One step of one world."""

    state: Any  # pytree of arrays
    obs: Float[Array, " O"]  # the true s′
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]  # the MDP ended
    success: Bool[Array, ""] | None = None  # meaningful where the episode ends; None: by return
    truncated: Bool[Array, ""] | None = None  # cut, but not by ``horizon``; None: never
    overflow: Int[Array, ""] | None = None  # bits of buffers that were too small; None: never
