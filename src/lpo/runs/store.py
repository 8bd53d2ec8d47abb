"""Runs: the packed file of a sweep, one Parquet file with one row for each run.

A row holds the name, label, task and configuration of the run as they were written, a list for
every metric that is kept, its timing, its visits, perhaps a policy, and the SHA-256 of all this.
The metadata of the file hold the format, the name of the sweep, the commit and versions it was
packed with, and a checksum of these and of all rows. Nothing in a packed file is ever executed.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lpo import files
from lpo.errors import LPOError
from lpo.files import check_name
from lpo.runs.checkpoint import write_atomically
from lpo.runs.record import (
    Record,
    Row,
    find_directories,
    first_reward,
    has_returns,
    read_directory,
    read_plan,
    score_metric,
)
from lpo.runs.visits import checked

FORMAT = 1
SUFFIX = ".parquet"
MEMORY = 2 * 2**30  # bytes that reading the columns of a file may take
VALUES = 20_000_000  # numbers in a file; as Python objects they need fifty times their size
STEPS, TIME, COUNTS = "env_steps", "time/", "visits/counts"
KEPT = (
    "eval/return", "eval/normalized_return", "eval/success",
    "eval/sampled_return", "eval/sampled_normalized_return", "eval/sampled_success",
    "rollout/return", "rollout/normalized_return", "rollout/success", "rollout/reward_rate",
    "rollout/reward_max", "switch/count", "switch/rollout_steps",
    "bonus/mean", "bonus/raw_mean", "bonus/scale", "bonus/episode",
    "advantage/ext_rms", "advantage/int_rms", "advantage/ext_weight", "advantage/int_weight",
    "rollout/earned", "value/ext_explained", "value/int_explained",
    "policy/log_std", "policy/clip_fraction",
)  # fmt: skip
TEXTS = ("name", "label", "task", "config", "visits", "sha256")
INTEGERS = (STEPS, TIME + STEPS, COUNTS)
PACKAGES = {"lpo": "lpo-rl", "jax": "jax", "numpy": "numpy", "mujoco": "mujoco",
            "gymnasium": "gymnasium"}  # fmt: skip

Columns = dict[str, Any]  # the columns of one run: text, bytes, or an array of numbers


class About(NamedTuple):
    """Where a packed file comes from."""

    name: str
    commit: str | None = None
    versions: dict[str, str] = {}  # noqa: RUF012 - never written to
    note: str | None = None


class Packed(NamedTuple):
    records: list[Record]
    about: About


def arrow() -> Any:
    """Imports pyarrow, which only packed files need. Raises LPOError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise LPOError("Packed runs need pyarrow; run `pip install 'lpo-rl[report]'`.") from error
    return pyarrow


def load(paths: Sequence[Path]) -> list[Record]:
    """Returns the runs of ``paths``: run directories, directories of sweeps and packed files."""
    if not paths:
        raise LPOError(
            "No run was given; pass run directories, the directory of a sweep, or a packed file."
        )
    found: dict[Path, Record] = {}
    for path in paths:
        if path.suffix == SUFFIX and not path.is_dir():
            found |= {record.path: record for record in read(path).records}
        else:
            found |= {run: read_directory(run) for run in find_directories([path])}
    return list(found.values())


def pack(
    paths: Sequence[Path], out: Path, policies: Mapping[Path, bytes], metrics: Sequence[str] = ()
) -> tuple[int, str]:
    """Writes the runs of ``paths`` to the file ``out``, with the policies of some of them.

    Where ``metrics`` are given, only those that begin so are kept. Returns the number of runs, and
    a note on runs that are left out.
    """
    if out.suffix != SUFFIX:
        raise LPOError(f"--out is {out}; name a file that ends in {SUFFIX}.")
    if unknown := [start for start in metrics if not any(key.startswith(start) for key in KEPT)]:
        raise LPOError(f"No metric begins with {unknown[0]!r}; choose of {', '.join(KEPT)}.")
    every = load(paths)
    records = [with_policy(record, policies) for record in every if has_returns(record)]
    plans = dict.fromkeys(record.path.parent for record in records if not record.packed)
    names = [str(name) for folder in plans if (name := read_plan(folder).get("name"))]
    name = ", ".join(dict.fromkeys(names)) or out.stem
    write(out, records, About(name, commit(), versions()), metrics)
    left = len(every) - len(records)
    return len(records), f"Runs left out because they have no return yet: {left}." if left else ""


def with_policy(record: Record, policies: Mapping[Path, bytes]) -> Record:
    return replace(record, policy=policies.get(record.path, record.policy))


def write(path: Path, records: Sequence[Record], about: About, metrics: Sequence[str] = ()) -> None:
    """Writes a packed file. If it fails, ``path`` stays as it was before."""
    if not records:
        raise LPOError("No run has logged a return yet; let the runs go on before you pack them.")
    rows = [columns_of(record, tuple(metrics) or ("",)) for record in records]
    names = [row["name"] for row in rows]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise LPOError(f"Two runs are called {twice}; pack each sweep into a file of its own.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, encoded(rows, about))
    except OSError as error:
        raise LPOError(f"Cannot write {path} ({error}); pass another --out.") from error


def read(path: Path) -> Packed:
    """Returns the runs in a packed file. Raises LPOError where it is damaged or foreign."""
    pa = arrow()
    remedy = "pass a file that `lpo pack` made, or pack the runs again"
    try:
        file = pa.parquet.ParquetFile(
            pa.BufferReader(files.read_bytes(path, files.LARGE)), page_checksum_verification=True
        )
        stated = files.parse_json((file.metadata.metadata or {})[b"lpo"])
        if stated["format"] != FORMAT:
            raise ValueError(f"its format is {stated['format']}, not {FORMAT}")
        with files.limited_memory(MEMORY):  # what a file says about its size may be wrong
            table = file.read(use_threads=False)
        if (number := count(table)) > VALUES:
            raise ValueError(f"it holds {number:,} numbers, and {VALUES:,} are the most")
        rows = [dict(zip(table.column_names, row, strict=True)) for row in rows_of(table)]
        check(rows, stated)
        records = [record_of(row, path) for row in rows]
        return Packed(records, About(**{field: stated[field] for field in About._fields}))
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        OverflowError,
    ) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise LPOError(f"Cannot read the packed runs {path} ({why}); {remedy}.") from error


def count(table: Any) -> int:
    """Returns how many numbers the lists of a table hold."""
    is_list = arrow().types.is_list
    lists = [column for column in table.columns if is_list(column.type)]
    return sum(len(chunk.flatten()) for column in lists for chunk in column.chunks)


def thinned(rows: list[Row]) -> list[Row]:
    """Returns the rows with an evaluation, the first row with a reward and the last row."""
    metric, first = score_metric(rows), first_reward(rows)
    return [row for row in rows if metric in row or row[STEPS] == first or row is rows[-1]]


def columns_of(record: Record, starts: tuple[str, ...] = ("",)) -> Columns:
    """Returns one run as columns, with the metrics that begin with one of ``starts``.

    Those that the run does not have are left out.
    """
    rows = thinned(record.rows)
    timing = record.timing[:1] + record.timing[1:][-1:]  # the first holds compilation, the last all
    metrics = [k for k in KEPT if k.startswith(starts) and any(k in row for row in rows)]
    times = dict.fromkeys(key for row in timing for key in row if key.startswith(TIME))
    columns: Columns = {
        "name": record.name, "label": record.label, "task": record.task, "config": record.config,
        STEPS: np.array([row[STEPS] for row in rows], np.int64),
    }  # fmt: skip
    columns |= {key: values(rows, key) for key in metrics}
    if timing:
        columns[TIME + STEPS] = np.array([row[STEPS] for row in timing], np.int64)
    columns |= {key: values(timing, key) for key in times}
    if record.visits is not None:
        axes, counts = record.visits
        columns["visits"] = json.dumps({"axes": axes, "shape": counts.shape})
        columns[COUNTS] = counts.ravel()
    if record.policy is not None:
        columns["policy"] = record.policy
    return columns | {"sha256": digest(columns)}


def values(rows: list[Row], key: str) -> np.ndarray:
    """Returns one metric of all rows, NaN where a row does not have it."""
    return np.array([row.get(key, np.nan) for row in rows], np.float64)


def digest(columns: Columns) -> str:
    """Returns the SHA-256 of the columns that a run has, in the order of their names."""
    seen = hashlib.sha256()
    for name in sorted(columns.keys() - {"sha256"}):
        value = columns[name]
        if isinstance(value, np.ndarray):
            value = value.astype("<i8" if name in INTEGERS else "<f8").tobytes()
        data = value.encode() if isinstance(value, str) else value
        seen.update(f"{name} {len(data)} ".encode() + data)
    return seen.hexdigest()


def seal(stated: dict[str, Any], digests: Iterable[str]) -> str:
    """Returns the SHA-256 of a file's metadata and of the checksums of its rows."""
    text = json.dumps({**stated, "sha256": None}, sort_keys=True)
    return hashlib.sha256("\n".join([text, *digests]).encode()).hexdigest()


def encoded(rows: list[Columns], about: About) -> bytes:
    """Returns the bytes of the Parquet file."""
    pa = arrow()
    present = dict.fromkeys(name for row in rows for name in row)
    names = ["name", "label", "task", "config", STEPS]
    names += [key for key in KEPT if key in present]
    names += [key for key in present if key.startswith(TIME)]
    names += ["visits", COUNTS, "policy", "sha256"]
    table = pa.table(
        {
            name: pa.array([row.get(name) for row in rows], kind(name), from_pandas=True)
            for name in names
        }
    )
    stated = {"format": FORMAT, **about._asdict()}
    stated["sha256"] = seal(stated, (row["sha256"] for row in rows))
    sink = pa.BufferOutputStream()
    with pa.parquet.ParquetWriter(
        sink, table.schema, compression="zstd", compression_level=19, write_page_checksum=True,
        store_schema=False, **encodings(names),
    ) as writer:  # fmt: skip
        writer.write_table(table)
        writer.add_key_value_metadata({"lpo": json.dumps(stated)})
    return sink.getvalue().to_pybytes()


def encodings(names: list[str]) -> dict[str, Any]:
    """Returns encodings: bytes are split for measured numbers, which repeat little, else plain."""
    split = ("bonus/", "advantage/", "value/", "policy/log_std", "switch/count", *INTEGERS)
    chosen = {f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in names
              if name.startswith(split) and not name.startswith(TIME)}  # fmt: skip
    return {"use_dictionary": False, "column_encoding": chosen, "write_statistics": False}


def kind(name: str) -> Any:
    """Returns the Arrow type of a column."""
    pa = arrow()
    if name in TEXTS:
        return pa.string()
    if name == "policy":
        return pa.binary()
    return pa.list_(pa.int64() if name in INTEGERS else pa.float64())


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    """Returns rows of text, bytes and arrays, None where a run does not have the column."""
    pa = arrow()
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.type != kind(name):
            raise ValueError(f"its column {name} is of type {column.type}, not {kind(name)}")
        if pa.types.is_list(column.type):
            if name in INTEGERS and column.combine_chunks().flatten().null_count:
                raise ValueError(f"its column {name} has gaps")
            lists = (cell.values for cell in column)
            columns.append(
                [None if cell is None else cell.to_numpy(zero_copy_only=False) for cell in lists]
            )
        else:
            columns.append(column.to_pylist())
    return list(zip(*columns, strict=True))


def check(rows: list[dict[str, Any]], stated: dict[str, Any]) -> None:
    """Raises ValueError where a checksum does not match its content."""
    for row in rows:
        if digest({k: v for k, v in row.items() if v is not None}) != row["sha256"]:
            raise ValueError(f"the checksum of the run {row['name']} does not match")
    if seal(stated, (row["sha256"] for row in rows)) != stated["sha256"]:
        raise ValueError("its own checksum does not match")


def record_of(row: dict[str, Any], path: Path) -> Record:
    """Returns the run in a row whose checksum is correct."""
    if missing := [key for key in ("name", "label", "task", "config") if row[key] is None]:
        raise ValueError(f"a run in it has no {missing[0]}")
    metrics = {key: row[key] for key in KEPT if row.get(key) is not None}
    times = {k: v for k, v in row.items() if k.startswith(TIME) and v is not None}
    visits = None
    if row["visits"] is not None:
        stated = files.parse_json(row["visits"])
        visits = checked(stated["axes"], row[COUNTS].reshape(stated["shape"]))
    return Record(
        path / check_name(row["name"]), row["label"], row["config"], row["task"],
        unfolded(row[STEPS], metrics), unfolded(times.pop(TIME + STEPS, []), times),
        visits, row["policy"], packed=True,
    )  # fmt: skip


def unfolded(steps: Iterable[int], columns: dict[str, np.ndarray]) -> list[Row]:
    """Returns columns as the rows of a log; what is not finite was not logged."""
    table = zip(steps, *(column.tolist() for column in columns.values()), strict=True)
    return [
        {STEPS: int(step)} | {k: v for k, v in zip(columns, row, strict=True) if math.isfinite(v)}
        for step, *row in table
    ]


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the installed packages that decide the numbers."""
    found = {"python": platform.python_version()}
    for name, distribution in PACKAGES.items():
        try:
            found[name] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """Returns the commit of the checkout of this code, marked if files were changed, or None."""
    package = Path(__file__).parents[1]
    root = package.parents[1]
    if not (root / ".git").exists() or package != root / "src" / "lpo":
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40",
               "--exclude=*"]  # fmt: skip
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return ended.stdout.strip() or None
