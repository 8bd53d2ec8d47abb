"""Bonuses: what is novel? One file for each kind."""

from lpo.bonus.base import Bonus, BonusOptions, BonusPart, NoBonus, Streams, none
from lpo.bonus.elliptic import Elliptic, elliptic
from lpo.bonus.rnd import RND, rnd
from lpo.bonus.width import WidthNetwork, width_network

__all__ = [
    "RND",
    "Bonus",
    "BonusOptions",
    "BonusPart",
    "Elliptic",
    "NoBonus",
    "Streams",
    "WidthNetwork",
    "elliptic",
    "none",
    "rnd",
    "width_network",
]
