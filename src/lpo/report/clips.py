"""Small clips of the best policy of each cell of a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from lpo.errors import LPOError
from lpo.render import play
from lpo.report.main import Clips, slug
from lpo.report.runs import RunData, Runs

SECONDS, FPS, SIDE = 5.0, 15.0, 160


def best_of(cell: list[RunData]) -> RunData:
    return max(cell, key=lambda run: run.best)


def beside_report(out: Path) -> Callable[[str, str, RunData], Path]:
    """Where a report under ``out`` has its clips."""
    return lambda task, label, best: out / "clips" / f"{slug(label, task)}.webp"


def make_clips(runs: Runs, place: Callable[[str, str, RunData], Path]) -> Clips:
    """An animation for every cell that has checkpoints; the note says why one is missing."""
    files: dict[tuple[str, str], Path] = {}
    problems: list[str] = []
    for task, label, cell in runs.cells():
        best = best_of(cell)
        path = place(task, label, best)
        try:
            write_clip(best, path)
            files[task, label] = path
        except LPOError as error:
            problems.append(f"{label} on {task}: {error}")
    note = f"No clip of {len(problems)} cells; the first: {problems[0]}" if problems else ""
    return Clips(files, note)


def write_clip(run: RunData, path: Path) -> None:
    """In real time, at a size that a page can hold a dozen of."""
    if run.packed:
        raise LPOError(
            f"{run.path} is packed without its policy; report the run directories for clips."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    which = "best" if (run.path / "checkpoints" / "best.json").exists() else "last"
    # environments say their frames per second; 1000 steps are long enough for all of them
    frames, fps = play(run.path, 1000, 0, True, which, SECONDS, FPS)
    step = max(1, min(frames[0].shape[:2]) // SIDE)
    save_webp(path, [frame[::step, ::step] for frame in frames], 1 / fps)


def save_webp(path: Path, frames: list[np.ndarray], seconds: float) -> None:
    from PIL import Image

    first, *rest = [Image.fromarray(np.ascontiguousarray(frame)) for frame in frames]
    first.save(
        path, save_all=True, append_images=rest, duration=round(1000 * seconds), loop=0, quality=45
    )
