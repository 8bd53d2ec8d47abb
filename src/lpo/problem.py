"""What a part is told when it is made: sizes and numbers that others have decided."""

from __future__ import annotations

from typing import NamedTuple

from lpo.math.distributions import Distribution
from lpo.math.features import Inputs, Reader, reader


class Problem(NamedTuple):
    """What the environment and the other parts of a run fix."""

    obs_size: int
    dist: Distribution
    num_envs: int
    horizon: int | None  # the task's time limit
    steps: int  # the budget of the run, in environment steps
    rollout: int  # N
    gamma: float  # discount of the reward stream
    hidden: tuple[int, ...]  # layers of a critic
    obs_clip: float  # of normalised observations

    def reader(self, inputs: Inputs) -> Reader:
        """Returns what reads ``inputs`` ("sa", "next" or "s") of a rollout."""
        return reader(inputs, self.obs_size, self.dist.num_outputs, self.dist.features)
