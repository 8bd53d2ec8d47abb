"""Sweeps: one run in a process of its own, ``python -m lpo.sweep.worker ROOT NAME``.

It starts the run, resumes it, or does nothing if it is finished. The process ends with its parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from lpo.errors import LPOError
from lpo.platform import DEFAULTS, IMPORT, trusted_packages

PR_SET_PDEATHSIG = 1
ONE_THREAD = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}


def command(root: Path, name: str, core: int | None, module: str = "lpo.sweep.worker") -> list[str]:
    """Returns the command line of a worker whose parent is this process."""
    pinned = "" if core is None else str(core)
    return [sys.executable, "-m", module, str(root), name, str(os.getpid()), pinned]


def environment(**more: str) -> dict[str, str]:
    """Returns the variables of a worker: one thread, since a run has one core.

    What the user has set for JAX is kept.
    """
    trusted = {IMPORT: ",".join(trusted_packages())}
    return {**DEFAULTS, **more, **os.environ, **ONE_THREAD, **trusted}


def die_with(parent: int) -> None:
    """Tells the kernel to kill this process when its parent ends for any reason (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the call
            os._exit(1)


def pin(core: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def work(root: Path, name: str) -> None:
    """Trains the run to its end, from the start or from its last checkpoint."""
    from lpo.envs.registry import import_package
    from lpo.runs.directory import RunDirectory, clear
    from lpo.runs.progress import watched_lines
    from lpo.runs.run import resume, start
    from lpo.runs.session import stopping_on_signals
    from lpo.sweep.plan import await_writer, read_item, standing

    for package in trusted_packages():
        import_package(package)
    item, directory = read_item(root, name), RunDirectory(root / name)
    await_writer(directory)
    state = standing(root, item).state
    if state == "done":
        return
    if state == "started":
        found = resume(directory.path)
        run, until = found.run, found.until
        for problem in found.problems:
            print(f"warning: {problem}", flush=True)
    else:
        clear(directory)
        run, until = start(item.config, directory.path), item.config.steps
    with run, stopping_on_signals(run):
        run.advance(until, watched_lines(run))
        if run.stop_requested:
            print(f"Stopped at step {run.env_steps}; the sweep goes on from there.", flush=True)
            raise KeyboardInterrupt
        print(f"done at step {run.env_steps:,}", flush=True)


def main(arguments: list[str], job: Callable[[Path, str], None] = work) -> int:
    root, name, parent, core = arguments
    die_with(int(parent))
    if core:
        pin(int(core))
    try:
        job(Path(root), name)
    except LPOError as error:
        print(f"lpo: {error}", flush=True)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
