"""An encoder that keeps what the agent controls: trained to tell which action led from s to s′.

Pathak et al. (2017). E3B measures the sensitivity of an episode over it, ICM predicts in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lpo.math.descent import Adam, descend
from lpo.math.features import CLIP
from lpo.math.minibatch import sweep
from lpo.math.nets import Net, apply_net, orthogonal_net
from lpo.math.normalize import Moments, init_moments, normalize, update_moments
from lpo.problem import Problem
from lpo.types import Rollout

HIDDEN = 64
FORWARD_SHARE = 0.2  # of the loss, as in ICM


class InverseState(NamedTuple):
    encoder: Net  # e
    inverse: Net  # (e(s), e(s′)) → outputs of a distribution over actions
    forward: Net  # (e(s), a) → e(s′)
    opt: Any
    inputs: Moments  # of observations, clipped to ±5


class InverseModel(NamedTuple):
    """``encode(state, obs)`` is e [..., D]; ``error(state, rollout)`` is ½‖f(e(s), a) − e(s′)‖²."""

    init: Callable[[Array], InverseState]
    observe: Callable[[InverseState, Rollout], InverseState]
    encode: Callable[[InverseState, Array], Array]
    error: Callable[[InverseState, Rollout], Array]
    update: Callable[[InverseState, Rollout, Array], tuple[InverseState, dict[str, Array]]]


def inverse_model(
    problem: Problem, size: int, learning_rate: Any, batch_size: int = 256
) -> InverseModel:
    """Returns the model with an encoder of ``size`` numbers."""
    dist, adam, gain = problem.dist, Adam(learning_rate, eps=1e-5), float(np.sqrt(2))
    actions, (numbers, read) = dist.num_outputs, problem.plain

    def init(key: Array) -> InverseState:
        keys = jax.random.split(key, 3)
        sizes = (numbers, size), (2 * size, actions), (size + actions, size)
        nets = [
            orthogonal_net(k, (i, HIDDEN, o), gain, 1.0)
            for k, (i, o) in zip(keys, sizes, strict=True)
        ]
        opt = adam.optim().init(tuple(nets))  # pyright: ignore[reportArgumentType]
        return InverseState(nets[0], nets[1], nets[2], opt, init_moments(numbers))

    def observe(state: InverseState, rollout: Rollout) -> InverseState:
        x = read(rollout.next_obs).reshape(-1, numbers)
        return state._replace(inputs=update_moments(state.inputs, x, rollout.valid.reshape(-1)))

    def seen(state: InverseState, obs: Array) -> Array:
        return normalize(state.inputs, read(obs), CLIP)

    def encode(state: InverseState, obs: Array) -> Array:
        return apply_net(state.encoder, seen(state, obs), jax.nn.relu)

    def predicted(forward: Net, here: Array, action: Array) -> Array:
        return apply_net(forward, jnp.concatenate([here, dist.features(action)], -1), jax.nn.relu)

    def error(state: InverseState, rollout: Rollout) -> Array:
        here, there = encode(state, rollout.obs), encode(state, rollout.next_obs)
        return 0.5 * ((predicted(state.forward, here, rollout.action) - there) ** 2).sum(-1)

    def loss(nets: tuple[Net, Net, Net], x: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        encoder, inverse, forward = nets
        here, there = (apply_net(encoder, obs, jax.nn.relu) for obs in x[:2])
        outputs = apply_net(inverse, jnp.concatenate([here, there], -1), jax.nn.relu)
        missed = -dist.log_prob(outputs, jnp.zeros(dist.num_log_std), x[2]).mean()
        far = 0.5 * ((predicted(forward, here, x[2]) - there) ** 2).sum(-1).mean()
        return (1 - FORWARD_SHARE) * missed + FORWARD_SHARE * far, missed

    def update(state: InverseState, rollout: Rollout, key: Array):
        rows = lambda x: x.reshape(-1, x.shape[-1])  # noqa: E731
        data = tuple(rows(seen(state, x)) for x in (rollout.obs, rollout.next_obs))
        data = (*data, rows(rollout.action))

        def step(carry: Any, minibatch: Any) -> tuple[Any, Array]:
            nets, opt = carry
            (_, missed), grads = jax.value_and_grad(loss, has_aux=True)(nets, minibatch)
            return descend(adam, nets, opt, grads), missed

        start = ((state.encoder, state.inverse, state.forward), state.opt)
        valid = rollout.valid.reshape(-1)
        ((encoder, inverse, forward), opt), missed = sweep(
            step, start, data, valid, key, 1, batch_size
        )
        state = InverseState(encoder, inverse, forward, opt, state.inputs)
        return state, {"bonus/inverse_loss": missed}

    return InverseModel(init, observe, encode, error, update)
