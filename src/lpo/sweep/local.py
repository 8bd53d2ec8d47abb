"""Sweeps: a pool of one process per core, each pinned to its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from lpo.sweep.board import Board
from lpo.sweep.plan import last_words, log_file
from lpo.sweep.worker import command, environment

TICK = 0.2  # seconds between looks at the processes
PATIENCE = 60.0  # seconds that runs get to write a checkpoint when the sweep is stopped


class Job(NamedTuple):
    name: str
    core: int | None
    process: subprocess.Popen[bytes]


def usable_cores() -> Sequence[int | None]:
    """The cores this process may use; without such a call, as many unpinned places."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return [None] * (os.cpu_count() or 1)


@contextlib.contextmanager
def shared_code(root: Path) -> Iterator[dict[str, str]]:
    """What one run compiles, the others find: equal bits, sooner.

    Compiled code is trusted when it is loaded, so a sweep reads what its own runs wrote and leaves
    nothing behind. Where the user has named a cache, that one is used.
    """
    folder = root / ".compiled"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield {
            "JAX_COMPILATION_CACHE_DIR": str(folder),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def launch(
    root: Path, name: str, core: int | None, inherited: IO[bytes], code: dict[str, str]
) -> Job:
    """From the main thread only: a run ends with the thread that started it."""
    with open(log_file(root, name), "ab") as log:
        process = subprocess.Popen(
            command(root, name, core),
            env=environment(**code),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches the sweep, and the runs through it
            pass_fds=(inherited.fileno(),),
        )
    return Job(name, core, process)


def run_local(
    root: Path, names: Sequence[str], cores: Sequence[int | None], board: Board, lock: IO[bytes]
) -> bool:
    """Run ``names``, in order, on ``cores``; False when a signal stopped it."""
    waiting, free, jobs = list(names), list(cores), []
    with shared_code(root) as code, stop_flag() as stopped, ended(jobs):
        while waiting or jobs:
            while waiting and free and not stopped:
                name = waiting.pop(0)
                jobs.append(launch(root, name, free.pop(0), lock, code))
                board.begin(name)
            if stopped:
                stop(jobs, board)
                return False
            time.sleep(TICK)
            for job in [job for job in jobs if job.process.poll() is not None]:
                jobs.remove(job)
                free.append(job.core)
                finish(root, job, board)
            board.refresh()
    return True


def finish(root: Path, job: Job, board: Board) -> None:
    code = job.process.returncode
    if code == 0:
        board.end(job.name, "done")
        return
    ended_by = f"killed by signal {-code}" if code < 0 else last_words(root, job.name)
    board.end(job.name, "failed", f"{ended_by} (log: {log_file(root, job.name)})")


def stop(jobs: list[Job], board: Board) -> None:
    """Let every run end its iteration and write a checkpoint."""
    for job in jobs:
        job.process.terminate()
    deadline = time.monotonic() + PATIENCE
    for job in jobs:
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.process.wait(max(deadline - time.monotonic(), 0.0))
        board.end(job.name, "paused")


@contextlib.contextmanager
def ended(jobs: list[Job]) -> Iterator[None]:
    """No run outlives the pool, whatever ends it."""
    try:
        yield
    finally:
        for job in jobs:
            if job.process.poll() is None:
                job.process.kill()
            job.process.wait()


@contextlib.contextmanager
def stop_flag() -> Iterator[list[int]]:
    """A list that a first Ctrl-C or SIGTERM fills; a second Ctrl-C is not held back."""
    received: list[int] = []

    def ask(signum: int, frame: object) -> None:
        received.append(signum)
        signal.signal(signum, previous[signum])

    previous: dict[int, Any] = {n: signal.signal(n, ask) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
