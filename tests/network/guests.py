"""Environments whose observations are no vector, or do not tell all."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

SIDE = 40


class Dot(gymnasium.Env):
    """A dot on a 5 × 5 board, seen as a picture: 1 in the far corner, which ends the episode.

    ``form`` is "image", "first" (channels first), "stack" (two frames) or "dict" (with the time).
    """

    action_space = spaces.Discrete(4)
    MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))

    def __init__(self, form: str = "image", length: int = 30):
        self.form, self.length = form, length
        shape = {"first": (3, SIDE, SIDE), "stack": (2, SIDE, SIDE, 3)}.get(form, (SIDE, SIDE, 3))
        image: Any = spaces.Box(0, 255, shape, np.uint8)
        clock = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.observation_space = (
            spaces.Dict({"camera": image, "body": spaces.Dict({"clock": clock})})
            if form == "dict"
            else image
        )

    def see(self) -> Any:
        picture = np.zeros((SIDE, SIDE, 3), np.uint8)
        a, b = self.place * 8
        picture[a : a + 8, b : b + 8] = (250, 120, 40)
        if self.form == "first":
            return picture.transpose(2, 0, 1)
        if self.form == "stack":
            return np.stack([picture // 2, picture])
        if self.form == "dict":
            clock = np.array([self.t / self.length], np.float32)
            return {"camera": picture, "body": {"clock": clock}}
        return picture

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.t = np.array([0, 0]), 0
        if self.np_random.random() < 0.5:
            self.place = self.np_random.integers(0, 3, 2)
        return self.see(), {}

    def step(self, action):
        self.place = np.clip(self.place + self.MOVES[int(action)], 0, 4)
        self.t += 1
        won = bool((self.place == 4).all())
        return self.see(), float(won), won, self.t >= self.length, {}


class Cue(gymnasium.Env):
    """A corridor whose first observation says which way pays 1 at its end."""

    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = spaces.Discrete(3)  # up, down, on

    def __init__(self, length: int = 6):
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
        if action == 2:
            self.x = min(self.x + 1, self.length)
            return self.see(), 0.0, False, self.t >= 4 * self.length, {}
        if self.x < self.length:
            return self.see(), 0.0, False, self.t >= 4 * self.length, {}
        return self.see(), float((action == 0) == (self.cue == 1)), True, False, {}
