"""Device environments: the point mazes of ``lpo.envs.maze``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from lpo.envs.device.base import Transition
from lpo.envs.device.describe import describe
from lpo.envs.maze import LARGE, SMALL, SPREAD, Maze, at_goal, move
from lpo.envs.specs import LARGE_MAZE, MAZE, SparseControl
from lpo.math.distributions import ActionSpec


@dataclass(frozen=True)
class PointMaze:
    """A maze; the state is the observation (x, y, v_x, v_y)."""

    task: SparseControl
    maze: Maze

    obs_size = 4
    action = ActionSpec((-1.0, -1.0), (1.0, 1.0))

    @property
    def horizon(self) -> int:
        return self.task.horizon

    @property
    def params(self) -> dict[str, Any]:
        return {}

    @property
    def description(self) -> dict[str, Any]:
        return describe(self.task.id, self.obs_size, {})

    def reset(self, key: Array, params: dict[str, Any]) -> tuple[Array, Float[Array, " 4"]]:
        offset = jax.random.uniform(key, (2,), minval=-SPREAD, maxval=SPREAD)
        state = jnp.concatenate([jnp.asarray(self.maze.start) + offset, jnp.zeros(2)])
        return state, state

    def step(
        self, state: Array, action: Float[Array, " 2"], key: Array, params: dict[str, Any]
    ) -> Transition:
        state = move(jnp, jnp.asarray(self.maze.walls), state, action)
        reached = at_goal(jnp.asarray(self.maze.goal), state)
        return Transition(state, state, reached.astype(jnp.float32), reached)


def small_maze() -> PointMaze:
    """Returns a maze with one winding way."""
    return PointMaze(MAZE, SMALL)


def large_maze() -> PointMaze:
    """Returns a longer maze with dead ends."""
    return PointMaze(LARGE_MAZE, LARGE)
