"""Sweeps: the directory of a sweep, and how far each of its runs is.

``sweep.json`` holds the plan. Beside it there are a directory and a log for every run. How far a
run is is read from its own directory, so there is no second record that could disagree.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from lpo import config, files
from lpo.config import Config
from lpo.errors import LPOError
from lpo.files import check_name
from lpo.runs.checkpoint import waiting, write_atomically
from lpo.runs.directory import RunDirectory, lock
from lpo.runs.record import PLAN
from lpo.sweep.grid import Grid, Item

LOCK = ".lock"
State = Literal["new", "started", "done"]


class Standing(NamedTuple):
    state: State
    env_steps: int


def write_plan(root: Path, grid: Grid) -> None:
    """Writes the plan of ``grid`` to ``root``. Keeps runs that are already there.

    Raises LPOError where one of them was made with other options.
    """
    for item in grid.items:
        standing(root, item)  # raises for a run that was made with other options
    runs = [
        {"name": item.name, "label": item.label, "config": config.to_dict(item.config)}
        | ({} if item.until is None else {"until": item.until})
        for item in grid.items
    ]
    text = json.dumps({"name": grid.name, "runs": runs}, indent=1) + "\n"
    write_atomically(root / PLAN, text.encode())


def read_plan(root: Path) -> Grid:
    """Returns the grid that a directory was planned with."""
    try:
        plan = files.parse_json(files.read_bytes(root / PLAN))
        rows = [
            (check_name(r["name"]), str(r["label"]), r["config"], goal(r)) for r in plan["runs"]
        ]
        name = str(plan["name"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LPOError(
            f"{root} is not the directory of a sweep ({type(error).__name__}: {error}); pass one "
            "that `lpo sweep` or `lpo train --device` made."
        ) from error
    source = f"{root / PLAN}"
    return Grid(
        name, [Item(n, label, config.from_dict(c, source), until) for n, label, c, until in rows]
    )


def goal(row: dict[str, Any]) -> int | None:
    """Returns the steps that a run of a plan was told to go on to; None where it was not."""
    until = row.get("until")
    if until is not None and (type(until) is not int or until < 1):
        raise ValueError(f"until is {until!r}")
    return until


def read_item(root: Path, name: str) -> Item:
    try:
        runs = files.parse_json(files.read_bytes(root / PLAN))["runs"]
        row = next(row for row in runs if row["name"] == check_name(name))
        label = str(row["label"])
    except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
        raise LPOError(
            f"{root} holds no plan for {name} ({type(error).__name__}: {error}); pass the same "
            "--out on storage that every machine sees."
        ) from error
    return Item(name, label, config.from_dict(row.get("config"), f"{root / PLAN}"))


@contextlib.contextmanager
def held(root: Path, patience: float = 20.0, plan: str = PLAN) -> Iterator[IO[bytes]]:
    """Locks ``root`` for one sweep. ``root`` must be empty or hold the file ``plan``.

    The runs inherit the lock: after a killed sweep it is held until the last run has ended.
    """
    ours = {LOCK, waiting(root / plan).name}  # a sweep that was killed at its start
    foreign = root.is_dir() and any(p.name not in ours for p in root.iterdir())
    if foreign and not (root / plan).exists():
        raise LPOError(f"{root} is not empty and not a sweep; pass another --out.")
    files.check_folder(root)
    try:
        root.mkdir(parents=True, exist_ok=True)
        file = open(root / LOCK, "ab")  # noqa: SIM115
    except OSError as error:
        raise LPOError(f"Cannot write to {root} ({error}); pass another --out.") from error
    with file:
        deadline = time.monotonic() + patience
        while not lock(file):
            if time.monotonic() > deadline:
                raise LPOError(f"Another sweep is running in {root}; wait for it, or stop it.")
            time.sleep(0.2)
        yield file


def standing(root: Path, item: Item) -> Standing:
    """Returns how far a run is. Raises LPOError if it was made with other options."""
    run = RunDirectory(root / item.name)
    if not run.exists:
        return Standing("new", 0)
    check_same(run, item.config)
    reached = run.reached()
    if reached is None:
        return Standing("new", 0)
    return Standing("done" if reached >= item.goal else "started", reached)


def check_same(run: RunDirectory, c: Config) -> None:
    before, now = (config.flat(x) for x in (run.config(), c))
    unread = config.host_only(c) if run.on_device() else ()  # an older version wrote some
    for key in dict.fromkeys([*now, *before]):
        if key not in unread and before.get(key) != now.get(key):
            raise LPOError(
                f"{run} was made with {key} {before.get(key)!r}, and the grid says "
                f"{now.get(key)!r}; pass another --out, or delete the old sweep."
            )


def await_writer(run: RunDirectory, patience: float = 60.0) -> None:
    """Waits while another process writes to the run, as one on a lost node may for a while."""
    deadline = time.monotonic() + patience
    while run.metrics_file.exists():
        with contextlib.suppress(LPOError), run.claim():
            return
        if time.monotonic() > deadline:
            return  # opening the run raises the error
        time.sleep(0.5)


def log_file(root: Path, name: str) -> Path:
    return root / f"{name}.log"


def last_words(root: Path, name: str) -> str:
    """Returns the last line of a run's log, which says why it failed."""
    with contextlib.suppress(OSError):
        lines = log_file(root, name).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""
    return ""
