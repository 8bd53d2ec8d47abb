"""Environments: what an agent sees in a MiniGrid, as MiniGrid computes it, in a fifth of the time.

MiniGrid copies the cells ahead and turns them up to four times, one cell after another, which takes
four fifths of a step. Here each cell is read once, where it lies.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np


def see_faster(base: Any) -> None:
    """Lets ``base`` of MiniGrid's observe by ``view``, unless it sees in a way of its own."""
    from minigrid.minigrid_env import MiniGridEnv

    ways = ("gen_obs", "gen_obs_grid", "get_view_exts")
    usual = all(getattr(type(base), way) is getattr(MiniGridEnv, way) for way in ways)
    if usual and not vars(base).keys() & set(ways):
        base.gen_obs = partial(observed, base)


def observed(base: Any) -> dict[str, Any]:
    """Returns what ``gen_obs`` of MiniGrid does. A grid of another class sees as it does itself."""
    from minigrid.core.grid import Grid

    if type(base.grid) is not Grid:  # each reset makes a new one
        return type(base).gen_obs(base)
    return {"image": view(base), "direction": base.agent_dir, "mission": base.mission}


@cache
def places(direction: int, size: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Returns the cells of a view from the agent: rows from the farthest on, each from the left."""
    right = ((0, 1), (-1, 0), (0, -1), (1, 0))[direction]  # of an agent that looks there
    ahead = ((1, 0), (0, 1), (-1, 0), (0, -1))[direction]
    sides, far = range(-(size // 2), size - size // 2), range(size - 1, -1, -1)
    return tuple(
        tuple((s * right[0] + f * ahead[0], s * right[1] + f * ahead[1]) for s in sides)
        for f in far
    )


@cache
def lit(row: int, clear: int, size: int) -> tuple[int, int]:
    """Returns the cells of a row that the agent sees, and those of the row ahead, as bits.

    ``row`` are those that it sees from the row behind, and light passes the cells ``clear``.
    """
    last = 1 << size - 1
    for _ in range(size - 1):
        row |= (row & clear & ~last) << 1
    through = row & clear & ~last
    ahead = through | through << 1
    for _ in range(size - 1):
        row |= (row & clear) >> 1
    through = row & clear & ~1
    return row, ahead | through | through >> 1


@cache
def codes_of(kind: type, color: str) -> bytes:
    """Returns the code of a wall."""
    return bytes(kind(color).encode())


def view(base: Any) -> np.ndarray:
    """Returns the codes [size, size, 3] of the cells ahead, turned so that the agent looks up."""
    from minigrid.core.world_object import Wall

    grid, size, (x, y) = base.grid, base.agent_view_size, map(int, base.agent_pos)
    cells, width, height = grid.grid, grid.width, grid.height
    beyond = codes_of(Wall, "grey")
    codes, clear = [], []
    for row in places(int(base.agent_dir), size):
        passes, bit = 0, 1
        for dx, dy in row:
            i, j = x + dx, y + dy
            if not (0 <= i < width and 0 <= j < height):
                codes.append(beyond)
            elif (cell := cells[j * width + i]) is None:
                codes.append(b"\1\0\0")
                passes |= bit
            elif type(cell) is Wall:
                codes.append(codes_of(Wall, cell.color))
            else:
                codes.append(bytes(cell.encode()))
                if cell.see_behind():
                    passes |= bit
            bit <<= 1
        clear.append(passes)
    held = base.carrying
    codes[size * (size - 1) + size // 2] = b"\1\0\0" if held is None else bytes(held.encode())
    if not base.see_through_walls:
        darken(codes, clear, size)
    rows = np.frombuffer(b"".join(codes), np.uint8).reshape(size, size, 3)
    return rows.transpose(1, 0, 2).copy()


def darken(codes: list[bytes], clear: list[int], size: int) -> None:
    """Writes 0 over the cells that the agent does not see."""
    row, every = 1 << size // 2, (1 << size) - 1
    for j in range(size - 1, -1, -1):
        seen, ahead = lit(row, clear[j], size)
        if seen != every:
            for i in range(size):
                if not seen >> i & 1:
                    codes[j * size + i] = b"\0\0\0"
        row = ahead
