"""Feature maps φ with ‖φ‖ ≤ 1: the function class whose sensitivity and width are closed forms.

With f(z) = θᵀφ(z) and differences Δθ in a ball of radius ρ, eqs. (E1) and (E3) of the paper need
only φ and a Gram matrix. All maps are frozen; but for the product they read inputs normalised by
their own running moments (clipped to ±5) that move as data comes in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, Generic, Literal, NamedTuple, TypeVar

import annotated_types as at
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Key

from lpo.math.arrays import Scalar, lift
from lpo.math.distributions import ActionFeatures
from lpo.math.images import Plain
from lpo.math.normalize import Moments, init_moments, normalize, update_moments
from lpo.options import Axis, Kinds, Part, Positive, Rare, Short, options
from lpo.types import Rollout

CLIP = 5.0
Inputs = Literal["sa", "next", "s"]
EvenInt = Annotated[int, at.Ge(2), at.MultipleOf(2)]  # one cosine and one sine for each frequency
State = TypeVar("State")  # of a feature map: a pytree of arrays


class Reader(NamedTuple):
    """What of a transition a bonus or a switch looks at."""

    size: int  # D
    read: Callable[[Rollout[Array]], Float[Array, "T N D"]]


def reader(
    inputs: Inputs, form: Plain, action_size: int, action_features: ActionFeatures
) -> Reader:
    """Returns what reads (s,a) for "sa" (LPO, ENIAC), s′ for "next" (RND) or s for "s"."""

    obs_size, see = form

    def pair(rollout: Rollout[Array]) -> Float[Array, "T N D"]:
        return jnp.concatenate([see(rollout.obs), action_features(rollout.action)], axis=-1)

    readers = {
        "sa": Reader(obs_size + action_size, pair),
        "next": Reader(obs_size, lambda rollout: see(rollout.next_obs)),
        "s": Reader(obs_size, lambda rollout: see(rollout.obs)),
    }
    return readers[inputs]


class FeatureState(NamedTuple):
    weights: Float[Array, "_ _"]  # frozen
    inputs: Moments[Array]  # [D] of x
    norm: Moments[Array]  # [1] of ‖x̂‖², the squared scale of the normalised inputs


class Features(NamedTuple, Generic[State]):
    """A feature map: ``observe`` moves its moments by new data, ``apply`` returns φ, ‖φ‖ ≤ 1."""

    size: int  # P
    init: Callable[[Key[Array, ""]], State]
    observe: Callable[[State, Float[Array, "M D"], Bool[Array, " M"]], State]
    apply: Callable[[State, Float[Array, "*B D"]], Float[Array, "*B P"]]


class FeatureOptions(Part):
    """The features of (s,a) over which a width or a sensitivity is measured."""

    kinds: ClassVar[Kinds[FeatureOptions]] = Kinds("feature map")

    def make(self, input_size: int, obs_size: int) -> Features:
        """Returns the map for inputs of ``input_size``, of which ``obs_size`` are the state."""
        raise NotImplementedError


def _observe(state: FeatureState, x: Float[Array, "M D"], valid: Bool[Array, " M"]) -> FeatureState:
    inputs = update_moments(state.inputs, x, valid)
    square = (normalize(inputs, x, CLIP) ** 2).sum(-1, keepdims=True)
    return state._replace(inputs=inputs, norm=update_moments(state.norm, square, valid))


def _start(weights: Float[Array, "_ _"], size: int) -> FeatureState:
    norm = init_moments(1)._replace(mean=jnp.full(1, size, jnp.float32))
    return FeatureState(weights, init_moments(size), norm)


@FeatureOptions.kinds.add
@options
class Fourier(FeatureOptions):
    """Random Fourier features of a Gaussian kernel."""

    kind: ClassVar[str] = "fourier"
    number: Annotated[EvenInt, Short("num_features")] = 256
    """Number of features; an even number."""
    bandwidth: Annotated[Rare[Axis[Positive]], Short("feature_bandwidth")] = 1.0
    """Width of the Gaussian kernel, in units of the spread of the inputs."""

    def make(self, input_size: int, obs_size: int) -> Features:
        return fourier(input_size, self.number, self.bandwidth)


def fourier(input_size: int, num_features: int, bandwidth: Scalar) -> Features[FeatureState]:
    """φ(x) = [cos Wx̂, sin Wx̂]/√(D/2), so that E φ(x)ᵀφ(y) = exp(−‖x̂−ŷ‖²/(2h²)) and ‖φ‖ = 1.

    h² = ``bandwidth``²·E‖x̂‖²: two draws of the data have squared distance 2E‖x̂‖² on average and
    so a kernel of about exp(−1/bandwidth²), whatever the dimension (and for one-hot states too).
    """
    half = num_features // 2

    def init(key: Key[Array, ""]) -> FeatureState:
        return _start(jax.random.normal(key, (input_size, half)), input_size)

    def apply(state: FeatureState, x: Float[Array, "*B D"]) -> Float[Array, "*B P"]:
        h = bandwidth * jnp.sqrt(state.norm.mean[0])
        phase = normalize(state.inputs, x, CLIP) @ state.weights / h
        return jnp.concatenate([jnp.cos(phase), jnp.sin(phase)], axis=-1) / jnp.sqrt(half)

    return Features(2 * half, init, _observe, apply)


@FeatureOptions.kinds.add
@options
class RandomNetwork(FeatureOptions):
    """The last hidden layer of a frozen random network."""

    kind: ClassVar[str] = "network"
    number: Annotated[EvenInt, Short("num_features")] = 256
    """Number of features."""

    def make(self, input_size: int, obs_size: int) -> Features:
        return network(input_size, self.number)


def network(input_size: int, num_features: int) -> Features[FeatureState]:
    """The last hidden layer of a frozen random network, relu(W[x̂, 1]) / its norm: ‖φ‖ = 1.

    An arc-cosine kernel (Cho and Saul 2009): smoother than the Gaussian one and without its
    bandwidth; the 1 keeps inputs apart that differ in length only.
    """

    def init(key: Key[Array, ""]) -> FeatureState:
        return _start(jax.random.normal(key, (input_size + 1, num_features)), input_size)

    def apply(state: FeatureState, x: Float[Array, "*B D"]) -> Float[Array, "*B P"]:
        x = normalize(state.inputs, x, CLIP) / jnp.sqrt(state.norm.mean[0])
        hidden = jax.nn.relu(x @ state.weights[:-1] + lift(state.weights[-1], x))
        return hidden / jnp.maximum(jnp.linalg.norm(hidden, axis=-1, keepdims=True), 1e-6)

    return Features(num_features, init, _observe, apply)


@FeatureOptions.kinds.add
@options
class Product(FeatureOptions):
    """s ⊗ a, which is exact for finite tasks."""

    kind: ClassVar[str] = "product"

    def make(self, input_size: int, obs_size: int) -> Features:
        return product(obs_size, input_size - obs_size)


def product(obs_size: int, action_size: int) -> Features[tuple[()]]:
    """φ(s, a) = s ⊗ a over its norm: for one-hot states and actions, the class of all functions.

    Σ counts the visits of every pair, and no pair becomes known through another one. A kernel with
    fewer features than a finite task has pairs runs out of directions.
    """

    def init(key: Key[Array, ""]) -> tuple[()]:
        return ()

    def observe(state: tuple[()], x: Float[Array, "M D"], valid: Bool[Array, " M"]) -> tuple[()]:
        return state

    def apply(state: tuple[()], x: Float[Array, "*B D"]) -> Float[Array, "*B P"]:
        s, a = x[..., :obs_size], x[..., obs_size:]
        phi = (s[..., :, None] * a[..., None, :]).reshape(*x.shape[:-1], -1) if action_size else s
        return phi / jnp.maximum(jnp.linalg.norm(phi, axis=-1, keepdims=True), 1e-6)

    size = obs_size * max(action_size, 1)
    return Features(size, init, observe, apply)
