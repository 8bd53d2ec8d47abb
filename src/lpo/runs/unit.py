"""Runs: does a bonus that fades as reward is earned know what a success pays?

Rewards below a part of R do not count as earned (`Fading.earned_least`). Where a success pays less,
the bonus never fades. Nobody can tell that from a task whose larger reward was not met yet, so this
is a warning and no rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lpo.bonus.base import BonusOptions
from lpo.bonus.weigh import Fading
from lpo.config import Config
from lpo.errors import named


def weights(c: Config) -> BonusOptions:
    """Returns how the bonus is weighed; the defaults where its options do not say."""
    return c.bonus if isinstance(c.bonus, BonusOptions) else BonusOptions()


def fading(c: Config) -> Fading | None:
    weighing = weights(c).weighing
    return weighing if isinstance(weighing, Fading) else None


def least_that_counts(c: Config, task: Mapping[str, Any]) -> float:
    """Returns the smallest reward that makes the bonus fade; 0 where there is nothing to say.

    A task that declares its largest return is known to have larger rewards.
    """
    rule = fading(c)
    if rule is None or task.get("max_return") is not None:
        return 0.0
    return rule.earned_least * rule.earned_reward


def unit_options(c: Config, reward: float) -> str:
    """Returns the options that make ``reward`` the unit."""
    rule = fading(c)
    assert rule is not None
    alpha = weights(c).alpha * rule.earned_reward / reward
    return f"{named('alpha')} {alpha:.3g} {named('earned_reward')} {reward:.3g}"


class SmallRewards:
    """Watches for rewards that are all too small to count. It speaks once."""

    def __init__(self, c: Config, task: Mapping[str, Any]):
        self.config, self.least = c, least_that_counts(c, task)

    def look(self, largest: float, env_steps: int) -> list[str]:
        """Returns a warning where the ``largest`` reward since the last look is too small."""
        if largest <= 0 or not self.least:
            return []
        small, least, self.least = largest < self.least, self.least, 0.0
        if not small:
            return []
        return [
            f"All rewards so far (step {env_steps:,}) are at most {largest:.3g}, but the bonus "
            f"only fades for rewards of at least {least:g}. If {largest:.3g} is the full reward of "
            f"this task, pass {unit_options(self.config, largest)}."
        ]
