"""What is novel? One file per answer."""

from lpo.bonus.base import Bonus, none
from lpo.bonus.rnd import rnd

__all__ = ["Bonus", "none", "rnd"]
