"""A study of the theory: a grid of runs, one packed file of it, its table and its figure.

``python experiments/theory/NAME.py`` prints the table and draws the figure from the packed file;
with ``--run`` it first runs what is missing of the grid and packs it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lpo.errors import LPOError
from lpo.report.stats import Estimate, estimate
from lpo.runs.checkpoint import write_atomically
from lpo.runs.store import arrow, commit, versions
from lpo.sweep.theory import run_grid
from lpo.theory.compare import Cell, Row

KEPT = (
    "optimal_value", "iterations", "env_steps", "switches", "inner_iterations", "additions",
    "distinct", "relative_gap_last", "relative_gap_late", "relative_gap_mixture",
    "transfer_last", "transfer_most", "steps_to_tenth", "switches_at", "gap_at", "seconds",
)  # fmt: skip


class Run(NamedTuple):
    """One row of a packed file: the cell, and its figures by the names of ``KEPT``."""

    cell: Cell
    figures: dict[str, Any]

    def __getitem__(self, name: Any) -> Any:
        return self.figures[name]


class Study(NamedTuple):
    """A grid, and what is made of its runs."""

    name: str
    grid: Sequence[Cell]
    table: Callable[[list[Run]], str]
    draw: Callable[[list[Run], Path], None] = lambda runs, out: None

    def main(self, here: Path) -> int:
        """The command of a script in ``here``; returns the exit status."""
        parser = argparse.ArgumentParser(description=f"The study {self.name} of the theory")
        parser.add_argument("--run", action="store_true", help="run what is missing, and pack it")
        parser.add_argument("--processes", type=int, help="runs at a time (default: all cores)")
        parser.add_argument("--out", type=Path, default=Path(f"runs/theory-{self.name}"))
        given = parser.parse_args()
        path = here / "results" / f"{self.name}.parquet"
        if given.run:
            again = f"python experiments/theory/{self.name}.py --run"
            rows = run_grid(self.grid, given.out, given.processes, again)
            if isinstance(rows, int):
                return rows
            pack(rows, path)
        runs = read(path)
        print(self.table(runs))
        figures = here.parents[1] / "docs" / "figures" / "theory"
        self.draw(runs, figures)
        (figures / f"{self.name}.png").unlink(missing_ok=True)  # pages show the SVG
        return 0


def pack(rows: Sequence[Row], path: Path) -> None:
    """Writes rows of a grid to one Parquet file: the key of each cell, and its figures."""
    if path.suffix != ".parquet":
        raise LPOError(f"{path} is no name for a packed study; end it in .parquet.")
    pa = arrow()
    columns = {"key": [row["key"] for row in rows]}
    columns |= {name: [_short(row[name]) for row in rows] for name in KEPT}
    about = json.dumps({"commit": commit(), "versions": versions()})
    table = pa.table(columns).replace_schema_metadata({"lpo-theory": about})
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table, sink, compression="zstd", compression_level=19)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, sink.getvalue().to_pybytes())


def _short(x: Any) -> Any:
    """Rounds to six digits, which is more than a table shows."""
    if isinstance(x, list):
        return [_short(y) for y in x]
    return float(f"{x:.6g}") if isinstance(x, float) else x


def read(path: Path) -> list[Run]:
    """Returns the runs of a packed study."""
    try:
        rows = arrow().parquet.read_table(path).to_pylist()
    except OSError as error:
        raise LPOError(f"{path} cannot be read ({error}); run its script with --run.") from error
    return [Run(Cell.from_key(row.pop("key")), row) for row in rows]


def pack_lines(path: Path) -> None:
    """Replaces a JSON Lines file by a Parquet file of its lines, a tenth as large."""
    pa = arrow()
    table = pa.table({"line": path.read_text().splitlines()})
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(table, sink, compression="zstd", compression_level=19)
    write_atomically(path.with_suffix(".parquet"), sink.getvalue().to_pybytes())
    path.unlink()


def unpack_lines(path: Path) -> None:
    """Writes the JSON Lines file ``path`` from the Parquet file beside it, if there is one."""
    packed = path.with_suffix(".parquet")
    if packed.exists() and not path.exists():
        lines = arrow().parquet.read_table(packed)["line"].to_pylist()
        path.write_text("".join(f"{line}\n" for line in lines))


def mean(values: Sequence[float] | np.ndarray) -> Estimate:
    """Returns the mean with its 95 % bootstrap interval."""
    return estimate(lambda groups: groups[0].mean(-1), [np.asarray(values, float)])


def said(values: Sequence[float] | np.ndarray, digits: int = 3) -> str:
    """Returns `mean [low, high]` with so many digits after the point."""
    return spoken(mean(values), digits)


def slope(x: np.ndarray, y: np.ndarray) -> Estimate:
    """Returns the least-squares slope of ln y on ln x, seeds of each x drawn anew 2,000 times.

    ``y`` is [points, seeds]; a point is the mean over its seeds.
    """
    logs = np.log(np.asarray(x, float))
    logs = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
    return estimate(
        lambda groups: np.tensordot(logs, np.log([g.mean(-1) for g in groups]), 1),
        list(np.asarray(y, float)),
    )


def spoken(e: Estimate, digits: int = 2) -> str:
    """Returns an estimate as `value [low, high]`."""
    return f"{e.value:.{digits}f} [{e.low:.{digits}f}, {e.high:.{digits}f}]"


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Returns a table."""
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(rows + ["| " + " | ".join(line) + " |" for line in lines])
