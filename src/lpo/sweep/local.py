"""Sweeps: a pool with one process per core, each pinned to its core."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from lpo.sweep.board import Board
from lpo.sweep.jobs import Job
from lpo.sweep.plan import last_words, log_file
from lpo.sweep.worker import environment

TICK = 0.2  # seconds between looks at the processes
PATIENCE = 60.0  # seconds that runs get to write a checkpoint when the sweep is stopped


class Working(NamedTuple):
    """A job that runs."""

    job: Job
    core: int | None
    process: subprocess.Popen[bytes]


@contextlib.contextmanager
def shared_code(root: Path) -> Iterator[dict[str, str]]:
    """Yields variables that let all runs of a sweep share compiled code, which saves time.

    JAX trusts compiled code that it loads. So the cache is empty at the start, only the runs of
    this sweep write to it, and it is deleted at the end. A cache that the user has set is used
    instead.
    """
    folder = root / ".compiled"  # a link, which would not be emptied, was refused before
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield {
            "JAX_COMPILATION_CACHE_DIR": str(folder),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def launch(job: Job, core: int | None, inherited: IO[bytes], variables: dict[str, str]) -> Working:
    """Starts a job. Call it from the main thread: a run ends with the thread that started it."""
    with open(log_file(job.root, job.name), "ab") as log:
        process = subprocess.Popen(
            job.command(core),
            env=environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches the sweep, and the runs through it
            pass_fds=(inherited.fileno(),),
        )
    return Working(job, core, process)


def run_local(
    jobs: Sequence[Job],
    cores: Sequence[int | None],
    board: Board,
    lock: IO[bytes],
    variables: dict[str, str],
) -> bool:
    """Runs ``jobs`` in order on ``cores``. Returns False if a signal stopped it.

    The processes inherit ``lock`` and find ``variables`` in their environment.
    """
    waiting, free, working = list(jobs), list(cores), []
    with stop_flag() as stopped, ended(working):
        while waiting or working:
            while waiting and free and not stopped:
                job = waiting.pop(0)
                working.append(launch(job, free.pop(0), lock, variables))
                board.begin(job.name)
            if stopped:
                stop(working, board)
                return False
            time.sleep(TICK)
            for one in [one for one in working if one.process.poll() is not None]:
                working.remove(one)
                free.append(one.core)
                finish(one, board)
            board.refresh()
            waiting = [job for job in waiting if not board.gives_up(job.name)]
            for one in working:
                if board.gives_up(one.job.name):
                    one.process.kill()  # what it has logged stays
    return True


def finish(one: Working, board: Board) -> None:
    job, code = one.job, one.process.returncode
    if board.gives_up(job.name):
        board.end(job.name, "pruned")
        return
    if code == 0:
        board.end(job.name, "done")
        return
    ended_by = f"killed by signal {-code}" if code < 0 else last_words(job.root, job.name)
    board.end(job.name, "failed", f"{ended_by} (log: {log_file(job.root, job.name)})")


def stop(working: list[Working], board: Board) -> None:
    """Lets every run end its iteration and write a checkpoint."""
    for one in working:
        one.process.terminate()
    deadline = time.monotonic() + PATIENCE
    for one in working:
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.process.wait(max(deadline - time.monotonic(), 0.0))
        board.end(one.job.name, "paused")


@contextlib.contextmanager
def ended(working: list[Working]) -> Iterator[None]:
    """Kills the runs that are left when the pool ends for any reason."""
    try:
        yield
    finally:
        for one in working:
            if one.process.poll() is None:
                one.process.kill()
            one.process.wait()


@contextlib.contextmanager
def stop_flag() -> Iterator[list[int]]:
    """Yields a list that the first Ctrl-C or SIGTERM fills; a second one has its usual effect."""
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
