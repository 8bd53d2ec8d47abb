"""Action distributions: diagonal Gaussian for Box, (multi-)categorical for Discrete spaces.

A distribution is a NamedTuple of functions. Learning uses the jax ones; acting uses ``sample`` and
``mode`` in NumPy on a batch of network outputs. Actions are stored as float32 vectors, so that one
matrix holds a rollout whatever the space is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from lpo.errors import LPOError

LOG_2PI = float(np.log(2 * np.pi))


class Distribution(NamedTuple):
    num_outputs: int  # width of the policy's last layer
    num_log_std: int  # A for a Gaussian, 0 otherwise
    action_size: int  # width of a stored action
    noise_size: int  # random numbers per action
    log_prob: Callable  # (outputs, log_std, action) → [...]
    entropy: Callable  # (outputs, log_std) → [...]
    features: Callable  # action → what a bonus network reads (one-hot for discrete)
    draw: Callable  # (numpy Generator, shape) → noise
    sample: Callable  # (outputs, std, noise) → action, NumPy
    mode: Callable  # (outputs) → action, NumPy
    to_env: Callable  # stored action → what env.step takes, NumPy
    uniform: Callable  # (numpy Generator, rows) → actions drawn evenly from the space


class ActionSpec(NamedTuple):
    """A flat action space as a hashable value: bounds of a Box, or choices per factor."""

    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    nvec: tuple[int, ...] = ()
    scalar: bool = False  # one factor, passed to the environment as a number (Discrete)


def gaussian(spec: ActionSpec) -> Distribution:
    """N(μ, diag σ²) over a flat Box, σ free of the state; clipped for the environment only."""
    size = len(spec.low)
    low, high = np.array(spec.low, np.float32), np.array(spec.high, np.float32)

    def log_prob(mean, log_std, action):
        z = (action - mean) * jnp.exp(-log_std)
        return -0.5 * (z**2).sum(-1) - log_std.sum() - 0.5 * size * LOG_2PI

    def entropy(mean, log_std):
        return jnp.full(mean.shape[:-1], log_std.sum() + 0.5 * size * (1 + LOG_2PI))

    def to_env(action):
        return np.minimum(np.maximum(action, low), high)

    def uniform(rng, rows):
        if not np.isfinite(high - low).all():
            raise LPOError(
                "Uniform actions were asked for and the action space has no bounds; "
                "bound it, or pass --first-uniform 0."
            )
        return rng.uniform(low, high, (rows, size)).astype(np.float32)

    return Distribution(
        num_outputs=size,
        num_log_std=size,
        action_size=size,
        noise_size=size,
        log_prob=log_prob,
        entropy=entropy,
        features=lambda action: jnp.clip(action, low, high),
        draw=lambda rng, shape: rng.standard_normal(shape, dtype=np.float32),
        sample=lambda mean, std, noise: mean + std * noise,
        mode=lambda mean: mean,
        to_env=to_env,
        uniform=uniform,
    )


def categorical(spec: ActionSpec) -> Distribution:
    """Independent categoricals over ``nvec`` choices each; one factor is the plain categorical."""
    nvec, total = spec.nvec, sum(spec.nvec)
    cuts = np.cumsum(nvec)[:-1]

    def log_probs(logits):
        parts = jnp.split(logits, cuts, axis=-1)
        return [jax.nn.log_softmax(part) for part in parts]

    def log_prob(logits, log_std, action):
        picked = [
            jnp.take_along_axis(lp, action[..., i : i + 1].astype(jnp.int32), axis=-1)[..., 0]
            for i, lp in enumerate(log_probs(logits))
        ]
        return jnp.stack(picked).sum(0)

    def entropy(logits, log_std):
        return jnp.stack([-(jnp.exp(lp) * lp).sum(-1) for lp in log_probs(logits)]).sum(0)

    def features(action):
        parts = [jax.nn.one_hot(action[..., i].astype(int), n) for i, n in enumerate(nvec)]
        return jnp.concatenate(parts, axis=-1)

    def mode(logits):
        parts = np.split(logits, cuts, axis=-1)
        return np.stack([part.argmax(-1) for part in parts], axis=-1).astype(np.float32)

    return Distribution(
        num_outputs=total,
        num_log_std=0,
        action_size=len(nvec),
        noise_size=total,
        log_prob=log_prob,
        entropy=entropy,
        features=features,
        draw=lambda rng, shape: rng.gumbel(size=shape).astype(np.float32),
        sample=lambda logits, std, noise: mode(logits + noise),  # the Gumbel-max trick
        mode=mode,
        to_env=lambda a: (a[:, 0] if spec.scalar else a).astype(np.int64),
        uniform=lambda rng, rows: rng.integers(nvec, size=(rows, len(nvec))).astype(np.float32),
    )


def action_spec(space: spaces.Space) -> ActionSpec:
    """What ``space``, one of the flat ones that lpo.envs makes, asks of a distribution."""
    if isinstance(space, spaces.Box):
        return ActionSpec(low=tuple(space.low.tolist()), high=tuple(space.high.tolist()))
    if isinstance(space, spaces.Discrete):
        return ActionSpec(nvec=(int(space.n),), scalar=True)
    if isinstance(space, spaces.MultiDiscrete):
        return ActionSpec(nvec=tuple(space.nvec.tolist()))
    raise LPOError(
        f"Actions of {space} are not supported; use a Box, Discrete, MultiDiscrete or MultiBinary "
        "action space (a gymnasium.ActionWrapper can map to one)."
    )


def make(spec: ActionSpec) -> Distribution:
    return categorical(spec) if spec.nvec else gaussian(spec)


def for_space(space: spaces.Space) -> Distribution:
    return make(action_spec(space))
