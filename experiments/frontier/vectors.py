"""Should the default on vectors take the sensitivity of the episode (RND × E3B)?

    python experiments/frontier/vectors.py build/vectors          # a grid for each task
    lpo sweep build/vectors/sea.toml --device cpu --out runs/vectors/sea
    lpo pack runs/vectors/* --metrics eval rollout/reward_rate --no-policies \
        --out experiments/frontier/results/vectors.parquet
    python experiments/frontier/vectors.py                        # the table of the page

Fixed before the first run. Tasks: six development tasks. Seeds: 900 and up, which no other sweep
has. Score of a run: the mean of its evaluations, sampled, over all of its budget, so that early and
kept both count. The default takes the factor if, over all six tasks, a run with it beats a run
without it with a probability whose interval is above one half, and on no task with one whose
interval is below. Otherwise, or where a task was not run, it does not.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from lpo.report.runs import RunData, Runs
from lpo.report.stats import estimate, improvement, iqm
from lpo.report.tables import interval, short_task

PACKED = Path(__file__).parent / "results" / "vectors.parquet"
TASKS = {  # env, steps, and a line that its grid has
    "sea": ("lpo/DeepSea-v0", 400_000, "env_kwargs = { size = 20 }"),
    "lock": ("lpo/CombinationLock-v0", 300_000, "env_kwargs = { length = 10 }"),
    "maze": ("lpo/PointMazeLarge-v0", 200_000, ""),
    "hopper": ("lpo/SparseHopper-v0", 200_000, 'thresholds = ["half"]'),
    "swing-up": ("lpo/SwingUp-v0", 300_000, ""),
    "pole": ("CartPole-v1", 150_000, ""),
}
GRID = """name = "vectors-{name}"
envs = ["{env}"]
algos = ["lpo-w"]
seeds = {seeds}
steps = {steps}
{top}

[overrides]
eval_every = {every}
eval_episodes = 16
checkpoint_every = 10_000_000
{more}

[variants.default]
beta = 0.25

[variants.sensitivity]
episode = "sensitivity"
"""
SEEDS = list(range(900, 916))
METRIC = "eval/sampled_normalized_return"


def write(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, (env, steps, more) in TASKS.items():
        top, more = (more, "") if more.startswith("thresholds") else ("", more)
        text = GRID.format(
            name=name, env=env, seeds=SEEDS, steps=steps, every=steps // 10, top=top, more=more
        )
        (out / f"{name}.toml").write_text(text)


def score(run: RunData) -> float:
    return float(run.curve(METRIC)[1].mean())


def table(runs: Runs) -> str:
    """Returns the scores of both rows on each task and the chance that the factor helps."""
    lines = ["| task | runs | default | sensitivity | chance that sensitivity is above |"]
    lines += ["|---|---|---|---|---|"]
    both: list[list[np.ndarray]] = [[], []]
    for task in runs.tasks:
        cells = [runs.cell(task, label) for label in ("sensitivity", "default")]
        scores = [np.array([score(run) for run in cell]) for cell in cells]
        for found, new in zip(both, scores, strict=True):
            found.append(new)
        shown = [interval(estimate(iqm, [x]), ".2f") for x in scores[::-1]]
        chance = interval(estimate(improvement, *([x] for x in scores)), ".2f")
        lines += [f"| {short_task(task)} | {len(cells[0])} | {shown[0]} | {shown[1]} | {chance} |"]
    chance = interval(estimate(improvement, *both), ".2f")
    return "\n".join([*lines, f"| all | | | | {chance} |"])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write(Path(sys.argv[1]))
    else:
        print(table(Runs([PACKED])))
