"""A policy gradient in plain JAX with lpo's bonus, on a corridor whose far end alone pays.

python docs/beside/loop_jax.py
"""

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from lpo.explorer import Explorer

ENVS, STEPS, LENGTH, RATE = 8, 128, 32, 10.0  # an episode has 2 × 32 steps
PLACES = jnp.eye(LENGTH)


def step(state, key, logits):
    """One step of every environment, to the left or to the right; the far end ends the episode."""
    place, clock = state
    action = jax.random.categorical(key, logits[place])
    there = jnp.clip(place + 2 * action - 1, 0, LENGTH - 1)
    terminated = there == LENGTH - 1
    truncated = (clock + 1 == 2 * LENGTH) & ~terminated
    row = {
        "obs": PLACES[place], "action": action, "reward": terminated * 1.0,
        "next_obs": PLACES[there], "terminated": terminated, "truncated": truncated,
    }  # fmt: skip
    ended = terminated | truncated
    return (jnp.where(ended, 0, there), jnp.where(ended, 0, clock + 1)), row


@jax.jit
def collect(state, key, logits):
    return jax.lax.scan(lambda s, k: step(s, k, logits), state, jax.random.split(key, STEPS))


@jax.jit
def improve(logits, obs, action, advantage):
    def objective(logits):
        log_pi = jax.nn.log_softmax(obs @ logits)
        return (jnp.take_along_axis(log_pi, action[..., None], -1)[..., 0] * advantage).mean()

    return logits + RATE * jax.grad(objective)(logits)


def train(changes, seed=0, **options):
    """Yields the number of rewards of each rollout."""
    box, moves = spaces.Box(0.0, 1.0, (LENGTH,)), spaces.Discrete(2)
    explorer = Explorer(box, moves, ENVS, horizon=2 * LENGTH, seed=seed, **options)
    logits, state = jnp.zeros((LENGTH, 2)), (jnp.zeros(ENVS, int), jnp.zeros(ENVS, int))
    for k in range(changes):
        key = jax.random.fold_in(jax.random.key(seed), k)
        state, rollout = collect(state, key, logits)
        found = explorer.advantages(**rollout, last_obs=PLACES[state[0]])
        explorer.update()
        a = found.advantage / (found.advantage.std() + 1e-8)
        logits = improve(logits, rollout["obs"], rollout["action"], jnp.asarray(a))
        yield int(rollout["reward"].sum())


if __name__ == "__main__":
    for bonus in ("rnd", "none"):
        print(bonus, list(train(60, bonus=bonus)))
    print("at best", ENVS * STEPS // (LENGTH - 1), np.array("rewards a rollout"))
