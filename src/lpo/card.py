"""Cards: a folder that can be put on a model hub as it is.

model.safetensors model.json   the policy; ``Policy.load(folder)`` reads it
options.json                   `lpo train --config options.json` repeats the training
README.md                      the card: task, score, options
curve.png clip.webp            where there is a curve, and where the task can be drawn
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lpo import algorithms
from lpo import config as configs
from lpo.config import Config
from lpo.engine.evaluate import as_sampled, evaluate, score
from lpo.engine.rollout import Episode
from lpo.errors import LPOError
from lpo.policy import CARD, Kept, Policy
from lpo.report.clips import write_clip
from lpo.report.curves import plot_runs
from lpo.runs import store
from lpo.runs.checkpoint import write_atomically
from lpo.runs.directory import RunDirectory, task_line
from lpo.runs.record import score_metric
from lpo.runs.verdict import apart

README, OPTIONS, CURVE, CLIP = "README.md", "options.json", "curve.png", "clip.webp"


class Score(NamedTuple):
    """What the policy earns, and how that was found."""

    values: dict[str, float]  # return, length, success, … by their names in the glossary
    spread: float | None  # standard deviation of the return over episodes
    how: str


def write_card(
    run: Path, out: Path, which: Kept, episodes: int, seed: int, clip: bool
) -> list[str]:
    """Writes the card of a run to the folder ``out``. Returns notes on what could not be made."""
    directory = RunDirectory.open(run)
    policy = Policy.load(run, which)
    notes: list[str] = []
    found = scored(policy, directory, episodes, seed, notes)
    try:
        out.mkdir(parents=True, exist_ok=True)
        policy.save(out / CARD)
        write_atomically(out / OPTIONS, configs.to_json(policy.config).encode())
        pictures = drawn(policy, directory, out, clip, notes)
        write_atomically(out / README, readme(policy, found, pictures).encode())
    except OSError as error:
        raise LPOError(f"Cannot write {out} ({error}); pass another --out.") from error
    return notes


def scored(
    policy: Policy, directory: RunDirectory, episodes: int, seed: int, notes: list[str]
) -> Score:
    """Plays new episodes. Where the task cannot be made here, takes what the run has logged."""
    try:
        return played(policy, episodes, seed)
    except LPOError as error:
        notes.append(f"The score is the run's own, since no new episode could be played: {error}")
    rows = directory.metrics()
    prefix = score_metric(rows).split("/")[0]
    at = [row for row in rows if f"{prefix}/return" in row and row["env_steps"] == policy.env_steps]
    if not at:
        return Score({}, None, "The run has logged no return.")
    own = {k.split("/")[1]: v for k, v in at[-1].items() if k.startswith(f"{prefix}/")}
    names = ("return", "length", "normalized_return", "success")
    values = {name: own[name] for name in names if name in own}
    number = int(own.get("episodes", 0))
    return Score(values, None, f"Mean over {number} episodes during training.")


def played(policy: Policy, episodes: int, seed: int) -> Score:
    c = policy.config
    env, longest = c.task.make(episodes, flat=c.network.flat), c.evaluation.max_steps
    try:
        both = {
            way: evaluate(env, policy.actor, seed, way == "mode", longest)
            for way in ("mode", "sampled")
        }
        scores = {way: score("eval", found, env.description) for way, found in both.items()}
    finally:
        env.close()
    way = policy.way()
    found: list[Episode] = both[way]
    values = {k.removeprefix("eval/"): v for k, v in scores[way].items() if k != "eval/episodes"}
    said = "the most likely actions" if way == "mode" else "sampled actions"
    how = f"Mean over {episodes} new episodes of {said}, which it takes by default, seed {seed}."
    different = apart(scores["mode"] | as_sampled(scores["sampled"]))
    how += "" if different is None else f" {different}"
    return Score(values, float(np.std([e.ret for e in found])), how)


def drawn(
    policy: Policy, directory: RunDirectory, out: Path, clip: bool, notes: list[str]
) -> list[tuple[str, str]]:
    """Writes the pictures that can be made. Returns their file names, each with a text."""
    pictures = []
    try:
        plot_runs([directory.path], metric := score_metric(directory.metrics()), out / CURVE)
        pictures.append((CURVE, f"{metric} over environment steps"))
    except LPOError as error:
        notes.append(f"No curve: {error}")
    if clip:
        try:
            write_clip(policy, out / CLIP)
            pictures.append((CLIP, "the policy at work"))
        except LPOError as error:
            notes.append(f"No clip: {error}")
    return pictures


def readme(policy: Policy, found: Score, pictures: list[tuple[str, str]]) -> str:
    """Returns the card: data for a hub above, text for people below."""
    c, task = policy.config, str(policy.task.get("id"))
    parts = [
        front_matter(c, task, found),
        f"# {words(c.algo)} on {words(task)}",
        f"A policy of {summary(c)}, trained with lpo (`pip install lpo-rl`). It was "
        f"trained for {policy.env_steps:,} environment steps with seed {c.seed} on "
        f"{words(task_line(policy.task))}.",
        "## Score",
        table(("metric", "value"), score_rows(found)) if found.values else "",
        found.how,
        *(f"![{text}]({file})" for file, text in pictures),
        "## Use",
        "```python\nfrom lpo import Policy\n\n"
        'policy = Policy.load("this folder")\n'
        "action, _ = policy.predict(observation)\n```",
        f"The weights are in `{CARD}.safetensors`; loading them executes no code. "
        f"`lpo train --config {OPTIONS}` repeats the training.",
        "## Options",
        table(("option", "value"), [(k, json.dumps(v)) for k, v in configs.flat(c).items()]),
        "## Versions",
        table(("package", "version"), list(store.versions().items())),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def front_matter(c: Config, task: str, found: Score) -> str:
    """Returns the data that a hub reads: YAML, of which JSON is a part."""
    tags = ["reinforcement-learning", "deep-reinforcement-learning", "lpo", c.algo, task]
    data: dict[str, Any] = {"library_name": "lpo-rl", "tags": list(dict.fromkeys(tags))}
    if "return" in found.values:
        spread = "" if found.spread is None else f" +/- {found.spread:.2f}"
        metric = {
            "type": "mean_reward",
            "name": "mean_reward",
            "value": f"{found.values['return']:.2f}{spread}",
        }
        result = {
            "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
            "dataset": {"name": task, "type": task},
            "metrics": [metric],
        }
        data["model-index"] = [{"name": c.algo, "results": [result]}]
    lines = [f"{key}: {json.dumps(value)}" for key, value in data.items()]
    return "\n".join(["---", *lines, "---"])


def summary(c: Config) -> str:
    """Returns the algorithm in words, with the parts that are not those of its row."""
    row = algorithms.get(c.algo)
    names = ("bonus", "switch", "start")
    other = [
        f"{name} `{getattr(c, name).kind}`"
        for name in names
        if getattr(c, name).kind != getattr(row, name).kind
    ]
    return ", ".join([f"`{c.algo}` ({row.summary})", *other])


def score_rows(found: Score) -> list[tuple[str, str]]:
    rows = [(name, f"{value:.4g}") for name, value in found.values.items()]
    if found.spread is not None:
        rows.insert(1, ("spread of the return over episodes", f"{found.spread:.4g}"))
    return rows


def table(head: tuple[str, str], rows: list[tuple[str, str]]) -> str:
    """Returns a Markdown table; values are shown as they are, whatever they hold."""
    lines = ["| " + " | ".join(head) + " |", "|---|---|"]
    lines += [f"| {words(name)} | {code(value)} |" for name, value in rows]
    return "\n".join(lines)


def words(text: str) -> str:
    """Returns a text as Markdown that shows it, whatever it holds."""
    return re.sub(r"([\\`*_\[\]<|~$&])", r"\\\1", " ".join(str(text).split()))


def code(text: str) -> str:
    """Returns a text as code in a Markdown table."""
    plain = " ".join(str(text).split()).replace("`", "'").replace("|", "\\|")
    return f"`{plain}`" if plain else ""
