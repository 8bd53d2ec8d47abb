"""Sweeps: runs of the theory's grid, ``python -m lpo.sweep.theory_worker ROOT CELLS``.

The process ends with its parent. Each run leaves one line in the ledger of the grid when it ends.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from lpo.files import parse_json
from lpo.runs.directory import lock
from lpo.sweep.worker import main
from lpo.theory.compare import Cell, Row, run_cell

RUNS = "runs.jsonl"


class Ledger:
    """The finished runs of a folder, one line of a file each."""

    def __init__(self, root: Path):
        self.path = root / RUNS
        self._rows: dict[str, Row] = {}
        self._read = 0  # bytes

    def rows(self) -> dict[str, Row]:
        """Returns the rows by the key of their cell; reads only what is new in the file."""
        with contextlib.suppress(FileNotFoundError), open(self.path, "rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it is being written, or was cut short
                self._read += len(line)
                with contextlib.suppress(ValueError):  # cut short by a crash
                    row = parse_json(line)
                    if isinstance(row, dict) and isinstance(row.get("key"), str):
                        self._rows[row["key"]] = row
        return self._rows

    def of(self, cells: Sequence[Cell]) -> list[Row]:
        """Returns the rows of the cells that are done, in the order of the cells."""
        rows = self.rows()
        return [rows[cell.key] for cell in cells if cell.key in rows]

    def append(self, row: Row) -> None:
        """Adds a row. Only one process writes at a time."""
        with open(self.path, "ab+") as file:
            while not lock(file):
                time.sleep(0.02)
            whole = file.seek(0, 2) == 0 or _last_byte(file) == b"\n"
            file.write(b"" if whole else b"\n")  # end the line that a crash cut short
            file.write(json.dumps(row).encode() + b"\n")


def _last_byte(file: IO[bytes]) -> bytes:
    file.seek(-1, 2)
    return file.read(1)


def written(cells: Sequence[Cell]) -> str:
    """Returns cells that differ only in their seeds as one argument of a command line."""
    return json.dumps([cells[0].key, [cell.seed for cell in cells]])


def read(word: str) -> list[Cell]:
    """Returns the cells of an argument that ``written`` made."""
    key, seeds = json.loads(word)
    return [replace(Cell.from_key(key), seed=seed) for seed in seeds]


def work(root: Path, word: str) -> None:
    """Runs the cells that are missing, in order."""
    ledger, cells = Ledger(root), read(word)
    missing = [cell for cell in cells if not ledger.of([cell])]
    for cell in missing[:1]:  # a short run loads the compiled code before the clock starts
        run_cell(replace(cell, N=min(cell.N, 100), M=min(cell.M, 10)))
    for cell in missing:
        ledger.append(run_cell(cell))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], work))
