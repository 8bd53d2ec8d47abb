"""A bonus, a switch and a row in one file: counts of hashed states, a change on any reward."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lpo.algorithms import ALGORITHMS, BONUSES, SWITCHES, Algorithm, Part
from lpo.bonus import Bonus
from lpo.switch import Switch


class CountState(NamedTuple):
    planes: Array  # [O, bits] random, fixed: which side of each a state lies on names its cell
    counts: Array  # [2^bits] visits of every cell


def counts(obs_size: int, bits: int = 10) -> Bonus:
    """b = 1/√(1 + n(s′)), n the visits of the cell of s′ before this rollout."""

    def cell(state: CountState, rollout) -> Array:
        return (rollout.next_obs @ state.planes > 0) @ (2 ** jnp.arange(bits))

    def init(key: Array) -> CountState:
        return CountState(jax.random.normal(key, (obs_size, bits)), jnp.zeros(2**bits))

    def score(state: CountState, rollout):
        b = rollout.valid / jnp.sqrt(1 + state.counts[cell(state, rollout)])
        mean = b.sum() / jnp.maximum(rollout.valid.sum(), 1)
        return b[None], state, {"bonus/mean": mean}

    def update(state: CountState, rollout, key: Array):
        seen = state.counts.at[cell(state, rollout)].add(rollout.valid)
        return state._replace(counts=seen), {"bonus/cells": (seen > 0).sum()}

    return Bonus(1, init, score, update)


class Seen(NamedTuple):
    steps: Array  # since the last change


def on_reward(look_every: int, largest: int) -> Switch:
    """Change the policy as soon as there is a reward, at the latest after ``largest`` steps."""

    def update(state: Seen, look):
        fresh = slice(look.rows.start, look.rows.stop)
        found = (look.rollout.reward[fresh] > 0).any()
        steps = state.steps + look.rollout.valid[fresh].size
        fire = found | (steps >= largest)
        return fire, Seen(jnp.where(fire, 0, steps)), {"switch/found": jnp.float32(found)}

    return Switch(largest, lambda key: Seen(jnp.int32(0)), lambda state: look_every, update)


BONUSES["counts"] = Part(lambda c, problem, row: counts(problem.obs_size), ("bonus",))
SWITCHES["on-reward"] = Part(lambda c, problem, row: on_reward(c.rollout // 4, c.rollout))
ALGORITHMS["counts"] = Algorithm("counts of s′, a change on reward", "counts", "on-reward")
