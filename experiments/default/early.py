"""The third search for the default: what its first steps do, and how large PPO's steps are.

    python experiments/default/early.py first build/early        # a grid for each task
    python experiments/default/early.py second build/late        # and so on
    lpo sweep build/early/cheetah.toml --device gpu --out runs/early/cheetah
    python experiments/default/search.py scores runs/early/* > first.jsonl
    python experiments/default/early.py pack first=first.jsonl second=second.jsonl
    python experiments/default/early.py table                    # the tables of docs/origin.md

Development tasks, with seeds that no other grid has. The first round has random draws around the
default, so that each value of an option is met with many values of the others, and a few named
settings; `large` has the same draws with larger rollouts and minibatches. The second has all values
of four options together. The third has a λ for each stream, the fourth a target for the KL of an
update. The fifth has both on README's first command. The sixth has the reward's λ and β together on
all development tasks; the setting with the largest mean over the tasks goes on to the tasks that
nothing was chosen by, a rule that was fixed before its runs. The seventh looks for what helps at 4
m/s besides. Up to here the reward's critic has the λ of the policy. The eighth is the sixth with
its own, and the same rule. Its winner lost on SparseWalker2d, whose bodies fall. So the ninth has
SparseWalker2d at two other speeds and a smaller DoorKey besides. Its settings are the policy's λ,
the discount γ, and smaller updates by a target for KL, alone or with an entropy term. The rule is
the same once more. Walker2d-v5, whose reward is dense, is looked at beside it.

The tenth has a smallest noise of the policy and a learning rate that falls, beside λ and γ. Two
tasks with a dense reward count in its mean, CartPole-v1 and Walker2d-v5, whose returns are divided
by 5,000. Where actions are discrete a policy has no such noise: one run stands for all sizes of it.
The rule was fixed before its runs: the largest mean over the eleven tasks. The eleventh looks
around its winner, at more noise than that above all, by the same rule.

`bonus_wait`, which gives the first steps the weight β′, is an option of commit de64313 alone. There
`gae_lambda` is the λ of both streams.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from confirm import DRAWN, ORIGINAL
from search import grid_text, pack, write_grids

PACKED = Path(__file__).parent / "results" / "early.parquet"
SEED, DRAWS = 3, 54
Options = dict[str, float]
CHOICES: dict[str, list[float]] = {
    "bonus_wait": [0, 50_000, 100_000],
    "learning_rate": [1e-4, 2e-4, 3e-4],
    "entropy_coef": [0.0, 0.001, 0.003],
    "clip": [0.1, 0.2],
    "gae_lambda": [0.9, 0.95],
    "gamma_ext": [0.98, 0.99],
    "advantage_floor": [0.05, 0.15],
    "beta": [0.1, 0.25, 0.5],
    "value_gain": [0.0, 1.0],
}
NAMED: dict[str, Options] = {
    "default": {},
    "wait-25": {"bonus_wait": 25_000},
    "wait-50": {"bonus_wait": 50_000},
    "wait-100": {"bonus_wait": 100_000},
    "weak": {"beta": 0.002},
    "no-bonus": {"beta": 0.0, "beta_earned": 0.0},
    "slow": {"learning_rate": 1e-4},
    "wait-slow": {"bonus_wait": 50_000, "learning_rate": 1e-4},
    "noisy": {"entropy_coef": 0.003},
    "wait-noisy": {"bonus_wait": 50_000, "entropy_coef": 0.003},
}
TOGETHER: dict[str, list[float]] = {
    "bonus_wait": [0, 25_000],
    "gae_lambda": [0.8, 0.9, 0.95],
    "learning_rate": [3e-4, 5e-4],
    "clip": [0.2, 0.3],
}
APART: dict[str, Options] = {
    "default": {},
    "both80": {"gae_lambda": 0.8, "lambda_int": 0.8},
    "ext90": {"gae_lambda": 0.9},
    "ext80": {"gae_lambda": 0.8},
    "ext70": {"gae_lambda": 0.7},
    "ext80-fast": {"gae_lambda": 0.8, "learning_rate": 5e-4},
    "ext80-strong": {"gae_lambda": 0.8, "beta": 0.5},
}
TARGETS: dict[str, Options] = {
    "kl-01": {"kl_target": 0.01},
    "kl-02": {"kl_target": 0.02},
    "kl-01-both90": {"kl_target": 0.01, "gae_lambda": 0.9, "lambda_int": 0.9},
    "kl-02-both90": {"kl_target": 0.02, "gae_lambda": 0.9, "lambda_int": 0.9},
}
BOTH: dict[str, Options] = {
    "default": {},
    "kl-01": {"kl_target": 0.01},
    "kl-02": {"kl_target": 0.02},
    "ext90": {"gae_lambda": 0.9},
    "ext80": {"gae_lambda": 0.8},
    "ext80-kl-02": {"gae_lambda": 0.8, "kl_target": 0.02},
}
REACH: dict[str, list[float]] = {
    "gae_lambda": [0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95],
    "beta": [0.25, 0.5],
}
BESIDE: dict[str, Options] = {
    "ext70-kl-02": {"gae_lambda": 0.7, "kl_target": 0.02},
    "ext80-kl-02": {"gae_lambda": 0.8, "kl_target": 0.02},
    "ext70-kl-05": {"gae_lambda": 0.7, "kl_target": 0.05},
    "ext80-kl-05": {"gae_lambda": 0.8, "kl_target": 0.05},
    "ext70-slow": {"gae_lambda": 0.7, "learning_rate": 2e-4},
    "ext70-floor": {"gae_lambda": 0.7, "advantage_floor": 0.05},
    "ext70-clip": {"gae_lambda": 0.7, "clip": 0.1},
    "ext70-noisy": {"gae_lambda": 0.7, "entropy_coef": 0.001},
}
POLICY: dict[str, list[float]] = {
    "gae_lambda": [0.5, 0.6, 0.7, 0.8],
    "beta": [0.25, 0.5],
    "value_lambda": [0.95],
}
AHEAD: dict[str, list[float]] = {
    "gae_lambda": [0.6, 0.7, 0.8, 0.9, 0.95],
    "gamma_ext": [0.99, 0.995],
}
CAREFUL: dict[str, Options] = {  # smaller updates, beside some of these
    "k02": {"kl_target": 0.02},
    "k05": {"kl_target": 0.05},
    "k02e1": {"kl_target": 0.02, "entropy_coef": 0.001},
}
FALLING: dict[str, list[float]] = {
    "gae_lambda": [0.6, 0.8, 0.9],
    "gamma_ext": [0.99, 0.995],
    "learning_rate_end": [1.0, 0.1],
    "log_std_min": [-20.0, -1.0, -0.5],
}
AROUND: list[tuple[float, float, list[float]]] = [  # λ, γ and the smallest noises beside them
    (0.8, 0.995, [-20.0, -0.5, -0.35, -0.2, 0.0]),
    (0.8, 0.998, [-20.0, -0.5, -0.2]),
    (0.7, 0.995, [-20.0, -0.5, -0.2]),
]
LARGE = {"rollout": 16_384, "batch_size": 256, "num_envs": 32}
CHEETAH, HOPPER = "lpo/SparseHalfCheetah-v0", "lpo/SparseHopper-v0"
LOCK, SEA = "lpo/CombinationLock-v0", "lpo/DeepSea-v0"
HALF, FOUR = {"threshold": "half"}, {"threshold": 4.0}
LOCK10, SEA20 = {"env_kwargs": {"length": 10}}, {"env_kwargs": {"size": 20}}
# name: (task, steps, number of seeds), and further options of the grid
Tasks = dict[str, tuple[str, int, int, dict[str, Any]]]
FIRST: Tasks = {
    "cheetah": (CHEETAH, 1_000_000, 8, HALF),
    "cheetah4": (CHEETAH, 2_500_000, 4, FOUR),
    "cheetah4-large": (CHEETAH, 2_500_000, 4, FOUR | LARGE),
    "hopper": (HOPPER, 600_000, 4, HALF),
    "lock": (LOCK, 300_000, 8, LOCK10),
    "maze": ("lpo/PointMaze-v0", 300_000, 8, {}),
    "sea": (SEA, 600_000, 4, SEA20),
}
SECOND: Tasks = {
    "cheetah": (CHEETAH, 800_000, 12, HALF),
    "cheetah4": (CHEETAH, 1_600_000, 8, FOUR),
    "hopper": (HOPPER, 600_000, 4, HALF),
    "lock": (LOCK, 300_000, 12, LOCK10),
    "sea": (SEA, 500_000, 6, SEA20),
}
THIRD: Tasks = {
    "cheetah": (CHEETAH, 800_000, 16, HALF),
    "hopper": (HOPPER, 600_000, 8, HALF),
    "lock": (LOCK, 300_000, 12, LOCK10),
    "maze": ("lpo/PointMaze-v0", 300_000, 8, {}),
    "sea": (SEA, 500_000, 8, SEA20),
}
FOURTH: Tasks = {"cheetah4": (CHEETAH, 2_000_000, 8, FOUR)}
FIFTH: Tasks = {"hopper": (HOPPER, 200_000, 16, HALF)}
SIXTH: Tasks = {
    "cheetah": (CHEETAH, 800_000, 16, HALF),
    "cheetah4": (CHEETAH, 2_000_000, 8, FOUR),
    "hopper": (HOPPER, 200_000, 16, HALF),
    "lock": (LOCK, 300_000, 16, LOCK10),
    "maze": ("lpo/PointMaze-v0", 300_000, 16, {}),
    "sea": (SEA, 500_000, 16, SEA20),
}
SEVENTH: Tasks = {"cheetah4": (CHEETAH, 2_000_000, 8, FOUR)}
SLOW = {"threshold": 1.5}
EIGHTH: Tasks = SIXTH | {"cheetah4": (CHEETAH, 1_400_000, 8, FOUR)}
WALKER, QUICK = "lpo/SparseWalker2d-v0", {"threshold": 3.0}
NINTH: Tasks = {
    "cheetah": (CHEETAH, 800_000, 12, HALF),
    "cheetah4": (CHEETAH, 1_400_000, 8, FOUR),
    "hopper": (HOPPER, 200_000, 16, HALF),
    "walker": (WALKER, 1_000_000, 10, SLOW),
    "walker3": (WALKER, 1_400_000, 8, QUICK),
    "lock": (LOCK, 300_000, 12, LOCK10),
    "maze": ("lpo/PointMaze-v0", 300_000, 8, {}),
    "sea": (SEA, 500_000, 12, SEA20),
    "door": ("MiniGrid-DoorKey-6x6-v0", 300_000, 8, DRAWN),
}
DENSE: Tasks = {"dense": ("Walker2d-v5", 1_000_000, 6, {})}
TENTH: Tasks = {
    "cheetah": (CHEETAH, 800_000, 8, HALF),
    "cheetah45": (CHEETAH, 1_600_000, 8, {"threshold": 4.5}),
    "hopper": (HOPPER, 200_000, 12, HALF),
    "walker": (WALKER, 1_000_000, 8, SLOW),
    "walker3": (WALKER, 1_600_000, 8, QUICK),
    "maze": ("lpo/PointMaze-v0", 300_000, 8, {}),
    "dense": ("Walker2d-v5", 1_000_000, 6, {}),
}
ELEVENTH: Tasks = {
    "cheetah": (CHEETAH, 800_000, 8, HALF),
    "cheetah45": (CHEETAH, 1_400_000, 12, {"threshold": 4.5}),
    "hopper": (HOPPER, 200_000, 16, HALF),
    "walker": (WALKER, 1_000_000, 8, SLOW),
    "walker3": (WALKER, 1_400_000, 12, QUICK),
    "maze": ("lpo/PointMaze-v0", 300_000, 8, {}),
    "dense": ("Walker2d-v5", 1_000_000, 8, {}),
}
DISCRETE: Tasks = {
    "lock": (LOCK, 300_000, 16, LOCK10),
    "sea": (SEA, 500_000, 16, SEA20),
    "door": ("MiniGrid-DoorKey-6x6-v0", 300_000, 10, DRAWN),
    "pole": ("CartPole-v1", 300_000, 16, {}),
}
NOISY = ("tenth", "eleventh")  # rounds with a smallest noise
LARGEST = {"dense": 5000.0}  # return that counts as 1


def draws() -> dict[str, Options]:
    """Returns the options of each draw; every value of an option has the same number of draws."""
    rng, columns = random.Random(SEED), {}
    for name, values in CHOICES.items():
        columns[name] = values * (DRAWS // len(values))
        rng.shuffle(columns[name])
    return {f"e{i:02d}": {n: c[i] for n, c in columns.items()} for i in range(DRAWS)}


def combined(choices: dict[str, list[float]], name: Callable[..., str]) -> dict[str, Options]:
    """Returns all values of some options together; ``name`` makes a label of them."""
    return {
        name(*values): dict(zip(choices, values, strict=True))
        for values in itertools.product(*choices.values())
    }


def together() -> dict[str, Options]:
    """Returns the settings of the second round."""
    return combined(
        TOGETHER,
        lambda wait, gae, rate, clip: (
            f"w{wait // 1000:.0f}l{100 * gae:.0f}r{1e4 * rate:.0f}c{10 * clip:.0f}"
        ),
    )


def reach() -> dict[str, Options]:
    """Returns the settings of the sixth round."""
    return combined(REACH, lambda gae, beta: f"l{100 * gae:.0f}b{100 * beta:.0f}")


def policy() -> dict[str, Options]:
    """Returns the settings of the eighth round, two of them with a critic that looks farther."""
    rows = combined(POLICY, lambda gae, beta, _: f"p{100 * gae:.0f}b{100 * beta:.0f}")
    far = {f"{label}v99": rows[label] | {"value_lambda": 0.99} for label in ("p60b50", "p70b50")}
    return rows | far


def ahead() -> dict[str, Options]:
    """Returns the settings of the ninth round; `q95g990` is the default as it was."""
    rows = combined(AHEAD, lambda gae, gamma: f"q{100 * gae:.0f}g{1000 * gamma:.0f}")
    both = [*itertools.product(("q60g990", "q60g995", "q80g990", "q80g995"), CAREFUL)]
    both += [("q95g990", "k02"), ("q95g995", "k02")]
    return rows | {f"{label}{more}": rows[label] | CAREFUL[more] for label, more in both}


def noisy(choices: dict[str, list[float]]) -> dict[str, Options]:
    """Returns settings of the last two rounds: λ, γ, what is left of the learning rate, noise."""

    def name(gae: float, gamma: float, end: float, noise: float) -> str:
        least = f"n{abs(100 * noise):.0f}" if noise > -20 else ""
        return f"q{100 * gae:.0f}g{1000 * gamma:.0f}{'f' if end < 1 else ''}{least}"

    return {label: row | {"kl_target": 0.02} for label, row in combined(choices, name).items()}


def falling() -> dict[str, Options]:
    """Returns the settings of the tenth round; `q80g990` is the default as it was."""
    return noisy(FALLING)


def around() -> dict[str, Options]:
    """Returns the settings of the eleventh round; `q80g995n50` won the tenth."""
    rows: dict[str, Options] = {}
    for gae, gamma, noises in AROUND:
        values = ([gae], [gamma], [1.0], noises)
        rows |= noisy(dict(zip(FALLING, values, strict=True)))
    return rows


def same_noise(label: str) -> str:
    """Returns the setting of the last rounds that stands for one with a smallest noise."""
    return label.partition("n")[0]


ROUNDS: dict[str, tuple[Tasks, dict[str, Options], int]] = {  # tasks, rows, the first seed
    "first": (FIRST, NAMED | draws(), 700),
    "second": (SECOND, together(), 720),
    "third": (THIRD, APART, 740),
    "fourth": (FOURTH, TARGETS, 700),
    "fifth": (FIFTH, BOTH, 760),
    "sixth": (SIXTH, reach(), 780),
    "seventh": (SEVENTH, BESIDE, 780),
    "eighth": (EIGHTH, policy(), 800),
    "ninth": (NINTH | DENSE, ahead(), 840),
    "tenth": (TENTH | DISCRETE, falling(), 870),
    "eleventh": (ELEVENTH | DISCRETE, around(), 900),
}


def grids(turn: str) -> dict[str, str]:
    """Returns the grids of a round as TOML."""
    tasks, rows, seed = ROUNDS[turn]
    texts = {}
    for name, (env, steps, seeds, options) in tasks.items():
        top: dict[str, Any] = {"name": f"early-{name}", "envs": [env], "steps": steps}
        top["seeds"] = list(range(seed, seed + seeds))
        options = {"eval_every": steps // 20} | options
        if "threshold" in options:
            top["thresholds"] = [options.pop("threshold")]
        variants = {
            label: {"algo": "lpo-w", **ORIGINAL, **one_lambda(turn, row)}
            for label, row in rows.items()
            if turn not in NOISY or name not in DISCRETE or label == same_noise(label)
        }
        texts[name] = grid_text(top, options, variants)
    return texts


def one_lambda(turn: str, row: Options) -> Options:
    """Returns a row whose critic has the policy's λ, as it was in these rounds."""
    if turn not in ("third", "fourth", "fifth", "sixth", "seventh") or "gae_lambda" not in row:
        return row
    return row | {"value_lambda": row["gae_lambda"]}


def table() -> str:
    """Returns the mean scores by option of two rounds, and those of the named settings."""
    import pyarrow.parquet as pq

    rows = pq.read_table(PACKED).to_pylist()
    parts = [
        by_option(rows, "first", CHOICES, draws()),
        by_setting(rows, "first", NAMED),
        by_option(rows, "second", TOGETHER, together()),
        by_setting(rows, "third", APART),
        by_setting(rows, "fourth", TARGETS),
        by_setting(rows, "fifth", BOTH),
        by_setting(rows, "sixth", reach(), mean=True),
        by_setting(rows, "seventh", BESIDE),
        by_setting(rows, "eighth", policy(), mean=True),
        by_setting(rows, "ninth", ahead(), mean=True, beside=DENSE),
        by_option(rows, "tenth", FALLING, falling()),
        by_setting(rows, "tenth", falling(), mean=True),
        by_setting(rows, "eleventh", around(), mean=True),
    ]
    return "\n\n".join(parts) + "\n"


def scores(rows: list[dict[str, Any]], turn: str, task: str, labels: list[str]) -> np.ndarray:
    if turn in NOISY and task in DISCRETE:
        labels = [same_noise(label) for label in labels]
    own = (r for r in rows if (r["round"], r["task"]) == (turn, task))
    return np.array([r["score"] for r in own if r["options"] in labels]) / LARGEST.get(task, 1)


def by_option(
    rows: list[dict[str, Any]], turn: str, choices: dict[str, list[float]], of: dict[str, Options]
) -> str:
    tasks = ROUNDS[turn][0]
    lines = [f"| option | values | {' | '.join(tasks)} |", "|---|---|" + "---|" * len(tasks)]
    for name, values in choices.items():
        labels = [[label for label, o in of.items() if o[name] == value] for value in values]
        means = ([scores(rows, turn, task, own).mean() for own in labels] for task in tasks)
        cells = (", ".join(f"{mean:.2f}" for mean in of_task) for of_task in means)
        lines.append(f"| `{name}` | {', '.join(f'{v:g}' for v in values)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def by_setting(
    rows: list[dict[str, Any]],
    turn: str,
    settings: dict[str, Options],
    mean: bool = False,
    beside: Iterable[str] = (),
) -> str:
    """Returns the mean score of each setting, and how many of its runs end above half.

    With ``mean`` also the mean over the tasks, by which the default was chosen; tasks ``beside``
    do not count.
    """
    tasks = [name for name in ROUNDS[turn][0] if name not in beside]
    names = [*tasks, *(["mean"] if mean else [])]
    lines = [f"| setting | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for label in settings:
        found = [scores(rows, turn, task, [label]) for task in tasks]
        cells = [f"{x.mean():.2f}, {(x > 0.5).sum()} of {x.size}" if x.size else "–" for x in found]
        if mean:
            cells.append(f"{np.mean([x.mean() for x in found]):.3f}")
        lines.append(f"| `{label}` | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "pack":
        pack(rest, PACKED)
    elif what == "table":
        print(table(), end="")
    else:
        write_grids(Path(rest[0]), grids(what))
