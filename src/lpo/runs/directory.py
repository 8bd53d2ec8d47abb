"""Runs: the directory of a run, and the only place that knows its layout.

    config.json task.json          what the run is
    metrics.jsonl timing.jsonl     what it logged; see ``lpo.runs.loggers``
    visits.json                    which states its agent visited
    checkpoints/                   NNN.safetensors and NNN.json; best.*
    tensorboard/ wandb/            what chosen loggers wrote
    loggers.json                   the ids that they gave to the run
    curve.png

Opening a stranger's directory reads JSON and arrays and executes nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None

from lpo import config as configs
from lpo import files
from lpo.config import Config
from lpo.errors import LPOError
from lpo.runs import checkpoint
from lpo.runs.checkpoint import Checkpoint, write_atomically


class RunDirectory:
    """The files of a run."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.config_file = self.path / "config.json"
        self.task_file = self.path / "task.json"
        self.metrics_file = self.path / "metrics.jsonl"
        self.timing_file = self.path / "timing.jsonl"
        self.visits_file = self.path / "visits.json"
        self.curve_file = self.path / "curve.png"
        self.tensorboard = self.path / "tensorboard"
        self.wandb = self.path / "wandb"
        self.ids_file = self.path / "loggers.json"
        self.checkpoints = self.path / "checkpoints"

    def __str__(self) -> str:
        return str(self.path)

    @property
    def exists(self) -> bool:
        return self.config_file.is_file()

    @classmethod
    def create(cls, out: Path, config: Config, task: dict[str, Any]) -> RunDirectory:
        """Makes ``out`` the directory of a new run. Raises LPOError where it is not empty."""
        run = cls(out)
        taken = LPOError(
            f"{out} exists and is not empty; pass another --out, "
            f"or continue the run with `lpo resume {out}`."
        )
        again = run.begun
        if out.exists() and (not out.is_dir() or any(out.iterdir())) and not again:
            raise taken
        try:
            out.mkdir(parents=True, exist_ok=True)
            with open(run.metrics_file, "ab") as file:
                # of two processes that start at once, only one comes through here
                if not lock(file) or run.exists:
                    raise taken
                run.checkpoints.mkdir(exist_ok=again)
                run.describe(config, task)
        except FileExistsError:
            raise taken from None
        except OSError as error:
            raise LPOError(
                f"Cannot write the run directory {out} ({error}); pass another --out."
            ) from error
        return run

    @property
    def begun(self) -> bool:
        """Whether a process was killed while it made this directory; then it may be made again."""
        if self.exists or not self.path.is_dir() or self.foreign():
            return False
        size = self.metrics_file.stat().st_size if self.metrics_file.exists() else 0
        return size == 0 and not any(self.checkpoints.glob("*"))

    def describe(self, config: Config, task: dict[str, Any]) -> None:
        """Writes what the run is; ``config.json`` comes last."""
        write_atomically(self.task_file, (json.dumps(task, indent=2) + "\n").encode())
        write_atomically(self.config_file, configs.to_json(config).encode())

    @classmethod
    def open(cls, path: str | Path) -> RunDirectory:
        """Returns an existing run. Raises LPOError where there is none."""
        run = cls(path)
        if not run.exists:
            if inside := runs_in(run.path):
                raise LPOError(
                    f"{path} holds {len(inside)} runs; pass one of them, such as {inside[0]}."
                )
            raise LPOError(
                f"{path} is not a run directory (it has no config.json); "
                "pass a directory that `lpo train` made."
            )
        run.check()
        return run

    def check(self) -> None:
        """Raises LPOError where a file of the run is a link that leads out of it."""
        files.check_folder(self.path, self.files)

    @property
    def files(self) -> tuple[Path, ...]:
        """What belongs to a run."""
        return (
            self.config_file, self.task_file, self.metrics_file, self.timing_file,
            self.visits_file, self.curve_file, self.tensorboard, self.wandb, self.ids_file,
            self.checkpoints,
        )  # fmt: skip

    def claim(self) -> IO[bytes]:
        """Returns the metrics file, open and locked: only one process may write to a run."""
        try:
            file = open(self.metrics_file, "ab")  # noqa: SIM115 - the caller closes it
        except OSError as error:
            raise LPOError(
                f"Cannot write to {self} ({error}); pass a run that you may write to."
            ) from error
        if not lock(file):
            file.close()
            raise LPOError(
                f"{self} is being written by another process; wait until it has ended, or stop it."
            )
        return file

    @contextlib.contextmanager
    def disk_errors(self, when: str = "") -> Iterator[None]:
        """Turns an error of the disk into an LPOError that says how to continue the run."""
        try:
            yield
        except OSError as error:
            why, again = error.strerror or error, f"continue with `lpo resume {self}`"
            if not self.exists:
                raise LPOError(
                    f"{self} has vanished{when} ({why}); bring it back and {again}."
                ) from error
            raise LPOError(
                f"Could not write to {self}{when} ({why}); free some space or allow writing, and "
                f"{again}: the last checkpoint is intact."
            ) from error

    def config(self) -> Config:
        return configs.read(self.config_file)

    def task(self) -> dict[str, Any]:
        """Returns the description that the environment gave when the run began."""
        try:
            found = files.parse_json(files.read_bytes(self.task_file))
        except (OSError, ValueError) as error:
            raise LPOError(
                f"{self} has no readable task.json ({error}); pass a complete run."
            ) from error
        if not isinstance(found, dict):
            raise LPOError(f"{self.task_file} does not describe a task; pass a complete run.")
        return found

    def on_device(self) -> bool:
        """Whether the run belongs to a group on a device, which alone can go on with it."""
        with contextlib.suppress(LPOError):
            return self.task().get("backend") == "device"
        return False

    def metrics(self) -> list[dict[str, Any]]:
        return read_rows(self.metrics_file)

    def timing(self) -> list[dict[str, Any]]:
        return read_rows(self.timing_file) if self.timing_file.exists() else []

    def latest_metrics(self) -> dict[str, Any]:
        """Returns the newest value of every metric, read from the end of the log only."""
        found: dict[str, Any] = {}
        with contextlib.suppress(OSError), open(self.metrics_file, "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 40_000))
            for row in parse_rows(file.read().decode(errors="replace")):
                found |= row
        return found

    def reached(self) -> int | None:
        """Returns the environment steps of the newest checkpoint; None where there is none."""
        names = checkpoint.names(self.checkpoints)
        return int(names[-1]) if names else None

    def latest(self) -> tuple[Checkpoint, list[str]]:
        """Returns the newest sound checkpoint, and what was wrong with newer ones."""
        return checkpoint.load_latest(self.checkpoints)

    def restored(self) -> tuple[Checkpoint, list[str]]:
        """Returns the newest checkpoint whose logs are sound too, and what was wrong with others.

        What the checkpoint knows better is put right: ``config.json`` and ``task.json`` are written
        anew where they differ, and newer checkpoints are deleted, since they are damaged.
        """
        saved, problems = checkpoint.load_latest(self.checkpoints, self.misfit)
        for path in checkpoint.candidates(self.checkpoints):
            if path.stem > f"{saved.record['env_steps']:012d}":
                path.with_suffix(".json").unlink()
        config = configs.from_dict(saved.record.get("config"), f"the newest checkpoint of {self}")
        task = saved.record.get("env") or self.task()
        if (wrong := self.misdescribed(config, task)) is not None:
            self.describe(config, task)
            problems.append(f"{wrong} was not as the checkpoint says, so it is written anew.")
        return saved, problems

    def misfit(self, saved: Checkpoint) -> str | None:
        """Returns what is wrong with the logs up to a checkpoint, or None."""
        for name, sha256 in saved.record.get("log_sha256", {}).items():
            path = self.path / name
            if log_digest(path, saved.record["logs"][name]) != sha256:
                return f"{path} is damaged before step {saved.record['env_steps']}."
        return None

    def misdescribed(self, config: Config, task: dict[str, Any]) -> str | None:
        """Returns the file that does not say what a sound checkpoint says, or None."""
        with contextlib.suppress(LPOError):
            if self.config() != config:
                return str(self.config_file)
            if self.task() != task:
                return str(self.task_file)
            return None
        return f"{self.config_file} or {self.task_file.name}"

    def best(self) -> Checkpoint:
        """Returns the best checkpoint by evaluation; the latest where there was no evaluation."""
        path = self.checkpoints / "best.safetensors"
        return checkpoint.load(path) if path.exists() else self.latest()[0]

    def unsound_best(self) -> str | None:
        """Returns what is wrong with the best checkpoint, or None."""
        try:
            checkpoint.load(self.checkpoints / "best.safetensors")
        except LPOError as error:
            return str(error)
        return None

    def has_best(self) -> bool:
        """Whether there is anything of a best checkpoint."""
        return any(self.checkpoints.glob("best.*"))

    def sound_best(self) -> Checkpoint | None:
        """Returns the best checkpoint; None where there is none, or a damaged one."""
        with contextlib.suppress(LPOError):
            return checkpoint.load(self.checkpoints / "best.safetensors")
        return None

    def id_for(self, logger: str, new: Callable[[], str]) -> str:
        """Returns the id under which a logger knows the run; ``new`` makes it at the first time."""
        try:
            known = self.ids_file.exists()
            ids = files.parse_json(files.read_bytes(self.ids_file)) if known else {}
            found = ids.get(logger)
        except (OSError, ValueError, AttributeError) as error:
            raise wrong_ids(self.ids_file) from error
        if found is None:
            self.path.mkdir(parents=True, exist_ok=True)
            found = new()
            write_atomically(self.ids_file, (json.dumps({**ids, logger: found}) + "\n").encode())
        if not isinstance(found, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", found):
            raise wrong_ids(self.ids_file)  # it may become part of a file's name
        return found

    def foreign(self) -> list[str]:
        """Returns the names in the directory that do not belong to a run."""
        ours = {file.name for file in self.files}
        return [
            p.name
            for p in self.path.iterdir()
            if p.name.strip(".").removesuffix(".tmp") not in ours
        ]


def clear(run: RunDirectory) -> None:
    """Deletes a run that has no checkpoint yet, so that it can start again."""
    if not run.path.exists():
        return
    if foreign := run.foreign():
        raise LPOError(f"{run} holds {foreign[0]}, which is not a file of a run; move it away.")
    with run.claim():
        shutil.rmtree(run.path)


def runs_in(path: Path) -> list[RunDirectory]:
    """Returns the runs that a directory holds, as that of a sweep does."""
    inside = map(RunDirectory, sorted(path.iterdir() if path.is_dir() else ()))
    return [run for run in inside if run.exists]


def wrong_ids(path: Path) -> LPOError:
    return LPOError(f"{path} is damaged. Delete it; W&B and MLflow will then start a new run.")


def lock(file: IO[bytes]) -> bool:
    """Locks ``file`` until it is closed. Returns False where another process holds the lock.

    Returns True on systems without locks.
    """
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True


def log_digest(path: Path, length: int) -> str:
    """Returns the SHA-256 of the first ``length`` bytes of a log, or of all that is there."""
    data = path.read_bytes() if path.exists() else b""
    return hashlib.sha256(data[:length]).hexdigest()


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a log. Leaves out a last line that is incomplete after a kill."""
    try:
        return list(parse_rows(files.read_text(path, files.LARGE)))
    except (OSError, ValueError) as error:
        raise LPOError(
            f"{path.parent} has no readable {path.name} ({error}); pass a run directory."
        ) from error


def parse_rows(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            row = json.loads(line)
            files.check_text(line, row)
            if isinstance(row, dict):
                yield row


def free_directory(root: Path, stem: str) -> Path:
    """Returns ``root/stem-NNN`` with the first free number."""
    taken = {p.name for p in root.glob(f"{stem}-*")} if root.exists() else set()
    return next(root / name for i in range(1, 100_000) if (name := f"{stem}-{i:03d}") not in taken)


def short_env(env: str) -> str:
    """Returns the id of an environment without namespace, package and version."""
    return env.split("/")[-1].split(":")[-1].rsplit("-v", 1)[0]


def task_line(task: dict[str, Any]) -> str:
    """Returns a task in one line: its id, with its threshold or its arguments."""
    line = str(task.get("id"))
    if task.get("threshold") is not None:
        limit = f"{task.get('quantity')} > {task['threshold']:g}"
        return line + f" ({task.get('preset')}: {limit})"
    given = task.get("env_kwargs") or {}
    arguments = ", ".join(f"{name}={value}" for name, value in given.items())
    return line + (f" ({arguments})" if arguments else "")
