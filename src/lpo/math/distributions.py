"""Action distributions: diagonal Gaussian for Box, (multi-)categorical for Discrete spaces.

A distribution is a NamedTuple of functions. Learning uses the JAX ones; acting uses ``sample`` and
``mode`` in NumPy on a batch of network outputs. Actions are stored as float32 vectors, so that one
matrix holds a rollout whatever the space is.

Shapes: P outputs of the policy network, L free parameters (``log_std``), A numbers of a stored
action, F features of an action.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jax import Array
from jaxtyping import Float, Int, Key

from lpo.errors import LPOError
from lpo.math.arrays import lift

LOG_2PI = float(np.log(2 * np.pi))
NEVER = -1e9  # the logit of a choice that is not allowed: its probability is 0 in float32

EnvActions: TypeAlias = (
    Float[np.ndarray, "N A"] | Int[np.ndarray, "N A"] | Int[np.ndarray, " N"]
)  # what ``env.step`` takes: Box, MultiDiscrete, Discrete


class LogProb(Protocol):
    def __call__(
        self,
        outputs: Float[Array, "*B P"],
        log_std: Float[Array, " L"],
        action: Float[Array, "*B A"],
        /,
    ) -> Float[Array, "*B"]:
        """Returns log π(action)."""
        ...


class Entropy(Protocol):
    def __call__(
        self, outputs: Float[Array, "*B P"], log_std: Float[Array, " L"], /
    ) -> Float[Array, "*B"]:
        """Returns the entropy of π."""
        ...


class ActionFeatures(Protocol):
    def __call__(self, action: Float[Array, "*B A"], /) -> Float[Array, "*B F"]:
        """Returns what a bonus network reads: the clipped action, or one-hot choices."""
        ...


class Draw(Protocol):
    def __call__(
        self, rng: np.random.Generator, shape: tuple[int, ...], /
    ) -> Float[np.ndarray, " ..."]:
        """Returns noise for ``sample``; the last axis of ``shape`` is ``noise_size``."""
        ...


class Sample(Protocol):
    def __call__(
        self,
        outputs: Float[np.ndarray, "N P"],
        std: Float[np.ndarray, " L"],
        noise: Float[np.ndarray, "N Z"],
        /,
    ) -> Float[np.ndarray, "N A"]:
        """Returns actions drawn from π; ``std`` is exp(log_std)."""
        ...


class Mode(Protocol):
    def __call__(self, outputs: Float[np.ndarray, "N P"], /) -> Float[np.ndarray, "N A"]:
        """Returns the most likely actions."""
        ...


class Act(Protocol):
    def __call__(
        self,
        outputs: Float[Array, "*B P"],
        log_std: Float[Array, " L"],
        key: Key[Array, ""],
        /,
    ) -> Float[Array, "*B A"]:
        """Returns actions drawn from π, in JAX."""
        ...


class ActMode(Protocol):
    def __call__(self, outputs: Float[Array, "*B P"], /) -> Float[Array, "*B A"]:
        """Returns the most likely actions, in JAX."""
        ...


class ToEnv(Protocol):
    def __call__(self, action: Float[np.ndarray, "N A"], /) -> EnvActions:
        """Returns stored actions in the form that ``env.step`` takes."""
        ...


class Uniform(Protocol):
    def __call__(self, rng: np.random.Generator, rows: int, /) -> Float[np.ndarray, "N A"]:
        """Returns ``rows`` actions drawn evenly from the space."""
        ...


class ActUniform(Protocol):
    def __call__(self, key: Key[Array, ""], rows: int, /) -> Float[Array, "N A"]:
        """Returns ``rows`` actions drawn evenly from the space, in JAX."""
        ...


class Distribution(NamedTuple):
    """A policy's distribution over actions: four sizes, a unit of noise and eleven functions.

    ``draw``, ``sample``, ``mode``, ``to_env`` and ``uniform`` act in NumPy on the host;
    ``act``, ``act_mode`` and ``act_uniform`` are the same in JAX, for environments on a device.
    """

    num_outputs: int  # P, the width of the policy's last layer, and F
    num_log_std: int  # L: A for a Gaussian, 0 otherwise
    action_size: int  # A
    noise_size: int  # random numbers per action
    log_unit: Float[np.ndarray, " L"]  # log of half the range of an action, 0 where it is above 1
    log_prob: LogProb
    entropy: Entropy
    features: ActionFeatures
    draw: Draw
    sample: Sample
    mode: Mode
    to_env: ToEnv
    uniform: Uniform
    act: Act
    act_mode: ActMode
    act_uniform: ActUniform
    factors: tuple[int, ...] = ()  # choices of each factor


class ActionSpec(NamedTuple):
    """A flat action space as a hashable value: bounds of a Box, or choices per factor."""

    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    nvec: tuple[int, ...] = ()
    scalar: bool = False  # one factor, passed to the environment as a number (Discrete)


def normals(rng: np.random.Generator, shape: tuple[int, ...]) -> Float[np.ndarray, " ..."]:
    return rng.standard_normal(shape, dtype=np.float32)


def gumbels(rng: np.random.Generator, shape: tuple[int, ...]) -> Float[np.ndarray, " ..."]:
    return rng.gumbel(size=shape).astype(np.float32)


def itself(mean: Any) -> Any:
    """Returns the mode of a Gaussian."""
    return mean


def picked(log_p: Float[Array, "*B K"], choice: Float[Array, "*B 1"]) -> Float[Array, "*B"]:
    """Returns the logarithm of the probability of a choice."""
    return jnp.take_along_axis(log_p, choice.astype(jnp.int32), axis=-1)[..., 0]


def largest_of(xp: Any, parts: Any) -> Any:
    """Returns the places of the largest logits, one for each part, as floats."""
    return xp.stack([part.argmax(-1) for part in parts], axis=-1).astype(xp.float32)


def gaussian(spec: ActionSpec) -> Distribution:
    """Returns N(μ, diag σ²) over a flat Box; σ does not depend on the state.

    Actions are clipped to the bounds for the environment and the bonus only.
    """
    size = len(spec.low)
    low, high = np.array(spec.low, np.float32), np.array(spec.high, np.float32)
    half = np.clip(high / 2 - low / 2, 1e-8, 1)

    def log_prob(
        mean: Float[Array, "*B A"], log_std: Float[Array, " A"], action: Float[Array, "*B A"]
    ) -> Float[Array, "*B"]:
        z = (action - mean) * lift(jnp.exp(-log_std), mean)
        return -0.5 * (z**2).sum(-1) - log_std.sum() - 0.5 * size * LOG_2PI

    def entropy(mean: Float[Array, "*B A"], log_std: Float[Array, " A"]) -> Float[Array, "*B"]:
        return jnp.full(mean.shape[:-1], log_std.sum() + 0.5 * size * (1 + LOG_2PI))

    def features(action: Float[Array, "*B A"]) -> Float[Array, "*B A"]:
        return jnp.clip(action, lift(jnp.asarray(low), action), lift(jnp.asarray(high), action))

    def sample(
        mean: Float[np.ndarray, "N A"],
        std: Float[np.ndarray, " A"],
        noise: Float[np.ndarray, "N A"],
    ) -> Float[np.ndarray, "N A"]:
        return mean + std * noise

    def act(
        mean: Float[Array, "*B A"], log_std: Float[Array, " A"], key: Key[Array, ""]
    ) -> Float[Array, "*B A"]:
        return mean + lift(jnp.exp(log_std), mean) * jax.random.normal(key, mean.shape)

    def to_env(action: Float[np.ndarray, "N A"]) -> Float[np.ndarray, "N A"]:
        return np.minimum(np.maximum(action, low), high)

    def uniform(rng: np.random.Generator, rows: int) -> Float[np.ndarray, "{rows} A"]:
        if not np.isfinite(high - low).all():
            raise LPOError(
                "Uniform actions were asked for and the action space has no bounds; "
                "bound it, or pass --first-uniform 0."
            )
        return rng.uniform(low, high, (rows, size)).astype(np.float32)

    def act_uniform(key: Key[Array, ""], rows: int) -> Float[Array, "{rows} A"]:
        share = jax.random.uniform(key, (rows, size))
        return lift(jnp.asarray(low), share) + share * lift(jnp.asarray(high - low), share)

    return Distribution(
        num_outputs=size,
        num_log_std=size,
        action_size=size,
        noise_size=size,
        log_unit=np.log(half),
        log_prob=log_prob,
        entropy=entropy,
        features=features,
        draw=normals,
        sample=sample,
        mode=itself,
        to_env=to_env,
        uniform=uniform,
        act=act,
        act_mode=itself,
        act_uniform=act_uniform,
    )


def categorical(spec: ActionSpec) -> Distribution:
    """Returns independent categoricals over ``nvec`` choices; one of them for a Discrete space."""
    nvec, total = spec.nvec, sum(spec.nvec)
    cuts = np.cumsum(nvec)[:-1]

    def log_probs(logits: Float[Array, "*B P"]) -> list[Float[Array, "*B _"]]:
        parts = jnp.split(logits, cuts, axis=-1)
        return [jax.nn.log_softmax(part) for part in parts]

    def log_prob(
        logits: Float[Array, "*B P"], log_std: Float[Array, " 0"], action: Float[Array, "*B A"]
    ) -> Float[Array, "*B"]:
        chosen = enumerate(log_probs(logits))
        return jnp.stack([picked(lp, action[..., i : i + 1]) for i, lp in chosen]).sum(0)

    def entropy(logits: Float[Array, "*B P"], log_std: Float[Array, " 0"]) -> Float[Array, "*B"]:
        return jnp.stack([-(jnp.exp(lp) * lp).sum(-1) for lp in log_probs(logits)]).sum(0)

    def features(action: Float[Array, "*B A"]) -> Float[Array, "*B P"]:
        parts = [jax.nn.one_hot(action[..., i].astype(int), n) for i, n in enumerate(nvec)]
        return jnp.concatenate(parts, axis=-1)

    def sample(
        logits: Float[np.ndarray, "N P"],
        std: Float[np.ndarray, " 0"],
        noise: Float[np.ndarray, "N P"],
    ) -> Float[np.ndarray, "N A"]:
        return mode(logits + noise)  # the Gumbel-max trick

    def mode(logits: Float[np.ndarray, "N P"]) -> Float[np.ndarray, "N A"]:
        return largest_of(np, np.split(logits, cuts, axis=-1))

    def act(
        logits: Float[Array, "*B P"], log_std: Float[Array, " 0"], key: Key[Array, ""]
    ) -> Float[Array, "*B A"]:
        return act_mode(logits + jax.random.gumbel(key, logits.shape))

    def act_mode(logits: Float[Array, "*B P"]) -> Float[Array, "*B A"]:
        return largest_of(jnp, jnp.split(logits, cuts, axis=-1))

    def to_env(action: Float[np.ndarray, "N A"]) -> EnvActions:
        return (action[:, 0] if spec.scalar else action).astype(np.int64)

    def uniform(rng: np.random.Generator, rows: int) -> Float[np.ndarray, "{rows} A"]:
        return rng.integers(nvec, size=(rows, len(nvec))).astype(np.float32)

    def act_uniform(key: Key[Array, ""], rows: int) -> Float[Array, "{rows} A"]:
        choices = jnp.asarray(nvec)[None]
        return jax.random.randint(key, (rows, len(nvec)), 0, choices).astype(jnp.float32)

    return Distribution(
        num_outputs=total,
        num_log_std=0,
        action_size=len(nvec),
        noise_size=total,
        factors=nvec,
        log_unit=np.zeros(0, np.float32),
        log_prob=log_prob,
        entropy=entropy,
        features=features,
        draw=gumbels,
        sample=sample,
        mode=mode,
        to_env=to_env,
        uniform=uniform,
        act=act,
        act_mode=act_mode,
        act_uniform=act_uniform,
    )


def masked(logits: Any, allowed: Any, where: Callable[..., Any]) -> Any:
    """Returns logits [..., P] of which the choices that are not ``allowed`` are never taken.

    ``where`` is NumPy's or JAX's. ``allowed`` is None, or () in a batch, where all choices are.
    """
    if allowed is None or isinstance(allowed, tuple):
        return logits
    return where(allowed != 0, logits, np.float32(NEVER))


def action_spec(space: spaces.Space) -> ActionSpec:
    """Returns what a distribution must know of ``space``, one of the flat ones of lpo.envs."""
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


def space_of(action: ActionSpec) -> spaces.Space:
    """Returns the Gymnasium space of a flat action."""
    if not action.nvec:
        return spaces.Box(np.array(action.low, np.float32), np.array(action.high, np.float32))
    return (
        spaces.Discrete(action.nvec[0])
        if action.scalar
        else spaces.MultiDiscrete(list(action.nvec))
    )


def make(spec: ActionSpec) -> Distribution:
    """Returns the distribution over the actions of ``spec``."""
    return categorical(spec) if spec.nvec else gaussian(spec)


def for_space(space: spaces.Space) -> Distribution:
    """Returns the distribution over the actions of ``space``."""
    return make(action_spec(space))
