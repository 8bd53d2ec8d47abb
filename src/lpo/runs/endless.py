"""Runs: do episodes end? Without an end nothing is scored, and evaluations play to their limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PATIENCE = 2000  # steps in each environment: most tasks that declare no limit are shorter


class Endless:
    """Watches for a task whose episodes never end. It speaks once.

    A task that declares its time limit is known to end. ``begun`` are the steps so far.
    """

    def __init__(self, task: Mapping[str, Any], num_envs: int, begun: int = 0):
        self.begun, self.steps = begun, 0 if task.get("horizon") else PATIENCE * num_envs

    def look(self, metrics: Mapping[str, float], env_steps: int) -> list[str]:
        """Returns a warning where no episode has ended in all the steps since it was made."""
        if "rollout/return" in metrics:
            self.steps = 0
        seen = env_steps - self.begun
        if not self.steps or seen < self.steps:
            return []
        self.steps = 0
        return [
            f"No episode has ended in {seen:,} steps. If the task has no end, give it a time "
            "limit, for instance with gymnasium.wrappers.TimeLimit."
        ]
