"""Pairs of rows with many seeds: how probably a run of one row ends above a run of another.

    python experiments/pairs.py seeds64   # MuJoCo's angles; or turned: (cos, sin) of them
    python experiments/pairs.py switch    # rows that differ in when the policy changes
    python experiments/pairs.py angles    # each row with (cos, sin) over itself without
    python experiments/pairs.py readings  # growth by environment steps, by rollouts, none
    python experiments/pairs.py lpo-s     # lpo-s beside lpo, with returns and policies
    python experiments/pairs.py figure2   # figure 2, 256 seeds
    python experiments/pairs.py others    # s′ beside (s,a), and growth, on nine other tasks

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
from lpo.report.stats import Estimate, estimate, improvement, iqm
from lpo.report.tables import interval, short_task

HERE = Path(__file__).parent
CLAIMS = (
    ("lpo", "ppo"), ("lpo", "eniac"), ("lpo", "rnd"), ("eniac", "ppo"), ("rnd", "ppo"),
    ("lpo-s", "ppo"), ("lpo-s", "lpo"), ("rnd", "eniac"),
)  # fmt: skip
SWITCHES = (
    ("lpo-s", "ramp"), ("lpo-s-progress", "ramp"), ("lpo-s", "lpo"), ("lpo-s", "constant-5500"),
    ("ramp", "lpo"), ("constant-5500", "lpo"), ("constant-5500", "ramp"),
    ("constant-5500", "constant"), ("lpo", "constant"),
)  # fmt: skip
GROWTHS = ("lpo", "eniac")  # growth by rollouts, and none
GROWN = (("lpo-steps", "lpo"), ("lpo-steps", "eniac"), ("lpo", "eniac"))
CAR = (
    ("eniac-norm", "ppo-norm"), ("rnd-norm", "ppo-norm"), ("lpo-norm", "ppo-norm"),
    ("lpo-s-norm", "ppo-norm"), ("lpo-norm", "eniac-norm"), ("lpo-s-norm", "lpo-norm"),
    ("rnd-norm", "eniac-norm"), ("pcpg-norm", "pcpg-norm-reset"),
    ("eniac-original-norm", "eniac-original-norm-reset"), ("ppo-norm", "ppo-raw"),
    ("eniac-norm", "eniac-raw"), ("lpo-norm", "lpo-raw"),
)  # fmt: skip
OTHERS = (("rnd", "eniac"), ("lpo", "eniac"))
PAIRS = {
    "seeds64": CLAIMS, "turned": CLAIMS, "switch": SWITCHES, "figure2": CAR, "others": OTHERS,
}  # fmt: skip
POOLED = {  # also over several tasks together; SparseHalfCheetah is the switch's first one
    "switch": {"all four": slice(None), "without the first": slice(1, None)},
    "others": {"all nine": slice(None)},
}
FILES = {
    "figure2": ["figure2/results/device10k"],
    "others": ["default/results/confirm", "default/results/pairs"],
}  # else figure 1's file of that name
MANY = 10_000  # seeds that nobody will run
Cell = list[RunData]


def line(task: str, words: str, first: Cell, second: Cell) -> str:
    return compare(task, words, [first], [second])


def compare(task: str, words: str, first: list[Cell], second: list[Cell]) -> str:
    """Returns a line of the table; each of the two rows has a cell for every task."""
    e, last = (beats(first, second, end) for end in ("final", "last"))
    runs = len(first[0])
    decided = e.low > 0.5 or e.high < 0.5
    off = abs(e.value - 0.5)
    side = e.value - e.low if e.value > 0.5 else e.high - e.value  # towards .5
    seeds = MANY if off * MANY**0.5 <= side * runs**0.5 else ceil((side / off) ** 2 * runs)
    needed = "decided" if decided else f"{seeds:,}" if seeds < MANY else f"over {MANY:,}"
    return f"| {short_task(task)} | {words} | {interval(e)} | {needed} | {interval(last)} |"


def beats(first: list[Cell], second: list[Cell], end: str) -> Estimate:
    """Returns how probably a run of the first row ends above one of the second."""
    return estimate(
        improvement,
        *(
            [np.array([getattr(run, end) for run in cell]) for cell in cells]
            for cells in (first, second)
        ),
    )


def read(name: str) -> Runs:
    files = FILES.get(name, [f"figure1/results/{name}"])
    return Runs([HERE / f"{file}.parquet" for file in files])


def compared(name: str) -> list[str]:
    """Returns the pairs task by task; some are also pooled over the tasks that have both rows."""
    runs = read(name)
    cells = {
        (task, pair): [runs.cell(task, row) for row in pair]
        for task in runs.tasks
        for pair in PAIRS[name]
    }
    found = {key: both for key, both in cells.items() if all(both) or name not in POOLED}
    lines = [line(task, over(pair), *both) for (task, pair), both in found.items()]
    for words, tasks in POOLED.get(name, {}).items():
        for pair in PAIRS[name]:
            pool = [found[task, pair] for task in runs.tasks[tasks] if (task, pair) in found]
            if len(pool) > 1:
                lines.append(compare(words, over(pair), *map(list, zip(*pool, strict=True))))
    return lines


def over(pair: tuple[str, str]) -> str:
    return "`{}` over `{}`".format(*pair)


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
    rows = [
        (task, label, {"lpo-steps": cell} | {x: bases[label].cell(task, x) for x in GROWTHS})
        for task, label, cell in grown.cells()
    ]
    alone = [
        line(task, f"`{label}` over `{other}`", cells["lpo-steps"], cells[other])
        for task, label, cells in rows
        for other in GROWTHS
    ]
    together = [
        compare(
            f"all at `{threshold}`",
            over(pair),
            *([cells[x] for task, _, cells in rows if f"({threshold}:" in task] for x in pair),
        )
        for threshold in ("half", "hard")
        for pair in GROWN
    ]
    return alone + together


def sensitivity() -> str:
    """Returns how `lpo-s` compares with `lpo`, cell by cell and over all cells."""
    files = (("seeds64", ""), ("turned", ", (cos, sin)"))
    found = [(read(name), words) for name, words in files]
    rows = [
        (short_task(task) + words, [runs.cell(task, row) for row in ("lpo-s", "lpo")])
        for runs, words in found
        for task in runs.tasks
    ]
    lines = ["| task | `lpo-s` | `lpo` | policies | `lpo-s` over `lpo` |", "|---|---|---|---|---|"]
    for task, cells in rows:
        returns = [estimate(iqm, [np.array([run.final for run in cell])]) for cell in cells]
        ends = [interval(e, ".4g") for e in returns]
        policies = ", ".join(f"{np.mean([run.switches for run in cell]):.0f}" for cell in cells)
        fields = [task, *ends, policies, interval(beats(cells[:1], cells[1:], "final"))]
        lines.append(f"| {' | '.join(fields)} |")
    together = beats([cells[0] for _, cells in rows], [cells[1] for _, cells in rows], "final")
    lines.append(f"| all {len(rows)} |  |  |  | {interval(together)} |")
    return "\n".join(lines) + "\n"


WITH_OTHER_FILES = {"angles": angles, "readings": readings}


def table(name: str) -> str:
    if name == "lpo-s":
        return sensitivity()
    lines = WITH_OTHER_FILES[name]() if name in WITH_OTHER_FILES else compared(name)
    heads = [
        "| task | pair | probability | seeds needed | last evaluation |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*heads, *lines]) + "\n"


if __name__ == "__main__":
    print(table(sys.argv[1]), end="")
