"""Grids of runs over seeds: their cells, the row of each run, and the table (theory room).

All algorithms of a grid share n0, L, b_w, K, η, M, N and the estimator. `lpo.sweep.theory` runs a
grid, and `lpo.report.theory` draws it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lpo.errors import LPOError
from lpo.theory import zoo
from lpo.theory.algorithms import Options
from lpo.theory.constants import Constants
from lpo.theory.mdp import MDP
from lpo.theory.runner import EPSILONS, check_heeded, find, run, summary

Row = dict[str, Any]
POINTS = 80  # curve points kept per run
HALVES = [round(10 ** (k / 2)) for k in range(4, 19)]  # 10², 10^2.5, …, 10⁹
LATER = {  # fields of `Cell` and `Options` that grids of earlier versions did not have
    "constants": (), "function_class": "", "epoch": 100, "bonus_share": 0.5, "transfer": False,
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One run of a grid, as plain values."""

    algorithm: str
    mdp: str  # as `parse_mdp` reads it
    seed: int
    N: int
    M: int
    seconds: float
    options: Options = Options()  # noqa: RUF009  (frozen)
    constants: tuple[tuple[str, float], ...] = ()  # changes to `Constants.practical`
    function_class: str = ""  # of `runner.CLASSES`; "": that of the algorithm
    epoch: int = 100  # of ENIAC and PC-PG

    @property
    def key(self) -> str:
        """The cell as JSON: the name of its row on disk.

        Newer fields are omitted when they have their default, so that old grid folders still match.
        """
        values = asdict(self)
        for name, plain in LATER.items():
            place = values if name in values else values["options"]
            if place[name] == plain:
                del place[name]
        return json.dumps(values, sort_keys=True)

    @staticmethod
    def from_key(key: str) -> Cell:
        values = json.loads(key)
        values["options"] = Options(**values["options"])
        values["constants"] = tuple((n, x) for n, x in values.get("constants", ()))
        return Cell(**values)


def parse_mdp(spec: str, **options: Any) -> MDP:
    """Returns the MDP of `name`, `name:size` or `name:size,option=value,…`.

    `deepsea:8` is deepsea(8), and `linear:6,bias=0.1` is linear_mdp(6, bias=0.1).
    """
    head, *rest = spec.split(",")
    name, _, size = head.partition(":")
    if size and not size.isdigit():
        raise LPOError(f"{spec!r} is not name:size with a whole number; write e.g. deepsea:8.")
    pairs = [word.partition("=")[::2] for word in rest]
    try:
        options = {key: json.loads(value) for key, value in pairs} | options
        return zoo.make(name, int(size) if size else None, **options)
    except (ValueError, TypeError) as error:
        raise LPOError(
            f"{spec!r} does not name an MDP ({error}); write e.g. linear:6,bias=0.1."
        ) from error


def whole(constants: tuple[tuple[str, float], ...]) -> dict[str, Any]:
    """Returns the changes by name; K counts iterations, so it is a whole number."""
    return {name: int(x) if name == "K" else x for name, x in constants}


def run_cell(cell: Cell) -> Row:
    """One run as a JSON-ready row."""
    mdp = parse_mdp(cell.mdp)
    trace = run(
        cell.algorithm,
        mdp,
        Constants.practical(mdp, cell.N, M=cell.M, **whole(cell.constants)),
        cell.seed,
        cell.options,
        cell.seconds,
        cell.epoch,
        F=cell.function_class,
    )
    keep = np.unique(np.linspace(0, len(trace.steps) - 1, POINTS).astype(int))
    curve = {
        name: [round(float(getattr(trace, name)[i]), 6) for i in keep]
        for name in ("steps", "iteration", "gap_last", "gap_mixture")
    }
    curve["switch"] = keep.tolist()  # how many switches had been made by then
    row = {"key": cell.key, "cell": json.loads(cell.key), **summary(trace), "curve": curve}
    return row | {
        "steps_to_tenth": row["steps_until"]["0.1"],
        "switches_at": [trace.switches_before(n) for n in HALVES if n <= trace.iterations],
        "gap_at": [
            trace.gap_before(n) / mdp.optimal_value for n in HALVES if n <= trace.total_steps
        ],
    }


def cells(
    algorithms: Sequence[str],
    mdps: Sequence[str],
    seeds: int,
    N: int,
    episodes: int,
    M: int,
    seconds: float,
    options: Options,
) -> list[Cell]:
    """The grid; value-based methods get `episodes` outer iterations, the others N."""
    out = []
    for mdp in mdps:
        parse_mdp(mdp)  # refuses what every run would refuse
        for name in algorithms:
            mine = (episodes, Options()) if find(name).episodes else (N, options)
            check_heeded(name, mine[1])
            out += [Cell(name, mdp, s, mine[0], M, seconds, mine[1]) for s in range(seeds)]
    return out


def median_steps(group: list[Row], epsilon: float, which: str = "steps_to") -> float | None:
    """Median over seeds of the steps to reach ε·V* for good; None unless over half get there."""
    found = [row[which][str(epsilon)] for row in group]
    reached = sorted(np.inf if x is None else x for x in found)
    middle = float(np.median(reached)) if reached else np.inf
    return middle if np.isfinite(middle) else None


def exponent(group: list[Row], which: str = "steps_to") -> float | None:
    """Least-squares slope of ln(median steps) on ln(1/ε), over the ε that were reached."""
    reached = [(e, median_steps(group, e, which)) for e in EPSILONS]
    points = [(np.log(1 / e), np.log(s)) for e, s in reached if s]
    if len(points) < 3:
        return None
    x, y = np.array(points).T
    return float(np.polyfit(x, y, 1)[0])


def by_cell(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    """Rows grouped by (MDP, algorithm), in order of appearance."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["cell"]["mdp"], row["cell"]["algorithm"]), []).append(row)
    return groups


def table(rows: list[Row], which: str = "steps_to") -> str:
    """Markdown: median steps to ε·V*, policy changes, steps, time, final gaps, exponent."""
    head = ["MDP", "algorithm", *(f"ε={e:g}" for e in EPSILONS)]
    head += ["exponent", "changes", "steps", "seconds", "gap last", "gap mixture"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    names = ("switches", "env_steps", "seconds", "relative_gap_last", "relative_gap_mixture")
    forms = ("{:.0f}", "{:.2g}", "{:.1f}", "{:.3f}", "{:.3f}")
    for (mdp, algorithm), group in by_cell(rows).items():
        steps = [median_steps(group, e, which) for e in EPSILONS]
        slope = exponent(group, which)
        line = [mdp, algorithm, *("–" if s is None else f"{s:.2g}" for s in steps)]
        line.append("–" if slope is None else f"{max(slope, 0.0):.2f}")  # below 0: rounding
        for name, form in zip(names, forms, strict=True):
            line.append(form.format(float(np.median([row[name] for row in group]))))
        lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines)


def both_tables(rows: list[Row]) -> str:
    """First time ε is reached, and from when on it is kept."""
    return (
        "Median environment steps until the last iterate's gap is ε·V* for the first time\n\n"
        + table(rows, "steps_until")
        + "\n\nand from when on it stays there to the end of the run\n\n"
        + table(rows)
    )
