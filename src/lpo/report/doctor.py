"""Report: why a run failed, in two lines: what its metrics say, and what to try.

The rules are in ``diagnose``; the first one that applies counts. They are for a run whose last two
evaluations are below ½ by the better of mode and samples. How often they are right is measured:
tests/report/test_doctor.py, docs/doctor.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lpo.algorithms import DEFAULT, row_name
from lpo.envs.specs import LOCOMOTION
from lpo.errors import named
from lpo.report.signs import BETA, SOLVED, Row, Score, Signs, rising, score_of, signs
from lpo.runs import record, store
from lpo.runs.costs import remedy
from lpo.runs.unit import fades, least_that_counts, unit_options
from lpo.runs.written import Options, number, options_of

DROWNED = 2 / 3  # share of the bonus in the advantage: it is twice the reward
CLIPPED = 0.3  # share of clipped updates from which on steps are too large
LEARNED = 0.05  # best score above which a reward was more than met by chance
SETTLED = 0.4  # share of rewarded steps at which a much lower score means a lesser reward
LONGEST = 16384  # the longest rollout that is proposed
TABLES = ("lpo/CombinationLock-v0", "lpo/DeepSea-v0")  # few states, one-hot
Task = Mapping[str, Any]


class Diagnosis(NamedTuple):
    """What a failed run suffers from."""

    name: str
    facts: str
    remedy: str

    def lines(self) -> list[str]:
        return [f"why    {self.name}: {self.facts}", f"try    {self.remedy}"]


def diagnose(rows: Sequence[Row], task: Task, o: Options) -> Diagnosis | None:
    """Returns what a run suffers from; None where it has not failed, or nothing can be said."""
    rows = [row for row in rows if "env_steps" in row]
    score = score_of(rows) if rows else None
    if not rows or (score is not None and score.solved):
        return stuck(score)
    s = signs(rows, task, o)
    if s.found is None and (score is None or score.values.max() <= 0):
        return None if score is None and cheaper(s, task) else no_reward(s, task, o, score)
    if s.largest is not None and 0 < s.largest < least_that_counts(o, task):
        return small(s, task, o)
    if score is None:
        return None
    if may_settle(task) and s.rate > SETTLED and score.end < s.rate / 3:
        return settled(s, score, task, o)
    if s.share is not None and s.share >= DROWNED:
        return drowned(s, o)
    if score.best >= 2 * LEARNED and score.end < score.best / 2:
        return lost(s, score, o)
    met_seldom = s.per_episode is not None and s.per_episode < 1
    if score.best < LEARNED and met_seldom and not (score.end > 0 and rising(score.values)):
        return by_chance(s, task, o)
    if rising(s.returns if score.best < LEARNED else score.values):
        return learning(s, score)
    return still(s, score, task, o)


def stuck(score: Score | None) -> Diagnosis | None:
    """A run that is solved by sampled actions alone."""
    if score is None or score.mode or score.other is None or score.other >= score.end / 2:
        return None
    facts = (
        f"the score at the end is {score.end:.2g} with sampled actions and {score.other:.2g} with "
        "the mode's"
    )
    remedy = "nothing: the saved policy samples its actions (`lpo eval` shows both)."
    return Diagnosis("stuck by its mode", facts, remedy)


def cheaper(s: Signs, task: Task) -> bool:
    """Whether a run without positive rewards and without a score ends its episodes early.

    Then costs are what there is, and it has found out how to have less of them.
    """
    horizon = task.get("horizon")
    early = s.length is not None and horizon is not None and s.length < 0.9 * horizon
    return s.costs and early and bool(len(s.returns)) and s.returns[-1] > s.returns.min()


def may_settle(task: Task) -> bool:
    """Returns whether many rewarded steps and a low score mean that a lesser reward is taken.

    Not where the best episode earns on every step: a low score is then a short one. And not where
    the reward is dense, as it is where no largest return is known or returns begin below 0.
    """
    best, horizon = task.get("max_return"), task.get("horizon")
    if best is None or task.get("min_return", 0.0) < 0:
        return False
    return horizon is None or best < horizon


def has_bonus(o: Options) -> bool:
    return o.get("bonus") != "none"


def usual(o: Options, task: Task) -> list[str]:
    """Returns the options that were found to work best, where the run has others."""
    if row_name(str(o.get("algo"))) == DEFAULT:
        ways = [] if has_bonus(o) else [f"{DEFAULT} with its bonus (without {named('bonus')} none)"]
    else:
        ways = [f"{named('algo')} {DEFAULT}"]
    finite = task.get("id") in TABLES and o.get("features") != "product"
    return [*([f"{named('preset')} finite, for tables of few states"] if finite else []), *ways]


def either(ways: Sequence[str]) -> str:
    return ", or ".join(ways[:2]) + "."


def longer(s: Signs) -> str:
    return f"more steps: `lpo resume` with --steps {2 * s.steps}"


def stronger(o: Options) -> list[str]:
    """Returns how a bonus in units of the reward comes to steer."""
    in_units = str(o.get("weighing")).startswith("sized") and number(o, "value_gain", 1.0) == 0
    more = 4 * number(o, "beta", BETA)
    return [f"{named('beta')} {more:g}: a stronger bonus"] if in_units and has_bonus(o) else []


def wider(task: Task, o: Options) -> list[str]:
    """Returns ways to explore more, the best first."""
    periodic = task.get("periodic") or o.get("angles")
    free = task.get("id") in LOCOMOTION and not periodic
    pairs = has_bonus(o) and o.get("bonus_inputs", "next") != "next"
    return [
        *([f"{named('angles')} auto: a free angle is new after every turn"] if free else []),
        *([f"{named('bonus_inputs')} next: a bonus on s′"] if pairs else []),
    ]


def no_reward(s: Signs, task: Task, o: Options, score: Score | None) -> Diagnosis:
    facts = f"no positive reward in {s.steps:,} steps"
    if s.costs and score is None:
        facts += " (where all rewards are costs this says nothing: look at the return)"
    elif s.costs:
        facts = f"every reward in {s.steps:,} steps is a cost, and no episode succeeded"
    if has_bonus(o) and s.share is not None:
        rest = " (the rest is the critic's error" + (" and costs)" if s.costs else ")")
        facts += f"; the bonus is {s.share:.0%} of the advantage"
        facts += rest if round(s.share, 2) < 1 else ""
    weak = s.share is not None and s.share < SOLVED
    if s.cost is not None:
        facts = f"every step in {s.steps:,} costs {s.cost:.3g}, and the bonus waits for a reward"
        way = f"a new run: if a success costs nothing, {remedy(s.cost)}"
        return Diagnosis("no reward yet", facts, either([way, *stronger(o)]))
    ways = [*(stronger(o) if weak else []), *usual(o, task), *wider(task, o), longer(s)]
    return Diagnosis("no reward yet", facts, either(ways))


def small(s: Signs, task: Task, o: Options) -> Diagnosis:
    assert s.largest is not None
    facts = (
        f"the largest reward is {s.largest:.3g}; none below {least_that_counts(o, task):g} counts "
        "as earned, so the bonus stays strong"
    )
    remedy = f"{unit_options(o, s.largest)}, if no larger reward is to be found."
    return Diagnosis("small reward", facts, remedy)


def rates(s: Signs) -> str:
    """Returns how often reward was met: by episodes where an episode has at most about one."""
    if s.found is None:
        return "no reward is above 0"
    begin = f"first reward by step {s.found:,}; "
    if s.length is not None and s.per_episode is not None and s.peak * s.length <= 1.5:
        of, peak, end = "episodes", f"{min(1.0, s.peak * s.length):.0%}", min(1.0, s.per_episode)
        last = f"{end:.0%}"
    else:
        of, peak, last = "steps", f"{s.peak:.2%}", f"{s.rate:.2%}"
    if peak == last:
        return begin + f"{last} of the {of} earn reward at the end"
    return begin + f"{peak} of the {of} earned reward at step {s.peak_at:,} and {last} at the end"


def drowned(s: Signs, o: Options) -> Diagnosis:
    assert s.share is not None
    facts = f"{rates(s)}; the bonus is {s.share:.0%} of the advantage"
    beta = number(o, "beta", BETA) * (1 - s.share) / s.share
    if not fades(o):
        ways = usual(o, {}) or [f"{named('weighing')} sized-fading"]
    elif 0 < s.earned < number(o, "earned_share", 0.0):
        ways = [f"{named('earned_share')} {s.earned:.2g}: the bonus fades sooner"]
    else:
        ways = []
    return Diagnosis("the bonus drowns it", facts, either([*ways, f"{named('beta')} {beta:.2g}"]))


def settled(s: Signs, score: Score, task: Task, o: Options) -> Diagnosis:
    facts = (
        f"{s.rate:.0%} of the steps earn reward at the end, and the score is {score.end:.2g} of 1"
    )
    if has_bonus(o) and s.share is not None:
        facts += f"; the bonus is {s.share:.0%} of the advantage"
    ways = [*usual(o, task), *stronger(o), *wider({}, o), longer(s)]
    return Diagnosis("settled for less", facts, either(ways))


def by_chance(s: Signs, task: Task, o: Options) -> Diagnosis:
    facts = f"{rates(s)}: too rarely to learn from"
    return Diagnosis("met by chance", facts, either([*usual(o, task), *wider(task, o), longer(s)]))


def lost(s: Signs, score: Score, o: Options) -> Diagnosis:
    facts = f"{rates(s)}; the best score was {score.best:.2g} and is {score.end:.2g} now"
    rollout = 2 * number(o, "rollout", LONGEST)
    if s.clipped > CLIPPED:
        facts += f"; {s.clipped:.0%} of the updates are clipped"
    if s.clipped > CLIPPED or rollout > LONGEST:
        slower = number(o, "learning_rate", 3e-4) / 3
        way = f"{named('learning_rate')} {slower:.1g}: smaller steps"
    else:
        way = f"{named('rollout')} {rollout:g}: less noise in each step"
    return Diagnosis("found and lost", facts, f"the best policy, which is kept; or {way}.")


def learning(s: Signs, score: Score) -> Diagnosis:
    facts = f"{rates(s)}; the score is {score.end:.2g} of 1 and rises"
    return Diagnosis("still learning", facts, f"{longer(s)}.")


def still(s: Signs, score: Score, task: Task, o: Options) -> Diagnosis:
    facts = f"{rates(s)}; the score is {score.end:.2g} of 1 and does not rise"
    ways = [*usual(o, task), *wider(task, o), f"another {named('seed')}: runs differ", longer(s)]
    return Diagnosis("stands still", facts, either(ways))


FINE = "no failure found"
FEW = 5  # runs that are shown in full
Found = tuple[record.Record, Diagnosis | None]


def examine(paths: Sequence[Path]) -> list[str]:
    """Returns what there is to say of runs: in full of a few, in groups of many."""
    found: list[Found] = []
    for run in store.load(paths):
        o = options_of(run.config, f"The configuration of {run.path}")
        task = record.declared(run.task, str(run.path))
        found.append((run, diagnose(run.rows, task, o)))
    if len(found) > FEW:
        return grouped(found)
    words = []
    for run, sick in found:
        words += [f"run    {run.path}", *(sick.lines() if sick else [f"why    {FINE}"])]
    return words


def grouped(found: Sequence[Found]) -> list[str]:
    """Returns the runs of a sweep by row, task and diagnosis: how many, which, and what to try."""
    groups: dict[tuple[str, str], dict[str, list[Found]]] = {}
    for one in found:
        task = str(record.declared(one[0].task, str(one[0].path)).get("id"))
        name = one[1].name if one[1] else FINE
        groups.setdefault((one[0].label, task), {}).setdefault(name, []).append(one)
    lines = []
    for (label, task), kinds in sorted(groups.items()):
        number = sum(map(len, kinds.values()))
        lines.append(f"{label} on {task}: {number} runs")
        for name, some in sorted(kinds.items(), key=lambda item: -len(item[1])):
            first, sick = some[0]
            lines.append(f"  {len(some):4} {name}")
            if sick is not None:
                more = f" and {len(some) - 1} more" if len(some) > 1 else ""
                lines += [f"       run  {first.name}{more}", f"       try  {sick.remedy}"]
    return lines
