"""Runs: the data of a run that a report reads, and how run directories are found."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from lpo import files
from lpo.errors import LPOError
from lpo.runs import written
from lpo.runs.directory import RunDirectory
from lpo.runs.visits import from_json

Row = dict[str, Any]
VisitCounts = tuple[list[dict[str, Any]], np.ndarray]  # axes; counts [quarter, first, second]
PLAN = "sweep.json"  # the plan in the directory of a sweep
DECLARED: dict[str, Any] = {
    "id": str | None, "preset": str | None, "quantity": str | None, "env_kwargs": dict | None,
    "threshold": int | float | None, "max_return": int | float | None,
    "min_return": int | float | None,
}  # fmt: skip


@dataclass(frozen=True)
class Record:
    """One run in memory, from its directory or from a packed file."""

    path: Path  # the directory, or FILE.parquet/NAME
    label: str  # from the sweep that made it, or else the algorithm
    config: str  # config.json
    task: str  # task.json
    rows: list[Row]  # metrics.jsonl
    timing: list[Row]  # timing.jsonl
    visits: VisitCounts | None = None
    policy: bytes | None = None  # a saved policy, where a packed file holds one
    packed: bool = False

    @property
    def name(self) -> str:
        return self.path.name


def read_directory(path: Path, label: str | None = None) -> Record:
    """Reads a run directory; ``label`` is by default the one that its sweep gave to the run."""
    run = RunDirectory.open(path)
    if not files.is_text(path.name):
        raise LPOError(f"The name of the run {path.name!r} is not UTF-8; rename the folder.")
    config, task = read_text(run.config_file), read_text(run.task_file)
    rows = checked_rows(run.metrics(), run.metrics_file)
    timing = checked_rows(run.timing(), run.timing_file)
    return Record(
        path, label or label_of(path, config), config, task, rows, timing, read_visits(run)
    )


def checked_rows(rows: list[Row], source: Path) -> list[Row]:
    """Returns rows of numbers, each with its ``env_steps``; what is not finite was not logged."""
    for row in rows:
        wrong = next((key for key, value in row.items() if not is_number(value)), None)
        if wrong is not None or not isinstance(row.get("env_steps"), int):
            name = wrong or "env_steps"
            raise LPOError(
                f"{source} has {name} {row.get(name)!r}, which is not a number that a run logs; "
                "pass a run that `lpo train` made."
            )
    return [{key: value for key, value in row.items() if math.isfinite(value)} for row in rows]


def is_number(value: Any) -> bool:
    """Returns whether ``value`` is a float, or a whole number that fits into 64 bits."""
    return type(value) is float or (type(value) is int and abs(value) < files.WHOLE)


def read_text(path: Path) -> str:
    try:
        return files.read_text(path)
    except (OSError, ValueError) as error:
        raise LPOError(f"Cannot read {path} ({error}); pass a complete run directory.") from error


def declared(task: str, source: str) -> dict[str, Any]:
    """Returns the description in the text of a task.json. Raises LPOError where it is none."""
    try:
        values = files.parse_json(task)
    except ValueError as error:
        raise LPOError(
            f"The task of {source} is not JSON ({error}); pass a complete run."
        ) from error
    if not isinstance(values, dict):
        raise LPOError(f"The task of {source} is not a JSON object; pass a complete run.")
    for key, kinds in DECLARED.items():
        if not isinstance(values.get(key), kinds) or isinstance(values.get(key), bool):
            raise LPOError(
                f"The task of {source} declares {key} as {values[key]!r}; pass a run that "
                "`lpo train` made."
            )
    return values


def read_visits(run: RunDirectory) -> VisitCounts | None:
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, OverflowError):
        return from_json(files.read_text(run.visits_file))
    return None


def score_metric(rows: list[Row]) -> str:
    """Returns the metric that a run is compared by: of evaluations, or else of rollouts."""
    return "eval/return" if any("eval/return" in row for row in rows) else "rollout/return"


def first_reward(rows: list[Row]) -> int | None:
    """Returns the steps at the end of the first rollout with a reward; None where there is none."""
    met = (row for row in rows if row.get("rollout/reward_rate", 0) > 0)
    return next((int(row["env_steps"]) for row in met), None)


def has_returns(record: Record) -> bool:
    """Returns whether a run has logged a return yet."""
    return any("eval/return" in row or "rollout/return" in row for row in record.rows)


def find_directories(paths: Sequence[Path]) -> list[Path]:
    """Returns the run directories in ``paths``; each path is a run or holds runs (a sweep)."""
    found: list[Path] = []
    for path in paths:
        inside = (
            sorted(p for p in path.iterdir() if RunDirectory(p).exists) if path.is_dir() else []
        )
        files.check_folder(path, inside)
        places = {row["name"]: i for i, row in enumerate(planned(path))}
        inside.sort(key=lambda p, at=places: at.get(p.name, len(at)))
        if RunDirectory(path).exists:
            found.append(path)
        elif inside:
            found += inside
        else:
            raise LPOError(
                f"{path} is not a run and holds none; pass run directories, the directory of a "
                "sweep, or a packed .parquet file."
            )
    return list(dict.fromkeys(found))


def read_plan(sweep: Path) -> dict[str, Any]:
    """Returns the plan of a sweep; empty where ``sweep`` is not the directory of one."""
    with contextlib.suppress(OSError, ValueError):
        plan = files.parse_json(files.read_bytes(sweep / PLAN))
        return plan if isinstance(plan, dict) else {}
    return {}


def planned(sweep: Path) -> list[dict[str, Any]]:
    """Returns the rows of a sweep's plan that name a run and its label."""
    rows = read_plan(sweep).get("runs")
    return [
        row
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict) and all(isinstance(row.get(key), str) for key in ("name", "label"))
    ]


def label_of(run: Path, config: str) -> str:
    """Returns the label that the sweep gave to a run, or else the algorithm of the run."""
    plan = run.parent / PLAN
    changed = plan.stat().st_mtime_ns if plan.is_file() else 0
    label = labels_of(run.parent, changed).get(run.name)
    if label:
        return label
    source = str(run / "config.json")
    return written.text(written.options_of(config, source), "algo", source)


@lru_cache(maxsize=16)
def labels_of(sweep: Path, changed: int) -> dict[str, str]:
    """Returns the label of each run in a sweep's plan, which is parsed once for each time that it
    was ``changed``."""
    return {row["name"]: row["label"] for row in reversed(planned(sweep))}
