"""How hard are the sparse locomotion tasks? Hit rates of policies that never saw their rewards.

    python experiments/difficulty/measure.py train     # PPO on the dense rewards; resumable
    python experiments/difficulty/measure.py run       # plays, results/difficulty.json; resumable
    python experiments/difficulty/measure.py table     # results/difficulty.md

Three policies play every body: ``uniform`` draws actions evenly from the action space, ``fresh`` is
the engine's network before its first update, ``dense`` is PPO after 2M steps on Gymnasium's own
reward. A sparse task is Gymnasium's body with another reward, the same observations and the same
termination, so one set of episodes on the body serves all presets: a preset only decides which of
its steps would have been paid.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import gymnasium
import numpy as np

from lpo.agent import PPO
from lpo.config import Config, configure
from lpo.engine.rollout import HostPolicy
from lpo.envs.specs import LOCOMOTION, SparseLocomotion, Threshold
from lpo.policy import Policy
from lpo.runs.directory import RunDirectory
from lpo.runs.run import resume, start
from lpo.runs.session import stopping_on_signals

RESULTS = Path(__file__).parent / "results"
TRAIN_STEPS = 2_000_000
DENSE_SEEDS, FRESH_SEEDS = 1, 10
# Whole episodes are played until they have this many steps; the limit of an episode is 1,000.
PLAY_STEPS = {"uniform": 100_000, "fresh": 10_000, "dense": 50_000}
Act = Callable[[np.ndarray], np.ndarray]  # an observation to an action


class Episode(NamedTuple):
    """What an episode on a body says about every preset, and about the body's own reward."""

    x_velocity: np.ndarray  # [T] m/s
    x_position: np.ndarray  # [T] m
    dense_reward: np.ndarray  # [T]


def play(env: gymnasium.Env, act: Act, steps: int, seed: int) -> list[Episode]:
    """Whole episodes of ``act`` on a body until they have ``steps`` steps."""
    episodes: list[Episode] = []
    played = 0
    obs, _ = env.reset(seed=seed)
    while played < steps:
        rows, done = [], False
        while not done:
            obs, reward, terminated, truncated, info = env.step(act(obs))
            rows.append((info["x_velocity"], info["x_position"], reward))
            done = terminated or truncated
        episodes.append(Episode(*np.array(rows, np.float64).T))
        played += len(rows)
        obs, _ = env.reset()
    return episodes


def hits(episodes: list[Episode], threshold: Threshold) -> dict[str, float]:
    """Share of paid steps, mean sparse return, and share of episodes with a paid step."""
    returns = np.array([(getattr(e, threshold.quantity) > threshold.value).sum() for e in episodes])
    lengths = np.array([len(e.x_velocity) for e in episodes])
    return {
        "steps": float(returns.sum() / lengths.sum()),
        "return": float(returns.mean()),
        "episodes": float((returns > 0).mean()),
    }


def uniform(env: gymnasium.Env, seed: int) -> Act:
    env.action_space.seed(seed)
    return lambda obs: env.action_space.sample()


def network(policy: HostPolicy, deterministic: bool, seed: int) -> Act:
    """The policy's mode, or samples as in training, clipped to the action space."""
    rng, dist = np.random.default_rng(seed), policy.dist

    def act(obs: np.ndarray) -> np.ndarray:
        row = obs[None].astype(np.float32)
        if deterministic:
            return dist.to_env(policy.mode(row))[0]
        return dist.to_env(policy.sample(row, dist.draw(rng, (1, dist.noise_size))))[0]

    return act


def fresh_policy(task: SparseLocomotion, seed: int) -> HostPolicy:
    """The policy that the first rollout of a run with this seed acts with."""
    return PPO(task.id, seed=seed, num_envs=1, threads=1, eval_every=0).run.trainer.policy()


def dense_policy(directory: Path) -> HostPolicy:
    """The policy that training ended with, its observation statistics frozen."""
    return Policy.load(directory, checkpoint="last").actor


def dense_directory(root: Path, task: SparseLocomotion, seed: int) -> Path:
    return root / f"{task.base_id}-s{seed}"


def dense_config(task: SparseLocomotion, seed: int) -> Config:
    """What ``lpo train --algo ppo --env Hopper-v5`` starts from: the paper's table."""
    return configure(
        "ppo", env=task.base_id, steps=TRAIN_STEPS, seed=seed,
        eval_every=50_000, checkpoint_every=50_000, keep_checkpoints=1,
    )  # fmt: skip


def train(root: Path) -> None:
    """Every dense run that is not complete, from its last checkpoint if it has one."""
    for seed in range(DENSE_SEEDS):
        for task in LOCOMOTION.values():
            out = dense_directory(root, task, seed)
            if steps_of(out) >= TRAIN_STEPS:
                continue
            fresh = steps_of(out) == 0
            with start(dense_config(task, seed), out) if fresh else resume(out).run as run:
                with stopping_on_signals(run):
                    run.advance(TRAIN_STEPS)
                print(f"{out}: {run.env_steps} steps", flush=True)
                if run.stop_requested:
                    return


def steps_of(directory: Path) -> int:
    """Steps of the latest checkpoint of a run; 0 where there is none."""
    return RunDirectory(directory).reached() or 0


def plays(task: SparseLocomotion, root: Path) -> Iterator[tuple[dict[str, Any], Any]]:
    """Who plays on a body, and the function ``env → act`` of each; unfinished training is left out.

    The seed of a play is that of its environment, actions and, for ``fresh``, of the network.
    """
    yield {"policy": "uniform", "seed": 0}, lambda env: uniform(env, 0)
    for seed in range(FRESH_SEEDS):
        yield (
            {"policy": "fresh", "seed": seed},
            lambda env, seed=seed: network(fresh_policy(task, seed), False, seed),
        )
    for seed in range(DENSE_SEEDS):
        directory = dense_directory(root, task, seed)
        if steps_of(directory) < TRAIN_STEPS:
            continue
        for deterministic in (True, False):
            yield (
                {"policy": "dense", "seed": seed, "deterministic": deterministic},
                lambda env, d=directory, det=deterministic: network(dense_policy(d), det, 0),
            )


def measure(task: SparseLocomotion, policy: str, seed: int, make_act: Any) -> dict[str, Any]:
    """One row of the results: how one policy fares on a body and on each of its presets."""
    env = gymnasium.make(task.base_id)
    episodes = play(env, make_act(env), PLAY_STEPS[policy], seed)
    speeds = np.concatenate([e.x_velocity for e in episodes])
    env.close()
    return {
        "num_episodes": len(episodes),
        "length": len(speeds) / len(episodes),
        "speed": float(speeds.mean()),
        "fastest": float(speeds.max()),
        "farthest": max(float(e.x_position.max()) for e in episodes),
        "dense_return": float(np.mean([e.dense_reward.sum() for e in episodes])),
        "presets": {name: hits(episodes, t) for name, t in task.presets.items()},
    }


def run(root: Path, file: Path) -> None:
    """Measure what is not in ``file`` yet; it is written anew after every play."""
    rows = json.loads(file.read_text()) if file.exists() else []
    for task in LOCOMOTION.values():
        for who, make_act in plays(task, root):
            key = {"body": task.base_id, **who}
            if any(key.items() <= row.items() for row in rows):
                continue
            rows.append(key | measure(task, who["policy"], who["seed"], make_act))
            part = file.with_suffix(".part")
            part.write_text(json.dumps(rows, indent=1) + "\n")
            part.replace(file)
            print(key, flush=True)


def pick(rows: list[dict[str, Any]], body: str, **who: Any) -> list[dict[str, Any]]:
    key = {"body": body, **who}
    return [row for row in rows if key.items() <= row.items()]


COLUMNS: dict[str, dict[str, Any]] = {
    "uniform": {"policy": "uniform"},
    "fresh": {"policy": "fresh"},
    "dense, mode": {"policy": "dense", "deterministic": True},
    "dense, sampled": {"policy": "dense", "deterministic": False},
}


def policies_table(rows: list[dict[str, Any]]) -> list[str]:
    """How the policies fare on the bodies, whatever the preset."""
    lines = [
        "| body | policy | seeds | episodes | mean length | mean dense return | mean speed "
        "| fastest step | farthest step |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for task in LOCOMOTION.values():
        for name, who in COLUMNS.items():
            if mine := pick(rows, task.base_id, **who):
                played = sum(row["num_episodes"] for row in mine)
                length, dense, speed = (
                    np.mean([row[k] for row in mine]) for k in ("length", "dense_return", "speed")
                )
                fastest, farthest = (max(row[k] for row in mine) for k in ("fastest", "farthest"))
                lines.append(
                    f"| {task.base_id} | {name} | {len(mine)} | {played} | {length:.4g} "
                    f"| {dense:.0f} | {speed:.2f} m/s | {fastest:.2f} m/s | {farthest:.2f} m |"
                )
    return lines


def cell(mine: list[dict[str, Any]], preset: str) -> str:
    """Steps / return / episodes, each the mean over seeds."""
    if not mine:
        return "–"
    steps, ret, episodes = (
        float(np.mean([row["presets"][preset][k] for row in mine]))
        for k in ("steps", "return", "episodes")
    )
    return f"{percent(steps)} / {ret:.3g} / {percent(episodes)}"


def percent(share: float) -> str:
    """Rare hits keep two digits, so that only "never" prints as 0."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.1f} %"


def table(rows: list[dict[str, Any]]) -> str:
    """Both tables in Markdown."""
    lines = [
        *policies_table(rows),
        "",
        "Each cell: share of steps that are paid / mean sparse return (of 1,000) / share of "
        "episodes with a paid step.",
        "",
        f"| body | preset | paid when | {' | '.join(COLUMNS)} |",
        "|---|---|---|" + "---|" * len(COLUMNS),
    ]
    for task in LOCOMOTION.values():
        for preset, threshold in task.presets.items():
            cells = [cell(pick(rows, task.base_id, **who), preset) for who in COLUMNS.values()]
            lines.append(f"| {task.base_id} | `{preset}` | {threshold} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="how hard the sparse locomotion tasks are")
    parser.add_argument("what", choices=("train", "run", "table"))
    parser.add_argument("--root", type=Path, default=Path("runs/difficulty"))
    options = parser.parse_args()
    file = RESULTS / "difficulty.json"
    if options.what == "train":
        train(options.root)
    elif options.what == "run":
        run(options.root, file)
    else:
        text = table(json.loads(file.read_text()))
        file.with_suffix(".md").write_text(text)
        print(text)


if __name__ == "__main__":
    main()
