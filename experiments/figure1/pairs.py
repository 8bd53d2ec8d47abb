"""Figure 1 with 64 seeds: the probability that a run of one row ends above a run of another.

    python experiments/figure1/pairs.py seeds64   # MuJoCo's angles; or turned: (cos, sin) of them
    python experiments/figure1/pairs.py switch    # rows that differ in when the policy changes
    python experiments/figure1/pairs.py angles    # each row with (cos, sin) over itself without
    python experiments/figure1/pairs.py readings  # growth by environment steps, by rollouts, none

An interval that holds .5 leaves a pair undecided; then the next column says how many seeds a row
would need, if the probability is as found: an interval shrinks with their root. The last column
has the last evaluation alone. All rows have it at the same step; their other ones may lie apart.
"""

from __future__ import annotations

import sys
from math import ceil
from pathlib import Path

import numpy as np

from lpo.report.runs import RunData, Runs
from lpo.report.stats import Estimate, estimate, improvement
from lpo.report.tables import short_task

RESULTS = Path(__file__).parent / "results"
CLAIMS = (
    ("lpo", "ppo"), ("lpo", "eniac"), ("lpo", "rnd"), ("eniac", "ppo"), ("rnd", "ppo"),
    ("lpo-s", "ppo"), ("lpo-s", "lpo"), ("rnd", "eniac"),
)  # fmt: skip
SWITCHES = (
    ("lpo-s", "ramp"), ("lpo-s-progress", "ramp"), ("lpo-s", "lpo"), ("lpo-s", "constant-5500"),
    ("ramp", "lpo"), ("constant-5500", "lpo"), ("constant-5500", "ramp"),
    ("constant-5500", "constant"), ("lpo", "constant"),
)  # fmt: skip
PAIRS = {"seeds64": CLAIMS, "turned": CLAIMS, "switch": SWITCHES}
MANY = 10_000  # seeds that nobody will run


def line(task: str, words: str, first: list[RunData], second: list[RunData]) -> str:
    e, last = (beats(first, second, end) for end in ("final", "last"))
    decided = e.low > 0.5 or e.high < 0.5
    off = abs(e.value - 0.5)
    side = e.value - e.low if e.value > 0.5 else e.high - e.value  # towards .5
    seeds = (
        MANY
        if off * MANY**0.5 <= side * len(first) ** 0.5
        else ceil((side / off) ** 2 * len(first))
    )
    needed = "decided" if decided else f"{seeds:,}" if seeds < MANY else f"over {MANY:,}"
    found, alone = (f"{x.value:.2f} [{x.low:.2f}, {x.high:.2f}]" for x in (e, last))
    return f"| {short_task(task)} | {words} | {found} | {needed} | {alone} |"


def beats(first: list[RunData], second: list[RunData], end: str) -> Estimate:
    """Returns how probably a run of the first cell ends above one of the second."""
    return estimate(
        improvement, *([np.array([getattr(run, end) for run in cell])] for cell in (first, second))
    )


def read(name: str) -> Runs:
    return Runs([RESULTS / f"{name}.parquet"])


def compared(name: str) -> list[str]:
    runs = read(name)
    return [
        line(task, f"`{one}` over `{other}`", runs.cell(task, one), runs.cell(task, other))
        for task in runs.tasks
        for one, other in PAIRS[name]
    ]


def angles() -> list[str]:
    """Returns what (cos, sin) of free angles bring to each row."""
    plain, turned = read("seeds64"), read("turned")
    return [
        line(task, f"`{row}` with (cos, sin)", turned.cell(task, row), plain.cell(task, row))
        for task in turned.tasks
        for row in turned.labels
    ]


def readings() -> list[str]:
    """Returns how growth by environment steps compares with growth by rollouts and with none."""
    grown = read("readings")
    bases = {"lpo-steps": read("seeds64"), "lpo-steps-turned": read("turned")}
    return [
        line(task, f"`{row}` over `{other}`", cell, bases[row].cell(task, other))
        for task, row, cell in grown.cells()
        for other in ("lpo", "eniac")
    ]


WITH_OTHER_FILES = {"angles": angles, "readings": readings}


def table(name: str) -> str:
    lines = WITH_OTHER_FILES[name]() if name in WITH_OTHER_FILES else compared(name)
    heads = [
        "| task | pair | probability | seeds needed | last evaluation |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*heads, *lines]) + "\n"


if __name__ == "__main__":
    print(table(sys.argv[1]), end="")
