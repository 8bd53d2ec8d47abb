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

PR_SET_PDEATHSIG = 1
ONE_THREAD = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
DEFAULTS = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "JAX_PLATFORMS": "cpu"}


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
    """Bring the run to its end: from nothing, from its last checkpoint, or not at all."""
    from lpo.cli.progress import report_result, watched
    from lpo.runs.run import resume, start
    from lpo.sweep.plan import await_writer, clear, read_item, standing

    item, run_directory = read_item(root, name), root / name
    await_writer(run_directory)
    state = standing(root, item).state
    if state == "done":
        return
    if state == "started":
        run, problems = resume(run_directory)
        for problem in problems:
            print(f"warning: {problem}", flush=True)
    else:
        clear(run_directory)
        run = start(item.config, run_directory)
    with run:
        with watched(run, quiet=False) as callback:
            run.advance(callback)
        report_result(run)


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
