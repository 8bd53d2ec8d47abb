"""Does a trained cheetah run, or does it tumble? Somersaults of the last policy of every run.

    python experiments/figure1/posture.py runs/figure1-half runs/components-locomotion
    python experiments/figure1/posture.py      # the figure alone, from results/posture.csv
    python experiments/figure1/posture.py runs/ablations runs/ablations-reasons \\
        runs/ablations-posture --name posture-ablations --by task

Needs the runs with their checkpoints. Plays five episodes of each HalfCheetah policy without noise
and writes results/posture.csv (--name: another): mean return, whole turns of the body in an
episode, and mean forward speed. results/posture.svg shows the first two.
"""

from __future__ import annotations

import argparse
import csv
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import gymnasium
import numpy as np

import lpo  # noqa: F401  # registers the environments
from lpo import config
from lpo.agent import Agent
from lpo.report.figures import colors, legend, panel

BODY, EPISODES = "HalfCheetah", 5
PITCH = 2  # of MuJoCo's positions: the body's angle, which is never wrapped
RESULTS = Path(__file__).parent / "results"


def episode(agent: Agent, env: gymnasium.Env, seed: int) -> tuple[float, float, float]:
    """Return, whole turns and mean speed."""
    data = env.unwrapped.data  # pyright: ignore[reportAttributeAccessIssue]
    observation, _ = env.reset(seed=seed)
    total, over, angles, speeds = 0.0, False, [], []
    while not over:
        action, _ = agent.predict(observation, deterministic=True)
        observation, reward, terminated, truncated, _ = env.step(action)
        angles.append(data.qpos[PITCH])
        speeds.append(data.qvel[0])
        total, over = total + float(reward), terminated or truncated
    return total, float(np.abs(angles).max() / (2 * np.pi)), float(np.mean(speeds))


def play(paths: list[Path], out: Path) -> None:
    with open(out, "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("run", "return", "turns", "speed"))
        for path in paths:
            agent = Agent.load(path, which="last")
            c = config.read(path / "config.json")
            options: dict[str, Any] = {"preset": c.threshold} if c.threshold else {}
            env = gymnasium.make(c.env, **options)
            played = [episode(agent, env, 10_000 + seed) for seed in range(EPISODES)]
            row = [f"{value:.4g}" for value in np.mean(played, axis=0)]
            table.writerow((path.name, *row))
            print(path.name, *row, flush=True)


def draw(source: Path, by: str) -> None:
    with open(source, newline="") as file:
        rows = list(csv.DictReader(file))
    parts = [row["run"].rpartition(BODY)[0].rpartition("-") for row in rows]  # lpo, -, Sparse
    labels = [task + BODY if by == "task" else label for label, _, task in parts]
    color = colors(list(dict.fromkeys(labels)))
    with panel(source.parent, source.stem) as ax:
        for label in dict.fromkeys(labels):
            cell = [row for row, name in zip(rows, labels, strict=True) if name == label]
            turns, returns = ([float(row[key]) for row in cell] for key in ("turns", "return"))
            ax.scatter(turns, returns, color=color[label], label=label, s=36, alpha=0.85, lw=0)
        ax.set_xscale("log")
        ax.set_xlabel("whole turns of the body in an episode of 1,000 steps")
        ax.set_ylabel("return")
        ax.set_title("Run or tumble: one dot per trained cheetah")
        legend(ax)


def main() -> None:
    parser = argparse.ArgumentParser(description="Somersaults of trained cheetahs")
    parser.add_argument("roots", nargs="*", type=Path)
    parser.add_argument("--name", default="posture")
    parser.add_argument("--by", choices=("label", "task"), default="label", help="colours of dots")
    options = parser.parse_args()
    out = RESULTS / f"{options.name}.csv"
    paths = [p for root in options.roots for p in sorted(root.glob(f"*{BODY}-*-s*/"))]
    if paths:
        play(paths, out)
    draw(out, options.by)


if __name__ == "__main__":
    main()
