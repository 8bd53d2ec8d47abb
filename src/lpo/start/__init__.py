"""Where do rollouts begin? One file per answer."""

from lpo.start.base import Start, reset
from lpo.start.cover import cover

__all__ = ["Start", "cover", "reset"]
