"""Compute a report's numbers again with rliable, from the runs' own files, and compare.

    pip install rliable 'pandas<3'
    python scripts/check_report.py experiments/figure1/results/half

Reads metrics.jsonl, task.json and sweep.json of the runs and report/data; uses nothing of lpo.
Exits with 1 where a number differs by more than 1e-6. Needs as many seeds in every cell.
"""

import csv
import json
import sys
from pathlib import Path

import numpy as np
from rliable import library, metrics  # pyright: ignore[reportMissingImports]

REPS, LAST = 2000, 5


def read_table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def final_scores(root: Path) -> dict[tuple[str, str], np.ndarray]:
    """Final return of every seed, by task id and label."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in json.loads((root / "sweep.json").read_text())["runs"]:
        lines = (root / row["name"] / "metrics.jsonl").read_text().splitlines()
        task = json.loads((root / row["name"] / "task.json").read_text())
        returns = [r["eval/return"] for r in map(json.loads, lines) if "eval/return" in r]
        found.setdefault((task["id"], row["label"]), []).append(np.mean(returns[-LAST:]))
    return {key: np.array(values) for key, values in found.items()}


def largest_return(root: Path) -> float:
    task = next(root.glob("*/task.json"))
    return float(json.loads(task.read_text())["max_return"])


def estimates(scores, measure) -> list[float]:
    """Value and both ends of its interval; rliable draws from NumPy's global state."""
    np.random.seed(0)
    values, intervals = library.get_interval_estimates(
        {"x": scores}, lambda *s: np.array([measure(*s)]), reps=REPS
    )
    return [float(values["x"][0]), *map(float, np.asarray(intervals["x"])[:, 0])]


def differences(root: Path) -> dict[str, float]:
    finals, data = final_scores(root), root / "report" / "data"
    tasks = list(dict.fromkeys(task for task, _ in finals))
    scale = largest_return(root)

    def matrix(label: str) -> np.ndarray:
        return np.stack([finals[task, label] for task in tasks], axis=1) / scale

    worst = {"cells": 0.0, "scores": 0.0, "improvement": 0.0}
    for row in read_table(data / "cells.csv"):
        ours = [float(row[key]) for key in ("final_iqm", "low", "high")]
        runs = finals[row["task"].split(" ")[0], row["label"]]
        theirs = estimates(runs[:, None], metrics.aggregate_iqm)
        worst["cells"] = max(worst["cells"], np.abs(np.subtract(ours, theirs)).max())
    for row in read_table(data / "scores.csv"):
        ours = [float(row[key]) for key in ("iqm", "low", "high")]
        theirs = estimates(matrix(row["label"]), metrics.aggregate_iqm)
        worst["scores"] = max(worst["scores"], np.abs(np.subtract(ours, theirs)).max())
    for row in read_table(data / "improvement.csv"):
        ours = [float(row[key]) for key in ("probability", "low", "high")]
        pair = [matrix(row["x"]), matrix(row["y"])]
        theirs = estimates(pair, metrics.probability_of_improvement)
        worst["improvement"] = max(worst["improvement"], np.abs(np.subtract(ours, theirs)).max())
    return worst


def main() -> None:
    for root in map(Path, sys.argv[1:]):
        worst = differences(root)
        print(root, ", ".join(f"{name}: {value:.1e}" for name, value in worst.items()))
        if max(worst.values()) > 1e-6:
            sys.exit(1)


if __name__ == "__main__":
    main()
