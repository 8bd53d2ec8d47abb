"""The table of the harness: kind of fault × times tried × runs lost × resumed byte-equal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple


class Result(NamedTuple):
    """One fault and what came of it."""

    kind: str
    where: str
    lost: bool
    equal: bool
    why: str = ""  # what was wrong


def recorded(results: Iterable[Result], log: Path) -> Iterator[Result]:
    """Appends every result to ``log`` as it comes."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "a") as file:
        for result in results:
            file.write(json.dumps(result._asdict()) + "\n")
            file.flush()
            yield result


def read(log: Path) -> list[Result]:
    if not log.exists():
        return []
    return [Result(**json.loads(line)) for line in log.read_text().splitlines()]


def table(results: Iterable[Result]) -> str:
    """Returns the table as Markdown."""
    rows: dict[str, list[Result]] = {}
    for result in results:
        rows.setdefault(result.kind, []).append(result)
    lines = ["| fault | tried | runs lost | resumed byte-equal |", "|---|--:|--:|--:|"]
    every = [result for own in rows.values() for result in own]
    for kind, own in [*sorted(rows.items()), ("all", every)]:
        lost, equal = sum(r.lost for r in own), sum(r.equal for r in own)
        lines.append(f"| {kind} | {len(own):,} | {lost:,} | {equal:,} |")
    return "\n".join(lines)
