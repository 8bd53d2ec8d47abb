"""Report: run directories read into memory, by task and label."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lpo.config import Config, flat
from lpo.errors import LPOError
from lpo.runs.directory import RunDirectory, task_line
from lpo.runs.visits import from_json

LAST = 5  # evaluations whose mean is the final score
PASS = 0.5  # share of the largest return that a seed must pass to count as a success


@dataclass(frozen=True)
class RunData:
    path: Path
    label: str  # of the sweep that made it, else the algorithm
    task: str
    config: Config
    description: dict[str, Any]
    rows: list[dict[str, Any]]
    timing: list[dict[str, Any]]

    @cached_property
    def options(self) -> dict[str, Any]:
        """Options by their short names."""
        return flat(self.config)

    def curve(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        rows = [row for row in self.rows if metric in row]
        steps = np.array([row["env_steps"] for row in rows], float)
        return steps, np.array([row[metric] for row in rows], float)

    @cached_property
    def score_metric(self) -> str:
        return "eval/return" if any("eval/return" in row for row in self.rows) else "rollout/return"

    @property
    def env_steps(self) -> int:
        return int(self.rows[-1]["env_steps"])

    @property
    def finished(self) -> bool:
        return self.env_steps >= self.config.steps

    @property
    def final(self) -> float:
        """Mean of the last evaluations."""
        return float(self.curve(self.score_metric)[1][-LAST:].mean())

    @property
    def last(self) -> float:
        """The last evaluation."""
        return float(self.curve(self.score_metric)[1][-1])

    @property
    def best(self) -> float:
        return float(self.curve(self.score_metric)[1].max())

    def late(self, metric: str) -> float | None:
        """Mean over the evaluated rollouts of the run's second half; None where there is none.

        Evaluated ones only, because these are what a packed run has kept.
        """
        rows = [row for row in self.rows if metric in row and self.score_metric in row]
        half = [row[metric] for row in rows if row["env_steps"] > self.env_steps / 2]
        return float(np.mean(half)) if half else None

    @property
    def max_return(self) -> float | None:
        return self.description.get("max_return")

    @property
    def passed(self) -> bool | None:
        """Whether the final score is above half of the largest possible one."""
        return None if self.max_return is None else self.final > PASS * self.max_return

    @property
    def first_reward(self) -> int | None:
        """Steps at the end of the first rollout with a reward."""
        rows = (row for row in self.rows if row.get("rollout/reward_rate", 0) > 0)
        return next((int(row["env_steps"]) for row in rows), None)

    @property
    def switches(self) -> int:
        return int(self.rows[-1]["switch/count"])

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of each part of the run: rollout, learn, eval, …"""
        last = self.timing[-1] if self.timing else {}
        return {
            key.removeprefix("time/").removesuffix("_s"): value
            for key, value in last.items()
            if key.startswith("time/") and key != "time/env_steps_per_s"
        }

    @cached_property
    def visits(self) -> tuple[list[dict[str, Any]], np.ndarray] | None:
        """Axes and counts of the states of the run, where its task declares a projection."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            return from_json((self.path / "visits.json").read_text())
        return None


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Run directories among ``paths``, each of which is a run or holds runs (a sweep)."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(p.parent for p in path.glob("*/config.json")) if path.is_dir() else []
        places = {row["name"]: i for i, row in enumerate(planned(path))}
        inside.sort(key=lambda p, at=places: at.get(p.name, len(at)))
        if (path / "config.json").is_file():
            found.append(path)
        elif inside:
            found += inside
        else:
            raise LPOError(f"{path} is no run and holds none; pass runs, or a sweep's directory.")
    if not found:
        raise LPOError("No run was given; pass run directories, or the directory of a sweep.")
    return list(dict.fromkeys(found))


def planned(sweep: Path) -> list[dict[str, Any]]:
    """The rows of a sweep's plan; none where ``sweep`` is not one."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        rows = json.loads((sweep / "sweep.json").read_text())["runs"]
        return [row for row in rows if {"name", "label"} <= row.keys()]
    return []


def label_of(run: Path, c: Config) -> str:
    """The column that the sweep beside the run gave it; a run on its own goes by its algorithm."""
    rows = planned(run.parent)
    return next((str(row["label"]) for row in rows if row["name"] == run.name), c.algo)


def load_run(path: Path) -> RunData | None:
    """None where a run has nothing to show yet."""
    run = RunDirectory.open(path)
    c, description, rows = run.config(), run.task(), run.metrics()
    if not any("eval/return" in row or "rollout/return" in row for row in rows):
        return None
    timing = run.timing()
    label, task = label_of(path, c), task_line(description)
    return RunData(path, label, task, c, description, rows, timing)


class Runs:
    """All runs of a report: tasks × labels, in the order in which they were met."""

    def __init__(self, paths: Sequence[Path]):
        loaded = {path: load_run(path) for path in find_runs(paths)}
        self.empty = [path for path, run in loaded.items() if run is None]
        self.runs = [run for run in loaded.values() if run is not None]
        if not self.runs:
            raise LPOError(f"No run in {paths[0]} has logged a return yet; let them go on.")
        self.check_options()
        self.tasks = list(dict.fromkeys(run.task for run in self.runs))
        self.labels = list(dict.fromkeys(run.label for run in self.runs))

    def cell(self, task: str, label: str) -> list[RunData]:
        return [run for run in self.runs if (run.task, run.label) == (task, label)]

    def cells(self) -> list[tuple[str, str, list[RunData]]]:
        every = [(t, x, self.cell(t, x)) for t in self.tasks for x in self.labels]
        return [row for row in every if row[2]]

    def complete(self) -> list[str]:
        """Labels with runs on every task: only these can be compared across tasks."""
        return [x for x in self.labels if all(self.cell(task, x) for task in self.tasks)]

    def scale(self, task: str) -> float:
        """What a score of 1 stands for: the largest return, or the best one seen."""
        runs = [run for run in self.runs if run.task == task]
        if runs[0].max_return is not None:
            return float(runs[0].max_return)
        return max(max(abs(run.best) for run in runs), 1e-12)

    def scores(self, label: str) -> list[np.ndarray]:
        """Normalised final scores of a label, an array of runs for each task."""
        return [
            np.array([run.final for run in self.cell(task, label)]) / self.scale(task)
            for task in self.tasks
        ]

    def check_options(self) -> None:
        """A cell is one set of options: runs that differ in more than the seed are refused."""
        seen: dict[tuple[str, str], RunData] = {}
        for run in self.runs:
            first = seen.setdefault((run.task, run.label), run)
            for name in first.options | run.options:
                a, b = (r.options.get(name) for r in (first, run))
                if a != b and name not in ("seed", "threads", "keep_checkpoints"):
                    raise LPOError(
                        f"{first.path} and {run.path} are both {run.label!r} but differ in {name} "
                        f"({a!r} and {b!r}); name them as variants of a sweep."
                    )
