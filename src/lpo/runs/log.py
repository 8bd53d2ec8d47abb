"""The run directory: config, task, metrics.jsonl, timing.jsonl, tensorboard/, checkpoints/.

Metrics are functions of the seed and go to ``metrics.jsonl``; seconds are not and go to
``timing.jsonl``, so that two runs can be compared byte by byte.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None

from lpo import config as configs
from lpo.errors import LPOError
from lpo.runs.checkpoint import write_atomically

FILES = ("metrics.jsonl", "timing.jsonl")


def create_directory(out: Path, config: configs.Config, task: dict[str, Any]) -> Path:
    """Make ``out`` a new run of ``task``; an existing run is never written over."""
    taken = LPOError(
        f"{out} exists and is not empty; pass another --out, "
        f"or continue the run with `lpo resume {out}`."
    )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise taken
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "checkpoints").mkdir()  # of two that start at once, one makes it
        write_atomically(out / "task.json", (json.dumps(task, indent=2) + "\n").encode())
        write_atomically(out / "config.json", configs.to_json(config).encode())
    except FileExistsError:
        raise taken from None
    except OSError as error:
        raise LPOError(
            f"Cannot write the run directory {out} ({error}); pass another --out."
        ) from error
    return out


def claim(run: Path) -> IO[bytes]:
    """The metrics of ``run``, open for the one process that may write to it."""
    try:
        file = open(run / FILES[0], "ab")  # noqa: SIM115 - the caller closes it
    except OSError as error:
        raise LPOError(f"Cannot write to {run} ({error}); pass a run of your own.") from error
    if not lock(file):
        file.close()
        raise LPOError(
            f"{run} is being written by another process; wait until it has ended, or stop it."
        )
    return file


def lock(file: IO[bytes]) -> bool:
    """Whether ``file`` is now ours until it is closed; where there are no locks, it always is."""
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True


def free_directory(root: Path, stem: str) -> Path:
    """``root/stem-NNN`` with the first free number."""
    taken = {p.name for p in root.glob(f"{stem}-*")} if root.exists() else set()
    return next(root / name for i in range(1, 100_000) if (name := f"{stem}-{i:03d}") not in taken)


def open_directory(run: Path) -> configs.Config:
    """The configuration of an existing run."""
    if not (run / "config.json").is_file():
        raise LPOError(
            f"{run} is not a run directory (it has no config.json); "
            "pass a directory that `lpo train` made."
        )
    return configs.read(run / "config.json")


def task_line(task: dict[str, Any]) -> str:
    """A task in one line: its id, and its threshold with the preset's name or its arguments."""
    line = str(task.get("id"))
    if task.get("threshold") is not None:
        return line + f" ({task['preset']}: {task['quantity']} > {task['threshold']:g})"
    arguments = ", ".join(f"{name}={value}" for name, value in task.get("env_kwargs", {}).items())
    return line + (f" ({arguments})" if arguments else "")


def read_task(run: Path) -> dict[str, Any]:
    """What the environment said of itself when the run began."""
    try:
        return json.loads((run / "task.json").read_text())
    except (OSError, ValueError) as error:
        raise LPOError(f"{run} has no readable task.json ({error}); pass a whole run.") from error


def read_metrics(run: Path, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    """The rows of a log; a last line cut short by a kill is left out."""
    rows = []
    try:
        lines = (run / name).read_text().splitlines()
    except OSError as error:
        raise LPOError(f"{run} has no readable {name} ({error}); pass a run directory.") from error
    for line in lines:
        with contextlib.suppress(json.JSONDecodeError):
            rows.append(json.loads(line))
    return rows


class MemoryLog:
    """Keeps the rows in memory: the log of an agent without a run directory."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def write(self, step: int, metrics: dict[str, float], timing: dict[str, float]) -> None:
        self.rows.append({"env_steps": step, **metrics})

    def offsets(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        pass


class RunLog(MemoryLog):
    """Appends rows to the logs of a run and knows how far they were written."""

    def __init__(
        self,
        run: Path,
        claimed: IO[bytes],
        offsets: dict[str, int] | None = None,
        step: int = 0,
    ):
        """``offsets`` of a checkpoint cut the logs back to what they were when it was taken."""
        from tensorboardX import SummaryWriter

        super().__init__()
        self.files = {FILES[0]: claimed, FILES[1]: open(run / FILES[1], "ab")}  # noqa: SIM115
        for name, file in self.files.items():
            file.truncate(offsets[name] if offsets else 0)
            file.seek(0, 2)
        folder = str(run / "tensorboard")
        self.board = SummaryWriter(folder, purge_step=step if step else None)

    def offsets(self) -> dict[str, int]:
        """How far the logs reach, once that much is safely on disk."""
        for file in self.files.values():
            os.fsync(file.fileno())
        return {name: file.tell() for name, file in self.files.items()}

    def write(self, step: int, metrics: dict[str, float], timing: dict[str, float]) -> None:
        super().write(step, metrics, timing)
        for name, row in zip(FILES, (metrics, timing), strict=True):
            row = {k: v for k, v in row.items() if math.isfinite(v)}
            self.files[name].write((json.dumps({"env_steps": step, **row}) + "\n").encode())
            self.files[name].flush()
        for key, value in {**metrics, **timing}.items():
            self.board.add_scalar(key, value, step)

    def close(self) -> None:
        for file in self.files.values():
            file.close()
        self.board.close()
