"""Bonuses: what is novel? One file for each kind, and how a bonus is scaled and weighed."""

from lpo.bonus.base import Bonus, BonusOptions, BonusPart, NoBonus, none
from lpo.bonus.compose import ScaledOptions, difference, plus, scaled, times
from lpo.bonus.elliptic import Elliptic, elliptic
from lpo.bonus.episode import EpisodePart, FirstVisit, NoEpisode
from lpo.bonus.icm import ICM, icm
from lpo.bonus.rnd import RND, rnd
from lpo.bonus.scale import ByReturns, BySize, Scale, ScaleOptions
from lpo.bonus.sensitivity import Sensitivity
from lpo.bonus.visits import Constant, Visits
from lpo.bonus.weigh import (
    Fading,
    Fixed,
    NoWeighing,
    Sized,
    SizedFading,
    Stream,
    Streams,
    Weigh,
    Weighing,
    Weights,
    weighted,
)
from lpo.bonus.width import WidthNetwork, width_network

__all__ = [
    "ICM",
    "RND",
    "Bonus",
    "BonusOptions",
    "BonusPart",
    "ByReturns",
    "BySize",
    "Constant",
    "Elliptic",
    "EpisodePart",
    "Fading",
    "FirstVisit",
    "Fixed",
    "NoBonus",
    "NoEpisode",
    "NoWeighing",
    "Scale",
    "ScaleOptions",
    "ScaledOptions",
    "Sensitivity",
    "Sized",
    "SizedFading",
    "Stream",
    "Streams",
    "Visits",
    "Weigh",
    "Weighing",
    "Weights",
    "WidthNetwork",
    "difference",
    "elliptic",
    "icm",
    "none",
    "plus",
    "rnd",
    "scaled",
    "times",
    "weighted",
    "width_network",
]
