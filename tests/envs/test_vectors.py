"""Observations as vectors, against Gymnasium's own flatten and by hand."""

import numpy as np
import pytest
from gymnasium import spaces

from lpo.envs.vectors import is_grid, small, vectors

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
    rows, see = [space.sample() for _ in range(4)], vectors(space)
    flat = [np.asarray(spaces.flatten(space, row)) for row in rows]
    expected = np.stack(flat)[:, None]
    found = see.read(batched(space, rows))
    assert found.dtype == np.float32 and found.shape == (4, 1, see.size)
    np.testing.assert_array_equal(found, expected.astype(np.float32))


@pytest.mark.parametrize("shape", [(84, 96, 3), (3, 84, 96)])
def test_a_picture_is_seen_small_and_grey(shape):
    space = spaces.Box(0, 255, shape, np.uint8)
    picture = np.zeros(shape, np.uint8)
    channels = shape.index(3)
    np.moveaxis(picture, channels, 0)[:, :7, :8] = 255  # the first patch of 7 × 8 pixels
    see = vectors(space)
    found = see.read(picture[None, None])
    assert found.shape == (1, 1, see.size) == (1, 1, 144)
    assert found[0, 0, 0] == 1 and (found[0, 0, 1:] == 0).all()
    assert not is_grid(space)


def test_patches_of_unequal_size_have_means():
    bright = np.full((1, 37, 41, 3), 51, np.uint8)
    np.testing.assert_allclose(small(bright, (37, 41, 3)), 0.2, rtol=1e-6)


def test_a_grid_of_codes_is_told_from_a_picture():
    assert is_grid(spaces.Box(0, 10, (3, 7, 7), np.uint8))
    assert not is_grid(spaces.Box(0, 255, (3, 84, 84), np.uint8))
    assert not is_grid(spaces.Box(-1, 1, (3,), np.float32))
