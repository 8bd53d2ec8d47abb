"""Sweeps: many runs as one compiled program on a device.

Runs that differ in their seeds and in axes alone (``Axis``) share a program; others make groups of
their own. A group that does not fit into the memory is halved. Every run has an ordinary run
directory; the state of a group lies beside them in ``device/``, from which a killed group goes on.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import jax

from lpo.config import axes_of, flat
from lpo.errors import LPOError
from lpo.platform import find_device
from lpo.runs import checkpoint
from lpo.runs.group import STATES, check_heeded, open_group
from lpo.runs.progress import Rate, of_many, plain_warnings
from lpo.runs.session import Callback, Session
from lpo.sweep.grid import Grid, Item
from lpo.sweep.local import stop_flag
from lpo.sweep.plan import held, read_plan, standing, write_plan

Device = Literal["gpu", "cpu"]


def sweep_on_device(grid: Grid, root: Path, device: Device, quiet: bool = False) -> int:
    """Runs a grid, group by group. Returns the exit status: 0, or 130 when it was stopped."""
    find_device(device)  # refuse before anything is written
    refuse_host_only(grid.items)
    return carry_out(grid, root, device, quiet)


def resume_on_device(
    root: Path, device: Device, steps: int | None = None, quiet: bool = False
) -> int:
    """Goes on with the runs of a directory that was started with ``--device``, up to ``steps``."""
    find_device(device)
    grid = read_plan(root)
    if steps is not None:
        grid = Grid(grid.name, [item._replace(until=steps) for item in grid.items])
    found = [standing(root, item) for item in grid.items]
    if all(s.state == "done" for s in found):
        reached = min((s.env_steps for s in found), default=0)
        print(f"{root} is complete at {reached} steps; pass --steps to continue.")
        return 0
    return carry_out(grid, root, device, quiet)


def carry_out(grid: Grid, root: Path, device: Device, quiet: bool) -> int:
    """Writes the plan of a grid and runs what is left of it. Returns the exit status."""
    with held(root):
        write_plan(root, grid)
        if not run_on_device(root, grid, device, quiet):
            print(f"Stopped; go on with `lpo resume {root} --device {device}`.")
            return 130
    print(f"All done; look at them with `lpo report {root}`.")
    return 0


def refuse_host_only(items: Iterable[Item]) -> None:
    """Raises LPOError for an option that somebody set and that runs on a device do not have."""
    for item in items:
        check_heeded(item.config)


def run_on_device(root: Path, grid: Grid, device: Device, quiet: bool = False) -> bool:
    """Runs what is left of a grid in a directory that is held. Returns False if it was stopped."""
    left = {item.name for item in grid.items if standing(root, item).state != "done"}
    if not quiet:
        print(f"{grid.name}: {len(grid.items)} runs in {root}, {len(left)} to do", flush=True)
    undone = [g for g in begun_groups(root, grid.items) if left & {item.name for item in g}]
    with (
        jax.default_device(find_device(device)),
        stop_flag() as stopped,
        disk_errors(root, device),
    ):
        return all(not stopped and run_fitting(root, own, stopped, quiet) for own in undone)


@contextlib.contextmanager
def disk_errors(root: Path, device: Device) -> Iterator[None]:
    """Turns an error of the disk into an LPOError that says how to go on."""
    try:
        yield
    except BrokenPipeError:  # of the reader of the output, not of the disk
        raise
    except OSError as error:
        raise LPOError(
            f"Could not write to {root} ({error.strerror or error}); free some space, and go on "
            f"with `lpo resume {root} --device {device}`: the last state is intact."
        ) from error


def begun_groups(root: Path, items: Sequence[Item]) -> list[list[Item]]:
    """Returns the groups that have a state, as they were begun, and groups of the other runs."""
    left = {item.name: item for item in items}
    begun = []
    for folder in sorted((root / STATES).glob("*")):
        names = runs_of(folder)
        if names and left.keys() >= set(names):
            begun.append([left.pop(name) for name in names])
    return begun + groups(left.values())


def runs_of(folder: Path) -> list[str]:
    """Returns the runs of the newest state in ``folder`` that can be read."""
    for path in checkpoint.candidates(folder):
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            return list(json.loads(path.with_suffix(".json").read_text())["runs"])
    return []


def groups(items: Iterable[Item]) -> list[list[Item]]:
    """Returns the runs that can share a program."""
    found: dict[str, list[Item]] = {}
    for item in items:
        axes = axes_of(item.config)
        same = {k: v for k, v in flat(item.config).items() if k not in axes and k != "algo"}
        same["until"] = item.until
        found.setdefault(json.dumps(same, sort_keys=True, default=str), []).append(item)
    return list(found.values())


def run_fitting(root: Path, items: list[Item], stopped: Sequence[int], quiet: bool = False) -> bool:
    """Runs a group; where the memory is too small, one half after the other."""
    try:
        return run_group(root, items, stopped, quiet)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        if len(items) == 1:
            raise LPOError(
                "One run does not fit into the memory of the device; lower --num-envs, --rollout "
                "or --batch-size."
            ) from error
        half = -(-len(items) // 2)
        print(f"{len(items)} runs do not fit into the memory; trying {half} at a time", flush=True)
        halves = items[:half], items[half:]
        return all(run_fitting(root, some, stopped, quiet) for some in halves)


def run_group(
    root: Path, items: Sequence[Item], stopped: Sequence[int] = (), quiet: bool = False
) -> bool:
    """Trains a group to its end. Returns False where it was stopped, after its state was saved."""
    with plain_warnings():
        session, files = open_group(root, [i.config for i in items], [i.name for i in items])
        say = (lambda *_: None) if quiet else lines(session, items)

        def go_on(step: int, metrics: dict[str, Any]) -> bool:
            say(step, metrics)
            return not stopped

        session.advance(items[0].goal, go_on)
        if stopped and session.env_steps < items[0].goal:
            return False
        files.save(session)
        files.finish(session)
        files.close()
    return True


def lines(session: Session, items: Sequence[Item]) -> Callback:
    """Returns a callback that prints one line for all runs."""
    labels = dict.fromkeys(item.label for item in items)
    rows = f" of {', '.join(labels)}" if len(labels) < 4 else ""
    rate = Rate(session)

    def show(step: int, metrics: dict[str, Any]) -> None:
        words = "  ".join(f"{k} {v}" for k, v in of_many(metrics, rate()).items())
        print(
            f"step {step:>11,} / {items[0].goal:,} × {len(items)} runs{rows}  {words}", flush=True
        )

    return show
