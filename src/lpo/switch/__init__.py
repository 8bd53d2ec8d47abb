"""When may the policy change? One file per answer."""

from lpo.switch.base import Look, Switch, every, growth, growth_iterations, growth_sizes
from lpo.switch.sensitivity import sensitivity

__all__ = [
    "Look",
    "Switch",
    "every",
    "growth",
    "growth_iterations",
    "growth_sizes",
    "sensitivity",
]
