"""Bonuses: what is novel? One file for each kind, and how a bonus is scaled and weighed."""

from lpo.bonus.base import Bonus, BonusOptions, BonusPart, NoBonus, none
from lpo.bonus.elliptic import Elliptic, elliptic
from lpo.bonus.rnd import RND, rnd
from lpo.bonus.scale import ByReturns, BySize, Scale, ScaledOptions, ScaleOptions
from lpo.bonus.weigh import (
    Balanced,
    BalancedFading,
    Fading,
    Fixed,
    Sized,
    SizedFading,
    Streams,
    Weigh,
    Weighing,
)
from lpo.bonus.width import WidthNetwork, width_network

__all__ = [
    "RND",
    "Balanced",
    "BalancedFading",
    "Bonus",
    "BonusOptions",
    "BonusPart",
    "ByReturns",
    "BySize",
    "Elliptic",
    "Fading",
    "Fixed",
    "NoBonus",
    "Scale",
    "ScaleOptions",
    "ScaledOptions",
    "Sized",
    "SizedFading",
    "Streams",
    "Weigh",
    "Weighing",
    "WidthNetwork",
    "elliptic",
    "none",
    "rnd",
    "width_network",
]
