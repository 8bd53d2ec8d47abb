"""Where do rollouts begin? One file per answer."""

from lpo.start.base import Start, reset
from lpo.start.cover import Lengths, cover

__all__ = ["Lengths", "Start", "cover", "reset"]
