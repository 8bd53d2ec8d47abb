"""A bonus, a switch and a task of another package, in one file."""

from typing import Annotated, ClassVar, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lpo.bonus import Bonus, BonusOptions
from lpo.options import PositiveInt, Short, options
from lpo.problem import Problem
from lpo.switch import Look, Switch, SwitchOptions
from lpo.types import Rollout


@options
class Counts(BonusOptions):
    """b = 1/√(1 + n(s′)), n the visits of the cell of s′ before this rollout."""

    kind: ClassVar[str] = "counts"
    bits: Annotated[PositiveInt, Short("count_bits")] = 10
    """Bits of the hash that names the cell of a state."""

    def make(self, problem: Problem) -> Bonus:
        return counts(problem.obs_size, self.bits)


class CountState(NamedTuple):
    planes: Array  # [O, bits] random, fixed: which side of each a state lies on names its cell
    visits: Array  # [2^bits] visits of every cell


def counts(obs_size: int, bits: int) -> Bonus:
    def cell(state: CountState, rollout: Rollout) -> Array:
        return (rollout.next_obs @ state.planes > 0) @ (2 ** jnp.arange(bits))

    def init(key: Array) -> CountState:
        return CountState(jax.random.normal(key, (obs_size, bits)), jnp.zeros(2**bits))

    def score(state: CountState, rollout: Rollout):
        b = rollout.valid / jnp.sqrt(1 + state.visits[cell(state, rollout)])
        mean = b.sum() / jnp.maximum(rollout.valid.sum(), 1)
        return b[None], state, {"bonus/mean": mean}

    def update(state: CountState, rollout: Rollout, key: Array):
        visits = state.visits.at[cell(state, rollout)].add(rollout.valid)
        return state._replace(visits=visits), {"bonus/cells": (visits > 0).sum()}

    return Bonus(1, init, score, update)


@options
class OnReward(SwitchOptions):
    """A policy change as soon as there is a reward, at the latest after N steps."""

    kind: ClassVar[str] = "on-reward"

    def make(self, problem: Problem) -> Switch:
        return on_reward(self.rollout // 4, self.rollout)


class Seen(NamedTuple):
    steps: Array  # since the last change


def on_reward(look_every: int, largest: int) -> Switch:
    def update(state: Seen, look: Look):
        found = (look.new & (look.rollout.reward > 0)).any()
        steps = state.steps + look.steps
        fire = found | (steps >= largest)
        return fire, Seen(jnp.where(fire, 0, steps)), {"switch/found": jnp.float32(found)}

    return Switch(largest, lambda key: Seen(jnp.int32(0)), lambda state: look_every, update)


class Corridor(gymnasium.Env):
    """Ten cells in a row; reward 1 in the last one, which ends the episode."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.cell = max(self.cell + (1 if action == 1 else -1), 0)
        found = self.cell == 9
        return (
            np.array([self.cell / 9], np.float32),
            float(found),
            found,
            False,
            {"is_success": found},
        )


def register() -> None:
    gymnasium.register(
        "counts/Corridor-v0", entry_point=f"{__name__}:Corridor", max_episode_steps=40
    )
