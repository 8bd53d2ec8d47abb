"""Compute a report's numbers again with rliable, from the runs' own files, and compare.

    pip install rliable 'pandas<3' pyarrow
    lpo report experiments/figure1/results/turned.parquet
    python scripts/check_report.py experiments/figure1/results/turned.parquet   # and ./report
    python scripts/check_report.py runs/figure1-half      # a sweep and the report inside it

Reads packed files, or metrics.jsonl, task.json and sweep.json of the runs of a sweep, and the data
of their report. Uses nothing of lpo.
Exits with 1 where a number differs by more than 1e-6. Needs as many seeds in every cell.
"""

import argparse
import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rliable import library, metrics  # pyright: ignore[reportMissingImports]

REPS, LAST, LATE = 2000, 5, 0.75


def read_table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


class Finals(NamedTuple):
    scores: dict[tuple[str, str], np.ndarray]  # final return of every seed, by task and label
    scales: dict[str, float]  # by task: the range of returns, declared or else seen
    least: dict[str, float]  # by task: the return with a score of 0


def name_of(task: dict) -> str:
    if task.get("threshold") is not None:
        return f"{task['id']} ({task['preset']}: {task['quantity']} > {task['threshold']:g})"
    options = ", ".join(f"{key}={value}" for key, value in task.get("env_kwargs", {}).items())
    return f"{task['id']} ({options})" if options else task["id"]


def read_packed(file: Path) -> Iterator[tuple[str, dict, list[tuple[int, float]]]]:
    """Label, task and evaluations of every run, each with its environment steps."""
    import pyarrow.parquet as parquet

    columns = ["label", "task", "env_steps", "eval/return"]
    for row in parquet.read_table(file, columns=columns).to_pylist():
        evals = zip(row["env_steps"], row["eval/return"], strict=True)
        yield row["label"], json.loads(row["task"]), [e for e in evals if e[1] is not None]


def read_sweep(root: Path) -> Iterator[tuple[str, dict, list[tuple[int, float]]]]:
    """Label, task and evaluations of every run, each with its environment steps."""
    for row in json.loads((root / "sweep.json").read_text())["runs"]:
        lines = (root / row["name"] / "metrics.jsonl").read_text().splitlines()
        rows = [r for r in map(json.loads, lines) if "eval/return" in r]
        evals = [(r["env_steps"], r["eval/return"]) for r in rows]
        yield row["label"], json.loads((root / row["name"] / "task.json").read_text()), evals


def read_runs(roots: list[Path]) -> Finals:
    found: dict[tuple[str, str], list[float]] = {}
    scales: dict[str, float] = {}
    least: dict[str, float] = {}
    for root in roots:
        for label, task, evals in read_sweep(root) if root.is_dir() else read_packed(root):
            name, end = name_of(task), evals[-1][0]
            late = [value for steps, value in evals[-LAST:] if steps >= LATE * end]
            found.setdefault((name, label), []).append(float(np.mean(late)))
            least[name] = float(task.get("min_return") or 0.0)
            largest = task.get("max_return")
            seen = max(abs(max(value for _, value in evals)), scales.get(name, 0.0))
            if largest is not None and largest > least[name]:
                scales[name] = float(largest - least[name])
            else:
                scales[name] = seen
    return Finals({key: np.array(values) for key, values in found.items()}, scales, least)


# Runs whose returns agree in six digits are a tie in a report.
to_six_digits = np.vectorize(lambda value: float(f"{value:.6g}"))


def estimates(scores, measure) -> list[float]:
    """Value and both ends of its interval; rliable draws from NumPy's global state."""
    np.random.seed(0)
    values, intervals = library.get_interval_estimates(
        {"x": scores}, lambda *s: np.array([measure(*s)]), reps=REPS
    )
    return [float(values["x"][0]), *map(float, np.asarray(intervals["x"])[:, 0])]


def differences(roots: list[Path], data: Path) -> dict[str, float]:
    finals, scales, least = read_runs(roots)

    def matrix(label: str) -> np.ndarray:
        scores = [(finals[task, label] - least[task]) / scale for task, scale in scales.items()]
        return np.stack(scores, axis=1)

    worst = {"cells": 0.0, "scores": 0.0, "improvement": 0.0}
    for row in read_table(data / "cells.csv"):
        ours = [float(row[key]) for key in ("final_iqm", "low", "high")]
        task = row["task"] if row["task"] in scales else row["task"].split(" ")[0]
        runs = finals[task, row["label"]]
        theirs = estimates(runs[:, None], metrics.aggregate_iqm)
        worst["cells"] = np.maximum(worst["cells"], np.abs(np.subtract(ours, theirs)).max())
    for row in read_table(data / "scores.csv"):
        ours = [float(row[key]) for key in ("iqm", "low", "high")]
        theirs = estimates(matrix(row["label"]), metrics.aggregate_iqm)
        worst["scores"] = np.maximum(worst["scores"], np.abs(np.subtract(ours, theirs)).max())
    pairs = data / "improvement.csv"
    for row in read_table(pairs) if pairs.exists() else []:  # of one label there are none
        ours = [float(row[key]) for key in ("probability", "low", "high")]
        pair = [to_six_digits(matrix(row[key])) for key in ("x", "y")]
        theirs = estimates(pair, metrics.probability_of_improvement)
        off = np.abs(np.subtract(ours, theirs)).max()
        worst["improvement"] = np.maximum(worst["improvement"], off)
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description="A report's numbers, computed again")
    parser.add_argument("roots", nargs="+", type=Path)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    first = options.roots[0]  # by default the report is where `lpo report` writes it
    report = options.report or (first / "report" if first.is_dir() else Path("report"))
    if not (report / "data").is_dir():
        parser.error(f"{report} holds no report; make one with `lpo report`, or pass --report")
    worst = differences(options.roots, report / "data")
    print(", ".join(f"{name}: {value:.1e}" for name, value in worst.items()))
    sys.exit(int(not np.max(list(worst.values())) <= 1e-6))  # nor is nan an agreement


if __name__ == "__main__":
    main()
