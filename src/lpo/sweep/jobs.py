"""Sweeps: the jobs that the pool runs and the board shows.

A job is one process. It has a name, a command, and methods that read from disk how far it is.
Nothing else records what is done, so an interrupted grid continues from what is on disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

from lpo.runs.directory import RunDirectory
from lpo.sweep.grid import Item
from lpo.sweep.plan import Standing, standing
from lpo.sweep.worker import command


class Progress(NamedTuple):
    """The newest numbers of a job; None where there is none yet."""

    reached: int | None
    score: float | None


class Job(Protocol):
    """One job of a grid: a training run, or runs of the theory."""

    @property
    def root(self) -> Path:
        """The directory of the grid; the log of the job lies there."""
        ...

    @property
    def name(self) -> str: ...

    @property
    def label(self) -> str:
        """The first word of its row on the board."""
        ...

    @property
    def task(self) -> str:
        """The second word of its row on the board."""
        ...

    @property
    def size(self) -> int:
        """How far it goes, in the unit of the board."""
        ...

    def standing(self) -> Standing:
        """Returns how far it is, from what is on disk."""
        ...

    def progress(self) -> Progress:
        """Returns its newest numbers. This must be cheap, since the board asks often."""
        ...

    def command(self, core: int | None) -> list[str]:
        """Returns the command line of its process, pinned to ``core``."""
        ...


class TrainingJob(NamedTuple):
    """One run of a sweep, in its own run directory."""

    root: Path
    item: Item

    @property
    def name(self) -> str:
        return self.item.name

    @property
    def label(self) -> str:
        return self.item.label

    @property
    def task(self) -> str:
        c = self.item.config.task
        return c.env.split("/")[-1] + (f" {c.threshold}" if c.threshold else "")

    @property
    def size(self) -> int:
        return self.item.config.steps

    def standing(self) -> Standing:
        return standing(self.root, self.item)

    def progress(self) -> Progress:
        seen = RunDirectory(self.root / self.name).latest_metrics()
        steps = seen.get("env_steps")
        score = seen.get("eval/return", seen.get("rollout/return"))
        return Progress(None if steps is None else int(steps), score)

    def command(self, core: int | None) -> list[str]:
        return command(self.root, self.name, core)
