"""Is a width network trained without a target stable? ENIAC's kind of objective beside ours.

    python experiments/figure2/unstable.py

All train the same network from the same weights on the same minibatches. The data are 4,096
state-action pairs of uniformly random play in MountainCarContinuous; queries are drawn as
`eniac-original` draws them. Prints the largest |w| on queries after 10² to 10⁵ steps of Adam, 10⁻³.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax

from lpo.bonus.width import Reservoir, queries_from, unknown_everywhere, width_loss
from lpo.math.nets import apply_net

ROWS, BATCH, HIDDEN = 4096, 64, (64, 64)  # those of eniac-original
STEPS = (100, 1_000, 10_000, 100_000)


def unbounded(weight: float) -> Callable:
    """−E_query w² + λ E_data w², without a minimum where queries can be told from data."""

    def loss(net, queries, data):
        w = lambda x: apply_net(net, x, jax.nn.relu)[..., 0]  # noqa: E731
        return -(w(queries) ** 2).mean() + weight * (w(data) ** 2).mean()

    return loss


OBJECTIVES = {
    "−E_q w² + E_p w²": unbounded(1.0),
    "−E_q w² + 10 E_p w²": unbounded(10.0),
    "ours, κ = 1": lambda net, queries, data: width_loss(net, queries, data, jnp.float32(1)),
}


def play() -> jax.Array:
    """Rows (s,a) of random play, each coordinate of mean 0 and deviation 1."""
    env = gymnasium.make("MountainCarContinuous-v0")
    env.action_space.seed(0)
    observation, _ = env.reset(seed=0)
    rows = []
    for _ in range(ROWS):
        action = env.action_space.sample()
        rows.append(np.concatenate([observation, action]))
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            observation, _ = env.reset()
    table = np.array(rows)
    return jnp.asarray((table - table.mean(0)) / table.std(0), jnp.float32)


def widths(loss: Callable, data: jax.Array) -> Iterator[float]:
    """The largest |w| on 4,096 queries at each of STEPS."""
    net = unknown_everywhere(jax.random.key(0), (data.shape[1], *HIDDEN, 1))
    optim = optax.adam(1e-3, eps=1e-5)
    draw = partial(queries_from, Reservoir(data, jnp.zeros(ROWS)), jnp.int32(ROWS))

    def step(i, carry):
        net, opt = carry
        keys = jax.random.split(jax.random.fold_in(jax.random.key(1), i), 3)
        fresh, rows = (data[jax.random.randint(key, (BATCH,), 0, ROWS)] for key in keys[:2])
        updates, opt = optim.update(jax.grad(loss)(net, draw(fresh, keys[2]), rows), opt)
        return optax.apply_updates(net, updates), opt

    train = jax.jit(lambda start, end, carry: jax.lax.fori_loop(start, end, step, carry))
    queries, carry = draw(data, jax.random.key(2)), (net, optim.init(net))
    for start, end in pairwise((0, *STEPS)):
        carry = train(start, end, carry)
        yield float(jnp.abs(apply_net(carry[0], queries, jax.nn.relu)).max())


def table() -> str:
    data = play()
    head = ("objective", *(f"{steps:,} steps" for steps in STEPS))
    lines = [head, ["---"] * len(head)]
    lines += [(name, *(f"{w:.2g}" for w in widths(f, data))) for name, f in OBJECTIVES.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    print(table(), end="")
