"""A memory of another package: the minimal gated unit of Feng et al. (2024)."""

from typing import ClassVar

from lpo.network import Network
from lpo.network.cnn import encoders
from lpo.network.memory import Recurrent, recurrent, sigmoid
from lpo.options import options
from lpo.types import ObsSpec


@options
class MinGRU(Recurrent):
    """h′ = (1 − z) ⊙ h + z ⊙ n, whose gates read what is observed alone."""

    kind: ClassVar[str] = "mingru"

    def make(self, spec: ObsSpec) -> Network:
        return recurrent(encoders(spec, self.features), self.memory, self.stretch, cell, 2, 1)


def cell(numpy, fed, recur, memory):
    (h,) = memory
    z, n = numpy.split(fed, 2, axis=-1)
    z = sigmoid(numpy, z)
    return ((1 - z) * h + z * n,)
