"""Environments: a small pool of threads that runs one function over slices of a batch."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from lpo.errors import LPOError

Work = Callable[[int, int], None]


def usable_cores() -> Sequence[int | None]:
    """Returns the cores that this process may run on, one entry each.

    An affinity mask counts, not the size of the machine. On a system without such masks a core has
    no number and its entry is None.
    """
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return [None] * (os.cpu_count() or 1)


class Workers:
    """Calls ``function(first, last)`` over all of ``range(size)``, split between threads.

    The calling thread takes the first slice itself; with one thread there is no pool at all.
    """

    def __init__(self, function: Work, size: int, threads: int | None):
        self._size = size
        self._inboxes: list[SimpleQueue[Work | None]] = []
        if threads is not None and threads < 1:
            raise LPOError(f"threads={threads} is not a number of threads; pass 1 or more.")
        self.threads = min(len(usable_cores()) if threads is None else threads, size)
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
        """Makes one call per slice and waits for all; raises what any of them raised."""
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
        """Lets the threads end; a later ``run`` does all the work on the calling thread."""
        for inbox in self._inboxes:
            inbox.put(None)
        self._inboxes = []
        self._slices = [(0, self._size)]


def _serve(
    part: tuple[int, int],
    inbox: SimpleQueue[Work | None],
    done: SimpleQueue[BaseException | None],
) -> None:
    """Works off the inbox of one thread until None arrives.

    The thread keeps no reference to the batch between two calls, so that a batch that was not
    closed can be garbage-collected, which ends the thread.
    """
    while (function := inbox.get()) is not None:
        try:
            function(*part)
        except BaseException as error:
            done.put(error)
        else:
            done.put(None)
        del function
