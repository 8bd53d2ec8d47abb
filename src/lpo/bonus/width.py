"""ENIAC's trained width network, with an objective that has a minimum (Feng et al. 2021).

ENIAC's width is sup{|f(z) − f′(z)|} over pairs of functions that agree on the data. It trains a
network to be large on query points and small on the data: minimise −E_query w² + λ E_data w². This
objective has no lower bound where the network can tell a query from the data. The weights then grow
without end, and the scale of the bonus depends on the number of gradient steps
(experiments/figure2/unstable.py). This may be the instability that the paper reports (section 5)
and that made it use RND instead.

Here the width has targets. With queries from q and data from p,

    L(h) = [E_q (h − 1)² + κ E_p h²] / (1 + κ),     argmin h*(z) = q(z) / (q(z) + κ p(z)).

This is least squares towards 1 on queries and 0 on data. Its minimum lies between 0 and 1, and its
gradients are bounded. With κ = n/n₀ for n samples seen, h* = 1/(1 + n(z)/(n₀ q(z))), where
n(z) = n p(z) counts visits. This is the sensitivity of a table, 1/(1 + n(z)), softened by n₀ and
generalised by the network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lpo.bonus.base import Bonus, BonusPart
from lpo.bonus.shape import Shape, WidthOptions, shaped, width_metrics
from lpo.math.descent import Adam, descend
from lpo.math.features import CLIP
from lpo.math.minibatch import sweep
from lpo.math.nets import Net, apply_net, orthogonal_net
from lpo.math.normalize import Moments, init_moments, normalize, update_moments
from lpo.options import Axis, Count, Layers, Positive, PositiveInt, Rare, Short, options
from lpo.problem import Problem
from lpo.types import Rollout


@BonusPart.kinds.add
@options
class WidthNetwork(WidthOptions):
    """A trained width network (ENIAC's bonus)."""

    kind: ClassVar[str] = "width"
    learning_rate: Annotated[Axis[Positive], Short("predictor_learning_rate")] = 1e-4
    """Adam's step size for the width network."""
    passes: Annotated[Count, Short("predictor_passes")] = 1
    """Passes over each rollout when the width network is trained."""
    batch_size: Annotated[PositiveInt, Short("predictor_batch_size")] = 64
    """Minibatch size of the width network."""
    hidden: Annotated[Rare[Layers], Short("predictor_hidden")] = (64, 64)
    """Hidden layers of the width network (relu)."""

    def novelty(self, problem: Problem) -> Bonus:
        size, read = problem.reader(self.inputs)
        return width_network(
            size,
            read,
            shape=self.shape,
            threshold=self.threshold,
            gamma_ext=problem.gamma,
            prior=problem.rollout,
            learning_rate=self.learning_rate,
            passes=self.passes,
            batch_size=self.batch_size,
            hidden=self.hidden,
        )


class Reservoir(NamedTuple):
    """A uniform sample without replacement of everything seen."""

    rows: Array  # [R, D]
    priority: Array  # [R] random in [0, 1); −1: empty


def refill(reservoir: Reservoir, rows: Array, valid: Array, key: Array) -> Reservoir:
    """Gives every new row a random priority and keeps the R rows with the largest ones."""
    priority = jnp.where(valid, jax.random.uniform(key, valid.shape), -1.0)
    all_rows = jnp.concatenate([reservoir.rows, rows])
    top, index = jax.lax.top_k(
        jnp.concatenate([reservoir.priority, priority]), len(reservoir.priority)
    )
    return Reservoir(all_rows[index], top)


class WidthState(NamedTuple):
    net: Net  # h
    opt: Any
    inputs: Moments
    data: Reservoir  # p
    seen: Array  # [] n, samples so far


def width_loss(net: Net, queries: Array, data: Array, kappa: Array) -> Array:
    """Returns [E_q (h − 1)² + κ E_p h²] / (1 + κ), which is at most 1 for h in [0, 1]."""
    h = lambda x: apply_net(net, x, jax.nn.relu)[..., 0]  # noqa: E731
    return (((h(queries) - 1) ** 2).mean() + kappa * (h(data) ** 2).mean()) / (1 + kappa)


def queries_from(reservoir: Reservoir, filled: Array, fresh: Array, key: Array) -> Array:
    """Returns query points: half are new data, half mix the coordinates of different past samples.

    The second half are points that the agent could visit and perhaps has not.
    """
    half, columns = len(fresh) // 2, jnp.arange(fresh.shape[1])
    at = jax.random.randint(key, (len(fresh) - half, fresh.shape[1]), 0, filled)
    return jnp.concatenate([fresh[:half], reservoir.rows[at, columns]])


def unknown_everywhere(key: Array, sizes: tuple[int, ...]) -> Net:
    """Returns a network with h ≈ 1: before any data nothing is known."""
    net = orthogonal_net(key, sizes, float(np.sqrt(2)), 0.01)
    return (*net[:-1], net[-1]._replace(b=jnp.ones(1)))


def width_network(
    size: int,
    read: Callable,
    *,
    shape: Shape,
    threshold: float,
    gamma_ext: float,
    prior: int,
    learning_rate: float,
    passes: int,
    batch_size: int,
    hidden: tuple[int, ...],
    capacity: int = 4096,
) -> Bonus:
    """Returns the bonus: ``shape`` of the width h.

    ``prior`` is n₀ in samples, ``capacity`` the number of samples that stand for p.
    """
    adam = Adam(learning_rate, eps=1e-5)

    def init(key: Array) -> WidthState:
        net = unknown_everywhere(key, (size, *hidden, 1))
        return WidthState(
            net=net,
            opt=adam.optim().init(net),  # pyright: ignore[reportArgumentType]
            inputs=init_moments(size),
            data=Reservoir(jnp.zeros((capacity, size)), jnp.full(capacity, -1.0, jnp.float32)),
            seen=jnp.float32(0),
        )

    def score(state: WidthState, rollout: Rollout):
        x, valid = read(rollout), rollout.valid
        inputs = update_moments(state.inputs, x.reshape(-1, size), valid.reshape(-1))
        h = apply_net(state.net, normalize(inputs, x, CLIP), jax.nn.relu)[..., 0]
        w = jnp.clip(h, 0.0, 1.0)
        b = shaped(shape, w, threshold, gamma_ext) * valid
        return b[None], state._replace(inputs=inputs), width_metrics(w, threshold, valid)

    def update(state: WidthState, rollout: Rollout, key: Array):
        key_data, key_order, key_draw = jax.random.split(key, 3)
        rows, valid = read(rollout).reshape(-1, size), rollout.valid.reshape(-1)
        data = refill(state.data, rows, valid, key_data)
        filled = jnp.maximum((data.priority >= 0).sum(), 1)
        seen = state.seen + valid.sum()
        kappa = seen / prior

        def step(carry, fresh):
            net, opt, count = carry
            key_query, key_rows = jax.random.split(jax.random.fold_in(key_draw, count))
            at = jax.random.randint(key_rows, (batch_size,), 0, filled)
            queries = queries_from(data, filled, fresh, key_query)
            seen_as = lambda x: normalize(state.inputs, x, CLIP)  # noqa: E731
            error, grads = jax.value_and_grad(width_loss)(
                net, seen_as(queries), seen_as(data.rows[at]), kappa
            )
            return (*descend(adam, net, opt, grads), count + 1), error

        start = (state.net, state.opt, jnp.int32(0))
        (net, opt, _), error = sweep(step, start, rows, valid, key_order, passes, batch_size)
        state = state._replace(net=net, opt=opt, data=data, seen=seen)
        return state, {"bonus/predictor_loss": error}

    return Bonus(1, init, score, update)
