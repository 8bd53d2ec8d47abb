"""Sweeps: what a person sees. A live table of cells on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from lpo.runs.directory import RunDirectory
from lpo.sweep.grid import Grid, Item
from lpo.sweep.plan import standing

EVERY = 60.0  # seconds between lines of progress where there is no terminal


class Track:
    """One run as it was last seen: steps, return and speed since it was first seen at work."""

    def __init__(self, root: Path, item: Item):
        self.root, self.item = root, item
        self.state, self.steps = standing(root, item)
        self.returned: float | None = None
        self.since: tuple[float, int] | None = None
        self.rate = 0.0  # steps/s now
        self.pace = 0.0  # steps/s when it was last at work
        self.look()

    def look(self) -> None:
        seen = RunDirectory(self.root / self.item.name).latest_metrics()
        self.returned = seen.get("eval/return", seen.get("rollout/return", self.returned))
        steps = int(seen.get("env_steps", self.steps))
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
    """All runs of a sweep; an executor calls ``begin``, ``end`` and, now and then, ``refresh``."""

    def __init__(self, root: Path, grid: Grid, workers: int):
        self.root, self.grid, self.workers = root, grid, workers
        self.tracks = {item.name: Track(root, item) for item in grid.items}
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
            shown = "–" if track.returned is None else f"{track.returned:.1f}"
            self.say(f"done   {name}  return {shown}  ({self.summary()})")
        else:
            self.say(f"{state:6s} {name} {words}".rstrip())

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
        """Steps to go over the mean pace of the runs so far, times the places they can take."""
        to_do = [track for track in tracks if track.state not in ("done", "failed")]
        paces = [track.pace for track in tracks if track.pace > 0]
        if not to_do:
            return 0.0
        if not paces:
            return None
        left = sum(max(track.item.config.steps - track.steps, 0) for track in to_do)
        return left / (sum(paces) / len(paces) * min(self.workers, len(to_do)))

    def summary(self) -> str:
        tracks = list(self.tracks.values())
        rate = sum(track.rate for track in tracks)
        failed = f", {n} failed" if (n := self.count("failed")) else ""
        speed = f", {rate:,.0f} steps/s" if rate else ""  # unknown until a run has logged twice
        return (
            f"{self.count('done')}/{len(tracks)} done, {self.count('running')} running{failed}"
            f"{speed}, {clock(self.seconds_left(tracks))} left"
        )

    def table(self) -> Table:
        """A row for each cell: its runs, mean return, speed and time."""
        table = Table(title=self.grid.name, title_justify="left", caption=self.summary())
        for name in ("cell", "task"):
            table.add_column(name)
        for name in ("runs", "return", "steps/s", "time left"):
            table.add_column(name, justify="right")
        cells: dict[tuple[str, str], list[Track]] = {}
        for track in self.tracks.values():
            c = track.item.config
            threshold = f" {c.task.threshold}" if c.task.threshold else ""
            task = c.task.env.split("/")[-1] + threshold
            cells.setdefault((track.item.label, task), []).append(track)
        for (label, task), tracks in cells.items():
            table.add_row(label, task, *self.row(tracks))
        return table

    def row(self, tracks: list[Track]) -> tuple[str, str, str, str]:
        states = [track.state for track in tracks]
        runs = f"{states.count('done')}/{len(tracks)}"
        runs += " [red]" + f"{n} failed[/]" if (n := states.count("failed")) else ""
        returns = [track.returned for track in tracks if track.returned is not None]
        rate = sum(track.rate for track in tracks)
        return (
            runs,
            f"{sum(returns) / len(returns):.1f}" if returns else "–",
            f"{rate:,.0f}" if rate else "–",
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


def clock(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
