"""Sweeps: from a grid file to finished runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO, Literal

from lpo.envs.host.threads import usable_cores
from lpo.errors import LPOError
from lpo.sweep.board import Board, shown
from lpo.sweep.cluster import load_ray, run_on_ray
from lpo.sweep.grid import Grid, read_grid
from lpo.sweep.jobs import TrainingJob
from lpo.sweep.local import run_local, shared_code
from lpo.sweep.plan import held, standing, write_plan


def sweep(
    file: Path,
    out: Path | None,
    workers: int | None,
    ray: str | None,
    only_plan: bool,
    device: str = "host",
) -> int:
    """Runs a grid.

    Returns the exit status: 0 if every run is done, 1 if some failed, 130 if it was stopped.
    """
    grid = read_grid(file, device != "host")
    root = out or Path("runs") / grid.name
    if only_plan:
        print_plan(root, grid)
        return 0
    if ray is not None and workers is not None:
        raise LPOError("--workers is for this machine and --ray for a cluster; leave one out.")
    if device != "host":
        return sweep_groups(grid, root, "gpu" if device == "gpu" else "cpu", workers, ray)
    if ray is not None:
        load_ray()  # refuse before anything is written
    cores = places(workers) if ray is None else []
    with held(root) as lock:
        write_plan(root, grid)
        jobs = [TrainingJob(root, item) for item in grid.items]
        board = Board(grid.name, jobs, workers=len(cores))
        left = [job for job in jobs if board.tracks[job.name].state != "done"]
        print(f"{grid.name}: {len(jobs)} runs in {root}, {len(left)} to do", flush=True)
        with shown(board):
            finished = run_jobs(root, left, cores, ray, board, lock)
    status = conclude(board, root, f"lpo sweep {file}", finished)
    if status == 0:
        print(f"All done; look at them with `lpo report {root}`.")
    return status


def sweep_groups(
    grid: Grid, root: Path, device: Literal["gpu", "cpu"], workers: int | None, ray: str | None
) -> int:
    """Runs a grid on devices: here, in one process or several, or on a cluster."""
    from lpo.sweep.device import sweep_on_device
    from lpo.sweep.group import sweep_beside, sweep_on_devices

    if ray is not None:
        return sweep_on_devices(grid, root, device, ray)
    if workers is None:
        return sweep_on_device(grid, root, device)
    return sweep_beside(grid, root, device, workers)


def run_jobs(
    root: Path,
    jobs: Sequence[TrainingJob],
    cores: Sequence[int | None],
    ray: str | None,
    board: Board,
    lock: IO[bytes],
) -> bool:
    """Runs jobs on the cores of this machine or on a cluster. Returns False if it was stopped."""
    if ray is not None:
        return run_on_ray(root, [job.name for job in jobs], ray, board)
    with shared_code(root) as code:
        return run_local(jobs, cores, board, lock, code)


def places(workers: int | None, flag: str = "--workers") -> Sequence[int | None]:
    """Returns a core for each worker. Raises LPOError for more workers than cores."""
    cores = usable_cores()
    if workers is not None and not 1 <= workers <= len(cores):
        raise LPOError(
            f"{flag} is {workers}, and this machine offers {len(cores)} cores; "
            f"pass 1 to {len(cores)}."
        )
    return cores[:workers]


def conclude(board: Board, root: Path, command: str, finished: bool) -> int:
    """Prints how a grid ended and how ``command`` continues it. Returns the exit status."""
    failed = [name for name, track in board.tracks.items() if track.state == "failed"]
    for name in failed:
        print(f"failed: {name}, see {root / name}.log")
    print(board.summary())
    if not finished:
        print(f"Stopped; continue with the same `{command}`.")
        return 130
    if failed:
        print(f"Run the same `{command}` again to retry what failed.")
        return 1
    return 0


def print_plan(root: Path, grid: Grid) -> None:
    """Prints each run and how far it is. Starts nothing."""
    for item in grid.items:
        state, steps = standing(root, item)
        print(f"{state:8s} {steps:>10,} / {item.config.steps:,}  {root / item.name}")
