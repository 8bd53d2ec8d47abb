"""Networks: separate tanh MLPs for the policy and for each value stream (App. G, SB3's defaults).

They read an observation that is a vector, or the features of a body that they share
(``lpo.network``).

Plain pytrees: a network is a tuple of layers, and the critics share one tuple whose arrays carry a
leading stream axis (extrinsic first): a second critic is a second slice, not a second code path.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Float, Key

from lpo.math.arrays import Scalar, lift
from lpo.types import ArrayT


class Layer(NamedTuple, Generic[ArrayT]):
    w: Float[ArrayT, "*S I O"]  # [S, …] in the critics, whose streams share a Net
    b: Float[ArrayT, "*S O"]


Net: TypeAlias = tuple[Layer[ArrayT], ...]


class ActorCritic(NamedTuple, Generic[ArrayT]):
    policy: Net[ArrayT]
    log_std: Float[ArrayT, " L"]  # one per dimension of Gaussian actions, none for discrete ones
    critics: Net[ArrayT]  # every array has a leading stream axis [S, …]
    body: Any = ()  # of the network that makes features of an observation


def orthogonal(
    rng: np.random.Generator, rows: int, columns: int, gain: float
) -> Float[np.ndarray, "{rows} {columns}"]:
    """Returns a random matrix whose shorter side is orthonormal, times ``gain`` (Haar measure)."""
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q = q * np.sign(np.diag(r))
    return (gain * (q if rows >= columns else q.T)).astype(np.float32)


def orthogonal_net(
    key: Key[Array, ""], sizes: Sequence[int], gain: float, last_gain: float
) -> Net[Array]:
    """Returns orthogonal weights and zero biases; ``last_gain`` is the gain of the last layer."""
    gains = [gain] * (len(sizes) - 2) + [last_gain]
    return orthogonal_layers(key, list(itertools.pairwise(sizes)), gains)


def orthogonal_layers(
    key: Key[Array, ""], shapes: Sequence[tuple[int, int]], gains: Sequence[float]
) -> Net[Array]:
    """Returns layers of these shapes (inputs, outputs), orthogonal times a gain, with zero biases.

    Drawn in NumPy from the key: compiling a QR takes seconds, computing these takes none.
    """

    def draw(data: ArrayLike) -> tuple[np.ndarray, ...]:
        """Weights for every key in ``data`` [..., K]."""
        keys = np.asarray(data)
        flat = keys.reshape(-1, keys.shape[-1])
        rngs = [np.random.default_rng(row) for row in flat]
        drawn = [
            [orthogonal(rng, *shape, g) for shape, g in zip(shapes, gains, strict=True)]
            for rng in rngs
        ]
        stacked = (np.stack(layer) for layer in zip(*drawn, strict=True))
        return tuple(w.reshape(*keys.shape[:-1], *w.shape[1:]) for w in stacked)

    data = jax.random.key_data(key)
    if isinstance(data, Tracer):  # many runs at once: one call of the host for all
        like = tuple(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes)
        weights = jax.pure_callback(draw, like, data, vmap_method="expand_dims")
    else:
        weights = draw(np.asarray(data))
    return tuple(Layer(jnp.asarray(w), jnp.zeros(w.shape[-1], jnp.float32)) for w in weights)


def apply_net(
    net: Net[Array],
    x: Float[Array, "*B I"],
    activation: Callable[[Array], Array] = jnp.tanh,
) -> Float[Array, "*B O"]:
    """Returns the outputs of ``net``; ``activation`` follows every layer but the last."""
    for layer in net[:-1]:
        x = activation(x @ layer.w + lift(layer.b, x))
    return x @ net[-1].w + lift(net[-1].b, x)


def apply_net_host(net: Net[np.ndarray], x: Float[np.ndarray, "N I"]) -> Float[np.ndarray, "N O"]:
    """Returns ``apply_net`` in NumPy, for acting: a small batch is not worth a JAX dispatch."""
    for w, b in net[:-1]:
        x = x @ w
        x += b
        np.tanh(x, out=x)
    x = x @ net[-1].w
    x += net[-1].b
    return x


def init_actor_critic(
    key: Key[Array, ""],
    obs_size: int,
    num_outputs: int,
    log_std: Float[Array, " L"],
    hidden: Sequence[int],
    num_streams: int,
    value_gain: Scalar = 1.0,
    body: Any = (),
) -> ActorCritic[Array]:
    """Returns a policy and ``num_streams`` critics with SB3's initial weights.

    ``obs_size`` are the numbers that they read, ``value_gain`` multiplies the last layer of each
    critic, and ``body`` are the parameters of what makes features of an observation.
    """
    key_policy, key_critics = jax.random.split(key)
    gain = float(np.sqrt(2))
    policy = orthogonal_net(key_policy, (obs_size, *hidden, num_outputs), gain, 0.01)
    critic = [
        # fold_in, not split: a second stream leaves the first critic as it was
        orthogonal_net(jax.random.fold_in(key_critics, s), (obs_size, *hidden, 1), gain, 1.0)
        for s in range(num_streams)
    ]
    *hidden_layers, head = jax.tree.map(lambda *x: jnp.stack(x), *critic)
    return ActorCritic(
        policy, log_std, (*hidden_layers, head._replace(w=value_gain * head.w)), body
    )


def values(
    critics: Net[Array],
    obs: Float[Array, "*B O"],
    apply: Callable[[Net[Array], Array], Array] = apply_net,
) -> Float[Array, " S *B"]:
    """Returns V_s(obs) of every stream s."""
    return jax.vmap(lambda net: apply(net, obs)[..., 0])(critics)
