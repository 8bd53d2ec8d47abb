"""Runs: the journal, which keeps the rows of R runs in their logs, and the sums of the logs.

Metrics go to ``metrics.jsonl``: two runs with the same options and seed write the same bytes.
Seconds differ between such runs and go to ``timing.jsonl``. A row that is written is out of this
process at once, so a kill loses no row that was told.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from lpo.engine.trainer import Row
from lpo.runs.directory import RunDirectory


class Log:
    """A file of rows, with its length and its digest so far."""

    def __init__(self, path: Path, length: int = 0):
        """Cuts the file off at ``length``, where a checkpoint says that it ended."""
        self.path = path
        with open(path, "ab") as file:
            file.truncate(min(length, file.tell()))  # a damaged log may be too short
        self.digest = hashlib.sha256(path.read_bytes())
        self.length = path.stat().st_size

    def write(self, rows: Sequence[Row]) -> None:
        found = [{k: v for k, v in row.items() if math.isfinite(v)} for row in rows]
        data = "".join(json.dumps(row) + "\n" for row in found).encode()
        with open(self.path, "ab") as file:
            file.write(data)
        self.digest.update(data)
        self.length += len(data)

    def sync(self) -> None:
        """Waits until the rows are safely on disk."""
        with open(self.path, "rb") as file:
            os.fsync(file.fileno())


class Journal:
    """The logs of runs. It holds the claims on their directories until it is closed."""

    def __init__(
        self,
        runs: Sequence[RunDirectory],
        claims: Sequence[IO[bytes]] = (),
        lengths: Sequence[int] | None = None,
    ):
        """``lengths``, two for each run, are those of a checkpoint; new logs are empty."""
        paths = [file for run in runs for file in (run.metrics_file, run.timing_file)]
        self.logs = [Log(p, n) for p, n in zip(paths, lengths or [0] * len(paths), strict=True)]
        self.claims = claims

    def write(self, rows: Sequence[Sequence[Row]], timing: Mapping[str, float]) -> None:
        """Adds the rows of every run to its log, and one row of seconds for all of them."""
        for i, own in enumerate(rows):
            if own:
                self.logs[2 * i].write(own)
                self.logs[2 * i + 1].write([{"env_steps": own[-1]["env_steps"], **timing}])

    def sync(self) -> None:
        for log in self.logs:
            log.sync()

    @property
    def lengths(self) -> list[int]:
        """The lengths of the logs in bytes."""
        return [log.length for log in self.logs]

    @property
    def sums(self) -> list[str]:
        """The SHA-256 of each log."""
        return [log.digest.hexdigest() for log in self.logs]

    def close(self) -> None:
        for claim in self.claims:
            with suppress(OSError):
                claim.close()


class Memory:
    """Keeps the rows of runs in memory."""

    def __init__(self, runs: int = 1) -> None:
        self.rows: list[list[Row]] = [[] for _ in range(runs)]

    def write(self, rows: Sequence[Sequence[Row]], timing: Mapping[str, float]) -> None:
        for kept, own in zip(self.rows, rows, strict=True):
            kept.extend(own)


def of_run(journal: Journal) -> dict[str, Any]:
    """Returns what the checkpoint of a single run says of its logs."""
    names = [log.path.name for log in journal.logs]
    return {
        "logs": dict(zip(names, journal.lengths, strict=True)),
        "log_sha256": dict(zip(names, journal.sums, strict=True)),
    }
