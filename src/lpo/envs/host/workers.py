"""Environments: a batch whose environments are stepped by other processes.

Each process has neighbouring rows. Observations, actions and rewards are in shared memory
(``frame.py``); a message of five bytes says that a step is wanted, and another that it is done.

A process is started by its command and not by a fork, since JAX has threads. It is told in words
how to make its environments (``maker.py``), so nothing is pickled, and a script that trains needs
no guard against being imported. What it does not see are signals: Ctrl-C is for the run alone.
"""

from __future__ import annotations

import ast
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from lpo.envs.codec import Codec
from lpo.envs.faults import REMEDY, failure
from lpo.envs.host.frame import UNSAID, layout, mapped, shared_file, size_of
from lpo.envs.host.link import BEGIN, CLOSE, MAKE, REPLAY, STEP, Failure, receive, send
from lpo.envs.host.stepper import Age, Played, Stepped
from lpo.errors import SPEAKS_FLAGS, LPOError, named

START = """import ast, sys
sys.path[:] = ast.literal_eval(sys.argv[1])
from lpo.envs.host.worker import main
main(*map(int, sys.argv[2:]))"""
GRACE = 2.0  # seconds after which a process is ended that did not stop a step by itself
FAREWELL = 5.0  # seconds in which environments may close themselves


class WorkerStepper:
    """Steps ``num_envs`` environments in ``number`` processes; a ``Stepper``."""

    def __init__(
        self,
        num_envs: int,
        codec: Codec,
        name: str,
        maker: str,
        number: int,
        step_timeout: float | None = None,
    ):
        self.num_envs, self._name, self._timeout = num_envs, name, step_timeout
        edges = [num_envs * k // number for k in range(number + 1)]
        self._rows = list(itertools.starmap(range, itertools.pairwise(edges)))
        shapes = layout(num_envs, codec.rows, codec.action_rows)
        memory = shared_file(size_of(shapes))
        self._frame = mapped(memory, shapes)
        self._frame.since[:] = 0.0
        self._begun = np.full(num_envs, -1)  # the seed with which an episode has just begun
        self._failed: list[Failure] = []  # resets of the last step
        self._waiting: set[int] = set()  # processes that have not answered yet
        self._links: list[socket.socket] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._end = weakref.finalize(self, end, self._links, self._processes)
        task = {
            "maker": maker,
            "name": name,
            "angles": codec.angles,
            "flat": codec.flat,
            "shapes": [(shape, np.lib.format.dtype_to_descr(dtype)) for shape, dtype in shapes],
            "step_timeout": step_timeout,
            "flags": SPEAKS_FLAGS.get(),
        }
        try:
            for _ in self._rows:
                self._start(memory)
            tasks = [repr(task | {"rows": (r.start, r.stop)}).encode() for r in self._rows]
            failed = self._ask(MAKE, dict(enumerate(tasks)))
        except BaseException:
            self._end()
            raise
        finally:
            os.close(memory)
        if failed:
            self._end()
            raise LPOError(
                f"{name} could not be made in another process ({failed[0].words}); leave "
                f"{named('env_workers')} out, or make what it needs importable."
            )

    def _start(self, memory: int) -> None:
        """Starts a process. It has no signals of ours before it has its own handlers."""
        ours, theirs = socket.socketpair()
        with theirs, blocked_signals():
            self._links.append(ours)
            ours.settimeout(self._timeout and min(self._timeout, 1.0))
            files = theirs.fileno(), memory
            command = [sys.executable, "-c", START, repr(sys.path), *map(str, files)]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=files)
            self._processes.append(process)

    def begin(self, rows: Sequence[int], seeds: np.ndarray, into: np.ndarray) -> None:
        if self._failed:
            self._raise(self._failed[0], 0)
        anew = [i for i in rows if self._begun[i] != seeds[i]]
        if anew:
            self._frame.seed[:] = seeds
            shares = {w: [i for i in part if i in anew] for w, part in enumerate(self._rows)}
            failed = self._ask(BEGIN, {w: repr(s).encode() for w, s in shares.items() if s})
            if failed:
                self._raise(failed[0], 0)
        into[rows] = self._frame.obs[rows]
        self._begun[:] = -1

    def step(self, taken: np.ndarray, seeds: np.ndarray, age: Age) -> Stepped:
        f = self._frame
        f.action[:], f.seed[:] = taken, seeds
        failed = self._ask(STEP, {w: b"" for w in range(len(self._rows))})
        for found in failed:
            if not found.first:
                self._raise(found, age(found.row))
        self._failed = failed
        done = f.terminated | f.truncated
        self._begun = np.where(done, f.seed, -1)
        results = f.next_obs, f.reward, f.terminated, f.truncated
        success = f.success.copy() if done.any() and (f.success != UNSAID).any() else None
        return Stepped(*(array.copy() for array in results), success=success)

    def replay(self, episodes: Sequence[Played]) -> tuple[np.ndarray, set[int]]:
        messages = {}
        for w, part in enumerate(self._rows):
            mine = [e for e in episodes if e.row in part]
            head = repr([(e.row, e.seed, len(e.actions)) for e in mine]).encode()
            messages[w] = head + b"\n" + b"".join(e.actions.tobytes() for e in mine)
        ended = set()
        for found in self._ask(REPLAY, messages):
            if found.words:
                self._raise(found, found.age)
            ended.add(found.row)
        return self._frame.next_obs.copy(), ended

    def _ask(self, letter: bytes, messages: dict[int, bytes]) -> list[Failure]:
        """Sends messages to processes and returns what went wrong, by row, when all are done."""
        if self._waiting or not self._links:
            raise LPOError(
                f"{self._name} was interrupted or closed, and its processes are gone; make it "
                "again, or resume from the last checkpoint."
            )
        self._waiting = set(messages)
        for w, content in messages.items():
            with suppress(ConnectionError):  # the answer tells that it is gone
                send(self._links[w], letter, content)
        failed: list[Failure] = []
        for w in messages:
            content = self._answer(w)
            if content:
                failed += [Failure(*values) for values in ast.literal_eval(content.decode())]
        return sorted(failed)

    def _answer(self, w: int) -> bytes:
        while True:
            try:
                content = receive(self._links[w])[1]
            except TimeoutError:
                self._check_time()
            except EOFError:
                raise self._lost(w) from None
            else:
                self._waiting.discard(w)
                return content

    def _check_time(self) -> None:
        """Raises where a step or a reset hangs so that its process cannot end it."""
        since = self._frame.since
        late = (since > 0) & (time.monotonic() - since > (self._timeout or np.inf) + GRACE)
        if late.any():
            self._end()
            words = f"it did not return within {self._timeout:g} seconds, the "
            words += named("step_timeout")
            raise failure(self._name, int(np.argmax(late)), None, words)

    def _lost(self, w: int) -> LPOError:
        """Returns the error for a process that is gone; the others are ended."""
        rows, process = self._rows[w], self._processes[w]
        with suppress(subprocess.TimeoutExpired):
            process.wait(FAREWELL)
        self._end()
        code = process.returncode
        how = f"exited with status {code}"
        if code is not None and code < 0:
            how = f"was killed by signal {-code} ({signal.strsignal(-code)})"
        last = f" to {rows.stop - 1}" if len(rows) > 1 else ""
        return LPOError(
            f"The process {process.pid} that steps {self._name} (environment {rows.start}{last}) "
            f"{how}, perhaps for want of memory; {REMEDY}"
        )

    def _raise(self, found: Failure, age: int | None) -> None:
        raise failure(self._name, found.row, age, found.words)

    def close(self) -> None:
        """Lets the environments close themselves, and ends the processes."""
        if self._end.alive and not self._waiting:
            with suppress(OSError, subprocess.TimeoutExpired):
                for link in self._links:
                    send(link, CLOSE)
                until = time.monotonic() + FAREWELL
                for process in self._processes:
                    process.wait(max(0.0, until - time.monotonic()))
        self._end()


def end(links: list[socket.socket], processes: list[subprocess.Popen[bytes]]) -> None:
    """Ends processes at once and waits for them; a second call does nothing."""
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()
    for link in links:
        link.close()
    links.clear()
    processes.clear()


@contextmanager
def blocked_signals() -> Iterator[None]:
    """Keeps Ctrl-C and SIGTERM from a process that is started here; it unblocks them itself."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
