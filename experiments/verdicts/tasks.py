"""Small tasks whose rewards have another zero or another scale, written for a device.

Importing this module registers them. None declares its largest return, as a task of somebody else.
An episode succeeds when it reaches the goal, whatever that pays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from lpo.envs.device import DeviceEnv, Transition, register_device
from lpo.envs.device.classic import sparse_mountain_car
from lpo.envs.device.finite import deep_sea
from lpo.math.distributions import ActionSpec

FOUR = ActionSpec(nvec=(4,), scalar=True)
MOVES = jnp.array([[0, 1], [1, 0], [0, -1], [-1, 0]])


@dataclass(frozen=True)
class KeyDoor:
    """Two rooms of 4 × 9 cells; the door between them opens with a key. Only the goal pays."""

    side: int = 9
    obs_size = 3  # place, and whether the key is held
    action = FOUR
    horizon = 100
    params = {}  # noqa: RUF012 - no axes
    description = {"id": "key and door"}  # noqa: RUF012

    def see(self, state: Any) -> Any:
        return state.astype(jnp.float32) / jnp.array([self.side - 1, self.side - 1, 1])

    def reset(self, key: Any, params: Any) -> Any:
        state = jnp.array([0, 0, 0])
        return state, self.see(state)

    def step(self, state: Any, action: Any, key: Any, params: Any) -> Transition:
        middle, last = self.side // 2, self.side - 1
        place = jnp.clip(state[:2] + MOVES[action[0].astype(int)], 0, last)
        door = (place[1] == last) & (state[2] == 1)
        place = jnp.where((place[0] == middle) & ~door, state[:2], place)
        held = state[2] | ((place[0] == 0) & (place[1] == last))
        goal = (place[0] == last) & (place[1] == 0)
        after = jnp.concatenate([place, held[None]])
        return Transition(after, self.see(after), goal.astype(jnp.float32), goal)


@dataclass(frozen=True)
class Cliff:
    """Walking past a cliff of 10 cells, in which one falls back to the start. The goal pays 1, and
    a fall -100."""

    obs_size = 48
    action = FOUR
    horizon = 200
    params = {}  # noqa: RUF012
    description = {"id": "cliff"}  # noqa: RUF012

    def see(self, state: Any) -> Any:
        return jax.nn.one_hot(state[0] * 12 + state[1], 48, dtype=jnp.float32)

    def reset(self, key: Any, params: Any) -> Any:
        state = jnp.array([0, 0])
        return state, self.see(state)

    def step(self, state: Any, action: Any, key: Any, params: Any) -> Transition:
        place = jnp.clip(state + MOVES[action[0].astype(int)], 0, jnp.array([3, 11]))
        fell = (place[0] == 0) & (place[1] > 0) & (place[1] < 11)
        place = jnp.where(fell, jnp.array([0, 0]), place)
        goal = (place[0] == 0) & (place[1] == 11)
        return Transition(place, self.see(place), jnp.where(fell, -100.0, 1.0 * goal), goal)


@dataclass(frozen=True)
class Paid:
    """A task whose goal is worth ``goal``.

    Every other step pays ``step_pays``, and ``scale`` times what the task pays. Every step pays
    ``dense`` times the distance of the first two numbers of an observation from ``place``.
    """

    id: str
    env: DeviceEnv
    horizon: int | None
    goal: float = 1.0
    scale: float = 1.0
    step_pays: float = 0.0
    dense: float = 0.0
    place: tuple[float, float] = (0.0, 0.0)
    plus: float = 0.0  # added to every reward, as lpo.envs.shift:plus_one does

    @property
    def obs_size(self) -> int:
        return self.env.obs_size

    @property
    def action(self) -> ActionSpec:
        return self.env.action

    @property
    def params(self) -> dict[str, Any]:
        return self.env.params

    @property
    def description(self) -> dict[str, Any]:
        return {"id": self.id, "horizon": self.horizon, "backend": "device"}

    def reset(self, key: Any, params: Any) -> Any:
        return self.env.reset(key, params)

    def step(self, state: Any, action: Any, key: Any, params: Any) -> Transition:
        step = self.env.step(state, action, key, params)
        goal = step.reward > 0.5
        distance = jnp.linalg.norm(step.obs[:2] - jnp.array(self.place))
        reward = jnp.where(goal, self.goal, self.scale * step.reward + self.step_pays)
        reward = (reward + self.dense * distance + self.plus).astype(jnp.float32)
        return step._replace(reward=reward, success=goal & step.terminated)


def paid(name: str, make: Callable[[], DeviceEnv], horizon: int | None = None, **pays: Any) -> None:
    """Registers a task, and the same one with 1 added to every reward."""
    env = make()
    for plus in (0.0, 1.0):
        full = f"verdicts/{name}{'+1' if plus else ''}-v0"
        made = Paid(full, env, horizon or env.horizon, **pays, plus=plus)
        register_device(full, lambda made=made: made)


COST: dict[str, Any] = {"goal": 0.0, "step_pays": -1.0}
FLAG = (0.45, 0.0)  # place and speed of the car at its goal
paid("car-0.01", sparse_mountain_car, goal=0.01, scale=0.0)
paid("car-100", sparse_mountain_car, goal=100.0)
paid("car-cost", sparse_mountain_car, horizon=200, goal=-1.0, step_pays=-1.0)
paid("car-dense", sparse_mountain_car, dense=-0.05, place=FLAG)
paid("key-0.01", KeyDoor, goal=0.01)
paid("key-cost", KeyDoor, **COST)
paid("key-small-cost", KeyDoor, step_pays=-0.01)
paid("cliff-cost", Cliff, goal=-1.0, step_pays=-1.0)
paid("sea-0.01", lambda: deep_sea(size=10), goal=0.01, scale=0.01)
