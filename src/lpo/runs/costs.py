"""Runs: is every reward a cost? Then nothing is earned, and a bonus that waits for it is lost.

Goal tasks often pay −1 a step and 0 at the goal. Which reward is a success is not known before one
is met, so this is a warning and no rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lpo.config import Config, flat
from lpo.errors import named
from lpo.runs.unit import fades

PLUS_ONE = "lpo.envs.shift:plus_one"
SIZE = 0.5  # of a cost, in units of a success
SUCCEED = 0.5  # share of episodes from which on the task is found out without help


def usual_cost(metrics: Mapping[str, float]) -> float | None:
    """Returns what every step of a goal task costs; None for another task, and where most episodes
    succeed.

    No step has paid, or the cost is 1 and a success costs nothing: return + length is then the
    share of the episodes that succeed.
    """
    best, length = metrics.get("rollout/reward_max"), metrics.get("rollout/length")
    if best is None or best > 0 or not length or "rollout/return" not in metrics:
        return None
    mean = metrics["rollout/return"] / length
    if best < 0:
        return -best if abs(best - mean) <= 1e-3 * abs(mean) else None
    return 1.0 if -1e-6 <= metrics["rollout/return"] + length < SUCCEED else None


def remedy(cost: float) -> str:
    """Returns what to do about a task that only costs."""
    if cost == 1.0:
        return f"pass {named('wrapper')} {PLUS_ONE}, which adds 1 to each reward"
    return "wrap the task so that a success pays 1 and all else 0"


class Costs:
    """Watches for a task without a reward above 0. It speaks once.

    A task that declares its largest return is known, and costs are a part of it.
    """

    def __init__(self, c: Config, task: Mapping[str, Any]):
        self.watching = fades(flat(c)) and task.get("max_return") is None

    def look(self, metrics: Mapping[str, float], env_steps: int) -> list[str]:
        """Returns a warning where every step costs. The first episodes tell.

        A smaller cost than ``SIZE`` does not outweigh the bonus.
        """
        if not self.watching or "rollout/return" not in metrics:
            return []
        self.watching = False
        cost = usual_cost(metrics)
        if cost is None or cost < SIZE:
            return []
        return [
            f"Each step costs {cost:.3g} and no reward is above 0 (step {env_steps:,}), but the "
            f"bonus is made for rewards above 0. If a success costs nothing, {remedy(cost)}; or "
            f"pass {named('beta')} 1."
        ]
