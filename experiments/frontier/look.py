"""What does an agent do in a MiniGrid? Counts over episodes on layouts that training never drew.

    python experiments/frontier/look.py RUN [RUN …] [--episodes 30]

For each run, and for uniform actions: steps of an episode, distinct views, how often a thing is
picked up, dropped, a box opened and a door opened or closed, and the share of successes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gymnasium
import numpy as np

from lpo import Policy
from lpo.envs import minigrid

HEAD = "| run | steps | views | picked up | dropped | boxes | doors | success |"
HELD_OUT = 1_000_000
TOGGLE = 5


def counted(env, policy, episodes: int, rng: np.random.Generator) -> np.ndarray:
    """Returns the means over ``episodes``, in the order of HEAD."""
    rows, base = [], env.unwrapped
    for episode in range(episodes):
        obs, _ = env.reset(seed=HELD_OUT + episode)
        views, n, total, ended = {view(obs)}, np.zeros(6), 0.0, False
        while not ended:
            action = int(rng.integers(7) if policy is None else policy.predict(obs)[0])
            held, before = base.carrying, base.grid.encode()
            obs, reward, terminated, truncated, _ = env.step(action)
            after = base.grid.encode()
            toggled = action == TOGGLE and (after != before).any()
            opened = toggled and (after[..., 0] != before[..., 0]).any()  # a box is gone
            took, put = held is None, base.carrying is None
            n += [1, 0, took and not put, put and not took, opened, toggled and not opened]
            views.add(view(obs))
            total, ended = total + float(reward), terminated or truncated
        n[1] = len(views)
        rows.append([*n, total > 0])
    return np.mean(rows, 0)


def view(obs: dict) -> bytes:
    return obs["image"].tobytes() + bytes([int(obs["direction"])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--task", default="MiniGrid-ObstructedMaze-1Q-v1")
    parser.add_argument("--episodes", type=int, default=30)
    options = parser.parse_args()
    minigrid.register(options.task)
    env = minigrid.with_codes(gymnasium.make(options.task))
    rng = np.random.default_rng(0)
    print(HEAD + "\n" + "|" + "---|" * (HEAD.count("|") - 1))
    policies = [("uniform", None)] + [(run.name, Policy.load(run, "last")) for run in options.runs]
    for name, policy in policies:
        found = counted(env, policy, options.episodes, rng)
        print(f"| {name} | " + " | ".join(f"{x:.0f}" for x in found[:-1]), f"| {found[-1]:.2f} |")


if __name__ == "__main__":
    main()
