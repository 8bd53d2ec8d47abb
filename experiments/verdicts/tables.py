"""The tables of docs/results/verdicts.md, from the packed lines of ``results/``.

python experiments/verdicts/tables.py
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lpo.report.runs import RunData, Runs

HERE = Path(__file__).parent
GRIDS = HERE.parent / "frontier" / "results"
MINIGRIDS = {"MiniGrid-DoorKey-8x8": "doorkey8", "MiniGrid-KeyCorridorS3R3": "corridor3"}
Line = Mapping[str, Any]
SOLVED = 0.8
FURTHER = 916  # the first of further seeds
SCALES = {"Acrobot": 430.0, "MountainCarContinuous": 100.0}  # from the least to the largest return
sys.path.append(str(HERE))


def lines_of(name: str) -> list[Line]:
    path = HERE / "results" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def by_task(lines: Sequence[Line]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in lines:
        found.setdefault(line["task"], []).append(line)
    return found


def markdown(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def mean(values: Sequence[float]) -> str:
    return f"{np.mean(values):.4g}"


# -- claimed and evaluated again


def error(line: Line) -> float:
    """Returns the standard error of claimed − again, which chance alone makes."""
    again, claimed = line["again"], line["claim"]["episodes"]
    return float(again["sd"] * np.sqrt(1 / claimed + 1 / again["episodes"]))


def difference(line: Line) -> float:
    return line["claim"]["return"] - line["again"]["return"]


def last_of(line: Line) -> float:
    """Returns what the last policy returns in its own way of acting."""
    return line[line["last_acts"]]["return"]


def claims() -> str:
    rows = []
    for task, runs in by_task(lines_of("ways")).items():
        bias, chance = mean_difference(runs)
        rows.append([
            task, len(runs), mean([x["highest"] for x in runs]),
            mean([x["claim"]["return"] for x in runs]), mean([x["again"]["return"] for x in runs]),
            f"{bias:.3g} ± {chance:.2g}", mean([last_of(x) for x in runs]),
        ])  # fmt: skip
    heads = ["task", "runs", "highest evaluation", "claimed", "again", "claimed − again", "last"]
    return markdown(heads, rows)


def mean_difference(runs: Sequence[Line]) -> tuple[float, float]:
    """Returns the mean of claimed − again over runs, and the standard error by chance alone."""
    chance = np.sqrt(np.sum([error(x) ** 2 for x in runs])) / len(runs)
    return float(np.mean([difference(x) for x in runs])), float(chance)


def scale(line: Line) -> float:
    """Returns what a score of 1 is worth in return."""
    return SCALES.get(line["task"]) or float(line["max_return"])


def bias() -> str:
    """Returns claimed − again over all tasks, as a share of their scores and of its error."""
    lines = lines_of("ways")
    shares, errors = [], []
    for runs in by_task(lines).values():
        found, chance = mean_difference(runs)
        shares.append(found / scale(runs[0]))
        errors.append(chance / scale(runs[0]))
    whole = np.sqrt(np.sum(np.square(errors))) / len(errors)
    spread = [abs(difference(x)) / error(x) for x in lines if error(x) > 0]
    return (
        f"Over the {len(shares)} tasks claimed − again is {np.mean(shares):.2%} ± {whole:.2%} of "
        f"the largest score. In {len(spread)} runs the returns of episodes differ. In "
        f"{sum(x < 2 for x in spread)} of them the claimed and the new mean differ by less than "
        "two standard errors."
    )


# -- by the mode and sampled


def success(runs: Sequence[Line], way: str) -> str:
    known = [x[way]["success"] for x in runs if "success" in x[way]]
    return f"{np.mean(known):.0%}" if known else "–"


def apart(low: float, high: float) -> bool:
    """Whether one way returns much more than the other: a fifth of the larger size."""
    return high - low > 0.2 * max(abs(low), abs(high))


def count(pairs: Sequence[tuple[float, float]]) -> list[str]:
    """Returns in how many runs the mode, and in how many samples, return much more."""
    modes, samples = sum(apart(s, m) for m, s in pairs), sum(apart(m, s) for m, s in pairs)
    return [f"{modes} of {len(pairs)}", f"{samples} of {len(pairs)}"]


def of_grid(task: str, runs: Sequence[RunData]) -> list[object]:
    """Returns the row of a MiniGrid, from its packed runs: their last evaluations."""
    ends = {way: np.array([run.curve(f"eval/{key}return")[1][-1] for run in runs])
            for way, key in (("mode", ""), ("sampled", "sampled_"))}  # fmt: skip
    won = [f"{np.mean([run.curve(f'eval/{key}success')[1][-1] for run in runs]):.0%}"
           for key in ("", "sampled_")]  # fmt: skip
    pairs = list(zip(ends["mode"], ends["sampled"], strict=True))
    steps = f"{min(run.env_steps for run in runs):,}"
    return [task, len(runs), steps, *(mean(list(x)) for x in ends.values()), *won, *count(pairs)]


def default_of(name: str) -> list[RunData]:
    """Returns the runs of the default on a grid; some have only those of its ablation."""
    if (path := GRIDS / f"{name}.parquet").exists():
        return Runs([path]).runs
    return [r for r in Runs([GRIDS / f"ablate-{name}.parquet"]).runs if r.label == "default"]


def ways() -> str:
    rows: list[list[object]] = []
    for task, runs in by_task(lines_of("ways")).items():
        pairs = [(x["mode"]["return"], x["sampled"]["return"]) for x in runs]
        rows.append([
            task, len(runs), f"{runs[0]['steps']:,}", *(mean(x) for x in zip(*pairs, strict=True)),
            success(runs, "mode"), success(runs, "sampled"), *count(pairs),
        ])  # fmt: skip
    rows += [of_grid(task, default_of(name)) for task, name in MINIGRIDS.items()]
    heads = ["task", "runs", "steps", "mode, return", "sampled, return", "mode, success",
             "sampled, success", "mode far ahead", "samples far ahead"]  # fmt: skip
    return markdown(heads, rows)


# -- costs and scales of reward


def solved(runs: Sequence[Line]) -> str:
    """Returns how many runs reach the goal in at least 0.8 of the episodes at their end."""
    return f"{sum(max(x['success'].values()) >= SOLVED for x in runs)} of {len(runs)}"


def advice(runs: Sequence[Line]) -> str:
    """Returns the options that the warnings of a task name, by the flags of the command."""
    said = " ".join(x["warning"] or "" for x in runs)
    names = [name for name in ("plus_one", "beta", "alpha", "earned_reward") if name in said]
    flags = {"plus_one": "`--wrapper lpo.envs.shift:plus_one`", "beta": "`--beta 1`"}
    flags |= {"alpha": "`--alpha` 1/R", "earned_reward": "`--earned-reward` R"}
    return (" or " if "beta" in names else " ").join(flags[name] for name in names) or "–"


def instead(first: Sequence[Line], then: Sequence[Line]) -> list[Line]:
    """Returns the runs of ``then``, and those of ``first`` that were told nothing."""
    seeds = {x["seed"] for x in then}
    return [*then, *(x for x in first if x["seed"] not in seeds)]


def scales() -> str:
    """Returns every small task: the default untold, what it says, and with that.

    Further seeds, on which a rule was tried, are left out.
    """
    found = []
    for task, lines in by_task(lines_of("scales")).items():
        if (about := task_of(task)).env is not None:
            continue
        first = [x for x in lines if x["seed"] < FURTHER]
        untold, told = ([x for x in first if x["row"] == row] for row in ("untold", "told"))
        warned = f"{sum(x['warning'] is not None for x in untold)} of {len(untold)}"
        end = solved(instead(untold, told)) if told else "–"
        cells = [f"{untold[0]['steps']:,}", solved(untold), warned, advice(untold), end]
        found.append([about.words, *cells])
    heads = ["task", "steps", "no option", "warned", "what the warning says to pass", "with that"]
    return markdown(heads, found)


@cache
def tasks() -> dict[str, Any]:
    return runpy.run_path(str(HERE / "scales.py"))["TASKS"]


def task_of(name: str) -> Any:
    return tasks()[name]


def rules() -> str:
    """Returns the default beside the rules that were tried, with the same seeds.

    Returns of a run are the mean over all its evaluations, so that an early success counts.
    """
    found = []
    for task, lines in by_task(lines_of("scales")).items():
        for row in ("costs", "unit"):
            tried = [x for x in lines if x["row"] == row]
            seeds = {x["seed"] for x in tried}
            today = [x for x in lines if x["row"] == "untold" and x["seed"] in seeds]
            if tried:
                ends = [solved(today), solved(tried), early(today), early(tried)]
                found.append([task_of(task).words, f"`{row}`", *ends, gain(today, tried)])
    heads = ["task", "rule", "solved today", "with the rule", "first success today",
             "with the rule", "gain of return"]  # fmt: skip
    return markdown(heads, found)


def early(runs: Sequence[Line]) -> str:
    """Returns the steps at which half of the runs have met a success in training."""
    at = np.median([x["first_success"] or np.inf for x in runs])
    return f"{at:,.0f}" if np.isfinite(at) else "–"


def gain(today: Sequence[Line], tried: Sequence[Line]) -> str:
    """Returns the mean difference of runs with the same seed, and its standard error."""
    before = {x["seed"]: x["mean_return"] for x in today}
    differences = np.array([x["mean_return"] - before[x["seed"]] for x in tried])
    return f"{differences.mean():.2g} ± {differences.std(ddof=1) / len(differences) ** 0.5:.2g}"


TABLES = {"claims": claims, "bias": bias, "ways": ways, "scales": scales, "rules": rules}

if __name__ == "__main__":
    for name, table in TABLES.items():
        print(f"{name}\n\n{table()}\n")
