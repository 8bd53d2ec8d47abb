"""Tasks whose observations are no vector, or do not tell all. Each is a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class CueCorridor(gymnasium.Env):
    """A corridor of ``length`` cells. The first observation says which way pays 1 at its end."""

    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = spaces.Discrete(3)  # up, down, on

    def __init__(self, length: int = 10):
        self.length = length

    def see(self) -> np.ndarray:
        cue = self.cue if self.x == 0 else 0
        return np.array([cue, self.x / self.length, self.x == self.length], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = 0, 0
        self.cue = 1 if self.np_random.random() < 0.5 else -1
        return self.see(), {}

    def step(self, action):
        self.t += 1
        cut = self.t >= 4 * self.length
        if action == 2:
            self.x = min(self.x + 1, self.length)
            return self.see(), 0.0, False, cut, {}
        if self.x < self.length:
            return self.see(), 0.0, False, cut, {}
        return self.see(), float((action == 0) == (self.cue == 1)), True, False, {}


class PixelRooms(gymnasium.Env):
    """Four rooms seen from above in 48 × 48 pixels; 1 in the last corner, and nothing else.

    The rooms are a chain: a door leads from each to the next.
    """

    observation_space = spaces.Box(0, 255, (48, 48, 3), np.uint8)
    action_space = spaces.Discrete(4)
    MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))
    SIDE, LENGTH = 16, 150

    def __init__(self) -> None:
        wall = np.zeros((self.SIDE, self.SIDE), bool)
        wall[0], wall[-1], wall[:, 0], wall[:, -1] = True, True, True, True
        wall[8], wall[:, 8] = True, True
        wall[8, 13] = wall[3, 8] = wall[12, 8] = False  # three doors: the rooms are a chain
        self.wall = wall
        grey = np.where(wall, 120, 0).astype(np.uint8)
        self.floor = np.repeat(np.repeat(grey, 3, 0), 3, 1)[..., None].repeat(3, -1)

    def see(self) -> np.ndarray:
        picture = self.floor.copy()
        a, b = self.place
        picture[3 * a : 3 * a + 3, 3 * b : 3 * b + 3] = (250, 60, 60)
        return picture

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.t = (1, 1), 0
        return self.see(), {}

    def step(self, action):
        a, b = np.add(self.place, self.MOVES[int(action)])
        if not self.wall[a, b]:
            self.place = (int(a), int(b))
        self.t += 1
        won = self.place == (14, 1)
        return self.see(), float(won), won, self.t >= self.LENGTH, {}


class Unmasked(gymnasium.Wrapper):
    """Taxi without its masks."""

    def reset(self, **arguments: Any):
        obs, _ = self.env.reset(**arguments)
        return obs, {}

    def step(self, action: Any):
        return (*self.env.step(action)[:4], {})
