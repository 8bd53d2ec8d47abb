"""When may the policy change? One file for each answer."""

from lpo.switch.base import (
    Every,
    Growth,
    Look,
    Rows,
    Switch,
    SwitchOptions,
    SwitchPart,
    every,
    growth,
    growth_iterations,
    growth_sizes,
)
from lpo.switch.sensitivity import Sensitivity, sensitivity

__all__ = [
    "Every",
    "Growth",
    "Look",
    "Rows",
    "Sensitivity",
    "Switch",
    "SwitchOptions",
    "SwitchPart",
    "every",
    "growth",
    "growth_iterations",
    "growth_sizes",
    "sensitivity",
]
