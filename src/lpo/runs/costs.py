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


class Costs:
    """Watches for a task without a reward above 0. It speaks once.

    A task that declares its largest return is known, and costs are a part of it.
    """

    def __init__(self, c: Config, task: Mapping[str, Any]):
        self.watching = fades(flat(c)) and task.get("max_return") is None

    def look(self, metrics: Mapping[str, float], env_steps: int) -> list[str]:
        """Returns a warning where every step has had one and the same cost.

        A smaller cost than ``SIZE`` does not outweigh the bonus. Costs that vary are a dense task.
        """
        if not self.watching or "rollout/return" not in metrics:
            return []
        self.watching = False  # the first episodes tell
        usual, best = metrics["rollout/return"] / metrics["rollout/length"], "rollout/reward_max"
        if metrics[best] > -SIZE or abs(metrics[best] - usual) > 1e-3 * abs(usual):
            return []
        how = (
            f"pass {named('wrapper')} {PLUS_ONE}, which adds 1 to each reward"
            if metrics[best] == -1.0
            else "wrap the task so that a success pays 1 and all else 0"
        )
        return [
            f"Each step costs {-usual:.3g} and none has paid (step {env_steps:,}), but the bonus "
            f"is made for rewards above 0. If a success costs nothing, {how}; or pass "
            f"{named('beta')} 1."
        ]
