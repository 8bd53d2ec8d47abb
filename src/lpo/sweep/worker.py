"""Sweeps: one run in a process of its own, ``python -m lpo.sweep.worker ROOT NAME``.

It starts, resumes or leaves alone, by what the run directory says, and ends with its parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from lpo.errors import LPOError
from lpo.platform import DEFAULTS

PR_SET_PDEATHSIG = 1
ONE_THREAD = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}


def command(root: Path, name: str, core: int | None, module: str = "lpo.sweep.worker") -> list[str]:
    """The command line of the worker, for a parent that is this process."""
    pinned = "" if core is None else str(core)
    return [sys.executable, "-m", module, str(root), name, str(os.getpid()), pinned]


def environment(**more: str) -> dict[str, str]:
    """One thread of linear algebra, since a run has one core; what the user told JAX stays."""
    return {**DEFAULTS, **more, **os.environ, **ONE_THREAD}


def die_with(parent: int) -> None:
    """The kernel kills this process when its parent ends, however that ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the call
            os._exit(1)


def pin(core: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def work(root: Path, name: str) -> None:
    """Brings the run to its end: from nothing, from its last checkpoint, or not at all."""
    from lpo.runs.directory import RunDirectory
    from lpo.runs.progress import watched_lines
    from lpo.runs.run import resume, start, stopping_on_signals
    from lpo.sweep.plan import await_writer, clear, read_item, standing

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
