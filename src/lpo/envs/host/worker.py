"""Environments: the process that steps some of a batch's environments (``workers.py`` starts it).

It does what ``LocalStepper`` does for its rows and writes the results into the shared arrays. An
episode that ends is followed by the next one within the same step.
"""

from __future__ import annotations

import ast
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from lpo.envs.codec import Codec
from lpo.envs.faults import limited, words_of
from lpo.envs.host.frame import Frame, mapped
from lpo.envs.host.link import BEGIN, CLOSE, DONE, MAKE, REPLAY, STEP, Failure, receive, send
from lpo.envs.host.stepper import begin_episode, take_step
from lpo.envs.maker import distinct, read_maker
from lpo.errors import SPEAKS_FLAGS, LPOError


def main(link_file: int, memory: int) -> None:
    """Serves the process at the other end of ``link_file`` until that closes it."""
    for number in (signal.SIGINT, signal.SIGTERM):  # that process decides when to stop
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    link = socket.socket(fileno=link_file)
    threading.Thread(target=end_with, args=(link_file,), daemon=True).start()
    with suppress(EOFError, ConnectionError):
        serve(link, memory)


def serve(link: socket.socket, memory: int) -> None:
    """Makes the environments and answers messages until the one that closes them."""
    letter, content = receive(link)
    assert letter == MAKE
    try:
        worker = Worker(ast.literal_eval(content.decode()), memory)
    except Exception as error:
        words = str(error) if isinstance(error, LPOError) else words_of(error)
        send(link, DONE, repr([(0, True, None, words)]).encode())
        return
    send(link, DONE)
    while letter != CLOSE:
        letter, content = receive(link)
        failures = worker.calls[letter](content)
        send(link, DONE, repr([tuple(f) for f in failures]).encode() if failures else b"")


def end_with(link_file: int) -> None:
    """Ends this process when the other end of the link is gone, even within a step that hangs."""
    watch = select.poll()
    watch.register(link_file, 0)  # a hang-up is told in any case
    watch.poll()
    os._exit(1)


class Worker:
    """Rows ``first`` to ``last - 1`` of a batch. A call returns what went wrong."""

    def __init__(self, task: dict[str, Any], memory: int):
        SPEAKS_FLAGS.set(task["flags"])
        self.frame = mapped(memory, Frame(*((s, np.dtype(d)) for s, d in task["shapes"])))  # type: ignore[arg-type]
        os.close(memory)
        self.rows = range(*task["rows"])
        make, timeout = read_maker(task["maker"]), task["step_timeout"]
        envs = distinct([make() for _ in self.rows])
        spaces = envs[0].observation_space, envs[0].action_space
        self.codec = Codec(task["name"], *spaces, task["angles"], task["flat"])
        self.envs = {i: limited(e, timeout) for i, e in zip(self.rows, envs, strict=True)}
        self.calls: dict[bytes, Callable[[bytes], list[Failure]]] = {
            BEGIN: self.begin,
            STEP: self.step,
            REPLAY: self.replay,
            CLOSE: self.close,
        }

    def begin(self, content: bytes) -> list[Failure]:
        """Begins episodes in the rows that ``content`` lists."""
        found = [self.begin_row(i, self.frame.obs) for i in ast.literal_eval(content.decode())]
        return [failure for failure in found if failure is not None]

    def begin_row(self, i: int, into: np.ndarray) -> Failure | None:
        f = self.frame
        f.since[i] = time.monotonic()
        try:
            begin_episode(self.envs[i], self.codec, int(f.seed[i]), into, i)
        except Exception as error:
            return Failure(i, True, 0, words_of(error))
        finally:
            f.since[i] = 0.0
        return None

    def step(self, content: bytes) -> list[Failure]:
        """Takes a step in each row. The next episode begins where one has ended."""
        del content
        f, failures = self.frame, []
        decoded = self.codec.action(f.action[self.rows.start : self.rows.stop].copy())
        for i in self.rows:
            f.since[i] = time.monotonic()
            try:
                end = take_step(
                    self.envs[i], self.codec, decoded[i - self.rows.start], f.next_obs, i
                )
            except Exception as error:
                return [*failures, Failure(i, False, None, words_of(error))]
            finally:
                f.since[i] = 0.0
            f.reward[i], f.terminated[i], f.truncated[i], f.success[i] = end
            if end[1] or end[2]:
                failure = self.begin_row(i, f.obs)
                failures += [] if failure is None else [failure]
        return failures

    def replay(self, content: bytes) -> list[Failure]:
        """Plays episodes again, of which ``content`` has the rows, the seeds and the actions."""
        head, _, actions = content.partition(b"\n")
        f, failures = self.frame, []
        taken = np.frombuffer(actions, f.action.dtype).reshape(-1, *f.action.shape[1:])
        for i, seed, length in ast.literal_eval(head.decode()):
            f.seed[i] = seed
            failure = self.begin_row(i, f.next_obs) or self.play(i, taken[:length].copy())
            failures += [] if failure is None else [failure]
            taken = taken[length:]
        return failures

    def play(self, i: int, actions: np.ndarray) -> Failure | None:
        f = self.frame
        for k, action in enumerate(actions):
            f.since[i] = time.monotonic()
            try:
                given = self.codec.action(action)
                _, over, cut, _ = take_step(self.envs[i], self.codec, given, f.next_obs, i)
            except Exception as error:
                return Failure(i, False, k + 1, words_of(error))
            finally:
                f.since[i] = 0.0
            if over or cut:
                return Failure(i, False, k + 1, "")
        return None

    def close(self, content: bytes) -> list[Failure]:
        del content
        for env in self.envs.values():
            env.close()
        return []
