"""When may the policy change? One file per answer."""

from lpo.switch.base import Switch, every, growth, growth_iterations, growth_sizes

__all__ = ["Switch", "every", "growth", "growth_iterations", "growth_sizes"]
