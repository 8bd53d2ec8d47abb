"""Report: the numbers as tables, for the page and as CSV, Parquet and Markdown."""

from __future__ import annotations

import csv
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lpo.config import Config, leaves
from lpo.report.runs import SAME, RunData, Runs
from lpo.report.stats import Estimate, estimate, iqm

Row = dict[str, Any]
TUNING = {leaf.short for leaf in leaves(Config()) if leaf.group in ("ppo", "network")}
TUNING |= {"num_envs", "rollout", "angles"}  # what is not exploration
KEEPING = {"env", "algo", "threshold", *SAME}  # what the table of options leaves out


def cell_rows(runs: Runs) -> list[Row]:
    """Returns the main table, one row per task and label."""
    return [cell_row(task, label, cell) for task, label, cell in runs.cells()]


def cell_row(task: str, label: str, cell: list[RunData]) -> Row:
    e = estimate(iqm, [np.array([run.final for run in cell])])
    passed = [run.passed for run in cell if run.passed is not None]
    met = [run.first_reward for run in cell]
    return {
        "task": task,
        "label": label,
        "runs": len(cell),
        "unfinished": sum(not run.finished for run in cell),
        "final_iqm": float(e.value),
        "low": float(e.low),
        "high": float(e.high),
        "sampled_iqm": middle(cell, "eval/sampled_return"),
        "success": middle(cell, "eval/success"),
        "sampled_success": middle(cell, "eval/sampled_success"),
        "best": max(run.best for run in cell),
        "share_above_half": sum(passed) / len(passed) if passed else None,
        "runs_with_reward": sum(m is not None for m in met),
        "median_first_reward": first_reward_median(met),
        "switches": float(np.mean([run.switches for run in cell])),
        "env_steps_per_s": speed(cell),
    }


def middle(cell: list[RunData], metric: str) -> float | None:
    """Returns the interquartile mean of a metric at the end; None where a run has not logged it."""
    if not all(run.has(metric) for run in cell):
        return None
    return float(iqm([np.array([run.ending(metric) for run in cell])]))


CELL_HEAD = (
    "seeds", "final return, IQM", "95 % interval", "best", "above half", "first reward (median)",
    "switches",
)  # fmt: skip


def cell_text(row: Row) -> tuple[str, ...]:
    """Returns a row of ``cell_rows`` as texts, in the order of ``CELL_HEAD``."""
    unfinished = f" ({row['unfinished']} unfinished)" if row["unfinished"] else ""
    half, met, runs = row["share_above_half"], row["median_first_reward"], row["runs"]
    return (
        f"{runs}{unfinished}",
        f"{row['final_iqm']:z.1f}",
        f"{row['low']:z.1f} – {row['high']:z.1f}",
        f"{row['best']:z.1f}",
        "–" if half is None else f"{round(half * runs)} of {runs}",
        f"{met:,.0f}" if met is not None else f"{row['runs_with_reward']} of {runs} saw one",
        f"{row['switches']:,.0f}",
    )


# Columns that a page has beside those, where a run has logged them: name, key, form.
BESIDE = (
    ("sampled return, IQM", "sampled_iqm", "{:z.1f}"),
    ("success by mode", "success", "{:.0%}"),
    ("success sampled", "sampled_success", "{:.0%}"),
)


def page_columns(rows: list[Row]) -> list[tuple[str, list[str]]]:
    """Returns the columns of the main table of a page: a name, and a text for each row.

    Those that no row has a value for are left out.
    """
    texts = [cell_text(row) for row in rows]
    columns = {name: [text[i] for text in texts] for i, name in enumerate(CELL_HEAD)}
    if all(row["share_above_half"] is None for row in rows):
        del columns["above half"]
    columns["steps/s"] = [in_form(row["env_steps_per_s"], "{:,.0f}") for row in rows]
    beside = [
        (name, [in_form(row[key], form) for row in rows])
        for name, key, form in BESIDE
        if any(row[key] is not None for row in rows)
    ]
    found = list(columns.items())
    return [*found[:3], *beside, *found[3:]]


def in_form(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def stream_rows(runs: Runs) -> list[Row]:
    """Returns what drove the policy of each cell: sizes of both advantages, noise, clipping.

    Each number is the mean over the evaluated rollouts in the second half of a run. The table has
    the median over seeds (lowest, highest).
    """
    return [
        {"task": task, "label": label, **{name: spread(f, cell) for name, f in STREAMS.items()}}
        for task, label, cell in runs.cells()
    ]


def share_of_bonus(run: RunData) -> float | None:
    """Returns the size of Â_int over that of Â_ext; None without a bonus.

    It is very large where the agent saw no reward.
    """
    ext, bonus = run.late("advantage/ext_rms"), run.late("advantage/int_rms")
    return bonus / ext if ext and bonus is not None else None


STREAMS: dict[str, Callable[[RunData], float | None]] = {
    "size of Â_ext": lambda run: run.late("advantage/ext_rms"),
    "Â_int over Â_ext": share_of_bonus,
    "log σ": lambda run: run.late("policy/log_std"),
    "clipped share": lambda run: run.late("policy/clip_fraction"),
}


def spread(f: Callable[[RunData], float | None], cell: list[RunData]) -> str | None:
    """Returns "median (lowest, highest)" over the seeds that have a value; None if none has."""
    values = [value for value in map(f, cell) if value is not None]
    if not values:
        return None
    return f"{np.median(values):.2g} ({min(values):.2g}, {max(values):.2g})"


def interval(e: Estimate, form: str = ".2f") -> str:
    """Returns an estimate with the interval about it, for instance 0.57 [0.52, 0.62]."""
    return f"{e.value:{form}} [{e.low:{form}}, {e.high:{form}}]"


def short_task(task: str) -> str:
    """Returns a task without namespace, version and threshold, for instance SparseHopper (half)."""
    return re.sub(r"^[\w:-]+/|-v\d+|: [^)]*", "", task)


def markdown(rows: list[Row]) -> str:
    """Returns a Markdown table with the keys of the first row as its head."""
    lines = [list(rows[0]), ["---"] * len(rows[0])]
    for row in rows:
        plain = row | {"task": short_task(row["task"]), "label": f"`{row['label']}`"}
        texts = ["–" if value is None else str(value) for value in plain.values()]
        lines.append([re.sub(r"([|<])", r"\\\1", " ".join(text.split())) for text in texts])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def first_reward_median(met: list[int | None]) -> float | None:
    """Returns the median of the steps to a first reward; None if half of the runs saw none."""
    value = float(np.median([np.inf if m is None else m for m in met]))
    return value if np.isfinite(value) else None


def speed(cell: list[RunData]) -> float | None:
    """Returns the steps per second without the evaluations."""
    seconds = sum(s for run in cell for part, s in run.seconds.items() if part != "eval")
    return sum(run.env_steps for run in cell) / seconds if seconds else None


def run_rows(runs: Runs) -> list[Row]:
    return [
        {
            "run": run.name,
            "task": run.task,
            "label": run.label,
            "seed": run.seed,
            "env_steps": run.env_steps,
            "final": run.final,
            "last": run.last,
            "best": run.best,
            "above_half": run.passed,
            "first_reward": run.first_reward,
            "switches": run.switches,
            "late_log_std": run.late("policy/log_std"),
            "late_clip_fraction": run.late("policy/clip_fraction"),
            **{f"{part}_s": seconds for part, seconds in run.seconds.items()},
        }
        for run in runs.runs
    ]


def score_rows(runs: Runs) -> list[Row]:
    """Returns the IQM of the normalised final score over all tasks, for each label."""
    rows = []
    for label in runs.complete():
        e = estimate(iqm, runs.scores(label))
        rows.append(
            {"label": label, "iqm": float(e.value), "low": float(e.low), "high": float(e.high)}
        )
    return rows


def option_rows(runs: Runs) -> tuple[list[Row], list[Row]]:
    """Returns the options that differ, with a column per label, and those that all runs share."""
    differing: list[Row] = []
    shared: list[Row] = []
    for name in dict.fromkeys(name for run in runs.runs for name in run.options):
        if name in KEEPING:
            continue
        by_label = {
            label: list(dict.fromkeys(shown(r, name) for r in runs.runs if r.label == label))
            for label in runs.labels
        }
        values = {value for found in by_label.values() for value in found}
        if len(values) == 1:
            shared.append({"option": name, "value": values.pop()})
        else:
            columns = {label: " / ".join(found) for label, found in by_label.items()}
            differing.append({"option": name, **columns})
    algos = {x: next(r.algo for r in runs.runs if r.label == x) for x in runs.labels}
    return [{"option": "algo", **algos}, *differing], shared


def shown(run: RunData, name: str) -> str:
    """Returns the value of an option as a text; "–" if the parts of the run do not have it."""
    value = run.options.get(name, "–")
    if value is None:
        return "default"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def task_rows(runs: Runs) -> list[Row]:
    rows = []
    for task in runs.tasks:
        d = next(run.description for run in runs.runs if run.task == task)
        rows.append(
            {
                "task": d.get("id"),
                "reward above": f"{d.get('quantity')} > {d['threshold']:g}"
                if d.get("threshold") is not None
                else "its own reward",
                "preset": d.get("preset") or "–",
                "largest return": "not declared"
                if d.get("max_return") is None
                else d["max_return"],
            }
        )
    return rows


def write_markdown(cells: list[Row], streams: list[Row], folder: Path) -> None:
    """Writes the results and the streams as Markdown tables."""
    texts = [
        {"task": row["task"], "label": row["label"]}
        | dict(zip(CELL_HEAD, cell_text(row), strict=True))
        for row in cells
    ]
    (folder / "cells.md").write_text(markdown(texts), encoding="utf-8")
    (folder / "streams.md").write_text(markdown(streams), encoding="utf-8")


def write_tables(tables: dict[str, list[Row]], folder: Path) -> list[Path]:
    """Writes each table as CSV, and as Parquet if pyarrow is installed. Returns the files."""
    written = []
    for name, rows in tables.items():
        if not rows:
            continue
        columns = dict.fromkeys(column for row in rows for column in row)
        rows = [dict.fromkeys(columns) | row for row in rows]  # runs of host and device differ
        path = folder / f"{name}.csv"
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, list(columns))
            writer.writeheader()
            writer.writerows(rows)
        written.append(path)
        if importlib.util.find_spec("pyarrow") is not None:
            import pyarrow as pa
            import pyarrow.parquet as parquet

            parquet.write_table(pa.Table.from_pylist(rows), path.with_suffix(".parquet"))
            written.append(path.with_suffix(".parquet"))
    return written
