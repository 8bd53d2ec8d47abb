"""The algorithms LPO is compared with, on the same MDPs and function classes (theory room)."""

from lpo.theory.peers.copoe import copoe
from lpo.theory.peers.epochs import eniac, pcpg
from lpo.theory.peers.value_based import lsvi_ucb, subsampled_lsvi, tabular_features, ucbvi

__all__ = ["copoe", "eniac", "lsvi_ucb", "pcpg", "subsampled_lsvi", "tabular_features", "ucbvi"]
