"""Spaces: what is flattened to what, and what is refused with which remedy."""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from gymnasium.vector.utils import batch_space, iterate

from lpo.envs import make_batch
from lpo.envs.codec import Codec
from lpo.envs.faults import Misfit
from lpo.envs.host.episodes import episode_seed
from lpo.errors import LPOError

from .toys import Spaces

LINE = spaces.Box(-1.0, 1.0, (2,), np.float64)


def batch_of(observation_space: spaces.Space = LINE, action_space: spaces.Space = LINE):
    env = Spaces(observation_space, action_space)
    batch = make_batch(env, 1)
    batch.reset(0)
    return env, batch


@pytest.mark.parametrize(
    ("space", "size", "dtype"),
    [
        (LINE, 2, np.float64),
        (spaces.Box(0.0, 1.0, (2, 3), np.float32), 6, np.float32),
        (spaces.Box(0, 255, (4,), np.uint8), 4, np.float32),
        (spaces.Discrete(5, start=2), 5, np.float64),
        (spaces.MultiDiscrete([2, 3]), 5, np.float64),
        (spaces.MultiBinary(4), 4, np.float32),
        (spaces.Tuple((LINE, spaces.Discrete(3))), 5, np.float64),
        (spaces.Dict({"a": LINE, "b": spaces.Dict({"c": spaces.MultiBinary(2)})}), 4, np.float64),
    ],
)
def test_observations_are_flat(space, size, dtype):
    _, batch = batch_of(space)
    assert batch.observation_space.shape == (size,)
    assert batch.observation_space.dtype == dtype
    step = batch.step(np.zeros((1, 2)))
    assert step.obs.shape == (1, size)
    assert step.obs.dtype == dtype
    assert batch.observation_space.contains(step.obs[0])


def test_values_of_flat_observations():
    """Discrete becomes one-hot; dictionaries go in the order of their keys."""
    space = spaces.Dict({"b": LINE, "a": spaces.Discrete(3, start=1)})
    env, batch = batch_of(space)
    env.step = lambda action: ({"a": 2, "b": np.array([0.5, -0.5])}, 0.0, False, False, {})
    assert batch.step(np.zeros((1, 2))).obs.tolist() == [[0.0, 1.0, 0.0, 0.5, -0.5]]


@pytest.mark.parametrize(
    ("space", "flat", "action", "received"),
    [
        (LINE, LINE, [0.5, -0.5], np.array([0.5, -0.5])),
        (
            spaces.Box(-np.inf, np.inf, (2, 2), np.float32),
            spaces.Box(-np.inf, np.inf, (4,), np.float32),
            [1, 2, 3, 4],
            np.array([[1, 2], [3, 4]], np.float32),
        ),
        (spaces.Discrete(3), spaces.Discrete(3), 2, np.int64(2)),
        (spaces.Discrete(3, start=-1), spaces.Discrete(3), 0, np.int64(-1)),
        (
            spaces.MultiDiscrete(np.array([[2, 3], [4, 5]]), start=np.array([[0, 1], [2, 3]])),
            spaces.MultiDiscrete([2, 3, 4, 5]),
            [1, 2, 3, 4],
            np.array([[1, 3], [5, 7]]),
        ),
        (
            spaces.MultiBinary((2, 2)),
            spaces.MultiDiscrete([2, 2, 2, 2]),
            [0, 1, 1, 0],
            np.array([[0, 1], [1, 0]], np.int8),
        ),
    ],
)
def test_actions_reach_the_environment(space, flat, action, received):
    env, batch = batch_of(action_space=space)
    assert batch.action_space == flat
    batch.step(np.array([action]))
    assert np.array_equal(env.last, received)
    assert env.last.dtype == received.dtype
    assert space.contains(env.last)


def test_actions_reach_a_vector_environment():
    space = spaces.MultiDiscrete([2, 3], start=[0, 1])
    envs = [Spaces(LINE, space), Spaces(LINE, space)]
    vector = SyncVectorEnv([lambda: envs[0], lambda: envs[1]])
    batch = make_batch(vector, 2)
    batch.reset(0)
    batch.step(np.array([[0, 0], [1, 2]]))
    assert [env.last.tolist() for env in envs] == [[0, 1], [1, 3]]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Text(5), r"Text\(.*no vector form; wrap it"),
        (spaces.Sequence(LINE), r"Sequence\(.*no vector form; wrap it"),
        (spaces.Box(0.0, 1.0, (0,), np.float32), "is empty"),
    ],
)
def test_refused_observations(space, message):
    with pytest.raises(LPOError, match=message):
        make_batch(Spaces(space, LINE), 1)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Dict({"a": LINE}),
        spaces.Tuple((LINE, spaces.Discrete(2))),
        spaces.Box(0, 10, (2,), np.int64),
        spaces.Box(0.0, 1.0, (0,), np.float32),
        spaces.Text(3),
    ],
)
def test_refused_actions(space):
    with pytest.raises(LPOError, match="not supported; wrap it in a") as e:
        make_batch(Spaces(LINE, space), 1)
    assert str(space) in str(e.value)


KEY_CORRIDOR = "MiniGrid-KeyCorridorS3R3-v0"


def test_a_grid_is_one_hot():
    """Every cell, the direction and the mission; each read back is what MiniGrid observed."""
    pytest.importorskip("minigrid")
    batch = make_batch(KEY_CORRIDOR, 1)
    env = gymnasium.make(KEY_CORRIDOR)
    row, (raw, _) = batch.reset(3)[0], env.reset(seed=episode_seed(3, 0, 0))
    assert sorted(set(row.tolist())) == [0.0, 1.0]
    direction, image, mission = np.split(row, [4, 4 + 49 * 21])
    cells = np.split(image.reshape(7, 7, 21), [11, 17], axis=-1)  # objects, colours, states
    assert direction.argmax() == raw["direction"]
    assert np.array_equal(np.stack([codes.argmax(-1) for codes in cells], -1), raw["image"])
    colours = ["blue", "green", "grey", "purple", "red", "yellow"]
    assert raw["mission"] == f"pick up the {colours[mission.argmax()]} ball"
    assert row.sum() == 1 + 3 * 49 + 1
    found = batch.description
    assert (found["horizon"], found["max_return"], found["success_return"]) == (270, 1.0, 0.05)


def test_what_a_grid_observes_may_hold_a_mission_that_never_changes():
    """It is left out, so a policy takes observations with it and without."""
    pytest.importorskip("minigrid")
    env = gymnasium.make("MiniGrid-Empty-5x5-v0")
    batch, (raw, _) = make_batch(env, 1), env.reset(seed=episode_seed(0, 0, 0))
    assert batch.observation_space.shape == (4 + 49 * 21,)
    assert raw["mission"] == "get to the green goal square"
    assert np.array_equal(batch.codec.observation(raw), batch.reset(0)[0])


def test_a_language_has_no_codes():
    pytest.importorskip("minigrid")
    with pytest.raises(LPOError, match="no vector form; wrap it"):
        make_batch(gymnasium.make("BabyAI-GoToObj-v0"), 1)


def test_a_grid_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "minigrid", None)
    monkeypatch.delitem(gymnasium.registry, KEY_CORRIDOR, raising=False)
    with pytest.raises(LPOError, match=r"needs `pip install 'lpo-rl\[minigrid\]'`"):
        make_batch(KEY_CORRIDOR, 1)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(5, start=2),
        spaces.MultiDiscrete(np.array([[2, 3], [4, 5]]), start=np.array([[0, 1], [2, 3]])),
        spaces.Dict(
            b=spaces.Tuple((spaces.Discrete(3), spaces.MultiDiscrete([2, 4]))), a=spaces.Discrete(2)
        ),
    ],
)
def test_a_batch_of_codes_is_written_as_one_observation_is(space):
    codec = Codec("codes", space, spaces.Discrete(2))
    batch = batch_space(space, 20)
    batch.seed(0)
    obs = batch.sample()
    rows = codec.observations(batch, obs, 20)
    one_by_one = [spaces.flatten(space, one) for one in iterate(batch, obs)]
    np.testing.assert_array_equal(rows, one_by_one)
    assert rows.dtype == codec.rows.dtype


@pytest.mark.parametrize(
    "obs", [np.array([0, 3]), np.array([-1, 0]), np.array([0.0, 1.0]), np.zeros(3, int)]
)
def test_codes_that_a_space_does_not_have_are_refused(obs):
    codec = Codec("codes", spaces.Discrete(3), spaces.Discrete(2))
    with pytest.raises(Misfit):
        codec.observations(batch_space(spaces.Discrete(3), 2), obs, 2)
