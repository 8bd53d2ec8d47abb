"""Environments: a point that must find its way through a maze; only the goal pays.

The point has a mass: an action pushes it, and drag slows it down. Lengths are in cells. ``move`` is
written once, for NumPy here and for `jax.numpy` on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from lpo.envs.draw import Canvas

KEEP, PUSH = 0.9, 0.05  # v ← .9 v + .05 a, so that speeds stay below half a cell a step
MARGIN = 0.1  # how close the point comes to a wall
REACH = 0.5  # how close to its goal is there
SPREAD = 0.25  # of the start around the middle of its cell


@dataclass(frozen=True)
class Maze:
    """A drawing of cells: # wall, S start, G goal; its last line is y = 0."""

    rows: tuple[str, ...]

    @cached_property
    def walls(self) -> np.ndarray:
        """Whether a cell [y, x] is a wall."""
        return np.array([[cell == "#" for cell in row] for row in reversed(self.rows)])

    @cached_property
    def start(self) -> np.ndarray:
        return self._middle("S")

    @cached_property
    def goal(self) -> np.ndarray:
        return self._middle("G")

    def _middle(self, mark: str) -> np.ndarray:
        y, x = next((y, row.index(mark)) for y, row in enumerate(self.rows[::-1]) if mark in row)
        return np.array([x + 0.5, y + 0.5], np.float32)


SMALL = Maze(
    (
        "#######",
        "#....G#",
        "#.#####",
        "#.....#",
        "#####.#",
        "#S....#",
        "#######",
    )
)
LARGE = Maze(
    (
        "###########",
        "#.......#G#",
        "#.#####.#.#",
        "#.#...#...#",
        "#.#.#.#####",
        "#...#.....#",
        "###.#####.#",
        "#S..#.....#",
        "###########",
    )
)


def move(xp: Any, walls: Any, state: Any, action: Any) -> Any:
    """Returns the state (x, y, v_x, v_y) after one step: first along x, then along y.

    ``xp`` is numpy or jax.numpy, ``walls`` [y, x] an array of it.
    """
    x, y = state[0], state[1]
    velocity = KEEP * state[2:] + PUSH * action
    row, column = _cell(xp, y), _cell(xp, x)
    x, v_x = _slide(xp, x, velocity[0], walls[row, column - 1], walls[row, column + 1])
    column = _cell(xp, x)
    y, v_y = _slide(xp, y, velocity[1], walls[row - 1, column], walls[row + 1, column])
    return xp.stack([x, y, v_x, v_y])


def at_goal(goal: Any, state: Any) -> Any:
    """Returns whether a state is within reach of the goal."""
    return ((state[:2] - goal) ** 2).sum() < REACH**2


def _cell(xp: Any, at: Any) -> Any:
    return xp.floor(at).astype(xp.int32)


def _slide(xp: Any, at: Any, speed: Any, wall_below: Any, wall_above: Any) -> tuple[Any, Any]:
    """Returns coordinate and speed after one step; a wall beside the cell stops the point."""
    cell, wanted = xp.floor(at), at + speed
    low = xp.where(wall_below, cell + MARGIN, cell - 1)
    high = xp.where(wall_above, cell + (1 - MARGIN), cell + 2)
    new = xp.clip(wanted, low, high)
    return new, xp.where(new == wanted, speed, 0.0)


class MazeEnv(gymnasium.Env):
    """A ``Maze`` as a Gymnasium environment."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 - Gymnasium's form

    def __init__(self, maze: Maze, render_mode: str | None = None):
        self.maze, self.render_mode = maze, render_mode
        height, width = maze.walls.shape
        high = np.array([width, height, 0.5, 0.5], np.float32)
        low = np.array([0.0, 0.0, -0.5, -0.5], np.float32)
        self.observation_space = spaces.Box(low, high, dtype=np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.state = np.zeros(4, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        place = self.maze.start + self.np_random.uniform(-SPREAD, SPREAD, 2)
        self.state = np.append(place, [0.0, 0.0]).astype(np.float32)
        return self.state.copy(), {}

    def step(self, action):
        pushed = np.clip(np.asarray(action, np.float32), -1.0, 1.0)
        self.state = move(np, self.maze.walls, self.state, pushed)
        reached = bool(at_goal(self.maze.goal, self.state))
        return self.state.copy(), float(reached), reached, False, {}

    def render(self) -> np.ndarray:
        """Returns the maze from above."""
        height, width = self.maze.walls.shape
        canvas = Canvas((0.0, width), (0.0, height), scale=32)
        for y, x in np.argwhere(self.maze.walls):
            canvas.box((x, y), (x + 1, y + 1), (70, 70, 80))
        canvas.disc(self.maze.goal, REACH, (120, 190, 120))
        canvas.disc(self.state[:2], 0.2, (200, 80, 60))
        return canvas.image


def make_small(render_mode: str | None = None) -> MazeEnv:
    """Returns the small maze without its time limit."""
    return MazeEnv(SMALL, render_mode)


def make_large(render_mode: str | None = None) -> MazeEnv:
    """Returns the large maze without its time limit."""
    return MazeEnv(LARGE, render_mode)
