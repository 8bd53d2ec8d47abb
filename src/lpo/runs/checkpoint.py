"""Checkpoints: safetensors and a JSON record with its checksum, written atomically. No pickle.

A checkpoint is the pair ``NNN.safetensors`` and ``NNN.json``. The record is renamed into place last
and holds the SHA-256 of the arrays and its own, so a checkpoint exists only when it is whole. Where
a pair replaces an older one, the new record waits beside it until the new arrays are in place. So a
kill between the two leaves the new checkpoint, not half of each.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

from lpo import files
from lpo.errors import LPOError

FORMAT = 2


class Checkpoint(NamedTuple):
    arrays: dict[str, np.ndarray]
    record: dict[str, Any]


def write_atomically(path: Path, data: bytes) -> None:
    """Writes all of ``data`` to ``path``. If it fails, ``path`` stays as it was before."""
    put(stage(path, data), path)


def waiting(path: Path) -> Path:
    """Returns the file beside ``path`` that waits to replace it."""
    return path.with_name(f".{path.name}.tmp")


def stage(path: Path, data: bytes) -> Path:
    """Writes ``data`` to the disk beside ``path``, whole or not at all. Returns the new file."""
    temporary = waiting(path)
    try:
        temporary.unlink(missing_ok=True)  # nor is a link followed that somebody has put there
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def put(staged: Path, path: Path) -> None:
    """Renames a staged file to ``path``, which is atomic."""
    try:
        os.replace(staged, path)
    except OSError:
        staged.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def save(folder: Path, name: str, arrays: dict[str, np.ndarray], record: dict[str, Any]) -> Path:
    """Writes a checkpoint into ``folder``, whose parent must exist."""
    folder.mkdir(exist_ok=True)
    data = safetensors.numpy.save({k: np.asarray(v, order="C") for k, v in arrays.items()})
    path = folder / f"{name}.safetensors"
    record = {"format": FORMAT, "sha256": hashlib.sha256(data).hexdigest(), **record}
    record = json.loads(json.dumps(record))  # as it will be read
    record["record_sha256"] = digest(record)
    staged = stage(path.with_suffix(".json"), (json.dumps(record, indent=2) + "\n").encode())
    try:
        write_atomically(path, data)
    except OSError:
        staged.unlink(missing_ok=True)
        raise
    put(staged, path.with_suffix(".json"))
    return path


def plain(record: dict[str, Any]) -> dict[str, Any]:
    """Returns a record without what ``save`` adds to it."""
    return {k: v for k, v in record.items() if k not in ("format", "sha256", "record_sha256")}


def digest(record: dict[str, Any]) -> str:
    """Returns the SHA-256 of a record without its own checksum."""
    rest = {key: value for key, value in record.items() if key != "record_sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def load(path: Path) -> Checkpoint:
    """Reads a checkpoint. Raises LPOError for a damaged or foreign file; executes nothing."""
    remedy = "use another checkpoint of the run or train again."
    file = path.with_suffix(".json")
    try:
        data = files.read_bytes(path.with_suffix(".safetensors"), files.LARGE)
        record = files.parse_json(files.read_bytes(file))
        found = hashlib.sha256(data).hexdigest()
        if (other := waiting(file)).exists() and record.get("sha256") != found:
            # it was killed between the two renames
            record = files.parse_json(files.read_bytes(other))
    except (OSError, ValueError, AttributeError) as error:
        raise LPOError(f"Cannot read the checkpoint {path} ({error}); {remedy}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise LPOError(f"The checkpoint {path} is of another format than {FORMAT}; {remedy}")
    if (found, digest(record)) != (record.get("sha256"), record.get("record_sha256")):
        raise LPOError(f"The checkpoint {path} is damaged: its checksum does not match; {remedy}")
    try:
        return Checkpoint(safetensors.numpy.load(data), record)
    except (safetensors.SafetensorError, ValueError) as error:
        raise LPOError(
            f"The checkpoint {path} is not a safetensors file ({error}); {remedy}"
        ) from error


def names(folder: Path) -> list[str]:
    """Returns the names of the numbered checkpoints that are complete, oldest first."""
    return sorted(
        p.stem for p in folder.glob("[0-9]*.json") if p.with_suffix(".safetensors").exists()
    )


def candidates(folder: Path) -> Iterator[Path]:
    """Returns the paths of the numbered checkpoints, newest first."""
    return (folder / f"{name}.safetensors" for name in reversed(names(folder)))


def load_latest(
    folder: Path, fits: Callable[[Checkpoint], str | None] = lambda saved: None
) -> tuple[Checkpoint, list[str]]:
    """Returns the newest sound checkpoint, and what was wrong with the newer ones.

    ``fits`` says what is wrong with the files that belong to a checkpoint, or None. If none fits,
    the newest sound one is returned all the same.
    """
    problems, sound = [], []
    for path in candidates(folder):
        try:
            saved = load(path)
            sound.append(saved)
            if (wrong := fits(saved)) is None:
                return saved, problems
        except LPOError as error:
            wrong = str(error)
        problems.append(f"{wrong} Trying the checkpoint before it.")
    if sound:
        return sound[0], [*problems, "No checkpoint matches the logs; using the newest valid one."]
    why = "no checkpoint in it is sound" if problems else "it holds no checkpoint"
    raise LPOError(
        f"Nothing to resume in {folder.parent}: {why}; train again into a new directory."
    )


def prune(folder: Path, keep: int) -> None:
    """Deletes all but the latest ``keep``; first the record, so that no half pair is ever read."""
    kept = names(folder)[-keep:]
    for path in sorted(folder.glob("[0-9]*.*")):  # the record comes before its arrays
        if path.stem not in kept:
            path.unlink(missing_ok=True)
