"""Counts over packed sweeps that no single report makes.

    python experiments/recount.py cheetah     # PPO and LPO on SparseHalfCheetah, two grids together
    python experiments/recount.py lock        # pairs of rows on the locks that differ in one part
    python experiments/recount.py controls    # roll-in, uniform action, ramp and s′
    python experiments/recount.py switches    # how often lpo-s switches in runs that learn or stall
    python experiments/recount.py stalls      # the same with 64 seeds, and with fading by progress
    python experiments/recount.py scale       # how large the bonus is, and its share

Intervals are 95 % bootstraps over seeds, as in the reports.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from lpo.report.runs import RunData, Runs
from lpo.report.stats import estimate, improvement, iqm, rank_correlation
from lpo.report.tables import interval, short_task

HERE = Path(__file__).parent
CHEETAH = ("figure1/results/half", "ablations/results/works")
LOCKS = (5, 10, 15)
LOCOMOTION = ("figure1/results/half", "components/results/locomotion", "figure1/results/hard")


def packed(name: str) -> list[RunData]:
    return Runs([HERE / f"{name}.parquet"]).runs


def cheetah() -> str:
    """Runs of the unchanged SparseHalfCheetah at `half`, 2M steps, of both grids."""
    runs = [run for name in CHEETAH for run in packed(name) if "/SparseHalfCheetah" in run.task]
    lines = [
        "| row | seeds | final return, IQM | above half | met the reward | first reward (median) |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for label in ("ppo", "lpo"):
        cell = [run for run in runs if run.label == label]
        returns = np.array([run.final for run in cell])
        found = estimate(iqm, [returns])
        first = [met(run) for run in cell]
        lines.append(
            f"| `{label}` | {len(cell)} | {found.value:.0f} [{found.low:.0f}, {found.high:.0f}] | "
            f"{(returns > 500).sum()} | {np.isfinite(first).sum()} | {np.median(first):,.0f} |"
        )
    return "\n".join(lines)


def first_success(run: RunData) -> float:
    """Steps at the first evaluation above 30 % of the largest return; infinite without one."""
    steps, returns = run.curve(run.score_metric)
    above = returns > 0.3 * (run.max_return or 0.0)
    return float(steps[above][0]) if above.any() else np.inf


def lock() -> str:
    """What s′ and what growth change, each beside the row that differs in nothing else."""
    lines = [
        "| levels | `rnd` returns more than `eniac` | `rnd` succeeds before `eniac` | "
        "`lpo` succeeds after `eniac` |",
        "| --- | --- | --- | --- |",
    ]
    for levels in LOCKS:
        runs = packed(f"components/results/lock{levels}")

        def each(label: str, measure, runs=runs) -> list[np.ndarray]:
            return [np.array([measure(run) for run in runs if run.label == label])]

        pairs = (
            (each("rnd", lambda run: run.final), each("eniac", lambda run: run.final)),
            (each("eniac", first_success), each("rnd", first_success)),
            (each("lpo", first_success), each("eniac", first_success)),
        )
        cells = [interval(estimate(improvement, *pair)) for pair in pairs]
        lines.append(f"| {levels} | {' | '.join(cells)} |")
    return "\n".join(lines)


def controls() -> str:
    """Which row ends with the larger return."""
    pairs = [
        ("pcpg", "pcpg-reset"), ("pcpg", "pcpg-steady"), ("lpo-cover", "lpo"), ("lpo-ramp", "lpo"),
        ("lpo-s", "lpo-ramp"), ("lpo-s", "lpo"), ("lpo-next", "lpo"),
    ]  # fmt: skip
    heads = [f"`{one}` above `{other}`" for one, other in pairs]
    lines = [f"| levels | {' | '.join(heads)} |", "| --- |" + " --- |" * len(pairs)]
    for levels in LOCKS:
        names = (f"components/results/lock{levels}{end}" for end in ("", "-controls"))
        runs = [run for name in names for run in packed(name)]
        ends = {
            label: [np.array([run.final for run in runs if run.label == label])]
            for pair in pairs
            for label in pair
        }
        cells = [interval(estimate(improvement, ends[one], ends[other])) for one, other in pairs]
        lines.append(f"| {levels} | {' | '.join(cells)} |")
    return "\n".join(lines)


def span(values: Iterable[float], form: str) -> str:
    """Median (lowest, highest)."""
    x = np.array(list(values))
    return f"{np.median(x):{form}} ({x.min():{form}}, {x.max():{form}})"


def switches() -> str:
    """Steps between two policies of `lpo-s` after 500k of 2M steps, mean of each run."""
    lines = ["| body | runs | final return | steps between switches |", "| --- | --- | --- | --- |"]
    runs = packed("components/results/locomotion")
    for task in dict.fromkeys(run.task for run in runs):
        cell = [run for run in runs if run.task == task]
        each = []
        for run in cell:
            steps, count = run.curve("switch/count")
            late = steps >= 500_000
            each.append(np.ptp(steps[late]) / np.ptp(count[late]))
        ends = span((run.final for run in cell), ".0f")
        lines.append(f"| {short_task(task)} | {len(cell)} | {ends} | {span(each, ',.0f')} |")
    return "\n".join(lines)


def stalls() -> str:
    """Policies of runs that end above half and of the others, 1M steps of SparseHalfCheetah."""
    lines = [
        "| row | above half | their switches | the others | their switches | rank correlation |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    runs = [run for run in packed("figure1/results/switch") if "/SparseHalfCheetah" in run.task]
    for label in ("lpo-s", "lpo-s-progress"):
        final, count = np.array([(r.final, r.switches) for r in runs if r.label == label]).T
        above = final > 500
        cells = [f"{sum(each)} | {span(count[each], '.0f')}" for each in (above, ~above)]
        together = f"{rank_correlation(count, final):.2f}"
        lines.append(f"| `{label}` | {' | '.join(cells)} | {together} |")
    return "\n".join(lines)


def share(run: RunData, row: dict[str, float]) -> float:
    """Share of the bonus in the weighted advantage."""
    alpha, beta = run.options["alpha"], run.options["beta"]
    bonus, reward = beta * row["advantage/int_rms"], alpha * row["advantage/ext_rms"]
    return bonus / (bonus + reward)


def parity(run: RunData) -> float:
    """β with which both advantages would have the same size, in the second half of a run."""
    ext, bonus = run.late("advantage/ext_rms"), run.late("advantage/int_rms")
    assert ext is not None and bonus is not None
    return run.options["alpha"] * ext / bonus


def constant_bonus(steps: int, num_envs: int, gamma: float) -> float:
    """What a bonus of 1 comes out at: divided by the deviation of its discounted sums so far."""
    sums = (1 - gamma ** np.arange(1, steps // num_envs + 1)) / (1 - gamma)
    return float(1 / sums.std())


def scale() -> str:
    """The bonus of all runs with one, and what it weighs; the last line is a constant bonus."""
    lines = [
        "| task | runs | bonus at 10k steps | at the end | share before the first reward | "
        "β for parity, late |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    runs = [run for name in LOCOMOTION for run in packed(name) if "beta" in run.options]
    for task in dict.fromkeys(run.task for run in runs):
        cell = [run for run in runs if run.task == task]
        curves = [run.curve("bonus/mean") for run in cell]
        early = [mean[steps >= 10_000][0] for steps, mean in curves]
        before = [
            float(np.mean(found))
            for run in cell
            if (found := [share(run, r) for r in run.rows if r["env_steps"] < met(run)])
        ]
        lines.append(
            f"| {short_task(task)} | {len(cell)} | {span(early, '.4f')} | "
            f"{span((mean[-1] for _, mean in curves), '.1e')} | "
            f"{span(before, '.2f') if before else '–'} | {span(map(parity, cell), ',.0f')} |"
        )
    lines.append(f"| a constant bonus | – | {constant_bonus(10_240, 8, 0.999):.4f} | – | – | – |")
    return "\n".join(lines)


def met(run: RunData) -> float:
    return np.inf if run.first_reward is None else run.first_reward


TABLES = {
    "cheetah": cheetah,
    "lock": lock,
    "controls": controls,
    "switches": switches,
    "stalls": stalls,
    "scale": scale,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", choices=TABLES)
    print(TABLES[parser.parse_args().table]())
