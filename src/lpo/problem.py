"""What a part needs to know when it is made: sizes and numbers that it does not choose itself."""

from __future__ import annotations

from typing import NamedTuple

from lpo.math.descent import PLAIN, Compute
from lpo.math.distributions import Distribution
from lpo.math.features import Inputs, Reader, reader


class Problem(NamedTuple):
    """Sizes and numbers that the environment and the other parts of a run decide."""

    obs_size: int
    dist: Distribution
    num_envs: int
    horizon: int | None  # the task's time limit, None where it has none
    steps: int  # the budget of the run, in environment steps
    rollout: int  # N
    gamma: float  # discount of the reward stream
    obs_clip: float  # of normalised observations
    compute: Compute = PLAIN  # how networks are applied and trained on the device of the run

    def reader(self, inputs: Inputs) -> Reader:
        """Returns the size of ``inputs`` ("sa", "next" or "s") and the function that reads them."""
        return reader(inputs, self.obs_size, self.dist.num_outputs, self.dist.features)
