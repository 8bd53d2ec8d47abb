"""Runs: what a caller of ``learn`` may pass, for one run or for many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lpo.errors import LPOError


def whole_number(name: str, value: Any) -> int:
    """Returns ``value``, which may be 1e6. Raises LPOError where it is not a whole number of at
    least 1."""
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise LPOError(f"{name} is {value!r}; pass a whole number of 1 or more.")
    return int(value)


class Callbacks(NamedTuple):
    on_start: Callable[[Any], Any]  # is given the agent
    on_step: Callable[[int, dict[str, Any]], Any]
    on_end: Callable[[Any], Any]


def callbacks(given: Any) -> Callbacks:
    """Returns the three calls of a function or an object. Raises LPOError for anything else."""
    nothing = lambda *args: None  # noqa: E731
    names = Callbacks._fields
    if given is None or callable(given):
        return Callbacks(nothing, given or nothing, nothing)
    found = [getattr(given, name, None) for name in names]
    if not any(map(callable, found)):
        raise LPOError(
            f"callback is {given!r}; pass a function (env_steps, metrics), or an object with "
            f"{', '.join(names[:-1])} or {names[-1]}."
        )
    return Callbacks(*(call if callable(call) else nothing for call in found))
