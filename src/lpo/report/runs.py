"""Report: the runs in memory, by task and label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lpo.config import Config, idle
from lpo.errors import LPOError
from lpo.runs import record, store, written
from lpo.runs.directory import task_line
from lpo.runs.record import Record, Row, VisitCounts

LAST, LATE = 5, 0.75  # the final score is the mean of at most 5 evaluations of the last quarter
SAME = {"seed", *idle(Config())}  # may differ between the runs of a cell
PASS = 0.5  # share of the largest return that a seed must exceed to count as "above half"


def ending(steps: np.ndarray, values: np.ndarray) -> float:
    """Returns the mean of the last five values, of those in the last quarter of the steps.

    Without the second half a row that is evaluated seldom would be read earlier in its life.
    """
    return float(values[-LAST:][steps[-LAST:] >= LATE * steps[-1]].mean())


@dataclass(frozen=True)
class RunData:
    """A run as a report sees it; the same from a run directory and from a packed file."""

    path: Path  # the run directory, or FILE.parquet/NAME
    label: str  # from the sweep that made it, or else the algorithm
    task: str
    options: dict[str, Any]  # by short name, as they were written
    algo: str
    steps: int  # its budget
    seed: int
    description: dict[str, Any]
    rows: list[Row]
    timing: list[Row]
    visits: VisitCounts | None  # where the task declares a projection
    policy: bytes | None  # of a packed file that holds one
    packed: bool

    @staticmethod
    def of(run: Record) -> RunData:
        description = record.declared(run.task, str(run.path))
        source = f"The configuration of {run.path}"
        options = written.options_of(run.config, source)
        return RunData(
            run.path, run.label, task_line(description), options,
            written.text(options, "algo", source), written.whole(options, "steps", source),
            written.whole(options, "seed", source), description,
            run.rows, run.timing, run.visits, run.policy, run.packed,
        )  # fmt: skip

    @property
    def name(self) -> str:
        return self.path.name

    def curve(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        rows = [row for row in self.rows if metric in row]
        steps = np.array([row["env_steps"] for row in rows], float)
        return steps, np.array([row[metric] for row in rows], float)

    @cached_property
    def score_metric(self) -> str:
        return record.score_metric(self.rows)

    @property
    def env_steps(self) -> int:
        return int(self.rows[-1]["env_steps"])

    @property
    def finished(self) -> bool:
        return self.env_steps >= self.steps

    @property
    def final(self) -> float:
        return self.ending(self.score_metric)

    def has(self, metric: str) -> bool:
        return any(metric in row for row in self.rows)

    def ending(self, metric: str) -> float:
        return ending(*self.curve(metric))

    @property
    def last(self) -> float:
        """The last evaluation."""
        return float(self.curve(self.score_metric)[1][-1])

    @property
    def best(self) -> float:
        return float(self.curve(self.score_metric)[1].max())

    def late(self, metric: str) -> float | None:
        """Returns the mean over the evaluated rollouts of the run's second half, or None.

        It uses evaluated rollouts only, because a packed file keeps only these.
        """
        rows = [row for row in self.rows if metric in row and self.score_metric in row]
        half = [row[metric] for row in rows if row["env_steps"] > self.env_steps / 2]
        return float(np.mean(half)) if half else None

    @property
    def max_return(self) -> float | None:
        return self.description.get("max_return")

    @property
    def min_return(self) -> float:
        """The return that has a score of 0."""
        return self.description.get("min_return") or 0.0

    @property
    def passed(self) -> bool | None:
        """Whether the final score is above half of the largest possible one."""
        if self.max_return is None:
            return None
        return self.final - self.min_return > PASS * (self.max_return - self.min_return)

    @property
    def first_reward(self) -> int | None:
        """Steps at the end of the first rollout with a reward."""
        return record.first_reward(self.rows)

    @property
    def switches(self) -> int:
        return int(self.rows[-1].get("switch/count", 0))

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of each part of the run: rollout, learn, eval, …"""
        last = self.timing[-1] if self.timing else {}
        return {
            key.removeprefix("time/").removesuffix("_s"): value
            for key, value in last.items()
            if key.startswith("time/") and key != "time/env_steps_per_s"
        }


class Runs:
    """All runs of a report: tasks × labels, in the order in which they first appear."""

    def __init__(self, paths: Sequence[Path]):
        loaded = store.load(paths)
        self.empty = [run.path for run in loaded if not record.has_returns(run)]
        self.runs = [RunData.of(run) for run in loaded if record.has_returns(run)]
        if not self.runs:
            raise LPOError(f"No run in {paths[0]} has logged a return yet; let the runs go on.")
        self.check_options()
        self.tasks = list(dict.fromkeys(run.task for run in self.runs))
        self.labels = list(dict.fromkeys(run.label for run in self.runs))

    def cell(self, task: str, label: str) -> list[RunData]:
        return [run for run in self.runs if (run.task, run.label) == (task, label)]

    def cells(self) -> list[tuple[str, str, list[RunData]]]:
        every = [(t, x, self.cell(t, x)) for t in self.tasks for x in self.labels]
        return [row for row in every if row[2]]

    def complete(self) -> list[str]:
        """Returns the labels with runs on every task: only these can be compared across tasks."""
        return [x for x in self.labels if all(self.cell(task, x) for task in self.tasks)]

    def scale(self, task: str) -> float:
        """Returns how far a score of 1 is from 0: the range of returns, or the best one seen."""
        runs = [run for run in self.runs if run.task == task]
        least, largest = runs[0].min_return, runs[0].max_return
        if largest is not None and largest > least:
            return float(largest - least)
        return max(max(abs(run.best) for run in runs), 1e-12)

    def scores(self, label: str) -> list[np.ndarray]:
        """Returns the normalised final scores of a label, an array of runs for each task."""
        return [
            np.array([run.final - run.min_return for run in self.cell(task, label)])
            / self.scale(task)
            for task in self.tasks
        ]

    def check_options(self) -> None:
        """Raises LPOError if runs of one cell differ in more than the seed."""
        seen: dict[tuple[str, str], RunData] = {}
        for run in self.runs:
            first = seen.setdefault((run.task, run.label), run)
            for name in (
                first.options.keys() & run.options.keys()
            ):  # of older files some are missing
                a, b = (r.options[name] for r in (first, run))
                if a != b and name not in SAME:
                    raise LPOError(
                        f"{first.path} and {run.path} are both {run.label!r} but differ in {name} "
                        f"({a!r} and {b!r}); name them as variants of a sweep."
                    )
