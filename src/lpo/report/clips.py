"""Report: small clips of the best policy of each cell."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from lpo.errors import LPOError
from lpo.policy import Policy
from lpo.render import play
from lpo.report.main import Clips, slug
from lpo.report.runs import RunData, Runs

SECONDS, FPS, SIDE = 5.0, 15.0, 160


def best_of(cell: list[RunData]) -> RunData:
    return max(cell, key=lambda run: run.best)


def beside_report(out: Path) -> Callable[[str, str, RunData], Path]:
    """Returns the function that names the clip of a cell, for a report under ``out``."""
    return lambda task, label, best: out / "clips" / f"{slug(label, task)}.webp"


def make_clips(runs: Runs, place: Callable[[str, str, RunData], Path]) -> Clips:
    """Draws a clip for every cell that has a policy; the note says why one is missing."""
    files: dict[tuple[str, str], Path] = {}
    problems: list[str] = []
    for task, label, cell in runs.cells():
        best = best_of(cell)
        path = place(task, label, best)
        try:
            write_clip(policy_of(best), path)
            files[task, label] = path
        except LPOError as error:
            problems.append(f"{label} on {task}: {error}")
    note = f"No clip of {len(problems)} cells; the first: {problems[0]}" if problems else ""
    return Clips(files, note)


def write_clip(policy: Policy, path: Path) -> None:
    """Writes a clip in real time, small enough for a page that shows a dozen of them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The clip ends after SECONDS, by the frame rate of the environment; 1000 steps are enough.
    frames, fps = play(policy, 1000, 0, policy.way() == "mode", SECONDS, FPS)
    step = max(1, min(frames[0].shape[:2]) // SIDE)
    save_webp(path, [frame[::step, ::step] for frame in frames], 1 / fps)


def policy_of(run: RunData) -> Policy:
    """Returns the best policy of a run. Raises LPOError for a run that is packed without one."""
    if not run.packed:
        return Policy.load(run.path)
    if run.policy is None:
        raise LPOError(
            f"{run.path} is packed without its policy; report the run directories for clips."
        )
    return Policy.from_bytes(run.policy, str(run.path))


def best_policies(paths: Sequence[Path]) -> dict[Path, bytes]:
    """Returns the best policy of each cell, for a packed file; cells without one are left out."""
    found = {}
    for _, _, cell in Runs(paths).cells():
        best = best_of(cell)
        with contextlib.suppress(LPOError):
            found[best.path] = policy_of(best).to_bytes()
    return found


def save_webp(path: Path, frames: list[np.ndarray], seconds: float) -> None:
    from PIL import Image

    first, *rest = [Image.fromarray(np.ascontiguousarray(frame)) for frame in frames]
    first.save(
        path, save_all=True, append_images=rest, duration=round(1000 * seconds), loop=0, quality=45
    )
