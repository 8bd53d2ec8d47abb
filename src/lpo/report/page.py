"""Report: one HTML page that holds all its figures; it has no script and loads nothing."""

from __future__ import annotations

import base64
from html import escape as escape
from pathlib import Path
from typing import Any

from lpo.report.figures import colors
from lpo.report.runs import LAST, Runs
from lpo.report.tables import CELL_HEAD, Row, cell_text

TYPES = {".svg": "image/svg+xml", ".png": "image/png", ".gif": "image/gif", ".webp": "image/webp"}


def inline(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f"data:{TYPES[path.suffix]};base64,{data}"


def image(path: Path, text: str, caption: bool = False, kind: str = "") -> str:
    """Returns a figure. ``text`` is its alternative text, and its caption if it has no title."""
    below = f"<figcaption>{escape(text)}</figcaption>" if caption else ""
    return f'<figure class="{kind}"><img src="{inline(path)}" alt="{escape(text)}">{below}</figure>'


def section(title: str, text: str, content: str) -> str:
    """Returns a section. ``text`` is plain text and escaped here; ``content`` is HTML."""
    return f"<h2>{escape(title)}</h2>\n<p>{escape(text)}</p>\n{content}\n"


def grid(figures: list[str]) -> str:
    return f'<div class="grid">{"".join(figures)}</div>'


def table(rows: list[Row]) -> str:
    """Returns a plain table with the keys of the first row as its head."""
    if not rows:
        return ""
    head = "".join(f"<th>{escape(str(key))}</th>" for key in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(show(value))}</td>" for value in row.values()) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def show(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def results(runs: Runs, rows: list[Row]) -> str:
    """Returns the table at the top: a block per task, a line per label."""
    head = ("", *CELL_HEAD, "steps/s")
    color, body = colors(runs.labels), []
    for task in runs.tasks:
        body.append(f'<tr class="task"><td colspan="{len(head)}">{escape(task)}</td></tr>')
        for row in (row for row in rows if row["task"] == task):
            body.append(result_line(row, color[row["label"]]))
    names = "".join(f'<th class="{"number" if n else ""}">{escape(n)}</th>' for n in head)
    return f'<div class="wide"><table><tr>{names}</tr>{"".join(body)}</table></div>'


def result_line(row: Row, color: str) -> str:
    speed = "–" if row["env_steps_per_s"] is None else f"{row['env_steps_per_s']:,.0f}"
    key = f'<span class="key" style="background:{color}"></span>'
    cells = (*cell_text(row), speed)
    numbers = "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells)
    return f"<tr><td>{key}{escape(row['label'])}</td>{numbers}</tr>"


def footer(runs: Runs, command: str) -> str:
    parts = dict.fromkeys(part for run in runs.runs for part in run.seconds)
    seconds = {part: sum(run.seconds.get(part, 0.0) for run in runs.runs) for part in parts}
    steps, total = sum(run.env_steps for run in runs.runs), sum(seconds.values())
    shares = ", ".join(f"{part} {s / max(total, 1e-9):.0%}" for part, s in seconds.items())
    rate = steps / max(total, 1e-9)
    return (
        f"<footer><p>{len(runs.runs)} runs, {steps:,} environment steps in {total / 3600:.2f} "
        f"core hours ({shares}): {rate:,.0f} steps/s with evaluations.</p>"
        f"<p>Made with <code>{escape(command)}</code>. A final return is the mean of a run's last "
        f"{LAST} evaluations.</p></footer>"
    )


def page(title: str, lead: str, sections: list[str], foot: str) -> str:
    css = Path(__file__).with_name("page.css").read_text()
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title>'
        f"<style>{css}</style></head>\n<body>\n<h1>{escape(title)}</h1>\n"
        f'<p class="lead">{lead}</p>\n{"".join(sections)}{foot}\n</body>\n</html>\n'
    )
