"""Switches: when may the policy change? The fixed schedules, and sensitivity sampling."""

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
