"""Runs made small enough to keep: what a report reads of them, and nothing else.

A packed run is a run directory without checkpoints, so that `lpo report` and `lpo plot` read it
like any other; the best of each cell keeps its clip. It cannot be resumed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lpo.errors import LPOError
from lpo.report.clips import CLIP, make_clips
from lpo.report.runs import RunData, Runs
from lpo.runs.checkpoint import write_atomically

KEPT = (
    "env_steps", "eval/return", "eval/success", "rollout/return", "rollout/success",
    "rollout/reward_rate", "switch/count", "bonus/mean", "advantage/ext_rms", "advantage/int_rms",
    "policy/log_std", "policy/clip_fraction",
)  # fmt: skip
DIGITS = 7  # those of the float32 behind most of the numbers
COPIED = ("config.json", "task.json", "visits.json")


def pack(paths: Sequence[Path], out: Path, clips: bool) -> tuple[int, str]:
    """Write the runs of ``paths`` under ``out``, anew where they are there; how many, and a note
    where a clip is missing."""
    runs = Runs(paths)
    try:
        for run in runs.runs:
            pack_run(run, out / run.path.name)
        for plan in dict.fromkeys(run.path.parent / "sweep.json" for run in runs.runs):
            if plan.exists():
                shutil.copyfile(plan, out / plan.name)
        note = (
            make_clips(runs, lambda _, __, best: out / best.path.name / CLIP).note if clips else ""
        )
    except OSError as error:
        raise LPOError(f"Cannot write {out} ({error}); pass another --out.") from error
    return len(runs.runs), note


def pack_run(run: RunData, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        if (run.path / name).exists():
            shutil.copyfile(run.path / name, out / name)
    timing = run.timing[:1] + run.timing[1:][-1:]  # with compilation alone, and in all
    for name, rows in (("metrics.jsonl", thinned(run)), ("timing.jsonl", timing)):
        lines = (json.dumps(shortened(row)) + "\n" for row in rows)
        write_atomically(out / name, "".join(lines).encode())


def thinned(run: RunData) -> Iterator[dict[str, Any]]:
    """Rows with an evaluation, the first with a reward and the last."""
    for row in run.rows:
        first = row["env_steps"] == run.first_reward
        if run.score_metric in row or first or row is run.rows[-1]:
            yield {key: row[key] for key in KEPT if key in row}


def shortened(row: dict[str, Any]) -> dict[str, Any]:
    return {k: float(f"{v:.{DIGITS}g}") if isinstance(v, float) else v for k, v in row.items()}
