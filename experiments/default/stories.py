"""Four runs and their stories: what the streams look like when a run fails, and when it does not.

    python experiments/default/stories.py              # what `lpo doctor` says of them
    python experiments/default/stories.py build/pictures   # and the picture

Above, the score of the evaluations and the share of steps that earn reward. Below, the share of the
bonus in the advantage that the policy follows; above ⅔ it drowns the reward.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lpo.report.doctor import DROWNED, FINE, SCORES, Diagnosis, bonus_share, diagnose
from lpo.report.figures import panel, plain
from lpo.report.runs import RunData, Runs
from lpo.report.tables import short_task

EXPERIMENTS = Path(__file__).parents[1]
STORIES = (
    ("figure2/results/steps200k", "lpo-raw-MountainCarContinuous-v0-s0"),
    ("default/results/hard", "ent-SparseHalfCheetah-v0-hard-s0"),
    ("default/results/lost", "rnd-CombinationLock-v0-s17"),
    ("default/results/first", "lpo-w-SparseHopper-v0-s0"),
)


def told() -> list[tuple[RunData, Diagnosis | None]]:
    """Returns the four runs, each with what it suffers from."""
    runs = [
        next(run for run in Runs([EXPERIMENTS / f"{file}.parquet"]).runs if run.name == name)
        for file, name in STORIES
    ]
    return [(run, diagnose(run.rows, run.description, run.options)) for run in runs]


def words() -> str:
    lines = []
    for run, sick in told():
        lines.append(f"run    {run.algo} on {short_task(run.task)}")
        lines += sick.lines() if sick else [f"why    {FINE}"]
    return "\n".join(lines) + "\n"


def draw(out: Path, name: str = "stories") -> None:
    stories = told()
    with panel(out, name, 3.6, columns=len(stories), rows=2) as axes:
        axes[0, 0].figure.set_figwidth(7.6)
        for (above, below), (run, sick) in zip(axes.T, stories, strict=True):
            known = [name for name in SCORES if run.curve(name)[1].size]
            metric = known[0] if known else run.score_metric
            steps, scores = run.curve(metric)
            above.plot(steps / steps[-1], scores, color="#1f6fb4", label="score")
            at, rates = run.curve("rollout/reward_rate")
            above.plot(at / steps[-1], rates, color="#c77c11", lw=1.2, label="rewarded steps")
            rows = [row for row in run.rows if "advantage/int_rms" in row]
            shares = [bonus_share([row], run.options) for row in rows]
            below.plot([row["env_steps"] / steps[-1] for row in rows], shares, color="#444")
            below.axhline(DROWNED, color="#bbb", lw=1, ls="--")
            task = plain(short_task(run.task)).replace(" (", "\n(")
            story = sick.name if sick else "as it should be"
            above.set_title(f"{story}: {run.algo}\n{task}", fontsize=7)
            below.set_ylim(-0.03, 1.05)
        axes[0, 0].set_ylabel("share", fontsize=8)
        axes[1, 0].set_ylabel("bonus in the advantage", fontsize=8)
        figure = axes[0, 0].figure
        figure.supxlabel("share of the run", fontsize=9)
        figure.legend(
            *axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=8
        )


if __name__ == "__main__":
    print(words(), end="")
    for folder in map(Path, sys.argv[1:]):
        folder.mkdir(parents=True, exist_ok=True)
        draw(folder)
