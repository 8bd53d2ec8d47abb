"""Networks: the contract of a part that makes features of an observation, and its options.

The heads of policy and critics are tanh MLPs (``lpo.math.nets``). They read the features of one
body that they share. For a vector the body is nothing: its features are the vector itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lpo.errors import LPOError, named
from lpo.options import Axis, Kinds, Layers, NonNegative, Part, options
from lpo.types import Obs, ObsSpec

OBS_CLIP = 10.0
BLOCK = 512  # rows that an encoder takes at a time outside of minibatches: it bounds the memory

Params: TypeAlias = Any  # a tree of arrays
Memory: TypeAlias = Any  # a tree of arrays [N, …]; () without memory


def no_onnx(params: Params) -> Any:
    """Raises LPOError, for a network that did not say how it is written as a graph."""
    raise LPOError(
        "An ONNX export writes lpo's own networks, and this policy has another one; act with "
        "Policy.predict."
    )


class Network(NamedTuple):
    """A body: functions of its parameters. Observations are normalised trees (``Observer``)."""

    size: int  # F
    init: Callable[[Array], Params]  # from a key
    # (params, memory, observations [N, …], begins [N]) -> (memory, features [N, F])
    step: Callable[[Params, Memory, Obs, Array], tuple[Memory, Array]]
    # (params, memory, observations [T, N, …], begins [T, N], taken [T, N]) ->
    # (memories [T, N, …] after each row, features [T, N, F]); rows not taken leave the memory
    unroll: Callable[[Params, Memory, Obs, Array, Array], tuple[Memory, Array]]
    host: Callable[[Params], Callable[[Memory, Obs, np.ndarray], tuple[Memory, np.ndarray]]]
    memory: Callable[[int], Memory] = lambda n: ()  # of N environments before their first step
    # as ``host``, of the arrays of a graph (``lpo.network.graph``)
    onnx: Callable[[Params], Callable[[Memory, Any, Any], tuple[Memory, Any]]] = no_onnx
    stretch: int = 1  # steps that a row of a minibatch goes through
    plain: bool = False  # its features are what is observed


def feed_forward(
    size: int,
    init: Callable[[Array], Params],
    apply: Callable[[Params, Obs], Array],
    host: Callable[[Params], Callable[[Obs], np.ndarray]] | None = None,
    onnx: Callable[[Params], Callable[[Any], Any]] = no_onnx,
) -> Network:
    """Returns a body without memory: ``apply`` maps observations [M, …] to features [M, ``size``].

    ``host`` returns ``apply`` in NumPy; by default it is ``apply``, compiled. ``onnx`` returns it
    for the arrays of a graph.
    """

    def unroll(params: Params, memory: Memory, obs: Obs, begins: Array, taken: Array):
        lead = begins.shape
        rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[len(lead) :]), obs)
        features = in_blocks(lambda x: apply(params, x), rows)
        return memory, features.reshape(*lead, size)

    def acting(make: Callable[[Params], Callable[[Obs], Any]]):
        def with_(params: Params):
            acts = make(params)
            return lambda memory, obs, begins: (memory, acts(obs))

        return with_

    return Network(
        size,
        init,
        lambda params, memory, obs, begins: (memory, apply(params, obs)),
        unroll,
        acting(host or partial(compiled, apply)),
        onnx=acting(onnx),
    )


def compiled(apply: Callable[[Params, Obs], Array], params: Params) -> Callable[[Obs], np.ndarray]:
    """Returns ``apply`` for NumPy arrays."""
    call = jax.jit(apply)
    return lambda obs: np.asarray(call(params, obs))


def in_blocks(apply: Callable[[Obs], Array], rows: Obs) -> Array:
    """Returns ``apply`` of rows [M, …], at most BLOCK of them at a time."""
    count = len(jax.tree.leaves(rows)[0])
    if count <= BLOCK:
        return apply(rows)
    full, rest = count // BLOCK, count % BLOCK
    cut = lambda x: x[: full * BLOCK].reshape(full, BLOCK, *x.shape[1:])  # noqa: E731
    found = jax.lax.map(apply, jax.tree.map(cut, rows))
    found = found.reshape(full * BLOCK, *found.shape[2:])
    if not rest:
        return found
    return jnp.concatenate([found, apply(jax.tree.map(lambda x: x[-rest:], rows))])


def as_it_is(size: int) -> Network:
    """Returns the body whose features are the vector that is observed."""
    return Network(
        size,
        init=lambda key: (),
        step=lambda params, memory, obs, begins: (memory, obs),
        unroll=lambda params, memory, obs, begins, taken: (memory, obs),
        host=lambda params: lambda memory, obs, begins: (memory, obs),
        onnx=lambda params: lambda memory, obs, begins: (memory, obs),
        plain=True,
    )


@options
class NetworkPart(Part):
    """Policy and critics, and how they see an observation."""

    kinds: ClassVar[Kinds[NetworkPart]] = Kinds("network", "lpo.networks")
    flat: ClassVar[bool] = True  # small grids of codes are read one-hot, as one vector
    remembers: ClassVar[bool] = False

    hidden: Layers = (64, 64)
    """Hidden layers of the policy and of each critic (tanh)."""
    log_std_init: Axis[float] = 0.0
    """Initial log standard deviation of Gaussian actions."""
    log_std_min: Axis[float] = -20.0
    """Smallest log standard deviation after an update, so that a policy keeps its noise; -20 is no
    bound. For actions with a range below 2 it is relative to half that range."""
    value_gain: Axis[NonNegative] = 1.0
    """Size of the first weights of the value heads (SB3: 1). At 0 all values start at 0, and before
    any reward the reward advantage is 0 as well."""
    normalize_obs: bool = True
    """Normalise observations by a running mean and variance, clipped to ±10."""

    @classmethod
    def adopt(cls, value: Any) -> Any:
        """Returns a network of the user's own as options."""
        own: Any = cls.kinds.get("own")
        return value if isinstance(value, str | NetworkPart) else own.known(value)

    def make(self, spec: ObsSpec) -> Network:
        """Returns the body for observations of this form."""
        raise NotImplementedError

    @property
    def obs_clip(self) -> float:
        """Returns the bound of a number of an observation as the networks see it."""
        return OBS_CLIP if self.normalize_obs else float("inf")


@NetworkPart.kinds.add
@options
class MLP(NetworkPart):
    """Tanh layers that read one vector."""

    kind: ClassVar[str] = "mlp"

    def make(self, spec: ObsSpec) -> Network:
        if spec.size is None:
            raise LPOError(
                f"The network mlp reads one vector, and the task observes {spec.words}; leave "
                f"{named('network')} out, or pass cnn."
            )
        return as_it_is(spec.size)
