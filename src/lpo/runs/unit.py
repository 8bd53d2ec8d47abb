"""Runs: does a bonus that fades as reward is earned know what a success pays?

Rewards below a part of R do not count as earned (`Fading.earned_least`). Where a success pays less,
the bonus never fades. Nobody can tell that from a task whose larger reward was not met yet, so this
is a warning and no rule. It names the options for both: the reward that was met is all there is, or
it is a small sure one. Options for the second, where the first is true, leave the task unsolved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lpo.config import Config, flat
from lpo.errors import named
from lpo.runs.written import Options, number


def fades(o: Options) -> bool:
    """Returns whether the bonus of a run with these options fades as reward is earned."""
    return "earned_share" in o


def least_that_counts(o: Options, task: Mapping[str, Any]) -> float:
    """Returns the smallest reward that makes the bonus fade; 0 where there is nothing to say.

    A task that declares its largest return is known to have larger rewards.
    """
    if not fades(o) or task.get("max_return") is not None:
        return 0.0
    return number(o, "earned_least", 0.0) * number(o, "earned_reward", 1.0)


def weight_of_unit(o: Options) -> float:
    """Returns what α times the unit is, which another unit should keep."""
    return number(o, "alpha", 1.0) * number(o, "earned_reward", 1.0)


def unit_options(o: Options, reward: float) -> str:
    """Returns the options that make ``reward`` the unit."""
    alpha = weight_of_unit(o) / reward
    return f"{named('alpha')} {alpha:.3g} {named('earned_reward')} {reward:.3g}"


class SmallRewards:
    """Watches for rewards that are all too small to count. It speaks once."""

    def __init__(self, c: Config, task: Mapping[str, Any]):
        self.options = flat(c)
        self.least = least_that_counts(self.options, task)

    def look(self, largest: float, env_steps: int) -> list[str]:
        """Returns a warning where the ``largest`` reward since the last look is too small."""
        if largest <= 0 or not self.least:
            return []
        small, least, self.least = largest < self.least, self.least, 0.0
        if not small:
            return []
        return [
            f"All rewards so far (step {env_steps:,}) are at most {largest:.3g}, but the bonus "
            f"only fades for rewards of at least {least:g}. If {largest:.3g} is what a success "
            f"pays, pass {unit_options(self.options, largest)}; if a success pays R, "
            f"{named('alpha')} {weight_of_unit(self.options):g}/R {named('earned_reward')} R."
        ]
