"""What is learned from pictures, with a memory and with masks, beside what cannot.

    python experiments/guests/learned.py [NAME …] [--seeds 16]

Each line of ``results/learned.jsonl`` is one run; runs that are there are not run again. Without
names all tasks are run. The last lines print the table.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from tasks import CueCorridor, PixelRooms, Unmasked

from lpo import Agent

OUT = Path(__file__).parent / "results" / "learned.jsonl"


class Row(NamedTuple):
    task: str
    name: str
    env: Any
    steps: int
    options: dict[str, Any]


def popgym(name: str) -> Callable[[], gymnasium.Env]:
    def make() -> gymnasium.Env:
        import popgym  # noqa: F401  # pyright: ignore[reportMissingImports]

        return gymnasium.make(f"popgym-{name}-v0")

    return make


def taxi() -> gymnasium.Env:
    return gymnasium.make("Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3")


ROWS = [
    *(
        Row("corridor with a cue", net, CueCorridor, 100_000, {"network": net})
        for net in ("gru", "lstm", "mlp")
    ),
    Row("Taxi", "with masks", taxi, 200_000, {}),
    Row("Taxi", "without masks", lambda: Unmasked(taxi()), 200_000, {}),
    *(
        Row(f"POPGym {task}", net, popgym(task), 200_000, {"network": net, "bonus": "none"})
        for task in ("RepeatPreviousEasy", "CountRecallEasy")
        for net in ("gru", "mlp")
    ),
    Row("rooms in pixels", "rnd, first-visit", PixelRooms, 100_000, {"episode": "first-visit"}),
    Row("rooms in pixels", "rnd", PixelRooms, 100_000, {}),
    Row("rooms in pixels", "no bonus", PixelRooms, 100_000, {"bonus": "none"}),
]


def run(row: Row, seed: int) -> dict[str, Any]:
    began = time.perf_counter()
    agent = Agent(row.env, seed=seed, eval_every=row.steps // 10, eval_episodes=10, **row.options)
    curve: list[tuple[int, float, float]] = []

    def keep(steps: int, metrics: dict[str, float]) -> None:
        if "eval/return" in metrics:
            curve.append((steps, metrics["eval/return"], metrics["eval/sampled_return"]))

    agent.learn(row.steps, keep, progress_bar=False)
    return {
        "task": row.task, "row": row.name, "seed": seed, "steps": row.steps, "curve": curve,
        "minutes": (time.perf_counter() - began) / 60,
    }  # fmt: skip


def done() -> list[dict[str, Any]]:
    return [json.loads(line) for line in OUT.read_text().splitlines()] if OUT.exists() else []


def table(found: list[dict[str, Any]]) -> str:
    lines = [
        "| task | row | runs | last return, by the mode | sampled | minutes |",
        "|" + "---|" * 6,
    ]
    for row in ROWS:
        own = [r for r in found if (r["task"], r["row"]) == (row.task, row.name)]
        if own:
            mode, sampled = (np.array([r["curve"][-1][i] for r in own]) for i in (1, 2))
            span = [f"{x.mean():.2f} ({x.min():.2f} to {x.max():.2f})" for x in (mode, sampled)]
            minutes = np.median([r["minutes"] for r in own])
            lines.append(
                f"| {row.task} | {row.name} | {len(own)} | {span[0]} | {span[1]} | {minutes:.1f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    OUT.parent.mkdir(exist_ok=True)
    for seed in range(asked.seeds):
        for row in ROWS:
            if asked.names and not any(name in row.task for name in asked.names):
                continue
            key = (row.task, row.name, seed)
            if key in {(r["task"], r["row"], r["seed"]) for r in done()}:
                continue
            line = run(row, seed)
            with OUT.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(line["task"], line["row"], seed, line["curve"][-1], flush=True)
    print(table(done()))


if __name__ == "__main__":
    main()
