"""Does a trained cheetah run, or does it tumble? Somersaults of the last policy of every run.

    python experiments/figure1/posture.py runs/figure1-half runs/components-locomotion
    python experiments/figure1/posture.py      # the figure alone, from results/posture.csv
    python experiments/figure1/posture.py runs/ablations runs/ablations-reasons \\
        runs/ablations-control runs/ablations-posture --name posture-ablations --by task
    python experiments/figure1/posture.py runs/ablations-works runs/ablations-peer \\
        --name posture-works --by task

Needs the runs with their checkpoints. Plays five episodes of each HalfCheetah policy without noise
and writes results/posture.csv (--name: another): mean return, turns of the body in an
episode, and mean forward speed. build/figures/posture.svg shows the first two, and a table is
printed.
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
from lpo.policy import Policy
from lpo.report.figures import colors, legend, panel
from lpo.report.runs import RunData
from lpo.runs.record import read_directory

BODY, EPISODES = "HalfCheetah", 5
PITCH = 2  # of MuJoCo's positions: the body's angle, which is never wrapped
HEAD = ("", "policies", "turn more than twice", "their returns", "above 500", "their turns")
RESULTS = Path(__file__).parent / "results"
FIGURES = Path(__file__).parents[2] / "build" / "figures"


def episode(policy: Policy, env: gymnasium.Env, seed: int) -> tuple[float, float, float]:
    """Return, turns (the largest angle, either way) and mean speed."""
    data = env.unwrapped.data  # pyright: ignore[reportAttributeAccessIssue]
    observation, _ = env.reset(seed=seed)
    total, over, angles, speeds = 0.0, False, [], []
    while not over:
        action, _ = policy.predict(observation, deterministic=True)
        observation, reward, terminated, truncated, _ = env.step(action)
        angles.append(data.qpos[PITCH])
        speeds.append(data.qvel[0])
        total, over = total + float(reward), terminated or truncated
    return total, float(np.abs(angles).max() / (2 * np.pi)), float(np.mean(speeds))


def play(paths: list[Path], out: Path) -> None:
    """The file is written when all have played, so that a missing checkpoint costs nothing."""
    rows: list[tuple[str, ...]] = [("run", "return", "turns", "speed")]
    for path in paths:
        policy = Policy.load(path, which="last")
        run = RunData.of(read_directory(path))
        preset = run.description.get("preset")
        options: dict[str, Any] = {"preset": preset} if preset else {}
        env = gymnasium.make(run.options["env"], **options)
        played = [episode(policy, env, 10_000 + seed) for seed in range(EPISODES)]
        rows.append((path.name, *(f"{value:.4g}" for value in np.mean(played, axis=0))))
        print(*rows[-1], flush=True)
    with open(out, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def read(source: Path, by: str) -> dict[str, np.ndarray]:
    """Return, turns and speed of each policy, by label or task; a policy met twice counts once."""
    cells: dict[str, dict[tuple[float, ...], None]] = {}
    with open(source, newline="") as file:
        for run, *values in list(csv.reader(file))[1:]:
            label, _, task = run.rpartition(BODY)[0].rpartition("-")
            cell = cells.setdefault(task + BODY if by == "task" else label, {})
            cell[tuple(map(float, values))] = None
    return {name: np.array(list(cell)) for name, cell in cells.items()}


def summary(cells: dict[str, np.ndarray]) -> str:
    """Of those who roll the returns, median (largest); of those above half the turns, at most."""
    text = "".join(f"| {' | '.join(line)} |\n" for line in (HEAD, ["---"] * len(HEAD)))
    for name, cell in cells.items():
        rolling, good = cell[cell[:, 1] > 2, 0], cell[cell[:, 0] > 500, 1]
        returns = f"{np.median(rolling):.0f} ({rolling.max():.0f})" if len(rolling) else "–"
        turns = f"{good.max():.1f}" if len(good) else "–"
        text += f"| `{name}` | {len(cell)} | {len(rolling)} | {returns} | {len(good)} | {turns} |\n"
    return text


def draw(folder: Path, name: str, cells: dict[str, np.ndarray]) -> None:
    """Write NAME.svg and NAME.png."""
    color = colors(list(cells))
    folder.mkdir(parents=True, exist_ok=True)
    with panel(folder, name) as ax:
        for label, cell in cells.items():
            dots = {"color": color[label], "label": label, "s": 36, "alpha": 0.85, "lw": 0}
            ax.scatter(cell[:, 1], cell[:, 0], **dots)
        ax.set_xscale("log")
        ax.set_xlabel("turns of the body in an episode of 1,000 steps")
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
    if options.roots and not paths:
        parser.error(f"no run on {BODY} in these folders; pass those of sweeps that have some")
    if paths:
        play(paths, out)
    cells = read(out, options.by)
    draw(FIGURES, options.name, cells)
    print(summary(cells), end="")


if __name__ == "__main__":
    main()
