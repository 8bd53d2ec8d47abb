"""What an agent sees in a MiniGrid, beside MiniGrid's own view of it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

pytest.importorskip("minigrid")

from minigrid.core.grid import Grid
from minigrid.core.world_object import Ball, Key
from minigrid.envs.empty import EmptyEnv
from minigrid.minigrid_env import MiniGridEnv
from minigrid.wrappers import OneHotPartialObsWrapper, SymbolicObsWrapper

from lpo.envs.gridview import observed
from lpo.envs.minigrid import register, with_codes


@pytest.mark.parametrize(
    "env_id",
    [
        "MiniGrid-DoorKey-8x8-v0",
        "MiniGrid-MultiRoom-N4-S5-v1",
        "MiniGrid-ObstructedMaze-2Dlhb-v1",
        "MiniGrid-LavaCrossingS9N3-v0",
        "MiniGrid-Dynamic-Obstacles-6x6-v0",  # sees through walls
        "MiniGrid-MemoryS7-v0",  # 3 × 3 cells
    ],
)
def test_the_view_is_minigrids(env_id):
    """From every place, with open and closed doors and with things carried."""
    register(env_id)
    options = {"agent_view_size": 3} if "Memory" in env_id else {}
    env = gymnasium.make(env_id, disable_env_checker=True, **options)
    base: Any = env.unwrapped
    rng, seen = np.random.default_rng(0), set()
    env.reset(seed=0)
    doors = [cell for cell in base.grid.grid if cell is not None and cell.type == "door"]
    for _ in range(150):
        for door in doors:
            door.is_open, door.is_locked = rng.random() < 0.5, rng.random() < 0.5
        base.agent_pos = rng.integers((base.width, base.height))
        base.agent_dir = int(rng.integers(4))
        base.carrying = (None, Key("blue"), Ball("red"))[rng.integers(3)]
        theirs, ours = MiniGridEnv.gen_obs(base), observed(base)
        assert ours["image"].dtype == theirs["image"].dtype
        np.testing.assert_array_equal(ours["image"], theirs["image"])
        assert (ours["direction"], ours["mission"]) == (theirs["direction"], theirs["mission"])
        seen.add(ours["image"].tobytes())
    assert len(seen) > 30


def test_a_view_of_its_own_is_left_alone():
    class Blind(EmptyEnv):
        def gen_obs(self):
            return super().gen_obs() | {"image": np.zeros((7, 7, 3), np.uint8)}

    blind, usual = Blind(), gymnasium.make("MiniGrid-Empty-5x5-v0", disable_env_checker=True)
    assert not with_codes(blind).reset(seed=0)[0]["image"].any()
    with_codes(usual)
    assert "gen_obs" in vars(usual.unwrapped) and "gen_obs" not in vars(blind)


class Mirrors(Grid):
    """A grid whose cells are all seen."""

    def encode(self, vis_mask=None):
        return super().encode()

    def slice(self, topX: int, topY: int, width: int, height: int):
        part = Mirrors(width, height)
        part.grid = super().slice(topX, topY, width, height).grid
        return part

    def rotate_left(self):
        turned = Mirrors(self.height, self.width)
        turned.grid = super().rotate_left().grid
        return turned


def test_a_grid_of_its_own_is_left_alone():
    """It is made anew by each reset, after the environment was wrapped."""

    class Hall(EmptyEnv):
        def _gen_grid(self, width, height):
            super()._gen_grid(width, height)
            made, self.grid = self.grid, Mirrors(width, height)
            self.grid.grid = made.grid

    hall = Hall()
    hall.see_through_walls = False
    seen = with_codes(hall).reset(seed=0)[0]["image"]
    np.testing.assert_array_equal(seen, MiniGridEnv.gen_obs(hall)["image"])
    assert (seen[..., 0] > 0).all()  # nothing is unseen


@pytest.mark.parametrize("wrapper", [SymbolicObsWrapper, OneHotPartialObsWrapper])
def test_an_image_that_a_wrapper_has_changed_holds_no_codes(wrapper):
    env = wrapper(gymnasium.make("MiniGrid-Empty-8x8-v0", disable_env_checker=True))
    assert with_codes(env) is env
