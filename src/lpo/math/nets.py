"""Networks: separate tanh MLPs for the policy and for each value stream (App. G, SB3's defaults).

Plain pytrees: a network is a tuple of layers, and the critics share one tuple whose arrays carry a
leading stream axis (extrinsic first): a second critic is a second slice, not a second code path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lpo.options import Axis, Layers, options

OBS_CLIP = 10.0


@options
class NetworkOptions:
    """Policy and critics, and how they see an observation."""

    hidden: Layers = (64, 64)
    """Hidden layers of the policy and of each critic (tanh)."""
    log_std_init: Axis[float] = 0.0
    """Initial log standard deviation of Gaussian actions."""
    normalize_obs: bool = True
    """Normalise observations by a running mean and variance, clipped to ±10."""

    @property
    def obs_clip(self) -> float:
        """Returns the bound of an observation as the networks see it."""
        return OBS_CLIP if self.normalize_obs else float("inf")


class Layer(NamedTuple):
    w: Any  # [in, out]
    b: Any  # [out]


Net = tuple[Layer, ...]


class ActorCritic(NamedTuple):
    policy: Net
    log_std: Array  # [A] for Gaussian actions, [0] for discrete ones
    critics: Net  # every array has a leading stream axis [S, …]


def orthogonal(rng: np.random.Generator, rows: int, columns: int, gain: float) -> Array:
    """A matrix whose shorter side is orthonormal, times ``gain``, uniform over such (Haar)."""
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q = q * np.sign(np.diag(r))
    return jnp.asarray(gain * (q if rows >= columns else q.T), jnp.float32)


def orthogonal_net(key: Array, sizes: Sequence[int], gain: float, last_gain: float) -> Net:
    """Orthogonal weights and zero biases; ``gain`` for hidden layers, ``last_gain`` for the head.

    Drawn in NumPy from the key: compiling a QR takes seconds, computing these takes none.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    gains = [gain] * (len(sizes) - 2) + [last_gain]
    return tuple(
        Layer(orthogonal(rng, rows, columns, g), jnp.zeros(columns, jnp.float32))
        for rows, columns, g in zip(sizes[:-1], sizes[1:], gains, strict=True)
    )


def apply_net(net: Net, x: Array, activation: Callable = jnp.tanh) -> Array:
    for layer in net[:-1]:
        x = activation(x @ layer.w + layer.b)
    return x @ net[-1].w + net[-1].b


def apply_net_host(net: Net, x: np.ndarray) -> np.ndarray:
    """``apply_net`` in NumPy, for acting: a batch of eight is too small to be worth a dispatch."""
    for w, b in net[:-1]:
        x = x @ w
        x += b
        np.tanh(x, out=x)
    x = x @ net[-1].w
    x += net[-1].b
    return x


def init_actor_critic(
    key: Array,
    obs_size: int,
    num_outputs: int,
    log_std: Array,
    hidden: Sequence[int],
    num_streams: int,
) -> ActorCritic:
    key_policy, key_critics = jax.random.split(key)
    gain = float(np.sqrt(2))
    policy = orthogonal_net(key_policy, (obs_size, *hidden, num_outputs), gain, 0.01)
    critic = [
        # fold_in, not split: a second stream leaves the first critic as it was
        orthogonal_net(jax.random.fold_in(key_critics, s), (obs_size, *hidden, 1), gain, 1.0)
        for s in range(num_streams)
    ]
    return ActorCritic(policy, log_std, jax.tree.map(lambda *x: jnp.stack(x), *critic))


def values(critics: Net, obs: Array) -> Array:
    """V_s(obs) of every stream: [..., O] → [S, ...]."""
    return jax.vmap(lambda net: apply_net(net, obs)[..., 0])(critics)
