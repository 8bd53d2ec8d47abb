"""Runs: loggers. A logger is any object with ``write(step, metrics, timing)``.

Metrics go to ``metrics.jsonl``: two runs with the same options and seed write the same bytes.
Seconds differ between such runs and go to ``timing.jsonl``. A logger that also has ``close`` is
closed at the end of the run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from typing import IO, Protocol

from lpo.runs.directory import RunDirectory


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
            with contextlib.suppress(OSError):  # a write that failed, and said so, is tried again
                file.close()


class TensorBoard:
    """Writes every number as a scalar of TensorBoard."""

    def __init__(self, run: RunDirectory, step: int = 0):
        from tensorboardX import SummaryWriter

        self.writer = SummaryWriter(str(run.tensorboard), purge_step=step if step else None)

    def write(self, step: int, metrics: dict[str, float], timing: dict[str, float]) -> None:
        for key, value in {**metrics, **timing}.items():
            self.writer.add_scalar(key, value, step)

    def close(self) -> None:
        self.writer.close()
