"""The point mazes, worked by hand."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from lpo.envs import make_batch
from lpo.envs.maze import LARGE, SMALL, make_large, make_small
from lpo.envs.specs import LARGE_MAZE, MAZE

# Middles of the cells where the way to the goal turns, read off the drawings.
WAYS = {
    MAZE.id: [(5, 1), (5, 3), (1, 3), (1, 5), (5, 5)],
    LARGE_MAZE.id: [(3, 1), (3, 3), (1, 3), (1, 7), (7, 7), (7, 5), (9, 5), (9, 7)],
}


def at(env, x, y, v_x=0.0, v_y=0.0):
    env.state = np.array([x, y, v_x, v_y], np.float32)
    return env


def push(env, x, y):
    return env.step(np.array([x, y], np.float32))


def test_push_and_drag_by_hand():
    """v ← .9 v + .05 a, then x ← x + v."""
    env = at(make_small(), 2.2, 1.5, 0.2, 0.0)
    obs, reward, terminated, truncated, _ = push(env, 1.0, -0.5)
    np.testing.assert_allclose(obs, [2.2 + 0.23, 1.5 - 0.025, 0.23, -0.025], rtol=1e-6)
    assert (reward, terminated, truncated) == (0.0, False, False)


def test_a_long_push_nears_half_a_cell_a_step():
    """.05 / (1 − .9) is the speed that drag and push keep."""
    env = at(make_small(), 1.2, 1.5)
    speeds = [push(env, 1.0, 0.0)[0][2] for _ in range(10)]
    np.testing.assert_allclose(speeds, 0.5 * (1 - 0.9 ** np.arange(1, 11)), rtol=1e-5)


def test_walls_stop_the_point_a_tenth_of_a_cell_before_them():
    env = at(make_small(), 5.7, 1.5, 0.4, 0.1)
    obs, *_ = push(env, 1.0, 0.0)
    np.testing.assert_allclose(obs, [5.9, 1.59, 0.0, 0.09], rtol=1e-6)  # y goes on
    obs, *_ = push(at(env, 2.5, 1.3, 0.0, -0.4), 0.0, -1.0)
    np.testing.assert_allclose(obs, [2.5, 1.1, 0.0, 0.0], rtol=1e-6)
    obs, *_ = push(at(env, 2.5, 1.8, 0.0, 0.4), 0.0, 1.0)  # the wall above the first corridor
    np.testing.assert_allclose(obs, [2.5, 1.9, 0.0, 0.0], rtol=1e-6)


def test_the_goal_pays_once_and_ends():
    """The middle of the goal's cell is (5.5, 5.5); half a cell is there."""
    env = at(make_small(), 4.9, 5.5, 0.05, 0.0)
    assert push(env, 0.0, 0.0)[1:3] == (0.0, False)  # at 4.945
    assert push(at(env, 4.9, 5.5, 0.15, 0.0), 0.0, 0.0)[1:3] == (1.0, True)  # at 5.035


@pytest.mark.parametrize("make", [make_small, make_large])
def test_nothing_passes_a_wall(make):
    env, rng = make(), np.random.default_rng(0)
    env.reset(seed=0)
    pushes = np.repeat(rng.uniform(-1, 1, (400, 2)), 8, axis=0)  # kept up for 8 steps
    for action in pushes:
        (x, y, *_), *_ = push(env, *action)
        assert not env.maze.walls[int(y), int(x)]
        assert np.all(np.abs(env.state[2:]) <= 0.5)


def steer(obs, target):
    """A push towards ``target`` that brakes on the way."""
    return np.clip(2.0 * (target - obs[:2]) - 4.0 * obs[2:], -1, 1).astype(np.float32)


@pytest.mark.parametrize("task", [MAZE, LARGE_MAZE], ids=lambda task: task.id)
def test_the_way_on_the_drawing_leads_to_the_goal_in_half_the_time(task):
    with gymnasium.make(task.id) as env:
        obs, _ = env.reset(seed=1)
        way = [np.array(cell) + 0.5 for cell in WAYS[task.id]]
        reward, terminated, truncated = 0.0, False, False
        for _ in range(task.horizon // 2):
            if len(way) > 1 and np.abs(obs[:2] - way[0]).max() < 0.3:
                way.pop(0)
            obs, reward, terminated, truncated, _ = env.step(steer(obs, way[0]))
            if terminated:
                break
        assert (reward, terminated, truncated) == (1.0, True, False)


@pytest.mark.parametrize("task", [MAZE, LARGE_MAZE], ids=lambda task: task.id)
def test_the_declaration_fits_the_drawing(task):
    x, y = task.projection.axes
    maze = {MAZE.id: SMALL, LARGE_MAZE.id: LARGE}[task.id]
    assert (y.high, x.high) == maze.walls.shape
    batch = make_batch(task.id, 1)
    assert {"max_return": 1.0, "success_return": 1.0} | batch.description == batch.description
    assert [axis["name"] for axis in batch.description["projection"]] == ["x", "y"]


@pytest.mark.parametrize("task", [MAZE, LARGE_MAZE], ids=lambda task: task.id)
def test_gymnasium_finds_no_fault_and_the_image_shows_the_point(task):
    with gymnasium.make(task.id, render_mode="rgb_array") as env:
        check_env(env.unwrapped, skip_render_check=True)
        env.reset(seed=0)
        image = env.render()
        assert isinstance(image, np.ndarray)
        x, y = env.unwrapped.state[:2] * 32  # type: ignore[attr-defined]
        assert tuple(image[image.shape[0] - 1 - int(y), int(x)]) == (200, 80, 60)
