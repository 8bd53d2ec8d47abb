"""Switches: when may the policy change? The fixed schedules, and sensitivity sampling."""

from lpo.switch.base import (
    Every,
    Growth,
    Look,
    Ramp,
    Rows,
    Switch,
    SwitchOptions,
    SwitchPart,
    every,
    growth,
    growth_iterations,
    growth_sizes,
    ramp,
    sizes_by_steps,
)
from lpo.switch.sensitivity import Sensitivity, sensitivity

__all__ = [
    "Every",
    "Growth",
    "Look",
    "Ramp",
    "Rows",
    "Sensitivity",
    "Switch",
    "SwitchOptions",
    "SwitchPart",
    "every",
    "growth",
    "growth_iterations",
    "growth_sizes",
    "ramp",
    "sensitivity",
    "sizes_by_steps",
]
