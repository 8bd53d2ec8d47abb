"""Whole rollouts of any space, against Gymnasium's own flatten and row by row."""

import numpy as np
import pytest
from gymnasium import spaces

from lpo import LPOError
from lpo.envs.batches import batches
from lpo.envs.codec import Codec, is_grid, is_picture

SPACES = [
    spaces.Box(-1, 1, (3,), np.float32),
    spaces.Box(0, 10, (2, 2), np.int64),
    spaces.Discrete(4, start=2),
    spaces.MultiDiscrete([3, 2]),
    spaces.MultiBinary(5),
    spaces.Dict({"b": spaces.Discrete(3), "a": spaces.Box(-1, 1, (2,), np.float32)}),
    spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary([2, 2])]),
    spaces.Box(0, 255, (7, 7, 3), np.uint8),
]


def batched(space: spaces.Space, rows: list):
    """[T, 1, …] of ``rows``."""
    if isinstance(space, spaces.Dict):
        return {k: batched(s, [row[k] for row in rows]) for k, s in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(batched(s, [row[i] for row in rows]) for i, s in enumerate(space.spaces))
    return np.stack(rows)[:, None]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_they_are_gymnasium_s(space):
    space.seed(0)
    rows, see = [space.sample() for _ in range(4)], batches(space)
    flat = [np.asarray(spaces.flatten(space, row)) for row in rows]
    expected = np.stack(flat)[:, None]
    found = see.read(batched(space, rows))
    assert found.dtype == np.float32 and found.shape == (4, 1, see.spec.size)
    np.testing.assert_array_equal(found, expected.astype(np.float32))


TREES = [
    spaces.Box(0, 255, (84, 96, 3), np.uint8),
    spaces.Box(0, 255, (4, 84, 84), np.uint8),
    spaces.Dict(
        {
            "camera": spaces.Box(0, 255, (3, 64, 64), np.uint8),
            "arm": spaces.Dict({"joints": spaces.Box(-1, 1, (2,)), "grip": spaces.Discrete(3)}),
        }
    ),
    spaces.Dict({"where": spaces.Box(-1, 1, (2,)), "action_mask": spaces.MultiBinary(3)}),
]


@pytest.mark.parametrize("space", TREES, ids=str)
def test_trees_are_those_of_the_engine(space):
    """Row by row: the codec that the library's own agent has."""
    space.seed(0)
    rows, see = [space.sample() for _ in range(4)], batches(space)
    codec = Codec("it", space, spaces.Discrete(3))
    assert see.spec == codec.spec
    found, expected = see.read(batched(space, rows)), [codec.observation(row) for row in rows]
    expected = codec.views(np.stack(expected))
    for path, leaf in see.spec.leaves:
        mine, theirs = (found, expected) if see.spec.bare else (found[path], expected[path])
        assert mine.dtype == leaf.dtype
        np.testing.assert_array_equal(mine[:, 0], theirs)


def test_a_grid_of_codes_is_told_from_a_picture():
    small, pictures = (3, 7, 7), [(3, 84, 84), (84, 84, 3), (4, 84, 84), (4, 84, 84, 3)]
    assert is_grid(spaces.Box(0, 10, small, np.uint8))
    assert not is_picture(spaces.Box(0, 10, small, np.uint8))
    for shape in pictures:
        space = spaces.Box(0, 255, shape, np.uint8)
        assert is_picture(space) and not is_grid(space)
    assert not is_grid(spaces.Box(-1, 1, (3,), np.float32))


def test_a_grid_of_codes_is_an_image_for_a_network_that_reads_images():
    space = spaces.MultiDiscrete(np.full((5, 5, 2), 3))
    assert batches(space).spec.size == 150
    see = batches(space, flat=False)
    assert see.spec.leaves[0][1].kind == "grid"
    assert see.read(space.sample()[None, None]).shape == (1, 1, 5, 5, 2)


def test_what_does_not_fit_is_said():
    with pytest.raises(LPOError, match="at arm have shape"):
        see = batches(spaces.Dict({"arm": spaces.Box(-1, 1, (3,))}))
        see.read({"arm": np.zeros((4, 1, 2))})
    with pytest.raises(LPOError, match="which is empty"):
        batches(spaces.Box(-1, 1, (0,)))
    see = batches(spaces.Dict({"grip": spaces.Discrete(3, start=1)}))
    for code in (0, 4):
        with pytest.raises(LPOError, match="at grip have a code that their space does not have"):
            see.read({"grip": np.full((4, 1), float(code))})
    for obs in ({}, [{"grip": np.ones(1)}] * 4, np.ones((4, 1))):
        with pytest.raises(LPOError, match="have no part grip; pass arrays"):
            see.read(obs)
