"""Sweeps: groups of runs as processes of their own, ``python -m lpo.sweep.group ROOT NAME``.

On a Ray cluster each has a GPU, or a core as a stand-in, and a group that was killed goes on from
its last state on another node. On one machine several share its GPU: a program of few runs waits
more than it computes, so that others can compute meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from lpo.errors import LPOError
from lpo.platform import trusted_packages
from lpo.runs.directory import RunDirectory
from lpo.runs.group import STATES
from lpo.sweep.board import Board, shown
from lpo.sweep.cluster import PLATFORM, load_ray, run_on_ray
from lpo.sweep.device import (
    Device,
    begun_groups,
    disk_errors,
    groups,
    refuse_host_only,
    run_fitting,
)
from lpo.sweep.grid import Grid, Item
from lpo.sweep.jobs import Progress
from lpo.sweep.local import run_local, stop_flag
from lpo.sweep.main import conclude
from lpo.sweep.plan import Standing, held, read_plan, standing, write_plan
from lpo.sweep.worker import command, main

MODULE = "lpo.sweep.group"
MEMORY = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # else one process takes most of it
LOOK = """
import sys
from lpo.errors import LPOError
from lpo.platform import find_device
try:
    find_device(sys.argv[1])
except LPOError as error:
    print(error)
    sys.exit(1)
"""
MPS = "nvidia-cuda-mps-control"  # NVIDIA's service that lets processes share a GPU


class GroupJob(NamedTuple):
    """The runs of a grid that share a program, as one job."""

    root: Path
    items: list[Item]

    @property
    def name(self) -> str:
        return f"group-{self.items[0].name}"

    @property
    def label(self) -> str:
        return f"{self.items[0].label} × {len(self.items)}"

    @property
    def task(self) -> str:
        return self.items[0].config.task.env.split("/")[-1]

    @property
    def size(self) -> int:
        return self.items[0].goal

    def standing(self) -> Standing:
        found = [standing(self.root, item) for item in self.items]
        if all(s.state == "done" for s in found):
            return Standing("done", self.size)
        begun = any((self.root / STATES / item.name).is_dir() for item in self.items)
        return Standing("started" if begun else "new", self.progress().reached or 0)

    def progress(self) -> Progress:
        seen = RunDirectory(self.root / self.items[0].name).latest_metrics()
        steps = seen.get("env_steps")
        score = seen.get("eval/return", seen.get("rollout/return"))
        return Progress(None if steps is None else int(steps), score)

    def command(self, core: int | None) -> list[str]:
        return command(self.root, self.name, core, MODULE)


def jobs_of(root: Path, grid: Grid) -> list[GroupJob]:
    """Returns the groups of a grid; they depend on its plan alone, not on what is done."""
    return [GroupJob(root, items) for items in groups(grid.items)]


def sweep_on_devices(grid: Grid, root: Path, device: Device, address: str) -> int:
    """Runs each group of a grid on a device of the Ray cluster at ``address``."""
    load_ray()  # refuse before anything is written
    refuse_host_only(grid.items)
    with held(root):
        write_plan(root, grid)
        jobs = jobs_of(root, grid)
        board = Board(grid.name, jobs, workers=1)
        left = [job.name for job in jobs if board.tracks[job.name].state != "done"]
        print(f"{grid.name}: {len(jobs)} groups in {root}, {len(left)} to do", flush=True)
        with shown(board):
            finished = run_on_ray(root, left, address, board, MODULE, device)
    return conclude(board, root, f"lpo sweep … --device {device} --ray {address}", finished)


def sweep_beside(grid: Grid, root: Path, device: Device, workers: int) -> int:
    """Runs the groups of a grid on one device, ``workers`` processes at a time."""
    look_for(device)  # refuse before anything is written
    refuse_host_only(grid.items)
    with held(root) as lock:
        write_plan(root, grid)
        jobs = jobs_of(root, grid)
        board = Board(grid.name, jobs, workers)
        left = [job for job in jobs if board.tracks[job.name].state != "done"]
        print(f"{grid.name}: {len(jobs)} groups in {root}, {len(left)} to do", flush=True)
        sharing = shared_gpu() if device == "gpu" else contextlib.nullcontext({})
        with shown(board), sharing as places:
            variables = MEMORY | PLATFORM[device] | places
            finished = run_local(left, [None] * workers, board, lock, variables)
    return conclude(board, root, f"lpo sweep … --device {device} --workers {workers}", finished)


def look_for(device: Device) -> None:
    """Raises LPOError where there is no such device.

    A process that has seen a GPU keeps one of the 48 places of NVIDIA's service. So another one
    looks, and ends.
    """
    if device == "cpu":
        return
    looked = subprocess.run(
        [sys.executable, "-c", LOOK, device], env=os.environ | MEMORY, text=True,
        capture_output=True,
    )  # fmt: skip
    if looked.returncode:
        raise LPOError(looked.stdout or f"Looking for a {device} failed: {looked.stderr[-300:]}")


@contextlib.contextmanager
def shared_gpu() -> Iterator[dict[str, str]]:
    """Yields variables with which processes compute on one GPU at the same time.

    Without NVIDIA's service they take turns. It is started here unless it runs already.
    """
    control = shutil.which(MPS)
    if control is None or ask(control, "get_server_list", os.environ):
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="lpo-mps-") as folder:
        places = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        started = subprocess.run(  # it stays behind, so it must hold no pipe
            [control, "-d"], env=os.environ | places, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        if started.returncode:
            print(f"{MPS} does not start; the programs take turns on the GPU.", flush=True)
            yield {}
            return
        try:
            yield places
        finally:
            ask(control, "quit", os.environ | places)


def ask(control: str, words: str, variables: Mapping[str, str]) -> bool:
    """Returns whether the service took a command."""
    try:
        asked = subprocess.run(
            [control], input=f"{words}\n".encode(), env=variables, capture_output=True, timeout=30
        )
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0


def work(root: Path, name: str) -> None:
    """Trains a group to its end, from the start or from its last state."""
    from lpo.envs.registry import import_package

    for package in trusted_packages():
        import_package(package)
    (job,) = (job for job in jobs_of(root, read_plan(root)) if job.name == name)
    with stop_flag() as stopped, disk_errors(root, "gpu"):
        for items in begun_groups(root, job.items):
            if stopped or not run_fitting(root, items, stopped):
                raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], work))
