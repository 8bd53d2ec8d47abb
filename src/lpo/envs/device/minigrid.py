"""Device environments: MiniGrids in which a goal is to be reached or a ball to be picked up.

Rules, view, reward and time limit are MiniGrid's, and observations those of ``lpo.envs.minigrid``.
An episode starts from one of ``STARTS`` layouts. MiniGrid itself draws them, with seeds 0, 1, ….
"""

from __future__ import annotations

from dataclasses import dataclass
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
VIEW = 7  # cells that an agent sees ahead, and from side to side
ALL = 2**VIEW - 1  # the bits of a row of the view
SIZES = (11, 6, minigrid.STATES)  # objects, colours, states
EMPTY, WALL, DOOR, KEY, BALL, GOAL = 1, 2, 4, 5, 6, 8
OPEN, CLOSED, LOCKED = range(3)
GREY = 5
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, _ = range(7)
MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1))  # by direction: right, down, left, up
CORNERS = ((0, -3), (-3, 0), (-6, -3), (-3, -6))  # of the view, from the agent


class State(NamedTuple):
    grid: UInt8[Array, "W H 3"]  # object, colour and state of each cell
    pos: Int[Array, " 2"]
    direction: Int[Array, ""]
    mission: Int[Array, ""]
    carried: UInt8[Array, " 3"]  # EMPTY: nothing
    steps: Int[Array, ""]


class Layouts(NamedTuple):
    starts: State  # NumPy arrays [STARTS, …]
    missions: int
    facts: dict[str, Any]


@cache
def layouts(env_id: str) -> Layouts:
    """Returns the starts that MiniGrid draws."""
    env: Any = minigrid.with_codes(gymnasium.make(find_spec(env_id), disable_env_checker=True))
    base, rows = env.unwrapped, []
    nothing = np.array([EMPTY, 0, 0], np.uint8)
    for seed in range(STARTS):
        obs, _ = env.reset(seed=seed)
        place = np.array(base.agent_pos, np.int32), np.int32(base.agent_dir)
        mission = np.int32(obs["mission"])
        rows.append((base.grid.encode(), *place, mission, nothing, np.int32(0)))
    columns: Any = [np.stack(column) for column in zip(*rows, strict=True)]
    return Layouts(State(*columns), len(env.missions), minigrid.describe(env))


@dataclass(frozen=True)
class Grid:
    """A grid; picking up an object of the kind ``target``, or reaching the goal, ends it."""

    id: str
    target: int | None

    action = ActionSpec(nvec=(7,), scalar=True)

    @property
    def obs_size(self) -> int:
        missions = layouts(self.id).missions
        return 4 + VIEW**2 * sum(SIZES) + (missions if missions > 1 else 0)

    @property
    def horizon(self) -> int:
        return layouts(self.id).facts["horizon"]

    @property
    def params(self) -> dict[str, Any]:
        return {}

    @property
    def description(self) -> dict[str, Any]:
        return describe(self.id, self.obs_size, {}) | layouts(self.id).facts

    def reset(self, key: Array, params: dict[str, Any]) -> tuple[State, Float[Array, " O"]]:
        which = jax.random.randint(key, (), 0, STARTS)
        state = jax.tree.map(lambda x: jnp.asarray(x)[which], layouts(self.id).starts)
        return state, self.observe(state)

    def step(
        self, state: State, action: Float[Array, " 1"], key: Array, params: dict[str, Any]
    ) -> Transition:
        act = action[0].astype(jnp.int32)
        ahead = state.pos + jnp.array(MOVES)[state.direction]
        cell = state.grid[ahead[0], ahead[1]]
        kind, colour, how = cell
        hand = state.carried[0]
        fits = (hand == KEY) & (state.carried[1] == colour)

        moves = (act == FORWARD) & (
            (kind == EMPTY) | (kind == GOAL) | ((kind == DOOR) & (how == OPEN))
        )
        takes = (act == PICKUP) & ((kind == KEY) | (kind == BALL)) & (hand == EMPTY)
        drops = (act == DROP) & (kind == EMPTY) & (hand != EMPTY)
        toggles = (act == TOGGLE) & (kind == DOOR) & ((how != LOCKED) | fits)

        nothing = jnp.array([EMPTY, 0, 0], jnp.uint8)
        toggled = cell.at[2].set(jnp.where(how == OPEN, CLOSED, OPEN).astype(jnp.uint8))
        left = jnp.where(takes, nothing, jnp.where(drops, state.carried, cell))
        steps = state.steps + 1
        after = State(
            grid=state.grid.at[ahead[0], ahead[1]].set(jnp.where(toggles, toggled, left)),
            pos=jnp.where(moves, ahead, state.pos),
            direction=(state.direction + (act == RIGHT) - (act == LEFT)) % 4,
            mission=state.mission,
            carried=jnp.where(takes, cell, jnp.where(drops, nothing, state.carried)),
            steps=steps,
        )
        reached = (moves & (kind == GOAL)) | (takes & (kind == self.target))
        reward = jnp.where(reached, 1 - 0.9 * (steps / self.horizon), 0.0).astype(jnp.float32)
        return Transition(after, self.observe(after), reward, reached)

    def observe(self, state: State) -> Float[Array, " O"]:
        image = seen(state)
        codes = [jax.nn.one_hot(image[..., i], n) for i, n in enumerate(SIZES)]
        missions = layouts(self.id).missions
        parts = [jax.nn.one_hot(state.direction, 4), jnp.concatenate(codes, -1).reshape(-1)]
        parts += [jax.nn.one_hot(state.mission, missions)] if missions > 1 else []
        return jnp.concatenate(parts)


def seen(state: State) -> UInt8[Array, "7 7 3"]:
    """Returns the cells ahead, turned so that the agent looks up from (3, 6); 0 is unseen."""
    width, height, _ = state.grid.shape
    grey = jnp.array([WALL, GREY, 0], jnp.uint8)  # beyond the grid are walls
    wide = jnp.broadcast_to(grey, (width + 2 * VIEW, height + 2 * VIEW, 3))
    wide = wide.at[VIEW:-VIEW, VIEW:-VIEW].set(state.grid)
    corner = state.pos + jnp.array(CORNERS)[state.direction] + VIEW
    view = jax.lax.dynamic_slice(wide, (corner[0], corner[1], 0), (VIEW, VIEW, 3))
    turns = [view]
    for _ in range(4):
        turns.append(turns[-1].swapaxes(0, 1)[:, ::-1])
    view = jnp.stack(turns[1:])[state.direction]
    shut = (view[..., 0] == DOOR) & (view[..., 2] != OPEN)
    lit = visible((view[..., 0] != WALL) & ~shut)
    return jnp.where(lit[..., None], view.at[VIEW // 2, VIEW - 1].set(state.carried), 0)


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


def door_key() -> Grid:
    """Returns DoorKey-8x8: a key opens the door to the goal."""
    return Grid("MiniGrid-DoorKey-8x8-v0", None)


def small_door_key() -> Grid:
    """Returns DoorKey-6x6, the same with less room."""
    return Grid("MiniGrid-DoorKey-6x6-v0", None)


def key_corridor() -> Grid:
    """Returns KeyCorridorS3R3: behind one of the doors is a key, behind a locked one the ball."""
    return Grid("MiniGrid-KeyCorridorS3R3-v0", BALL)
