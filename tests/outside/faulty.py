"""Environments that go wrong, registered when imported: `lpo train --env faulty:Raises-v0`."""

import time

import gymnasium
import numpy as np
from gymnasium import spaces


class Faulty(gymnasium.Env):
    """Sound for ``after`` steps in all, then wrong in the way ``fault`` names."""

    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, fault: str, after: int = 100, render_mode=None):
        self.fault, self.after, self.count, self.t = fault, after, 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), {}

    def step(self, action):
        self.count += 1
        self.t += 1
        obs, reward = self.np_random.uniform(-1, 1, 3).astype(np.float32), 0.0
        if self.count > self.after:
            if self.fault == "raise":
                raise RuntimeError("the motor is on fire")
            if self.fault == "hang":
                time.sleep(600)
            obs = {"nan": obs * np.nan, "shape": obs[:2]}.get(self.fault, obs)
            reward = float("inf") if self.fault == "reward" else reward
        return obs, reward, False, self.t == 20, {}


class Words(Faulty):
    action_space = spaces.Text(4)  # pyright: ignore[reportAssignmentType]


FAULTS = {"Raises": "raise", "NaN": "nan", "Shape": "shape", "Reward": "reward", "Hangs": "hang"}
for name, fault in FAULTS.items():
    gymnasium.register(f"{name}-v0", entry_point=f"{__name__}:Faulty", kwargs={"fault": fault})
gymnasium.register("Words-v0", entry_point=f"{__name__}:Words", kwargs={"fault": "none"})
gymnasium.register("Sound-v0", entry_point=f"{__name__}:Faulty", kwargs={"fault": "none"})


class Lamp(gymnasium.Env):
    """Six steps; drawn as a square that gets brighter by 10 with every step."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012
    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode, self.t = render_mode, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t / 6, np.float32), 0.0, self.t == 6, False, {}

    def render(self):
        return np.full((16, 16, 3), 10 * self.t, np.uint8)


gymnasium.register("Lamp-v0", entry_point=f"{__name__}:Lamp")
