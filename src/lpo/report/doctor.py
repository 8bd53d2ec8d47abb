"""Report: why a run failed, in two lines: what its metrics say, and what to try.

The rules are in ``diagnose``. They are for a run whose last score is below ½, or the mean of its
last five; two of them also for a run without a score. The first one that applies counts. Peaks are
means over five rollouts, the end is the last tenth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lpo.envs.specs import LOCOMOTION
from lpo.errors import named
from lpo.runs import record, store
from lpo.runs.unit import fades, least_that_counts, unit_options
from lpo.runs.written import Options, number, options_of

SOLVED = 0.5  # share of episodes, or of the largest return, from which on a run has not failed
DROWNED = 2 / 3  # share of the bonus in the advantage: it is twice the reward
CLIPPED = 0.3  # share of clipped updates from which on steps are too large
ALPHA, BETA = 2.0, 1.0  # where a file does not state the weights
IN_UNITS = ("sized", "sized-fading", "balanced", "balanced-fading")  # weighings of a β in units
LEARNED = 0.05  # share of rewarded steps above which a reward was more than met by chance
WINDOW = 5  # rows, for peaks; evaluations, for the final score

SCORES = (  # the first that a run has; the return first, as in the tables of results
    "eval/normalized_return",
    "eval/success",
    "rollout/normalized_return",
    "rollout/success",
)
Row = Mapping[str, Any]


class Diagnosis(NamedTuple):
    """What a failed run suffers from."""

    name: str
    facts: str
    remedy: str

    def lines(self) -> list[str]:
        return [f"why    {self.name}: {self.facts}", f"try    {self.remedy}"]


class Signs(NamedTuple):
    """The numbers that a diagnosis rests on."""

    steps: int
    found: int | None  # steps at the end of the first rollout with a positive reward
    largest: float | None  # reward; None where no row tells it
    costs: bool  # some returns are below 0
    peak: float  # largest share of rewarded steps, over some rollouts
    peak_at: int
    final: float  # of the last tenth
    best: float  # largest score
    share: float | None  # of the bonus in the advantage, late; None where no row tells it
    earned: float  # recent share of steps that earn reward, as a fading bonus counts it
    clipped: float  # share of clipped updates, late


def scores(rows: Sequence[Row]) -> list[float]:
    """Returns the normalised returns or success rates of a run; none where the task has neither."""
    name = next((name for name in SCORES if any(name in row for row in rows)), None)
    return [row[name] for row in rows if name in row] if name else []


def signs(rows: Sequence[Row], o: Options) -> Signs:
    """Returns the numbers behind a diagnosis. ``rows`` must not be empty."""
    rate = np.array([row.get("rollout/reward_rate", 0.0) for row in rows])
    steps = np.array([row["env_steps"] for row in rows], int)
    width = min(WINDOW, len(rate))
    smooth = np.convolve(rate, np.ones(width) / width, "valid")
    rewarded = np.flatnonzero(rate > 0)
    late = rows[len(rows) // 2 :]
    clipped = [row.get("policy/clip_fraction", 0.0) for row in late]
    largest = [row["rollout/reward_max"] for row in rows if "rollout/reward_max" in row]
    return Signs(
        steps=int(steps[-1]),
        found=int(steps[rewarded[0]]) if rewarded.size else None,
        largest=max(largest, default=None),
        costs=any(row.get("rollout/return", 0.0) < 0 for row in rows),
        peak=float(smooth.max()),
        peak_at=int(steps[int(smooth.argmax()) + width - 1]),
        final=float(rate[-max(width, len(rate) // 10) :].mean()),
        best=max(scores(rows), default=0.0),
        share=bonus_share(late, o),
        earned=float(np.median([row.get("rollout/earned", 0.0) for row in late])),
        clipped=float(np.mean(clipped)),
    )


def bonus_share(rows: Sequence[Row], o: Options) -> float | None:
    """Returns the median share of the bonus in the weighted advantage.

    Rollouts with reward decide where there are any: before, the reward advantage is noise.
    """
    rows = [row for row in rows if "advantage/int_rms" in row]
    rows = [row for row in rows if row.get("rollout/reward_rate", 0.0) > 0] or rows
    alpha, beta = number(o, "alpha", ALPHA), number(o, "beta", BETA)
    shares = []
    for row in rows:
        bonus = row.get("advantage/int_weight", beta) * row["advantage/int_rms"]
        reward = row.get("advantage/ext_weight", alpha) * row["advantage/ext_rms"]
        shares.append(bonus / max(bonus + reward, 1e-12))
    return float(np.median(shares)) if shares else None


def diagnose(rows: Sequence[Row], task: Mapping[str, Any], o: Options) -> Diagnosis | None:
    """Returns what a run suffers from; None where it has not failed, or nothing can be said."""
    rows = [row for row in rows if "env_steps" in row]
    known = scores(rows)
    late = float(np.mean(known[-WINDOW:])) if known else 0.0
    reached = min(late, known[-1]) if known else None
    if not rows or (reached is not None and reached >= SOLVED):
        return None
    s = signs(rows, o)
    if s.found is None and not s.best:
        return no_reward(s, task, o, scored=bool(known))
    if counts_nothing(s, task, o):
        return small(s, task, o)
    if reached is None:
        return None
    if may_settle(task) and s.final > SOLVED and reached < s.final / 4:
        return settled(s, reached, o)
    if s.share is not None and s.share >= DROWNED:
        return drowned(s, o)
    if max(s.peak, s.best) < LEARNED:
        return by_chance(s, task, o)
    fell = late < s.best / 2 if s.best >= SOLVED else s.final < s.peak / 2
    if fell:
        return lost(s, late, o)
    return learning(s)


def may_settle(task: Mapping[str, Any]) -> bool:
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


def no_reward(s: Signs, task: Mapping[str, Any], o: Options, scored: bool) -> Diagnosis:
    facts = f"no positive reward in {s.steps:,} steps"
    if s.costs and not scored:
        facts += " (where all rewards are costs this says nothing: look at the return)"
    if not has_bonus(o):
        return Diagnosis("no reward yet", facts, f"a bonus for what is new: {named('algo')} lpo-w.")
    if s.share is not None:
        rest = ", the rest is the critic's error" + (" and costs" if s.costs else "")
        shown = f"{s.share:.0%}"
        facts += f"; the bonus is {shown} of the advantage" + (rest if shown != "100%" else "")
    ways = [stronger(o)] if s.share is not None and s.share < SOLVED else []
    return Diagnosis("no reward yet", facts, either([*ways, *wider(task, o), longer(s)]))


def stronger(o: Options) -> str:
    """Returns how the bonus comes to steer."""
    if o.get("weighing") in IN_UNITS and number(o, "value_gain", 1.0) == 0:
        return f"{named('beta')} {4 * number(o, 'beta', BETA):g}: a stronger bonus"
    return f"{named('weighing')} sized {named('value_gain')} 0: the bonus alone steers then"


def counts_nothing(s: Signs, task: Mapping[str, Any], o: Options) -> bool:
    """Returns whether all rewards are too small to count as earned, and perhaps all there are."""
    return s.largest is not None and 0 < s.largest < least_that_counts(o, task)


def small(s: Signs, task: Mapping[str, Any], o: Options) -> Diagnosis:
    assert s.largest is not None
    facts = (
        f"the largest reward is {s.largest:.3g}; none below {least_that_counts(o, task):g} counts "
        "as earned, so the bonus stays strong"
    )
    remedy = f"{unit_options(o, s.largest)}, if no larger reward is to be found."
    return Diagnosis("small reward", facts, remedy)


def either(ways: Sequence[str]) -> str:
    return ", or ".join(ways[:2]) + "."


def wider(task: Mapping[str, Any], o: Options) -> list[str]:
    """Returns ways to explore more, the best first."""
    free = task.get("id") in LOCOMOTION and not task.get("periodic")
    pairs = o.get("bonus_inputs", "next") != "next"
    return [
        *([f"{named('periodic')} auto: a free angle is new after every turn"] if free else []),
        *([f"{named('bonus_inputs')} next: a bonus on s′"] if pairs else []),
    ]


def longer(s: Signs) -> str:
    return f"more steps: `lpo resume` with --steps {2 * s.steps}"


def rates(s: Signs) -> str:
    if s.found is None:
        return f"no reward is above 0, and the best score was {s.best:.2g}"
    return (
        f"first reward by step {s.found:,}; {s.peak:.2%} of the steps earned reward at step "
        f"{s.peak_at:,} and {s.final:.2%} at the end"
    )


def drowned(s: Signs, o: Options) -> Diagnosis:
    assert s.share is not None
    facts = f"{rates(s)}; the bonus is {s.share:.0%} of the advantage"
    beta = number(o, "beta", BETA) * (1 - s.share) / s.share
    return Diagnosis(
        "the bonus drowns it", facts, either([*sooner(s, o), f"{named('beta')} {beta:.2g}"])
    )


def sooner(s: Signs, o: Options) -> list[str]:
    """Returns how the bonus comes to fade, where that would help."""
    if not fades(o):
        return [f"{named('weighing')} sized-fading"]
    if 0 < s.earned < number(o, "earned_share", 0.0):
        return [f"{named('earned_share')} {s.earned:.2g}: the bonus fades sooner"]
    return []


def settled(s: Signs, reached: float, o: Options) -> Diagnosis:
    facts = (
        f"{s.final:.0%} of the steps earn reward at the end, and the score is {reached:.2g} of 1"
    )
    if not has_bonus(o):
        return Diagnosis("settled for less", facts, f"a bonus: {named('algo')} lpo-w.")
    if s.share is not None:
        facts += f"; the bonus is {s.share:.0%} of the advantage"
    more = f"{named('beta')} {4 * number(o, 'beta', BETA):g}"
    ways = [more] if s.share is None or s.share < DROWNED else []
    return Diagnosis("settled for less", facts, either([*ways, *wider({}, o), longer(s)]))


def by_chance(s: Signs, task: Mapping[str, Any], o: Options) -> Diagnosis:
    facts = f"{rates(s)}: too rarely to learn from"
    if not has_bonus(o):
        return Diagnosis("met by chance", facts, f"a bonus: {named('algo')} lpo-w.")
    balance = f"{named('weighing')} sized-fading: the bonus fades once reward is earned"
    return Diagnosis("met by chance", facts, either([*wider(task, o)[:1], balance, longer(s)]))


def lost(s: Signs, late: float, o: Options) -> Diagnosis:
    facts = f"{rates(s)}; the best score was {s.best:.2g} and is {late:.2g} now"
    if s.clipped > CLIPPED:
        facts += f"; {s.clipped:.0%} of the updates are clipped"
        rate = number(o, "learning_rate", 1e-4) / 3
        remedy = f"{named('learning_rate')} {rate:.1g}, or a larger "
        return Diagnosis("found and lost", facts, f"{remedy}{named('batch_size')}.")
    double = round(2 * number(o, "rollout", 2048))
    remedy = f"a larger {named('rollout')} ({double}): less noise in each step."
    return Diagnosis("found and lost", facts, remedy)


def learning(s: Signs) -> Diagnosis:
    facts = f"{rates(s)}, which is not yet a solution"
    return Diagnosis("still learning", facts, f"{longer(s)}.")


FINE = "nothing found"
FEW = 5  # runs that are shown in full


def examine(paths: Sequence[Path]) -> list[str]:
    """Returns what there is to say of runs: in full of a few, in numbers of many."""
    found: list[tuple[record.Record, Diagnosis | None]] = []
    for run in store.load(paths):
        o = options_of(run.config, f"The configuration of {run.path}")
        task = record.declared(run.task, str(run.path))
        found.append((run, diagnose(run.rows, task, o)))
    if len(found) > FEW:
        counts = Counter((run.label, sick.name if sick else FINE) for run, sick in found)
        return [
            f"{label:20} {name:20} {count:5}" for (label, name), count in sorted(counts.items())
        ]
    words = []
    for run, sick in found:
        words += [f"run    {run.path}", *(sick.lines() if sick else [f"why    {FINE}"])]
    return words
