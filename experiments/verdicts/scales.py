"""The default where rewards are costs, tiny, large, or dense with a rare bonus.

    python experiments/verdicts/scales.py runs/scales [TASK …] [--row untold] [--row told]
    python experiments/verdicts/tables.py

``untold`` is the default without any option. ``told`` has, run by run, what the first warning of
that run says to somebody who knows what a success pays; where a task has no warning, there is no
such row. ``literal`` takes the first reward for that of a success. ``costs`` and ``unit`` are
rules that were tried (rules.py). Each line of ``results/scales.jsonl`` is one run; those that are
there are not made again.

A run has solved its task if at least 0.8 of the episodes in its last three evaluations reach the
goal, by the better of mode and sampled actions. This was fixed before the first run.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import rules
import tasks as own_tasks  # noqa: F401 - registers them

from lpo import config
from lpo.config import Config
from lpo.runs.costs import Costs
from lpo.runs.directory import RunDirectory
from lpo.runs.unit import SmallRewards
from lpo.sweep.device import sweep_on_device
from lpo.sweep.grid import Grid, Item

OUT = Path(__file__).parent / "results" / "scales.jsonl"
FIRST_SEED, RUNS = 900, 16
EVALUATIONS, LAST, SOLVED = 10, 3, 0.8


class Task(NamedTuple):
    steps: int
    words: str
    free: bool = False  # a success costs nothing, and all else does
    pays: float | None = None  # for a success, where that is not what the first reward is
    env: str | None = None  # where it is none of tasks.py


Options = dict[str, float]


TASKS = {
    "car-0.01": Task(32_768, "mountain car, 0.01 at the goal"),
    "car-100": Task(32_768, "mountain car, 100 at the goal"),
    "car-cost": Task(40_960, "mountain car, -1 a step, also at the goal"),
    "car-dense": Task(32_768, "mountain car, -0.05 × distance a step and 1 at the goal"),
    "key-0.01": Task(65_536, "key and door, 0.01 at the goal"),
    "key-cost": Task(65_536, "key and door, -1 a step and 0 at the goal", True),
    "key-small-cost": Task(65_536, "key and door, -0.01 a step and 1 at the goal"),
    "cliff-cost": Task(40_960, "cliff, -1 a step, also at the goal, and -100 a fall"),
    "sea-0.01": Task(
        65_536, "DeepSea (size=10), 0.01 in the corner and 1e-5 for each left", pays=0.01
    ),
    "acrobot": Task(65_536, "Acrobot", env="Acrobot-v1"),
}


def warned(run: RunDirectory, c: Config, task: dict[str, Any]) -> str | None:
    """Returns the first warning of a run on what its rewards are, as a run of one says it."""
    small, costs = SmallRewards(c, task), Costs(c, task)
    for row in run.metrics():
        steps = int(row["env_steps"])
        said = small.look(row.get("rollout/reward_max", 0.0), steps) + costs.look(row, steps)
        if said:
            return said[0]
    return None


def told(message: str, task: Task, literally: bool = False) -> tuple[str, Options] | None:
    """Returns what is added to the name of the task, and the options that a warning names.

    A warning says what to pass if a success costs nothing, and what else; or what to pass if the
    reward that was met is that of a success, and if a success pays another R. Whoever knows the
    task knows which is true; ``literally`` takes the reward that was met for that of a success.
    """
    first, _, second = message.partition("; ")
    advice = second if second and not task.free and "/R" not in second else first
    advice = advice.partition("pass ")[2]
    if "plus_one" in advice:
        return "+1", {}
    found = re.findall(r"(?:--)?(\w[\w-]+) ([-\d.e+]*\d)", advice)
    options = {name.replace("-", "_"): float(value) for name, value in found}
    if "earned_reward" in options and task.pays is not None and not literally:
        options = {"alpha": 1 / task.pays, "earned_reward": task.pays}
    return ("", options) if options else None


def configured(name: str, row: str, **options: Any) -> Config:
    task = TASKS[name.removesuffix("+1")]
    base = {"steps": task.steps, "eval_every": task.steps // EVALUATIONS}
    c = config.configure(None, env=task.env or f"verdicts/{name}-v0", **base, **options)
    return config.with_part(c, "weighing", row) if row in rules.NAMES else c


def items(name: str, row: str, first: int = FIRST_SEED) -> list[Item]:
    """Returns the runs of a row; those that are told what to pass differ in it."""
    if row not in ("told", "literal"):
        c = configured(name, row)
        seeds = range(first, first + RUNS)
        return [Item(f"{row}-s{s}", row, config.with_options(c, {"seed": s})) for s in seeds]
    found = []
    for line in lines_of():
        if (line["task"], line["row"]) != (name, "untold"):
            continue
        if (advice := told(line["warning"] or "", TASKS[name], row == "literal")) is not None:
            plus, options = advice
            c = configured(name + plus, row, **options, seed=line["seed"])
            found.append(Item(f"{row}-s{line['seed']}", row, c))
    return found


def judge(name: str, row: str, seed: int, path: Path) -> dict[str, Any]:
    run = RunDirectory.open(path)
    rows = [line for line in run.metrics() if "eval/success" in line]
    success = {
        way: np.mean([line[f"eval/{key}"] for line in rows[-LAST:]]).item()
        for way, key in (("mode", "success"), ("sampled", "sampled_success"))
    }
    ever = max(max(line["eval/success"], line["eval/sampled_success"]) for line in rows)
    c, task = config.read(run.config_file), json.loads(run.task_file.read_text())
    met = [line["env_steps"] for line in run.metrics() if line.get("rollout/success", 0) > 0]
    return {
        "task": name, "row": row, "seed": seed, "steps": TASKS[name].steps,
        "success": success, "ever": ever, "first_success": met[0] if met else None,
        "mean_return": np.mean([line["eval/return"] for line in rows]).item(),
        "warning": warned(run, c, task) if row == "untold" else None,
    }  # fmt: skip


def lines_of(path: Path = OUT) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def make(root: Path, names: Sequence[str], rows: Sequence[str], first: int) -> None:
    for row in rows:
        for name in names or TASKS:
            done = {x["seed"] for x in lines_of() if (x["task"], x["row"]) == (name, row)}
            found = items(name, row, first)
            if done >= {item.config.seed for item in found}:
                continue
            began = time.process_time()
            folder = root / f"{name}-{row}-{first}"
            if sweep_on_device(Grid(f"{name}-{row}", found), folder, "cpu", quiet=True):
                raise KeyboardInterrupt
            for item in found:
                if item.config.seed not in done:
                    line = judge(name, row, item.config.seed, folder / item.name)
                    with OUT.open("a") as file:
                        file.write(json.dumps(line) + "\n")
            own = [x for x in lines_of() if (x["task"], x["row"]) == (name, row)]
            seconds = time.process_time() - began
            print(f"{name} {row}: {solved(own)}, {seconds:.0f} CPU seconds", flush=True)


def solved(lines: Sequence[dict[str, Any]]) -> str:
    return f"{sum(max(x['success'].values()) >= SOLVED for x in lines)} of {len(lines)}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Costs and scales of reward")
    parser.add_argument("root", type=Path, help="where the runs go")
    parser.add_argument("tasks", nargs="*", help="such as car-cost; all by default")
    parser.add_argument("--row", action="append", help="untold, told, … ; both by default")
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="first of 16 seeds")
    given = parser.parse_args()
    make(given.root, given.tasks, given.row or ("untold", "told"), given.first)


if __name__ == "__main__":
    main()
