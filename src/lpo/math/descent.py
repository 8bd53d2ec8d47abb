"""Adam's step, and the functions of which a learner may have another version for its device."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import optax
from jax import Array
from jaxtyping import PyTree

from lpo.math.arrays import Scalar
from lpo.math.nets import Net, apply_net

Params = TypeVar("Params")  # a pytree of arrays


class Adam(NamedTuple):
    """Adam behind a clip of the global norm, on one flat vector: fewer, longer loops."""

    learning_rate: Scalar
    eps: Scalar
    max_norm: Scalar | None = None  # None: no clip
    b1: float = 0.9
    b2: float = 0.999

    def optim(self) -> optax.GradientTransformation:
        adam = optax.adam(self.learning_rate, self.b1, self.b2, self.eps)
        if self.max_norm is None:
            return optax.flatten(adam)
        return optax.flatten(optax.chain(optax.clip_by_global_norm(self.max_norm), adam))


def descend(adam: Adam, params: Params, state: PyTree, grads: Params) -> tuple[Params, PyTree]:
    """Returns parameters and Adam's state after one step."""
    updates, state = adam.optim().update(grads, state, params)  # pyright: ignore[reportArgumentType]
    return optax.apply_updates(params, updates), state  # pyright: ignore[reportArgumentType, reportReturnType]


class Apply(Protocol):
    def __call__(
        self, net: Net[Array], x: Array, activation: Callable[[Array], Array] = ..., /
    ) -> Array:
        """Returns the outputs of ``net``."""
        ...


class Descend(Protocol):
    def __call__(
        self, adam: Adam, params: Params, state: PyTree, grads: Params, /
    ) -> tuple[Params, PyTree]:
        """Returns parameters and Adam's state after one step."""
        ...


class Compute(NamedTuple):
    """How networks are applied and how Adam takes its step."""

    apply: Apply = apply_net
    descend: Descend = descend


PLAIN = Compute()
