"""Theory room: function classes, exact MDPs, Algorithms 1-6 and their peers, in float64."""

from lpo.theory.algorithms import Options, lpo
from lpo.theory.constants import Constants
from lpo.theory.mdp import MDP
from lpo.theory.trace import Trace

__all__ = ["MDP", "Constants", "Options", "Trace", "lpo"]
