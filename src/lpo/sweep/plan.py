"""Sweeps: the directory of a sweep, and where each of its runs stands.

``sweep.json`` holds the plan; beside it lie a directory and a log for every run. What a run has
reached is read from its own directory, so there is no second record that could disagree.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from lpo import config
from lpo.config import Config
from lpo.errors import LPOError
from lpo.runs import checkpoint
from lpo.runs.checkpoint import write_atomically
from lpo.runs.log import FILES, claim, lock
from lpo.sweep.grid import Grid, Item

PLAN, LOCK = "sweep.json", ".lock"
State = Literal["new", "started", "done"]
OURS = {*FILES, "config.json", "task.json", "visits.json", "tensorboard", "checkpoints"}


class Standing(NamedTuple):
    state: State
    env_steps: int


def write_plan(root: Path, grid: Grid) -> None:
    """Make ``root`` the directory of ``grid``; runs that are there already stay."""
    for item in grid.items:
        standing(root, item)  # refuses runs that were made with other options
    runs = [
        {"name": item.name, "label": item.label, "config": dataclasses.asdict(item.config)}
        for item in grid.items
    ]
    text = json.dumps({"name": grid.name, "runs": runs}, indent=1) + "\n"
    write_atomically(root / PLAN, text.encode())


def read_item(root: Path, name: str) -> Item:
    try:
        runs = json.loads((root / PLAN).read_text())["runs"]
        row = next(row for row in runs if row["name"] == name)
    except (OSError, ValueError, KeyError, StopIteration) as error:
        raise LPOError(
            f"{root} holds no plan for {name} ({type(error).__name__}: {error}); pass the same "
            "--out on storage that every machine sees."
        ) from error
    return Item(name, row["label"], config.from_dict(row["config"], f"{root / PLAN}"))


@contextlib.contextmanager
def held(root: Path, patience: float = 20.0, plan: str = PLAN) -> Iterator[IO[bytes]]:
    """One sweep at a time in ``root``, which must be empty or hold the file ``plan``.

    Runs inherit the lock, so that it outlives a killed sweep until the last of its runs has ended.
    """
    foreign = root.is_dir() and any(p.name != LOCK for p in root.iterdir())
    if foreign and not (root / plan).exists():
        raise LPOError(f"{root} is not empty and not a sweep; pass another --out.")
    try:
        root.mkdir(parents=True, exist_ok=True)
        file = open(root / LOCK, "ab")  # noqa: SIM115
    except OSError as error:
        raise LPOError(f"Cannot write to {root} ({error}); pass another --out.") from error
    with file:
        deadline = time.monotonic() + patience
        while not lock(file):
            if time.monotonic() > deadline:
                raise LPOError(f"Another sweep is at work in {root}; wait for it, or stop it.")
            time.sleep(0.2)
        yield file


def standing(root: Path, item: Item) -> Standing:
    """How far the run has come; one made with other options is refused."""
    run = root / item.name
    if not (run / "config.json").exists():
        return Standing("new", 0)
    check_same(run, item.config)
    names = checkpoint.names(run / "checkpoints")
    if not names:
        return Standing("new", 0)
    reached = int(names[-1])
    return Standing("done" if reached >= item.config.steps else "started", reached)


def check_same(run: Path, c: Config) -> None:
    before, now = (dataclasses.asdict(x) for x in (config.read(run / "config.json"), c))
    for key, value in now.items():
        if before[key] != value:
            raise LPOError(
                f"{run} was made with {key} {before[key]!r}, and the grid says {value!r}; "
                "pass another --out, or take the old sweep away."
            )


def clear(run: Path) -> None:
    """Take away a run that has no checkpoint yet: it starts anew."""
    if not run.exists():
        return
    foreign = [p.name for p in run.iterdir() if p.name.strip(".").removesuffix(".tmp") not in OURS]
    if foreign:
        raise LPOError(f"{run} holds {foreign[0]}, which is not of a run; take it away.")
    with claim(run):
        shutil.rmtree(run)


def await_writer(run: Path, patience: float = 60.0) -> None:
    """A writer on a node that was lost lives a little longer than the node: let it end."""
    deadline = time.monotonic() + patience
    while (run / FILES[0]).exists():
        with contextlib.suppress(LPOError), claim(run):
            return
        if time.monotonic() > deadline:
            return  # whoever opens the run will say so
        time.sleep(0.5)


def log_file(root: Path, name: str) -> Path:
    return root / f"{name}.log"


def last_words(root: Path, name: str) -> str:
    """The last line of a run's log: what it failed with."""
    with contextlib.suppress(OSError):
        lines = log_file(root, name).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""
    return ""


def latest(root: Path, name: str) -> dict[str, Any]:
    """The newest numbers of a run, from the end of its metrics; a torn last line is left out."""
    path, found = root / name / FILES[0], {}
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - 40_000))
        for line in file.read().splitlines():
            with contextlib.suppress(ValueError):
                row = json.loads(line)
                found |= row if isinstance(row, dict) else {}
    return found
