"""Sweeps: the progress on the screen. A live table of cells on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from rich.console import Console
from rich.live import Live
from rich.table import Table

from lpo.sweep.jobs import Job

EVERY = 60.0  # seconds between lines of progress where there is no terminal


class Words(NamedTuple):
    """The words for the numbers of a board."""

    unit: str  # of the length of a job
    score: str
    digits: int  # of a score after the decimal point


TRAINING = Words("steps", "return", 1)


class Track:
    """One job as it was last seen: its steps and score, and its speed while this sweep runs."""

    def __init__(self, job: Job):
        self.job = job
        self.state: str
        self.state, self.steps = job.standing()
        self.score: float | None = None
        self.since: tuple[float, int] | None = None
        self.rate = 0.0  # steps/s now
        self.pace = 0.0  # steps/s when it last ran
        self.look()

    def look(self) -> None:
        seen = self.job.progress()
        self.score = self.score if seen.score is None else seen.score
        steps = self.steps if seen.reached is None else seen.reached
        if self.state == "running":
            now = time.monotonic()
            if self.since is None or steps < self.since[1]:
                self.since = now, steps
            elif steps > self.steps:
                self.rate = self.pace = (steps - self.since[1]) / max(now - self.since[0], 1e-9)
        self.steps = steps

    def begin(self) -> None:
        self.state, self.since = "running", None

    def end(self, state: str) -> None:
        self.look()
        self.state, self.rate = state, 0.0


class Board:
    """All jobs of a grid; an executor calls ``begin``, ``end`` and, now and then, ``refresh``."""

    def __init__(self, title: str, jobs: Sequence[Job], workers: int, words: Words = TRAINING):
        self.title, self.workers, self.words = title, workers, words
        self.tracks = {job.name: Track(job) for job in jobs}
        self.started = self.told = time.monotonic()
        self.live: Live | None = None

    def begin(self, name: str) -> None:
        self.tracks[name].begin()
        self.say(f"start  {name}")

    def end(self, name: str, state: str, words: str = "") -> None:
        track = self.tracks[name]
        track.end(state)
        if state == "failed":
            self.say(f"FAILED {name}: {words}")
        elif state == "done":
            shown = "–" if track.score is None else f"{track.score:.{self.words.digits}f}"
            self.say(f"done   {name}  {self.words.score} {shown}  ({self.summary()})")
        else:
            self.say(f"{state:6s} {name} {words}".rstrip())

    def gives_up(self, name: str) -> bool:
        """Returns whether a job is to be ended before its end; a plain sweep gives none up."""
        del name
        return False

    def refresh(self) -> None:
        for track in self.tracks.values():
            if track.state == "running":
                track.look()
        if self.live is not None:
            self.live.update(self.table())
        elif time.monotonic() - self.told > EVERY:
            self.say(self.summary())

    def say(self, line: str) -> None:
        self.told = time.monotonic()
        if self.live is None:
            print(line, flush=True)

    def count(self, state: str) -> int:
        return sum(track.state == state for track in self.tracks.values())

    def seconds_left(self, tracks: list[Track]) -> float | None:
        """Returns the steps to go over the joint speed of the workers; None before it is known."""
        to_do = [track for track in tracks if track.state not in ("done", "failed")]
        paces = [track.pace for track in tracks if track.pace > 0]
        if not to_do:
            return 0.0
        if not paces:
            return None
        left = sum(max(track.job.size - track.steps, 0) for track in to_do)
        return left / (sum(paces) / len(paces) * min(self.workers, len(to_do)))

    def summary(self) -> str:
        tracks = list(self.tracks.values())
        rate = sum(track.rate for track in tracks)
        failed = f", {n} failed" if (n := self.count("failed")) else ""
        # The speed is unknown until a run has logged twice.
        speed = f", {per_second(rate)} {self.words.unit}/s" if rate else ""
        return (
            f"{self.count('done')}/{len(tracks)} done, {self.count('running')} running{failed}"
            f"{speed}, {clock(self.seconds_left(tracks))} left"
        )

    def table(self) -> Table:
        """Returns a table with a row for each cell: its runs, mean score, speed and time left."""
        table = Table(title=self.title, title_justify="left", caption=self.summary())
        for name in ("cell", "task"):
            table.add_column(name)
        for name in ("runs", self.words.score, f"{self.words.unit}/s", "time left"):
            table.add_column(name, justify="right")
        cells: dict[tuple[str, str], list[Track]] = {}
        for track in self.tracks.values():
            cells.setdefault((track.job.label, track.job.task), []).append(track)
        for (label, task), tracks in cells.items():
            table.add_row(label, task, *self.row(tracks))
        return table

    def row(self, tracks: list[Track]) -> tuple[str, str, str, str]:
        states = [track.state for track in tracks]
        runs = f"{states.count('done')}/{len(tracks)}"
        runs += " [red]" + f"{n} failed[/]" if (n := states.count("failed")) else ""
        scores = [track.score for track in tracks if track.score is not None]
        rate = sum(track.rate for track in tracks)
        return (
            runs,
            f"{sum(scores) / len(scores):.{self.words.digits}f}" if scores else "–",
            per_second(rate) if rate else "–",
            clock(self.seconds_left(tracks)),
        )


@contextmanager
def shown(board: Board) -> Iterator[Board]:
    if not sys.stdout.isatty():
        yield board
        return
    with Live(board.table(), console=Console(), refresh_per_second=2) as live:
        board.live = live
        try:
            yield board
        finally:
            live.update(board.table())
            board.live = None


def per_second(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def clock(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
