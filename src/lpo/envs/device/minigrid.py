"""Device environments: MiniGrids in which a goal is to be reached or an object to be picked up.

Rules, view, reward and time limit are MiniGrid's, and observations those of ``lpo.envs.minigrid``.
An episode starts from one of ``STARTS`` layouts. MiniGrid itself draws them, with seeds 0, 1, ….
Evaluations start from others, which training never sees: those of the seeds from ``HELD_OUT`` on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int, UInt8

from lpo.envs import minigrid
from lpo.envs.device.base import Transition
from lpo.envs.device.describe import describe
from lpo.envs.registry import find_spec
from lpo.math.distributions import ActionSpec

STARTS = 4096
HELD_OUT, OTHERS = 1_000_000, 1024  # first seed of the evaluations, and their number of layouts
VIEW = 7  # cells that an agent sees ahead, and from side to side
ALL = 2**VIEW - 1  # the bits of a row of the view
SIZES = (11, 6, minigrid.STATES)  # objects, colours, states
EMPTY, WALL, DOOR, KEY, BALL, BOX, GOAL, LAVA = 1, 2, 4, 5, 6, 7, 8, 9
NOTHING = (255, 255)  # the target where a goal is to be reached
OPEN, CLOSED, LOCKED = range(3)
GREY = 5
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, _ = range(7)
MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1))  # by direction: right, down, left, up
CORNERS = ((0, -3), (-3, 0), (-6, -3), (-3, -6))  # of the view, from the agent


class State(NamedTuple):
    grid: UInt8[Array, "W H 4"]  # object, colour, state and, of a box, 1 + colour of the key in it
    pos: Int[Array, " 2"]
    direction: Int[Array, ""]
    mission: Int[Array, ""]
    target: UInt8[Array, " 2"]  # object and colour to pick up
    carried: UInt8[Array, " 4"]  # EMPTY: nothing
    steps: Int[Array, ""]


class Layouts(NamedTuple):
    starts: State  # NumPy arrays [STARTS, …]
    missions: int
    facts: dict[str, Any]


@cache
def layouts(env_id: str, kwargs: tuple[tuple[str, Any], ...], first: int, count: int) -> Layouts:
    """Returns the ``count`` starts that MiniGrid draws with the seeds from ``first`` on."""
    made = gymnasium.make(find_spec(env_id), disable_env_checker=True, **dict(kwargs))
    env: Any = minigrid.with_codes(made)
    base, rows = env.unwrapped, []
    nothing = np.array([EMPTY, 0, 0, 0], np.uint8)
    for seed in range(first, first + count):
        obs, _ = env.reset(seed=seed)
        place = np.array(base.agent_pos, np.int32), np.int32(base.agent_dir)
        target = NOTHING if getattr(base, "obj", None) is None else base.obj.encode()[:2]
        task = np.int32(obs.get("mission", 0)), np.array(target, np.uint8)
        rows.append((with_contents(base.grid), *place, *task, nothing, np.int32(0)))
    columns: Any = [np.stack(column) for column in zip(*rows, strict=True)]
    return Layouts(State(*columns), len(env.missions), minigrid.describe(env))


def with_contents(grid: Any) -> np.ndarray:
    """Returns MiniGrid's codes of a grid, with what its boxes hold."""
    held = np.zeros((grid.width, grid.height, 1), np.uint8)
    for place in np.ndindex(grid.width, grid.height):
        if (inside := getattr(grid.get(*place), "contains", None)) is not None:
            held[place] = 1 + inside.encode()[1]
    return np.concatenate([grid.encode(), held], -1)


@dataclass(frozen=True)
class Grid:
    """A grid; reaching the goal, or picking up the target of the layout, ends it."""

    id: str
    kwargs: tuple[tuple[str, Any], ...] = ()
    first: int = 0  # seed of the first layout
    count: int = STARTS

    action = ActionSpec(nvec=(7,), scalar=True)
    codes = True  # observations are one-hot codes

    @property
    def held_out(self) -> Grid:
        """The same grid with layouts that training does not see."""
        return replace(self, first=HELD_OUT, count=OTHERS)

    @property
    def layouts(self) -> Layouts:
        return layouts(self.id, self.kwargs, self.first, self.count)

    @property
    def obs_size(self) -> int:
        missions = self.layouts.missions
        return 4 + VIEW**2 * sum(SIZES) + (missions if missions > 1 else 0)

    @property
    def horizon(self) -> int:
        return self.layouts.facts["horizon"]

    @property
    def params(self) -> dict[str, Any]:
        return {}

    @property
    def description(self) -> dict[str, Any]:
        row = describe(self.id, self.obs_size, dict(self.kwargs)) | self.layouts.facts
        return row | {"layouts": self.count, "held_out_layouts": OTHERS}

    def reset(self, key: Array, params: dict[str, Any]) -> tuple[State, Float[Array, " O"]]:
        which = jax.random.randint(key, (), 0, self.count)
        state = jax.tree.map(lambda x: jnp.asarray(x)[which], self.layouts.starts)
        return state, self.observe(state)

    def step(
        self, state: State, action: Float[Array, " 1"], key: Array, params: dict[str, Any]
    ) -> Transition:
        act = action[0].astype(jnp.int32)
        ahead = state.pos + jnp.array(MOVES)[state.direction]
        cell = state.grid[ahead[0], ahead[1]]
        kind, colour, how, inside = cell
        hand = state.carried[0]
        fits = (hand == KEY) & (state.carried[1] == colour)

        moves = (act == FORWARD) & (
            (kind == EMPTY) | (kind == GOAL) | (kind == LAVA) | ((kind == DOOR) & (how == OPEN))
        )
        light = (kind == KEY) | (kind == BALL) | (kind == BOX)
        takes = (act == PICKUP) & light & (hand == EMPTY)
        drops = (act == DROP) & (kind == EMPTY) & (hand != EMPTY)
        toggles = (act == TOGGLE) & (kind == DOOR) & ((how != LOCKED) | fits)

        opens = (act == TOGGLE) & (kind == BOX)

        nothing = jnp.array([EMPTY, 0, 0, 0], jnp.uint8)
        toggled = cell.at[2].set(jnp.where(how == OPEN, CLOSED, OPEN).astype(jnp.uint8))
        key_inside = nothing.at[:2].set(jnp.stack([jnp.uint8(KEY), inside - 1]))
        opened = jnp.where(inside > 0, key_inside, nothing)
        toggled = jnp.where(opens, opened, toggled)
        left = jnp.where(takes, nothing, jnp.where(drops, state.carried, cell))
        steps = state.steps + 1
        after = State(
            grid=state.grid.at[ahead[0], ahead[1]].set(jnp.where(toggles | opens, toggled, left)),
            pos=jnp.where(moves, ahead, state.pos),
            direction=(state.direction + (act == RIGHT) - (act == LEFT)) % 4,
            mission=state.mission,
            target=state.target,
            carried=jnp.where(takes, cell, jnp.where(drops, nothing, state.carried)),
            steps=steps,
        )
        found = takes & (cell[:2] == state.target).all()
        reached = (moves & (kind == GOAL)) | found
        burned = moves & (kind == LAVA)
        reward = jnp.where(reached, 1 - 0.9 * (steps / self.horizon), 0.0).astype(jnp.float32)
        return Transition(after, self.observe(after), reward, reached | burned)

    def observe(self, state: State) -> Float[Array, " O"]:
        image = seen(state)
        codes = [jax.nn.one_hot(image[..., i], n) for i, n in enumerate(SIZES)]
        missions = self.layouts.missions
        parts = [jax.nn.one_hot(state.direction, 4), jnp.concatenate(codes, -1).reshape(-1)]
        parts += [jax.nn.one_hot(state.mission, missions)] if missions > 1 else []
        return jnp.concatenate(parts)


def seen(state: State) -> UInt8[Array, "7 7 3"]:
    """Returns the cells ahead, turned so that the agent looks up from (3, 6); 0 is unseen."""
    width, height, _ = state.grid.shape
    carried = state.carried[:3]
    grey = jnp.array([WALL, GREY, 0], jnp.uint8)  # beyond the grid are walls
    wide = jnp.broadcast_to(grey, (width + 2 * VIEW, height + 2 * VIEW, 3))
    wide = wide.at[VIEW:-VIEW, VIEW:-VIEW].set(state.grid[..., :3])
    corner = state.pos + jnp.array(CORNERS)[state.direction] + VIEW
    view = jax.lax.dynamic_slice(wide, (corner[0], corner[1], 0), (VIEW, VIEW, 3))
    turns = [view]
    for _ in range(4):
        turns.append(turns[-1].swapaxes(0, 1)[:, ::-1])
    view = jnp.stack(turns[1:])[state.direction]
    shut = (view[..., 0] == DOOR) & (view[..., 2] != OPEN)
    lit = visible((view[..., 0] != WALL) & ~shut)
    return jnp.where(lit[..., None], view.at[VIEW // 2, VIEW - 1].set(carried), 0)


def visible(clear: Bool[Array, "7 7"]) -> Bool[Array, "7 7"]:
    """Returns which cells the agent sees, where light passes the cells ``clear``.

    It spreads along a row to both sides, and from each cell of it to the row ahead. A row is seven
    bits of a number: single cells would make programs that take minutes to compile on a GPU.
    """
    places = jnp.arange(VIEW)
    clear_rows = (clear.astype(jnp.int32) << places[:, None]).sum(0)
    rows, row = [], jnp.int32(1 << VIEW // 2)
    for j in reversed(range(VIEW)):
        open_, ahead = clear_rows[j], jnp.int32(0)
        for _ in range(VIEW - 1):
            row |= (row & open_) << 1
        through = row & open_ & ALL >> 1  # the last cell has none to its right
        ahead |= through | through << 1
        row &= ALL
        for _ in range(VIEW - 1):
            row |= (row & open_) >> 1
        through = row & open_ & ~1
        rows.append(row)
        row = ahead | through | through >> 1
    return (jnp.stack(rows[::-1])[None] >> places[:, None] & 1) > 0


def grid(env_id: str, **kwargs: Any) -> Grid:
    """Returns a grid; the keyword arguments are those of MiniGrid's class."""
    found = Grid(env_id, tuple(sorted(kwargs.items())))
    _ = found.layouts  # refuses what MiniGrid does not take
    return found
