"""SB3's PPO alone and with ``Explore``, all other options alike: is the reward found, and kept?

    nice python experiments/sb3/run.py               # writes each run as it ends, and resumes
    python experiments/sb3/run.py pack               # runs/sb3.jsonl → runs.parquet
    python experiments/sb3/run.py table              # the table of docs/sb3.md

PPO has SB3's defaults; eight environments with n_steps 256 make its usual rollout of 2,048 steps.
Explore has no option at all. The seeds 1000 and 1001 of MountainCar-v0 were looked at before, with
beta 0.25 and 1. What follows was fixed then: tasks, steps, seeds, and what counts as success.

An episode is found by its return. A run has found the reward when an episode succeeds, and kept it
when 18 of its last 20 episodes of training succeed. Actions are sampled.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).parent
LOG = Path("runs/sb3.jsonl")
PACKED = HERE / "runs.parquet"
SEEDS, BLOCK = 16, 4  # four seeds of every task, then the next four
ARMS = ("explore", "alone")
ENVS, N_STEPS = 8, 256
LAST, KEPT = 20, 18


class Task(NamedTuple):
    steps: int
    success: float  # least return of an episode that succeeds


TASKS = {
    "MountainCar-v0": Task(200_000, -199.0),
    "lpo/SparseHopper-v0": Task(200_000, 500.0),
    "MiniGrid-DoorKey-8x8-v0": Task(200_000, 0.05),
    "CartPole-v1": Task(50_000, 475.0),
    "Hopper-v5": Task(100_000, 1000.0),
}


def environments(task: str, seed: int) -> Any:
    """Returns eight environments of a task as SB3 takes them."""
    import gymnasium
    from gymnasium.spaces import Box
    from stable_baselines3.common.vec_env import DummyVecEnv, VecEnvWrapper, VecMonitor

    import lpo  # noqa: F401 - registers SparseHopper
    from lpo.envs.sb3 import make_vec_env

    class Views(VecEnvWrapper):
        """A grid that EnvPool steps, seen as MiniGrid's one-hot wrapper shows it: 7 × 7 codes."""

        def __init__(self, venv: Any):
            super().__init__(venv, Box(0, 1, (7, 7, 21), np.uint8))

        def see(self, obs: Any) -> Any:
            return obs[..., : 7 * 7 * 21].reshape(*obs.shape[:-1], 7, 7, 21).astype(np.uint8)

        def reset(self) -> Any:
            return self.see(self.venv.reset())

        def step_wait(self) -> Any:
            obs, reward, done, infos = self.venv.step_wait()
            for i in done.nonzero()[0]:
                infos[i]["terminal_observation"] = self.see(infos[i]["terminal_observation"])
            return self.see(obs), reward, done, infos

    if task.startswith("MiniGrid"):
        env = VecMonitor(Views(make_vec_env(f"envpool:{task}", ENVS)))
    else:
        env = VecMonitor(DummyVecEnv([lambda: gymnasium.make(task)] * ENVS))
    env.seed(1000 * seed)
    return env


def train(task: str, arm: str, seed: int) -> dict[str, Any]:
    """Returns one run: every episode of training, and the seconds it took."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback

    from lpo.sb3 import Explore

    class Episodes(BaseCallback):
        """Writes down the episodes that end."""

        rows: list[tuple[int, float]]

        def _init_callback(self) -> None:
            self.rows = []

        def _on_step(self) -> bool:
            for info in self.locals["infos"]:
                if "episode" in info:
                    self.rows.append((self.num_timesteps, float(info["episode"]["r"])))
            return True

    torch.set_num_threads(1)
    episodes, began = Episodes(), time.process_time()
    model = PPO("MlpPolicy", environments(task, seed), n_steps=N_STEPS, seed=seed, device="cpu")
    callbacks: Any = [Explore(), episodes] if arm == "explore" else [episodes]
    model.learn(TASKS[task].steps, callback=callbacks)
    steps, returns = zip(*episodes.rows, strict=True)
    return {
        "task": task, "arm": arm, "seed": seed, "seconds": time.process_time() - began,
        "steps": steps, "returns": returns,
    }  # fmt: skip


def wanted() -> Iterator[tuple[str, str, int]]:
    for first in range(0, SEEDS, BLOCK):
        for task in TASKS:
            for seed in range(first, first + BLOCK):
                for arm in ARMS:
                    yield task, arm, seed


def finished() -> list[dict[str, Any]]:
    return [json.loads(line) for line in LOG.read_text().splitlines()] if LOG.exists() else []


def run() -> None:
    """Runs what is missing; a kill costs the run that was under way."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    done = {(r["task"], r["arm"], r["seed"]) for r in finished()}
    for task, arm, seed in wanted():
        if (task, arm, seed) not in done:
            row = train(task, arm, seed)
            with LOG.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(task, arm, seed, f"{row['seconds']:.0f} s", flush=True)


def pack() -> None:
    """Writes the finished runs as one Parquet file, a row for each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = sorted(finished(), key=lambda r: (r["task"], r["arm"], r["seed"]))
    schema = pa.schema(
        [("task", pa.string()), ("arm", pa.string()), ("seed", pa.int32()),
         ("seconds", pa.float32()), ("steps", pa.list_(pa.int32())),
         ("returns", pa.list_(pa.float32()))]
    )  # fmt: skip
    table = pa.Table.from_pylist(rows, schema)
    pq.write_table(table, PACKED, compression="zstd", compression_level=19, use_dictionary=False)


def outcome(row: dict[str, Any]) -> tuple[bool, bool, float]:
    """Returns whether a run found the reward, whether it kept it, and its return at the end."""
    least, returns = TASKS[row["task"]].success, row["returns"]
    good, last = [r >= least for r in returns], returns[-LAST:]
    return any(good), sum(good[-LAST:]) >= KEPT, sum(last) / len(last)


def table() -> None:
    """Prints the packed runs: found, kept, and the return of the last 20 episodes."""
    import pyarrow.parquet as pq

    from lpo.report.stats import estimate, iqm

    rows = pq.read_table(PACKED).to_pylist()
    print("| task | steps | PPO | runs | found | kept | return at the end |\n" + "|---" * 7 + "|")
    for task, about in TASKS.items():
        for arm in ARMS:
            each = [outcome(r) for r in rows if (r["task"], r["arm"]) == (task, arm)]
            if not each:
                continue
            end = estimate(iqm, [np.array([e[2] for e in each])])
            found, kept = (sum(e[i] for e in each) for i in (0, 1))
            cells = (task, f"{about.steps // 1000}k", arm, len(each), found, kept,
                     f"{end.value:.0f} [{end.low:.0f}, {end.high:.0f}]" if abs(end.value) > 2
                     else f"{end.value:.2f} [{end.low:.2f}, {end.high:.2f}]")  # fmt: skip
            print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    {"pack": pack, "table": table}.get("".join(sys.argv[1:]), run)()
