"""What a part needs to know when it is made: sizes and numbers that it does not choose itself."""

from __future__ import annotations

from typing import NamedTuple

from lpo.errors import LPOError
from lpo.math.descent import PLAIN, Compute
from lpo.math.distributions import Distribution
from lpo.math.features import Inputs, Reader, reader
from lpo.math.images import Plain, greys, known, plain
from lpo.types import ObsSpec


class Problem(NamedTuple):
    """Sizes and numbers that the environment and the other parts of a run decide."""

    obs: ObsSpec  # the form of an observation
    dist: Distribution
    num_envs: int
    horizon: int | None  # the task's time limit, None where it has none
    steps: int  # the budget of the run, in environment steps
    rollout: int  # N
    gamma: float  # discount of the reward stream
    obs_clip: float  # of normalised observations
    compute: Compute = PLAIN  # how networks are applied and trained on the device of the run
    plain_policy: bool = True  # policies read the vector itself and remember nothing

    @property
    def seen(self) -> ObsSpec:
        """What bonuses, switches and starts read of an observation: all but a mask."""
        return self.obs.seen[0]

    @property
    def masked(self) -> bool:
        """Whether observations tell which choices are allowed."""
        return self.seen is not self.obs

    @property
    def obs_size(self) -> int:
        """Returns the numbers of an observation. Raises LPOError where it is no vector."""
        size = self.seen.size
        if size is None:
            raise LPOError(
                f"This part reads one vector, and the task observes {self.obs.words}; read it "
                "by problem.plain, or leave the part out."
            )
        return size

    @property
    def plain(self) -> Plain:
        """An observation as one vector, in which pictures are small and grey."""
        return plain(self.seen, greys)

    @property
    def cells(self) -> Plain:
        """An observation as one vector that is known again: pictures have few cells and shades."""
        return plain(self.seen, known)

    def reader(self, inputs: Inputs, form: Plain | None = None) -> Reader:
        """Returns the size of ``inputs`` ("sa", "next" or "s") and the function that reads them.

        ``form`` makes a vector of an observation; by default it is ``plain``.
        """
        return reader(inputs, form or self.plain, self.dist.num_outputs, self.dist.features)
