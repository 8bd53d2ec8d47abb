"""One scan over episodes: what a part keeps of an episode begins anew with the next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from lpo.math.arrays import lift
from lpo.types import Rollout

Carry = TypeVar("Carry")  # a pytree of [N, …]


def over_episodes(
    step: Callable[[Carry, Any], tuple[Carry, Any]],
    carry: Carry,
    fresh: Carry,
    xs: Any,
    rollout: Rollout[Array],
) -> tuple[Carry, Any]:
    """Runs ``carry, out = step(carry, x)`` over time in N environments.

    ``carry`` is ``fresh`` on a row that begins an episode. A row on which the environment took no
    step leaves it as it is; a row of a roll-in counts, since the episode went on. Returns the last
    carry and the outputs [T, N, …].
    """

    def choose(which: Array, new: Carry, old: Carry) -> Carry:
        rows = lambda a: jnp.expand_dims(which, range(1, a.ndim))  # noqa: E731
        return jax.tree.map(lambda a, b: jnp.where(rows(a), a, b), new, old)

    def forward(carry: Carry, x: tuple[Any, Array, Array]) -> tuple[Carry, Any]:
        x, start, taken = x
        carry = choose(start & taken, fresh, carry)
        after, out = step(carry, x)
        return choose(taken, after, carry), out

    return jax.lax.scan(forward, carry, (xs, rollout.start, rollout.taken))


def alike(fresh: Any, num_envs: int) -> Any:
    """Returns a carry with ``fresh`` in every environment."""
    shape = lambda a: (num_envs, *a.shape)  # noqa: E731
    return jax.tree.map(lambda a: jnp.broadcast_to(lift(a, jnp.zeros(shape(a))), shape(a)), fresh)
