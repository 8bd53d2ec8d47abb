"""Report: one HTML page that holds all its figures; it has no script and loads nothing.

The template ``page.html`` escapes every text. This module collects what it shows.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lpo.report.figures import colors
from lpo.report.runs import LAST, Runs
from lpo.report.tables import Row, page_columns

TYPES = {".svg": "image/svg+xml", ".png": "image/png", ".gif": "image/gif", ".webp": "image/webp"}


class Figure(NamedTuple):
    """A figure. ``text`` is its alternative text, and its caption if it has no title."""

    source: str
    text: str
    caption: bool = False
    kind: str = ""


class Line(NamedTuple):
    """A line of the table at the top."""

    label: str
    color: str
    cells: tuple[str, ...]


class Section(NamedTuple):
    """A section of the page: its texts, and below them what it has of the rest, in this order."""

    title: str
    text: str
    note: str = ""
    results: dict[str, list[Line]] = {}  # noqa: RUF012 - by task; never written to
    head: tuple[str, ...] = ()  # of the results
    figures: Sequence[Figure] | None = None
    tables: Sequence[list[Row]] = ()
    folded: Sequence[Row] = ()  # a table that opens on a click


class Foot(NamedTuple):
    """The numbers at the end of the page."""

    runs: int
    steps: str
    hours: str
    shares: str
    rate: str
    command: str
    last: int = LAST


def inline(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f"data:{TYPES[path.suffix]};base64,{data}"


def image(path: Path, text: str, caption: bool = False, kind: str = "") -> Figure:
    """Returns the figure in a file; the page holds a copy of it."""
    return Figure(inline(path), text, caption, kind)


def show(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def results(runs: Runs, rows: list[Row]) -> dict[str, list[Line]]:
    """Returns the table at the top: a block per task, a line per label."""
    color = colors(runs.labels)
    cells = zip(*(texts for _, texts in page_columns(rows)), strict=True)
    lines: dict[str, list[Line]] = {task: [] for task in runs.tasks}
    for row, texts in zip(rows, cells, strict=True):
        lines[row["task"]].append(Line(row["label"], color[row["label"]], texts))
    return lines


def head(rows: list[Row]) -> tuple[str, ...]:
    """Returns the names of the columns of ``results``."""
    return ("", *(name for name, _ in page_columns(rows)))


def footer(runs: Runs, command: str) -> Foot:
    parts = dict.fromkeys(part for run in runs.runs for part in run.seconds)
    seconds = {part: sum(run.seconds.get(part, 0.0) for run in runs.runs) for part in parts}
    steps, total = sum(run.env_steps for run in runs.runs), sum(seconds.values())
    return Foot(
        runs=len(runs.runs),
        steps=f"{steps:,}",
        hours=f"{total / 3600:.2f}",
        shares=", ".join(f"{part} {s / max(total, 1e-9):.0%}" for part, s in seconds.items()),
        rate=f"{steps / max(total, 1e-9):,.0f}",
        command=command,
    )


def page(title: str, lead: str, sections: Sequence[Section], foot: Foot) -> str:
    """Returns the HTML of the page. All texts are plain and are escaped by the template."""
    env = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters["show"] = show
    template = env.get_template("page.html")
    return template.render(title=title, lead=lead, sections=sections, foot=foot)
