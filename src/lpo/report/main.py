"""Report: a page, figures and tables of runs."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from lpo.errors import LPOError
from lpo.report import figures, page, stats, tables
from lpo.report.page import Section
from lpo.report.runs import Runs

WAYS = (
    "Lines are the interquartile mean over seeds, bands its 95 % interval from {reps} stratified "
    "bootstrap samples. They end where the shortest run of a cell ends."
)

SIZES = (
    "Sizes (root mean square) of the two advantages, noise of the policy and share of clipped "
    "updates. Each number is the mean over the evaluated rollouts in the second half of a run; "
    "the table shows the median over seeds (lowest, highest)."
)


LONGEST = 150  # characters of a file name, before its suffix


class Clips(NamedTuple):
    """Clips of the best policies, and a note that says why some are missing."""

    files: dict[tuple[str, str], Path]
    note: str = ""


def slug(*words: str) -> str:
    """Returns a file name made of ``words``, without the namespace ``lpo/``."""
    plain = (word.removeprefix("lpo/") for word in words)
    name = "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", word).strip("-") for word in plain)
    if len(name) <= LONGEST:
        return name
    return f"{name[:LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def make_report(
    runs: Runs, out: Path, title: str, command: str, reference: str | None, clips: Clips
) -> Path:
    """Writes index.html, figures/ and data/ under ``out``. Returns the path of the page."""
    chosen = choose_reference(runs, reference)
    drawings, data = out / "figures", out / "data"
    try:
        for folder in (drawings, data):
            folder.mkdir(parents=True, exist_ok=True)
        sections, numbers = contents(runs, drawings, chosen, clips)
        tables.write_tables(numbers, data)
        tables.write_markdown(numbers["cells"], numbers["streams"], data)
        lead = (
            f"{len(runs.runs)} runs: {', '.join(runs.labels)} on {len(runs.tasks)} "
            f"task{'s' if len(runs.tasks) > 1 else ''}."
        )
        text = page.page(title, lead, sections, page.footer(runs, command))
        (out / "index.html").write_text(text, encoding="utf-8")
    except OSError as error:
        raise LPOError(f"Cannot write {out} ({error}); pass another --out.") from error
    return out / "index.html"


def choose_reference(runs: Runs, name: str | None) -> str:
    """Returns the label that the others are compared with."""
    if name is not None and name not in runs.complete():
        raise LPOError(
            f"--reference is {name!r}, which has no runs on every task; choose one of "
            f"{', '.join(runs.complete()) or 'none'}."
        )
    return name or ("lpo" if "lpo" in runs.complete() else runs.labels[0])


def contents(
    runs: Runs, out: Path, reference: str, clips: Clips
) -> tuple[list[Section], dict[str, list[tables.Row]]]:
    """Returns the sections of the page in order, and the tables with their numbers."""
    cells = tables.cell_rows(runs)
    curves, drawn = [], []
    for task in runs.tasks:
        name = slug("return", task)
        curves += figures.learning(runs, task, out, name)
        drawn.append(page.image(out / f"{name}.svg", f"Return on {task}"))
    ways = WAYS.format(reps=f"{stats.REPS:,}")
    sections = [
        Section(
            "Results", results_text(runs), results=page.results(runs, cells), head=page.head(cells)
        ),
        Section("Learning curves", ways, figures=drawn),
    ]
    numbers = {"cells": cells, "runs": tables.run_rows(runs), "curves": curves}
    numbers["streams"] = tables.stream_rows(runs)
    across, more = compare(runs, out, reference)
    sections += [
        *across,
        *process(runs, out),
        Section("What drove the policy", SIZES, tables=[numbers["streams"]]),
        *visits(runs, out),
        *clip_section(clips),
        options(runs),
    ]
    return sections, numbers | more


def results_text(runs: Runs) -> str:
    empty = f" Runs left out because they have no return yet: {len(runs.empty)}." * bool(runs.empty)
    ways = (
        " Final returns are of the mode of the policy; a policy whose sampled actions return more "
        "acts by those."
    ) * any(run.has("eval/sampled_return") for run in runs.runs)
    half = "A seed is above half when its final return exceeds half of the largest possible one. "
    return half * any(run.passed is not None for run in runs.runs) + (
        "The step of the first reward is the end of the first rollout that contains a reward."
        + ways
        + empty
    )


def compare(
    runs: Runs, out: Path, reference: str
) -> tuple[list[Section], dict[str, list[tables.Row]]]:
    """Returns the section with profiles and probabilities of improvement, and its numbers."""
    complete = runs.complete()
    if reference not in complete:
        return [], {}
    profiles = figures.profiles(runs, out, "profile")
    drawn = [page.image(out / "profile.svg", "Share of runs above each score, all tasks")]
    improved: list[tables.Row] = []
    if len(complete) > 1:
        improved = figures.improvements(runs, reference, out, "improvement")
        text = f"Probability that a run of {reference} beats one of another method"
        drawn.append(page.image(out / "improvement.svg", text))
    undeclared = [t for t in runs.tasks if runs.cell(t, complete[0])[0].max_return is None]
    text = "Scores are final returns over the largest possible return" + (
        f" ({', '.join(undeclared)}: over the best return seen)." if undeclared else "."
    )
    left = [label for label in runs.labels if label not in complete]
    text += f" Left out, because not run on every task: {', '.join(left)}." if left else ""
    text += tuned_otherwise(runs)
    scores = tables.score_rows(runs)
    return [Section("Comparison", text, figures=drawn, tables=[scores])], {
        "profiles": profiles,
        "improvement": improved,
        "scores": scores,
    }


def tuned_otherwise(runs: Runs) -> str:
    """Returns a sentence where labels differ in options that are not those of exploration."""
    differing = [str(row["option"]) for row in tables.option_rows(runs)[0]]
    names = [name for name in differing if name in tables.TUNING]
    if not names:
        return ""
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return (
        f" These methods also differ in tuning ({shown}; see the options below), so the difference "
        "is not that of exploration alone. The control of a bonus is the same method with --bonus "
        "none."
    )


def process(runs: Runs, out: Path) -> list[Section]:
    """Returns the sections on the course of training: first rewards, policy switches, bonus."""
    first = []
    for task in runs.tasks:
        name = slug("first-reward", task)
        figures.first_rewards(runs, task, out, name)
        first.append(page.image(out / f"{name}.svg", f"Steps to the first reward on {task}"))
    seen = "A dot is a seed. A hollow dot at the end of a run means that it saw no reward."
    sections = [Section("First reward", seen, figures=first)]
    switches = over_time(runs, out, "switch/count", "policy switches")
    changed = "How often the policy was changed."
    sections.append(Section("Policy switches", changed, figures=switches))
    if bonus := over_time(runs, out, "bonus/mean", "mean bonus", log=True):
        paid = "The mean bonus for novelty, on a log scale."
        sections.append(Section("Bonus", paid, figures=bonus))
    return sections


def over_time(
    runs: Runs, out: Path, metric: str, label: str, log: bool = False
) -> list[page.Figure]:
    """Returns a figure of ``metric`` for each task that logged it."""
    drawn = []
    for task in runs.tasks:
        name = slug(metric, task)
        if figures.over_time(runs, task, metric, label, out, name, log):
            drawn.append(page.image(out / f"{name}.svg", f"{label.capitalize()} on {task}"))
    return drawn


def visits(runs: Runs, out: Path) -> list[Section]:
    """Returns the section with heat maps of the states of training, if there are any."""
    drawn = []
    for task, label, _ in runs.cells():
        name = slug("visits", label, task)
        if figures.heat_maps(runs, task, label, out, name):
            drawn.append(page.image(out / f"{name}.svg", f"{label} on {task}", caption=True))
    text = (
        "Share of the training states in each quarter of the budget, on a log scale, all seeds "
        "together."
    )
    if any(run.description.get("threshold") is not None for run in runs.runs):
        text += (
            " The dashed line is the threshold of the reward. The reward depends on the mean "
            "velocity over a step; the map shows the velocity at its end."
        )
    return [Section("Where the agents were", text, figures=drawn)] if drawn else []


def clip_section(clips: Clips) -> list[Section]:
    """Returns the section with a clip of the best policy of each cell, if there are any."""
    drawn = [
        page.image(path, f"{label} on {task}", caption=True, kind="small")
        for (task, label), path in clips.files.items()
    ]
    if not drawn and not clips.note:
        return []
    text = "The best checkpoint of the best seed of each cell, acting as it does by default."
    return [Section("The best policies", text, note=clips.note, figures=drawn)]


def options(runs: Runs) -> Section:
    differing, shared = tables.option_rows(runs)
    text = (
        "Tasks with their thresholds, and the options that differ between labels. An option with "
        "several values differs between tasks."
    )
    return Section(
        "Tasks and options", text, tables=[tables.task_rows(runs), differing], folded=shared
    )
