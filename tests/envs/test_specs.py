"""The declared tasks: published constants, strict thresholds, refused options."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from lpo.envs import describe
from lpo.envs.sparse import GoalReward, ThresholdReward
from lpo.envs.specs import (
    HALF_CHEETAH,
    HOPPER,
    LOCOMOTION,
    MOUNTAIN_CAR,
    WALKER2D,
    Threshold,
    declared,
)
from lpo.errors import LPOError


@pytest.mark.parametrize(
    ("task", "half", "hard", "position", "far"),
    [
        (HOPPER, 0.7402, 1.1103, 1.0, 2.0),
        (WALKER2D, 2.3415, 3.51225, 1.0, 2.0),
        (HALF_CHEETAH, 3.2096, 4.8144, 5.0, 20.0),
    ],
)
def test_presets(task, half, hard, position, far):
    assert task.threshold() == Threshold("half", "x_velocity", half)
    assert task.threshold("half").value == half
    assert task.threshold("hard") == Threshold("hard", "x_velocity", hard)
    assert task.threshold("unit") == Threshold("unit", "x_velocity", 1.0)
    assert task.threshold("position") == Threshold("position", "x_position", position)
    assert task.threshold("position-far") == Threshold("position-far", "x_position", far)
    assert task.threshold(threshold=0.25) == Threshold("custom", "x_velocity", 0.25)
    assert hard == pytest.approx(1.5 * half)


@pytest.mark.parametrize("task", LOCOMOTION.values(), ids=lambda task: task.id)
def test_specs_agree_with_gymnasium(task):
    """The numbers copied from Gymnasium's classes are still theirs."""
    with gymnasium.make(task.base_id) as env:
        base: Any = env.unwrapped
        assert env.spec is not None
        assert env.observation_space.shape == (task.projection.obs_size,)
        assert base.fullpath.endswith(task.xml)
        assert base.frame_skip == task.frame_skip
        assert env.spec.max_episode_steps == task.horizon
        assert base._reset_noise_scale == task.reset_noise
        assert getattr(base, "_healthy_z_range", None) == task.healthy_z
        assert getattr(base, "_healthy_angle_range", None) == task.healthy_angle
        limit = task.healthy_state
        expected = None if limit is None else (-limit, limit)
        assert getattr(base, "_healthy_state_range", None) == expected


@pytest.mark.parametrize(
    "env_id", ["dm_control/cartpole-swingup_sparse-v0", "dm_control/ball_in_cup-catch-v0"]
)
def test_the_control_suite_counts_from_0_to_its_1000_steps(env_id):
    known = {"min_return": 0.0, "max_return": 1000.0, "horizon": 1000}
    assert declared(env_id, (5,), None) == known


@pytest.mark.parametrize(
    "env_id", ["dm_control/lqr-lqr_2_1-v0", "dm_control/stack_2_bricks-v0", "other/a-b-v0"]
)
def test_other_tasks_have_no_range(env_id):
    assert declared(env_id, (5,), None) == {}


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"preset": "halff"}, "choose one of half, hard, unit, position, position-far"),
        ({"preset": "half", "threshold": 1.0}, "pass one of them"),
        ({"threshold": float("nan")}, "pass a finite velocity"),
        ({"threshold": "fast"}, "pass a finite velocity"),
        ({"threshold": True}, "pass a finite velocity"),
    ],
)
def test_bad_thresholds(options, remedy):
    with pytest.raises(LPOError, match=remedy):
        HOPPER.threshold(**options)


class Scripted(gymnasium.Env):
    """Plays back a list of (x_velocity, x_position, terminated)."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(1)

    def __init__(self, script):
        self.script = iter(script)

    def step(self, action):
        velocity, position, terminated = next(self.script)
        info = {"x_velocity": velocity, "x_position": position}
        return np.zeros(1), -7.0, terminated, False, info


def rewards(env, steps):
    return [env.step(0)[1] for _ in range(steps)]


def test_threshold_is_strict_and_replaces_the_dense_reward():
    above = np.nextafter(0.5, 1.0)
    script = [(0.5, 9.0, False), (above, 9.0, False), (-3.0, 9.0, False), (7.0, 9.0, True)]
    env = ThresholdReward(Scripted(script), Threshold("custom", "x_velocity", 0.5))
    assert rewards(env, 4) == [0.0, 1.0, 0.0, 1.0]
    script = [(9.0, 1.0, False), (-9.0, 1.25, False)]
    env = ThresholdReward(Scripted(script), Threshold("position", "x_position", 1.0))
    assert rewards(env, 2) == [0.0, 1.0]


def test_goal_reward_is_paid_at_the_goal_only():
    script = [(0.0, 0.0, False), (0.0, 0.0, True)]
    assert rewards(GoalReward(Scripted(script), 100.0), 2) == [0.0, 100.0]


def test_describe_lists_every_task():
    rows = {row["id"]: row for row in describe()}
    others = {"lpo/SparseMountainCarContinuous-v0", "lpo/DeepSea-v0", "lpo/CombinationLock-v0"}
    control = {"lpo/PointMaze-v0", "lpo/PointMazeLarge-v0", "lpo/SwingUp-v0"}
    assert set(rows) == {*LOCOMOTION, *others, *control}
    assert rows["lpo/SparseHopper-v0"]["presets"]["half"] == "x_velocity > 0.7402 m/s"
    assert rows["lpo/SparseMountainCarContinuous-v0"]["reward"] == "100 at the goal, else 0"


@pytest.mark.parametrize("task", LOCOMOTION.values(), ids=lambda task: task.id)
def test_projections_show_the_coordinates_they_name(task):
    """Set one coordinate of the body; the observation shows it at the declared index."""
    joint = {"height": "rootz", "pitch": "rooty"}
    velocity, position = task.projection.axes
    with gymnasium.make(task.base_id) as env:
        body: Any = env.unwrapped
        body.reset()
        qpos, qvel = np.zeros(body.model.nq), np.zeros(body.model.nv)
        qvel[body.model.joint("rootx").dofadr] = 0.25
        qpos[body.model.joint(joint[position.name]).qposadr] = 0.5
        body.set_state(qpos, qvel)
        expected = np.zeros(task.projection.obs_size)
        expected[velocity.index], expected[position.index] = 0.25, 0.5
        assert np.array_equal(body._get_obs(), expected)


def test_mountain_car_shows_position_and_velocity():
    with gymnasium.make(MOUNTAIN_CAR.base_id) as env:
        space = env.observation_space
        assert isinstance(space, gymnasium.spaces.Box)
        for axis in MOUNTAIN_CAR.projection.axes:
            low, high = space.low[axis.index], space.high[axis.index]
            assert (np.float32(axis.low), np.float32(axis.high)) == (low, high)


def test_success_returns():
    """Half of the largest return of 1000 steps; the goal of the mountain car."""
    assert {task.success_return for task in LOCOMOTION.values()} == {500.0}
    assert MOUNTAIN_CAR.success_return == 100.0


def test_specs_are_frozen():
    with pytest.raises(AttributeError):
        HOPPER.horizon = 10  # type: ignore[misc]
    with pytest.raises(TypeError):
        HOPPER.presets["half"] = HOPPER.presets["hard"]  # type: ignore[index]
