"""How long do the codes of a MiniGrid take: an agent's view, a step, a batch as one-hot rows?

    python benchmarks/codes.py

MiniGrid's own view and step stand beside ours on DoorKey-8x8, in turns; and a batch of 1,024
observations beside Gymnasium's ``flatten`` of one after another. Printed: CPU µs, medians of turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate
from minigrid.minigrid_env import MiniGridEnv

from lpo.envs import minigrid
from lpo.envs.codec import Codec
from lpo.envs.gridview import observed

GRID, TURNS, BATCH = "MiniGrid-DoorKey-8x8-v0", 9, 1024


def grid(faster: bool) -> Any:
    """Returns a grid that observes as MiniGrid does, or as we do."""
    env = gymnasium.make(GRID, disable_env_checker=True).unwrapped
    codes = minigrid.with_codes(env)
    if not faster:
        del env.gen_obs  # pyright: ignore[reportAttributeAccessIssue]
    env.reset(seed=0)
    return codes


def steps(env: Any) -> None:
    for t in range(300):  # turns, and a step ahead
        env.unwrapped.step((0, 1, 2)[t % 3])


def micros(call: Callable[[], Any], number: int) -> float:
    began = time.process_time()
    call()
    return (time.process_time() - began) / number * 1e6


def main() -> None:
    theirs, ours = grid(False), grid(True)
    base, space = ours.unwrapped, ours.observation_space
    codec, batch = Codec(GRID, space, ours.action_space), batch_space(space, BATCH)
    obs = batch.sample()
    pairs: dict[str, tuple[int, Callable[[], Any], Callable[[], Any]]] = {
        "a view": (
            300,
            lambda: [MiniGridEnv.gen_obs(base) for _ in range(300)],
            lambda: [observed(base) for _ in range(300)],
        ),
        "a step": (300, lambda: steps(theirs), lambda: steps(ours)),
        "an observation as one-hot": (
            BATCH,
            lambda: [spaces.flatten(space, one) for one in iterate(batch, obs)],
            lambda: codec.observations(batch, obs, BATCH),
        ),
    }
    for name, (number, other, mine) in pairs.items():
        turns = [(micros(other, number), micros(mine, number)) for _ in range(TURNS)]
        was, now = np.median(turns, axis=0)
        print(f"{name}: {was:.1f} µs, ours {now:.1f} µs")


if __name__ == "__main__":
    main()
