"""Packed runs of the frontier as tables: how often each grid is solved, and what each part brings.

    python experiments/frontier/table.py          # the tables of docs/results/frontier.md
    python experiments/frontier/table.py FILE…    # every row of these files

All figures are of layouts that training never drew. A run counts as solved when its sampled actions
succeed in nine of ten episodes at the end, the mean of its last three evaluations.
"""

from __future__ import annotations

import argparse
import re
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lpo.report.runs import RunData, Runs
from lpo.report.stats import Estimate, estimate, iqm
from lpo.report.tables import interval, short_task

RESULTS = Path(__file__).parent / "results"
SOLVED = 0.9  # success of a solved run
REACHED = 0.8  # success whose first evaluation is told
MODE, SAMPLED = "eval/return", "eval/sampled_return"
MODE_SUCCESS, SAMPLED_SUCCESS = "eval/success", "eval/sampled_success"
HEAD = "| grid | row | runs | steps | sampled return | by the mode | solved | success of 0.8 at |"
GITHUB = "https://github.com"


class Other(NamedTuple):
    """The best figure that was found for a grid."""

    figure: str
    steps: str
    who: str
    place: str  # where it stands, at GITHUB


RAPID = "daochenzha/rapid", "imgs/performance.png"
AMIGO = "facebookresearch/adversarially-motivated-intrinsic-goals"
RIDE = "facebookresearch/impact-driven-exploration"
OTHERS: dict[str, Other] = {
    "doorkey8": Other("0.9", "0.12M", "DEIR", "swan-utokyo/deir"),
    "doorkey16": Other("0.95 to 0.98", "not said", "E3B, RE3", "RLE-Foundation/RLeXplore"),
    "corridor3": Other("0.88", "4M", "RAPID", RAPID[0]),
    "corridor4": Other("0.34", "20M", "RAPID", RAPID[0]),
    "corridor5": Other("solved", "600M asked for", "AMIGo", AMIGO),
    "corridor6": Other("solved, with the whole grid shown", "120M", "NovelD", "tianjunz/NovelD"),
    "rooms6": Other("none found", "–", "–", ""),
    "rooms7": Other("0.64", "1.5M", "RAPID", RAPID[0]),
    "rooms12": Other("0.60", "4.5M", "RAPID", RAPID[0]),
    "lava": Other("none found", "–", "–", ""),
    "maze2": Other("solved", "30M", "RIDE", RIDE),
    "maze1q": Other("solved", "10M", "ETD", "Jackory/ETD"),
}
ABLATED = ("doorkey8", "corridor3", "lava", "rooms6")


def runs_of(name: str) -> list[RunData]:
    """Returns the runs of the default in the packed file ``name``.

    Of a grid that has none of its own they are the ones of its ablation.
    """
    if (path := RESULTS / f"{name}.parquet").exists():
        return Runs([path]).runs
    found = Runs([RESULTS / f"ablate-{name}.parquet"])
    return [run for run in found.runs if run.label == "default"]


def until(run: RunData, metric: str, steps: float) -> np.ndarray:
    """Returns the evaluations within the first ``steps``."""
    at, values = run.curve(metric)
    return values[at <= steps]


def ending(run: RunData, metric: str, steps: float = np.inf) -> float:
    """Returns the mean of the last three evaluations within the first ``steps``."""
    return float(until(run, metric, steps)[-3:].mean())


def reached(run: RunData) -> float:
    """Returns the steps at which sampled actions first succeed in four of five episodes."""
    steps, success = run.curve(SAMPLED_SUCCESS)
    return float(steps[np.argmax(success >= REACHED)]) if (success >= REACHED).any() else np.inf


def shown(runs: Sequence[RunData], metric: str, steps: float = np.inf) -> str:
    """Returns the IQM of the runs' ends with its interval."""
    found: Estimate = estimate(iqm, [np.array([ending(run, metric, steps) for run in runs])])
    return interval(found, ".2f")


def solved(runs: Sequence[RunData], steps: float = np.inf) -> str:
    ends = [ending(run, SAMPLED_SUCCESS, steps) for run in runs]
    return f"{sum(end >= SOLVED for end in ends)} of {len(runs)}"


def when(runs: Sequence[RunData]) -> str:
    at = float(np.median([reached(run) for run in runs]))
    return "–" if np.isinf(at) else f"{at / 1e3:,.0f}k"


def trained(runs: Sequence[RunData]) -> str:
    """Returns the steps of the shortest run, and those that were asked for if they are more."""
    steps, asked = min(run.env_steps for run in runs), runs[0].steps
    return f"{steps / 1e6:.2f}M" + ("" if steps == asked else f" of {asked / 1e6:g}M")


def grid_name(task: str) -> str:
    """Returns a short name; a MultiRoom of another size is called as MiniGrid would."""
    sizes = dict(re.findall(r"(\w+)=(\d+)", task))
    if "maxNumRooms" in sizes:
        return f"MultiRoom-N{sizes['maxNumRooms']}-S{sizes['maxRoomSize']}"
    return short_task(task).removeprefix("MiniGrid-")


def row(task: str, label: str, runs: Sequence[RunData]) -> str:
    """Returns one line of the table of all rows."""
    cells = (short_task(task), f"`{label}`", len(runs), trained(runs))
    cells += (shown(runs, SAMPLED), shown(runs, MODE), solved(runs), when(runs))
    return "| " + " | ".join(map(str, cells)) + " |"


def markdown(head: str, lines: Sequence[str]) -> str:
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *lines])


def every_row(files: Sequence[Path]) -> str:
    """Returns the table of all rows of the packed ``files``."""
    return markdown(HEAD, [row(*cell) for file in files for cell in Runs([file]).cells()])


def names() -> list[str]:
    """Returns the grids that have packed runs."""
    found = {path.stem.removeprefix("ablate-") for path in RESULTS.glob("*.parquet")}
    return [name for name in OTHERS if name in found]


def frontier() -> str:
    """Returns the default on each grid, beside the best figure of others."""
    head = "| grid | runs | steps | sampled return | by the mode | solved | success of 0.8 at "
    head += "| others | their steps | whose |"
    lines = []
    for name in names():
        runs, other = runs_of(name), OTHERS[name]
        cells = [grid_name(runs[0].task), str(len(runs)), trained(runs), shown(runs, SAMPLED)]
        cells += [shown(runs, MODE), solved(runs), when(runs), other.figure, other.steps]
        cells += [f"[{other.who}]({GITHUB}/{other.place})" if other.place else other.who]
        lines.append("| " + " | ".join(cells) + " |")
    return markdown(head, lines)


def ablation() -> str:
    """Returns sampled returns and solved runs of every row, at the steps of ``default``.

    A row that ended before has its own steps beside it.
    """
    tables = [Runs([RESULTS / f"ablate-{name}.parquet"]) for name in ABLATED]
    labels = dict.fromkeys(label for runs in tables for label in runs.labels)
    heads, cells = ["row"], {label: [f"`{label}`"] for label in labels}
    for runs in tables:
        (task,) = runs.tasks
        steps = min(run.env_steps for run in runs.cell(task, "default"))
        heads.append(f"{grid_name(task)}, {steps / 1e6:.2f}M")
        for label in labels:
            cell = [run for run in runs.runs if run.label == label]
            if not cell:
                cells[label].append("not run")
                continue
            least = min(run.env_steps for run in cell)
            cut = f" ({least / 1e6:.2f}M)" if least < steps else ""
            cells[label].append(f"{shown(cell, SAMPLED, steps)}, {solved(cell, steps)}{cut}")
    lines = ["| " + " | ".join(line) + " |" for line in cells.values()]
    return markdown("| " + " | ".join(heads) + " |", lines)


def fourteen() -> str:
    """Returns the two cells of docs/results/default.md that these numbers move, and all fourteen.

    Scores are those of that page: by the mode, and the mean of the last five evaluations.
    """
    default = runpy.run_path(str(RESULTS.parents[1] / "default" / "table.py"))
    folders = {"default": ("confirm", "locomotion"), "figure1": ("seeds64",)}
    paths = [
        RESULTS.parents[1] / f / "results" / f"{n}.parquet" for f in folders for n in folders[f]
    ]
    found = Runs(paths)
    before = {task: found.cell(task, "default") for task in found.tasks}
    before = {task: cell for task, cell in before.items() if cell}
    now = {cell[0].task: cell for cell in map(runs_of, ("doorkey8", "corridor3"))}
    lines = []
    for task, cell in now.items():
        scores = [default["over_all"]([runs]) for runs in (before[task], cell)]
        steps = f"{before[task][0].steps / 1e6:g}M, {trained(cell)}"
        lines.append(f"| {grid_name(task)} | {scores[0]} | {scores[1]} | {steps} |")
    both = [default["over_all"](list(cells.values())) for cells in (before, before | now)]
    lines.append(f"| all {len(before)} tasks | {both[0]} | {both[1]} | |")
    return markdown("| task | numbers of vectors | numbers of grids | steps |", lines)


TABLES = {"frontier": frontier, "ablation": ablation, "fourteen": fourteen}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    if options.files:
        print(every_row(options.files))
    else:
        print("\n\n".join(f"{name}\n\n{table()}" for name, table in TABLES.items()))


if __name__ == "__main__":
    main()
