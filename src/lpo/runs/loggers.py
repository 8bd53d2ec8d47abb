"""Runs: loggers. A logger is any object with ``write(step, metrics, timing)``.

Metrics go to ``metrics.jsonl``: two runs with the same options and seed write the same bytes.
Seconds differ between such runs and go to ``timing.jsonl``. A logger that also has ``close`` is
closed at the end of the run.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from typing import IO, Any, Protocol

from lpo.runs.directory import RunDirectory

SHOW_EVERY = 30.0  # seconds until TensorBoard sees new rows


class Logger(Protocol):
    def write(self, step: int, metrics: dict[str, float], timing: dict[str, float]) -> None:
        """Takes the metrics and the seconds of one policy change."""
        ...


class Memory:
    """Keeps the rows in memory."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def write(self, step: int, metrics: dict[str, float], timing: dict[str, float]) -> None:
        self.rows.append({"env_steps": step, **metrics})


class JSONLines:
    """Appends rows to the logs of a run."""

    def __init__(
        self, run: RunDirectory, claimed: IO[bytes], offsets: dict[str, int] | None = None
    ):
        """``offsets`` of a checkpoint cut the logs off where they ended when it was written."""
        timing = open(run.timing_file, "ab")  # noqa: SIM115 - closed by ``close``
        self.files = {run.metrics_file.name: claimed, run.timing_file.name: timing}
        self.digests = {}
        for name, file in self.files.items():
            size = file.seek(0, 2)  # a damaged log may be too short
            file.truncate(min(offsets[name], size) if offsets else 0)
            file.seek(0, 2)
            self.digests[name] = hashlib.sha256((run.path / name).read_bytes())

    def offsets(self) -> dict[str, int]:
        """Returns the lengths of the logs in bytes, after they are safely on disk."""
        for file in self.files.values():
            os.fsync(file.fileno())
        return {name: file.tell() for name, file in self.files.items()}

    def sums(self) -> dict[str, str]:
        """Returns the SHA-256 of each log."""
        return {name: digest.hexdigest() for name, digest in self.digests.items()}

    def write(self, step: int, metrics: dict[str, float], timing: dict[str, float]) -> None:
        for (name, file), row in zip(self.files.items(), (metrics, timing), strict=True):
            row = {k: v for k, v in row.items() if math.isfinite(v)}
            line = (json.dumps({"env_steps": step, **row}) + "\n").encode()
            file.write(line)
            file.flush()
            self.digests[name].update(line)

    def close(self) -> None:
        for file in self.files.values():
            file.close()


class TensorBoard:
    """Writes every number as a scalar of TensorBoard.

    It writes in the thread that trains. With a thread of its own, as ``SummaryWriter`` has one, a
    full disk would end that thread, and training would wait for it for ever.
    """

    def __init__(self, run: RunDirectory, step: int = 0):
        from tensorboardX import summary
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2

        events: Any = event_pb2
        run.tensorboard.mkdir(exist_ok=True)
        self.event, self.scalar = events.Event, summary.scalar
        self.writer = EventsWriter(str(run.tensorboard / "events"))
        self.shown = time.monotonic()  # when rows were last written out
        if step:  # what an earlier process wrote from this step on is void
            start = events.SessionLog(status=events.SessionLog.START)
            self.writer.write_event(self.event(wall_time=time.time(), step=step, session_log=start))

    def write(self, step: int, metrics: dict[str, float], timing: dict[str, float]) -> None:
        event = self.event(wall_time=time.time(), step=step)
        for key, value in {**metrics, **timing}.items():
            event.summary.MergeFrom(self.scalar(key, value))
        self.writer.write_event(event)
        if time.monotonic() - self.shown > SHOW_EVERY:
            self.writer.flush()
            self.shown = time.monotonic()

    def close(self) -> None:
        self.writer.close()
