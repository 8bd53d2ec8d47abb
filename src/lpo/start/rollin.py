"""The policy cover in JAX, for environments on a device: the rules of ``cover``, its own numbers.

Each world draws a member and a length at the end of an episode, as on the host. A member acts with
the network and the statistics that it was stored with.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, Key

from lpo.math.distributions import Distribution
from lpo.math.features import Features
from lpo.math.nets import ActorCritic, apply_net
from lpo.math.normalize import Moments, normalize
from lpo.start.base import OnDevice
from lpo.types import Rollout

GAME_TURNS = 50


class Member(NamedTuple):
    """A past policy: its network, and the statistics of the observations it acted with."""

    policy: Any  # Net
    log_std: Any
    mean: Any
    var: Any


class Known(NamedTuple):
    """The cover of one run."""

    members: Member  # every array with a leading axis [C]
    weights: Float[Array, " C"]  # mixture weights, zero for empty slots
    covariance: Float[Array, "C D D"]  # E φφᵀ under each member, for the log-det game
    features: Any
    seen: Int[Array, ""]  # policies offered so far


class Plans(NamedTuple):
    """How the episodes under way began."""

    member: Int[Array, " N"]  # which member rolls in
    remaining: Int[Array, " N"]  # steps left of the roll-in
    uniform: Bool[Array, " N"]  # the action after the roll-in is uniform


def quantile(u: Float[Array, " N"], gamma: Any, horizon: int) -> Int[Array, " N"]:
    """Returns the length at the share ``u`` of the law γ^k, k < horizon; γ = 1: even."""
    log = jnp.log(jnp.clip(gamma, 1e-30, 1 - 1e-7))
    geometric = jnp.log1p(jnp.expm1(horizon * log) * u) / log
    length = jnp.where(gamma == 1, u * horizon, geometric)
    return jnp.minimum(length.astype(jnp.int32), horizon - 1)


def logdet_weights(
    covariance: Float[Array, "C D D"], weights: Float[Array, " C"], ridge: float = 1e-3
) -> Float[Array, " C"]:
    """Returns the weights of PC-PG's log-det game, as ``cover.logdet_game`` does."""
    eye = ridge * jnp.eye(covariance.shape[-1])

    def turn(_: Any, alpha: Float[Array, " C"]) -> Float[Array, " C"]:
        inverse = jnp.linalg.inv(jnp.tensordot(alpha, covariance, axes=1) + eye)
        gain = alpha * jnp.tensordot(covariance, inverse, axes=2)
        return jnp.where(gain.sum() > 0, gain / jnp.maximum(gain.sum(), 1e-30), alpha)

    return jax.lax.fori_loop(0, GAME_TURNS, turn, weights)


class Law(NamedTuple):
    """How roll-ins are drawn."""

    share: float  # of the episodes that begin with one
    gamma: Any  # of their lengths
    horizon: int
    epsilon: float  # of the uniform action after one


def draw(known: Known, count: int, key: Key[Array, ""], law: Law) -> Plans:
    """Draws members j ~ weights and lengths; no roll-in while the cover is empty."""
    own = jax.random.split(key, 4)
    lucky = jax.random.uniform(own[0], (count,)) < law.share
    length = quantile(jax.random.uniform(own[1], (count,)), law.gamma, law.horizon)
    return Plans(
        member=jax.random.categorical(own[2], jnp.log(known.weights), shape=(count,)),
        remaining=jnp.where(lucky & (known.seen > 0), length, 0),
        uniform=jax.random.uniform(own[3], (count,)) < law.epsilon,
    )


def count_down(
    known: Known, plans: Plans, done: Bool[Array, " N"], key: Key[Array, ""], law: Law
) -> tuple[Plans, Bool[Array, " N"]]:
    """Counts down, and draws anew where an episode ended. Rolled-in rows are not learned."""
    rolling = plans.remaining > 0
    later = Plans(plans.member, plans.remaining - rolling, plans.uniform & rolling)
    new = draw(known, len(done), key, law)
    plans_next = jax.tree.map(lambda a, b: jnp.where(done, a, b), new, later)
    return plans_next, ~rolling & ~plans.uniform


def first_cover(
    capacity: int, size: int, features: Any, params: ActorCritic, moments: Moments
) -> Known:
    """Returns a cover without members."""
    member = Member(params.policy, params.log_std, moments.mean, moments.var)
    return Known(
        members=jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape)), member),
        weights=jnp.zeros(capacity),
        covariance=jnp.zeros((capacity, size, size)),
        features=features,
        seen=jnp.int32(0),
    )


def put(kept: Bool[Array, " C"], rows: Array, row: Array) -> Array:
    """Returns ``rows`` [C, …] with ``row`` in the slot that is ``kept``."""
    return jnp.where(kept.reshape(-1, *(1,) * row.ndim), row[None], rows)


def mixture(weights: Float[Array, " C"]) -> dict[str, Array]:
    """Returns the metrics of the weights of a cover."""
    p = weights
    entropy = -(p * jnp.log(jnp.maximum(p, 1e-30))).sum()
    return {
        "start/members": (p > 0).sum().astype(jnp.float32),
        "start/effective_members": jnp.exp(entropy),
    }


def cover_on_device(
    features: Features,
    visited: Callable[[Any, Rollout], tuple[Any, Array]],
    dist: Distribution,
    *,
    capacity: int,
    weighting: str,
    share: float,
    gamma: Any,
    horizon: int,
    epsilon: float,
    obs_clip: float,
) -> OnDevice:
    """Returns the start with a policy cover in JAX; the arguments are those of ``cover``."""
    size = features.size if weighting == "logdet" else 0
    law = Law(share, gamma, horizon, epsilon)

    def init(
        key: Key[Array, ""], num_envs: int, params: ActorCritic, moments: Moments
    ) -> tuple[Known, Plans]:
        zero = jnp.zeros(num_envs, jnp.int32)
        known = first_cover(capacity, size, features.init(key), params, moments)
        return known, Plans(zero, zero, zero == 1)

    def act(
        known: Known, plans: Plans, obs: Float[Array, "N O"], action: Array, key: Key[Array, ""]
    ) -> Float[Array, "N A"]:
        keys = jax.random.split(key, len(obs) + 1)

        def of_member(j: Int[Array, ""], obs: Float[Array, " O"], key: Key[Array, ""]) -> Array:
            m: Member = jax.tree.map(lambda x: x[j], known.members)
            seen = normalize(Moments(jnp.float32(1), m.mean, m.var), obs, obs_clip)
            return dist.act(apply_net(m.policy, seen), m.log_std, key)

        rolled = jax.vmap(of_member)(plans.member, obs, keys[1:])
        action = jnp.where((plans.remaining > 0)[:, None], rolled, action)
        if not epsilon:
            return action
        first = plans.uniform & (plans.remaining == 0)
        return jnp.where(first[:, None], dist.act_uniform(keys[0], len(obs)), action)

    def update(
        known: Known, params: ActorCritic, moments: Moments, rollout: Rollout, key: Key[Array, ""]
    ) -> tuple[Known, dict[str, Array]]:
        """Line 5 of Algorithm 1: adds π^n to the cover; a full cover keeps a uniform sample."""
        seen = known.seen
        drawn = jax.random.randint(key, (), 0, seen + 1)
        slot = jnp.where(seen < capacity, seen, drawn)
        kept = jnp.arange(capacity) == slot  # nowhere, where the newcomer is not kept
        own = Member(params.policy, params.log_std, moments.mean, moments.var)

        placed = partial(put, kept)
        known = known._replace(seen=seen + 1, members=jax.tree.map(placed, known.members, own))
        filled = (jnp.arange(capacity) < seen + 1).astype(jnp.float32)
        weights = filled / filled.sum()
        if weighting == "logdet":
            moved, second = visited(known.features, rollout)
            covariance = placed(known.covariance, second)
            new = known._replace(
                features=moved, covariance=covariance, weights=logdet_weights(covariance, weights)
            )
            known = jax.tree.map(lambda a, b: jnp.where(kept.any(), a, b), new, known)
        else:
            known = known._replace(weights=weights)
        return known, mixture(known.weights)

    return OnDevice(init, act, partial(count_down, law=law), update)
