"""Environments: the errors about a broken environment, one sentence with the remedy each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lpo.errors import LPOError

REMEDY = "correct the environment and resume from the last checkpoint."


def check_finite(
    name: str, obs: np.ndarray, reward: np.ndarray | None, elapsed: Callable[[int], int]
) -> None:
    """Raises on NaN and infinity; ``elapsed`` tells the episode step of an environment."""
    if np.isfinite(obs).all() and (reward is None or np.isfinite(reward).all()):
        return
    for what, array in (("observation", obs), ("reward", reward)):
        if array is None:
            continue
        finite = np.isfinite(array).reshape(len(array), -1).all(axis=1)
        if not finite.all():
            i = int(np.argmin(finite))
            value = "NaN" if np.isnan(array[i]).any() else "an infinite value"
            raise LPOError(
                f"{name} (environment {i}) returned {value} in its {what} at episode step "
                f"{elapsed(i)}; {REMEDY}"
            )


def broken(name: str, index: int | None, elapsed: int | None, error: Exception) -> LPOError:
    """Returns the error for an environment that raised or returned what does not fit its space."""
    where = name if index is None else f"{name} (environment {index})"
    when = "" if elapsed is None else f" at episode step {elapsed}"
    kind = "" if isinstance(error, Misfit) else f"raised {type(error).__name__}: "
    return LPOError(f"{where} failed{when}, {kind}{error}; {REMEDY}")


class Misfit(ValueError):
    """An observation that does not fit its space."""
