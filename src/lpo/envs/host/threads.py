"""Environments: a small pool of threads that runs one function over slices of a batch."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

from lpo.errors import LPOError

Work = Callable[[int, int], None]


def usable_cores() -> int:
    """Cores this process may run on: an affinity mask counts, not the machine's size."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """Calls ``function(first, last)`` over all of ``range(size)``, split between threads.

    The calling thread takes the first slice itself; with one thread there is no pool at all.
    """

    def __init__(self, function: Work, size: int, threads: int | None):
        self._size = size
        self._inboxes: list[SimpleQueue[Work | None]] = []
        if threads is not None and threads < 1:
            raise LPOError(f"threads={threads} is not a number of threads; pass 1 or more.")
        self.threads = min(usable_cores() if threads is None else threads, size)
        self._function = function
        edges = [size * k // self.threads for k in range(self.threads + 1)]
        self._slices = list(itertools.pairwise(edges))
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        for part in self._slices[1:]:
            inbox: SimpleQueue[Work | None] = SimpleQueue()
            self._inboxes.append(inbox)
            args = (part, inbox, self._done)
            threading.Thread(target=_serve, args=args, name="lpo-physics", daemon=True).start()

    def run(self) -> None:
        """One call per slice; returns when all are done, raising what any of them raised."""
        for inbox in self._inboxes:
            inbox.put(self._function)
        try:
            self._function(*self._slices[0])
        finally:
            failures = [self._done.get() for _ in self._inboxes]
        for failure in failures:
            if failure is not None:
                raise failure

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Let the threads end; a later ``run`` does the whole on the calling thread."""
        for inbox in self._inboxes:
            inbox.put(None)
        self._inboxes = []
        self._slices = [(0, self._size)]


def _serve(
    part: tuple[int, int],
    inbox: SimpleQueue[Work | None],
    done: SimpleQueue[BaseException | None],
) -> None:
    """A thread's life. It holds on to its work only while working, so that a batch nobody closed
    can still be collected, which closes it."""
    while (function := inbox.get()) is not None:
        try:
            function(*part)
        except BaseException as error:
            done.put(error)
        else:
            done.put(None)
        del function
