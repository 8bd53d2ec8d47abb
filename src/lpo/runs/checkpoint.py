"""Checkpoints: safetensors and a JSON record with its checksum, written atomically. No pickle.

A checkpoint is the pair ``NNN.safetensors`` and ``NNN.json``. The record is renamed into place last
and holds the SHA-256 of the arrays, so a checkpoint exists only when it is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

from lpo import files
from lpo.errors import LPOError

FORMAT = 1


class Checkpoint(NamedTuple):
    arrays: dict[str, np.ndarray]
    record: dict[str, Any]


def write_atomically(path: Path, data: bytes) -> None:
    """Writes all of ``data`` to ``path``. If it fails, ``path`` stays as it was before."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # nor is a link followed that somebody has put there
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def save(folder: Path, name: str, arrays: dict[str, np.ndarray], record: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    data = safetensors.numpy.save({k: np.asarray(v, order="C") for k, v in arrays.items()})
    path = folder / f"{name}.safetensors"
    write_atomically(path, data)
    record = {"format": FORMAT, "sha256": hashlib.sha256(data).hexdigest(), **record}
    write_atomically(path.with_suffix(".json"), (json.dumps(record, indent=2) + "\n").encode())
    return path


def load(path: Path) -> Checkpoint:
    """Reads a checkpoint. Raises LPOError for a damaged or foreign file; executes nothing."""
    remedy = "use another checkpoint of the run or train again."
    try:
        record = files.parse_json(files.read_bytes(path.with_suffix(".json")))
        data = files.read_bytes(path.with_suffix(".safetensors"), files.LARGE)
    except (OSError, ValueError) as error:
        raise LPOError(f"Cannot read the checkpoint {path} ({error}); {remedy}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise LPOError(f"The checkpoint {path} is of another format than {FORMAT}; {remedy}")
    if hashlib.sha256(data).hexdigest() != record.get("sha256"):
        raise LPOError(f"The checkpoint {path} is damaged: its checksum does not match; {remedy}")
    try:
        return Checkpoint(safetensors.numpy.load(data), record)
    except safetensors.SafetensorError as error:
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


def load_latest(folder: Path) -> tuple[Checkpoint, list[str]]:
    """Returns the newest sound checkpoint, and what was wrong with the newer ones."""
    problems = []
    for path in candidates(folder):
        try:
            return load(path), problems
        except LPOError as error:
            problems.append(f"{error} Trying the checkpoint before it.")
    why = "no checkpoint in it is sound" if problems else "it holds no checkpoint"
    raise LPOError(
        f"Nothing to resume in {folder.parent}: {why}; train again into a new directory."
    )


def prune(folder: Path, keep: int) -> None:
    """Deletes all but the latest ``keep``; first the record, so that no half pair is ever read."""
    for name in names(folder)[:-keep]:
        (folder / f"{name}.json").unlink(missing_ok=True)
        (folder / f"{name}.safetensors").unlink(missing_ok=True)
