"""Starts: where do rollouts begin? At the reset, or after a roll-in of a past policy."""

from lpo.start.base import Actor, Reset, Start, StartPart, reset
from lpo.start.cover import Cover, Lengths, cover

__all__ = ["Actor", "Cover", "Lengths", "Reset", "Start", "StartPart", "cover", "reset"]
