"""Grids of runs over seeds, in parallel and resumable, and their table (theory room).

A run is one JSON line in `runs.jsonl`, written when it ends; a grid started again in the same
folder does only what is missing. Everything shared is shared: n0, L, b_w, K, η, M, N, estimator.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from lpo.errors import LPOError
from lpo.theory import zoo
from lpo.theory.algorithms import Options
from lpo.theory.constants import Constants
from lpo.theory.runner import ALGORITHMS, EPSILONS, VALUE_BASED, run, summary

POINTS = 80  # curve points kept per run


@dataclass(frozen=True)
class Cell:
    """One run of a grid, as plain values."""

    algorithm: str
    mdp: str  # name, or name:size
    seed: int
    N: int
    M: int
    seconds: float
    options: Options = Options()  # noqa: RUF009  (frozen)

    @property
    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def parse_mdp(spec: str, **options) -> zoo.MDP:
    """`deepsea:8` → deepsea(8)."""
    name, _, size = spec.partition(":")
    if size and not size.isdigit():
        raise LPOError(f"{spec!r} is not name:size with a whole number; write e.g. deepsea:8.")
    return zoo.make(name, int(size) if size else None, **options)


def run_cell(cell: Cell) -> dict:
    """One run as a JSON-ready row."""
    mdp = parse_mdp(cell.mdp)
    trace = run(
        cell.algorithm,
        mdp,
        Constants.practical(mdp, cell.N, M=cell.M),
        cell.seed,
        cell.options,
        cell.seconds,
    )
    keep = np.unique(np.linspace(0, len(trace.steps) - 1, POINTS).astype(int))
    curve = {
        name: [round(float(getattr(trace, name)[i]), 6) for i in keep]
        for name in ("steps", "iteration", "gap_last", "gap_mixture")
    }
    curve["switch"] = keep.tolist()  # how many switches had been made by then
    return {"key": cell.key, "cell": asdict(cell), **summary(trace), "curve": curve}


def cells(
    algorithms: Iterable[str],
    mdps: Iterable[str],
    seeds: int,
    N: int,
    episodes: int,
    M: int,
    seconds: float,
    options: Options,
) -> list[Cell]:
    """The grid; value-based methods get `episodes` outer iterations, the others N."""
    unknown = [a for a in algorithms if a not in ALGORITHMS]
    if unknown:
        raise LPOError(
            f"no algorithm is called {unknown[0]!r}; choose from {', '.join(ALGORITHMS)}."
        )
    out = []
    for mdp in mdps:
        for name in algorithms:
            mine = (episodes, Options()) if name in VALUE_BASED else (N, options)
            out += [Cell(name, mdp, s, mine[0], M, seconds, mine[1]) for s in range(seeds)]
    return out


def read_rows(path: Path) -> list[dict]:
    """Finished runs; a last line cut short by a crash is dropped."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def run_grid(grid: list[Cell], out: Path, processes: int, progress=lambda done, total: None):
    """Run what is missing under `out`; returns the rows of this grid, old and new."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "runs.jsonl"
    rows = {row["key"]: row for row in read_rows(path)}
    missing = [cell for cell in grid if cell.key not in rows]
    progress(len(grid) - len(missing), len(grid))
    for row in _results(missing, processes):
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        rows[row["key"]] = row
        progress(sum(cell.key in rows for cell in grid), len(grid))
    return [rows[cell.key] for cell in grid]


def _results(missing: list[Cell], processes: int):
    if processes <= 1:
        yield from map(run_cell, missing)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(run_cell, cell) for cell in missing]):
            yield future.result()


def median_steps(group: list[dict], epsilon: float, which: str = "steps_to") -> float | None:
    """Median over seeds of the steps to reach ε·V* for good; None unless over half get there."""
    found = [row[which][str(epsilon)] for row in group]
    reached = sorted(np.inf if x is None else x for x in found)
    middle = float(np.median(reached)) if reached else np.inf
    return middle if np.isfinite(middle) else None


def exponent(group: list[dict], which: str = "steps_to") -> float | None:
    """Least-squares slope of ln(median steps) on ln(1/ε), over the ε that were reached."""
    reached = [(e, median_steps(group, e, which)) for e in EPSILONS]
    points = [(np.log(1 / e), np.log(s)) for e, s in reached if s]
    if len(points) < 3:
        return None
    x, y = np.array(points).T
    return float(np.polyfit(x, y, 1)[0])


def by_cell(rows: list[dict]) -> dict[tuple[str, str], list[dict]]:
    """Rows grouped by (MDP, algorithm), in order of appearance."""
    groups: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        groups.setdefault((row["cell"]["mdp"], row["cell"]["algorithm"]), []).append(row)
    return groups


def table(rows: list[dict], which: str = "steps_to") -> str:
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


def both_tables(rows: list[dict]) -> str:
    """First time ε is reached, and from when on it is kept."""
    return (
        "Median environment steps until the last iterate's gap is ε·V* for the first time\n\n"
        + table(rows, "steps_until")
        + "\n\nand from when on it stays there to the end of the run\n\n"
        + table(rows)
    )
