"""Where do rollouts begin? One file for each answer."""

from lpo.start.base import Actor, Reset, Start, StartPart, reset
from lpo.start.cover import Cover, Lengths, cover

__all__ = ["Actor", "Cover", "Lengths", "Reset", "Start", "StartPart", "cover", "reset"]
