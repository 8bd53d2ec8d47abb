"""The PPO core that all algorithms share: SB3's losses with one value loss per stream."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Key, PyTree, Shaped

from lpo.math.arrays import Scalar, lift
from lpo.math.descent import PLAIN, Adam, Apply, Compute
from lpo.math.distributions import Distribution, masked
from lpo.math.minibatch import sweep
from lpo.math.nets import ActorCritic, apply_net, values
from lpo.options import Axis, NonNegative, Positive, PositiveInt, Rare, Unit, options
from lpo.types import Obs


@options
class PPOOptions:
    """The PPO update: discounts, losses, minibatches, Adam."""

    gamma_ext: Axis[Unit] = 0.99
    """Discount of the reward stream."""
    gae_lambda: Axis[Unit] = 0.95
    """λ of the reward stream's advantage estimates, which the policy follows."""
    value_lambda: Axis[Unit] = 0.95
    """λ of the returns Â + V that the reward's critic learns. The bonus has one λ for policy and
    critic, `lambda_int`."""
    learning_rate: Axis[Positive] = 1e-4
    """Adam's step size for policy and critics."""
    kl_target: Axis[NonNegative] = 0.0
    """Target KL of an update. The learning rate is lowered when the KL is above it and raised again
    when it is below, at most to `learning_rate`. 0: off."""
    batch_size: PositiveInt = 32
    """Minibatch (paper: 32 on Hopper, 16 on Walker2d and HalfCheetah); advantages are normalised
    within it."""
    epochs: PositiveInt = 10
    """Passes over a rollout for each policy change."""
    clip: Axis[Positive] = 0.2
    """PPO's clipping range of the probability ratio."""
    value_coef: Rare[Axis[NonNegative]] = 0.5
    """Weight of each value loss."""
    entropy_coef: Axis[NonNegative] = 0.0
    """Weight of the entropy term."""
    max_grad_norm: Rare[Axis[Positive]] = 0.5
    """Largest global norm of a gradient."""
    adam_eps: Rare[Axis[Positive]] = 1e-5
    """Adam's ε."""
    normalize_advantage: bool = True
    """Normalise advantages within each minibatch."""
    advantage_floor: Axis[NonNegative] = 0.0
    """Smallest standard deviation that advantages are divided by (with `normalize_advantage`).
    Prevents large updates from noise when all advantages are small."""


class Batch(NamedTuple):
    """Transitions as the update sees them, one row each, or one stretch of them in a row.

    M rows of numbers [M, d]; with memory M stretches of L steps each [M, L, d].
    """

    obs: Obs  # normalised
    action: Float[Array, "M *L A"]
    log_prob: Float[Array, "M *L 1"]  # of the policy that acted
    advantage: Float[Array, "M *L 1"]  # Â = α Â_ext + β Â_int
    returns: Float[Array, "M *L S"]  # value targets
    allowed: Any = ()  # [M, P] choices that the environment takes; () where it takes all
    stretch: Any = ()  # what the body needs to go through a stretch; () without memory


class Rows(NamedTuple):
    """A minibatch as the losses see it: rows of numbers."""

    features: Float[Array, "B F"]
    batch: Batch
    weight: Float[Array, " B"] | None = None  # of each row; None: one


class See(Protocol):
    def __call__(self, body: Any, batch: Batch, /) -> Rows:
        """Returns what the networks read of a minibatch, by the parameters of the body."""
        ...


def as_they_are(body: Any, batch: Batch) -> Rows:
    """Returns rows whose observations are what the networks read."""
    del body
    return Rows(batch.obs, batch)


Stats: TypeAlias = dict[str, Float[Array, "*_"]]


class Coefficients(NamedTuple):
    """Weights of the terms of the objective."""

    clip: Scalar
    value_coef: Scalar
    entropy_coef: Scalar
    normalize_advantage: bool
    advantage_floor: Scalar = 0.0


def coefficients(c: PPOOptions) -> Coefficients:
    return Coefficients(
        c.clip, c.value_coef, c.entropy_coef, c.normalize_advantage, c.advantage_floor
    )


def average(x: Shaped[Array, "*S B"], weight: Float[Array, " B"] | None) -> Float[Array, "*S"]:
    """Returns the mean of the rows that count."""
    if weight is None:
        return x.mean(-1)
    return (x * lift(weight, x)).sum(-1) / jnp.maximum(weight.sum(), 1)


def standard_deviation(x: Float[Array, " B"], weight: Float[Array, " B"] | None) -> Array:
    """Returns the sample deviation (n - 1), as torch's, of the rows that count."""
    if weight is None:
        return x.std(ddof=1)
    square = (weight * (x - average(x, weight)) ** 2).sum()
    return jnp.sqrt(square / jnp.maximum(weight.sum() - 1, 1))


def loss(
    params: ActorCritic[Array],
    batch: Batch,
    dist: Distribution,
    c: Coefficients,
    apply: Apply = apply_net,
    see: See = as_they_are,
) -> tuple[Float[Array, ""], Stats]:
    """L = −E min(ρÂ, clip(ρ, 1±ε)Â) + c_v Σ_s E(V_s − R_s)² − c_h E H."""
    features, batch, weight = see(params.body, batch)
    mean = partial(average, weight=weight)
    outputs = masked(apply(params.policy, features), batch.allowed, jnp.where)
    log_prob = dist.log_prob(outputs, params.log_std, batch.action)
    advantage = batch.advantage[:, 0]
    if c.normalize_advantage:
        spread = jnp.maximum(standard_deviation(advantage, weight), c.advantage_floor)
        advantage = (advantage - mean(advantage)) / (spread + 1e-8)
    log_ratio = log_prob - batch.log_prob[:, 0]
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1 - c.clip, 1 + c.clip)
    policy_loss = -mean(jnp.minimum(ratio * advantage, clipped * advantage))
    value_losses = mean((values(params.critics, features, apply) - batch.returns.T) ** 2)
    entropy = mean(dist.entropy(outputs, params.log_std))
    total = policy_loss + c.value_coef * value_losses.sum() - c.entropy_coef * entropy
    stats = {
        "policy_loss": policy_loss,
        "value_losses": value_losses,
        "entropy": entropy,
        "kl": mean(ratio - 1 - log_ratio),
        "clip_fraction": mean(jnp.abs(ratio - 1) > c.clip),
    }
    return total, stats


def adam_of(c: PPOOptions) -> Adam:
    """Returns the optimiser of policy and critics."""
    return Adam(c.learning_rate, c.adam_eps, c.max_grad_norm)


def next_pace(pace: Array, kl: Array, target: Scalar) -> Array:
    """Returns the part of the learning rate that the next update takes, in [.01, 1].

    KL grows with the square of a step, so the part is multiplied by √(target/KL), and by no more
    than 1.5 or less than 1/1.5 at a time. Without a target it is 1.
    """
    change = jnp.clip(jnp.sqrt(target / jnp.maximum(kl, 1e-8)), 1 / 1.5, 1.5)
    return jnp.where(target > 0, jnp.clip(pace * change, 0.01, 1.0), 1.0)


def update(
    params: ActorCritic[Array],
    opt_state: PyTree,
    batch: Batch,
    valid: Bool[Array, " M"],
    key: Key[Array, ""],
    *,
    dist: Distribution,
    adam: Adam,
    coefficients: Coefficients,
    epochs: int,
    batch_size: int,
    compute: Compute = PLAIN,
    see: See = as_they_are,
) -> tuple[ActorCritic[Array], PyTree, Stats]:
    """Line 9 of Algorithm 7: optimises π, V_ext and V_int on D_k."""

    def step(
        carry: tuple[ActorCritic[Array], PyTree], minibatch: Batch
    ) -> tuple[tuple[ActorCritic[Array], PyTree], Stats]:
        params, opt_state = carry
        grads, stats = jax.grad(loss, has_aux=True)(
            params, minibatch, dist, coefficients, compute.apply, see
        )
        return compute.descend(adam, params, opt_state, grads), stats

    (params, opt_state), stats = sweep(
        step, (params, opt_state), batch, valid, key, epochs, batch_size
    )
    return params, opt_state, stats
