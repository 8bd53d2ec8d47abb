"""What is novel? One file per answer."""

from lpo.bonus.base import Bonus, none
from lpo.bonus.elliptic import elliptic
from lpo.bonus.rnd import rnd
from lpo.bonus.width import width_network

__all__ = ["Bonus", "elliptic", "none", "rnd", "width_network"]
