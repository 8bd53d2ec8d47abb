"""A bonus that reads some parts of an observation, by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import Array

from lpo.bonus.base import Bonus, BonusPart
from lpo.errors import LPOError, named, nearest
from lpo.problem import Problem
from lpo.types import Obs, ObsSpec, Rollout, vector


def made(part: BonusPart, problem: Problem) -> Bonus:
    """Returns the bonus of ``part``, which reads the parts of an observation that it names."""
    keys = getattr(part, "keys", ())
    if not keys:
        return part.make(problem)
    spec, view = narrowed(problem.seen, keys)
    bonus = part.make(problem._replace(obs=spec))

    def score(state: Any, rollout: Rollout) -> Any:
        return bonus.score(state, seen(rollout, view))

    def update(state: Any, rollout: Rollout, key: Array) -> Any:
        return bonus.update(state, seen(rollout, view), key)

    return bonus._replace(score=score, update=update)


def seen(rollout: Rollout, view: Callable[[Obs], Obs]) -> Rollout:
    fields = ("obs", "next_obs", "last_obs")
    return rollout._replace(**{name: view(getattr(rollout, name)) for name in fields})


def narrowed(spec: ObsSpec, keys: tuple[str, ...]) -> tuple[ObsSpec, Callable[[Obs], Obs]]:
    """Returns the form of the named parts, and what takes them out of an observation.

    "arm" names the part of that name, or all parts within it.
    """
    names = [name for name, _ in (spec.parts if spec.bare else spec.leaves)]
    if not names:
        raise LPOError(
            f"{named('bonus_keys')} names parts of a Dict, and the task observes {spec.words}; "
            "leave it out."
        )
    for key in keys:
        if not any(is_in(name, key) for name in names):
            hint = nearest(key, names)
            raise LPOError(f"{named('bonus_keys')} has no part {key!r} to read; {hint}")
    chosen = [name for name in names if any(is_in(name, key) for key in keys)]
    if not spec.bare:
        return spec.only(chosen)
    ends = np.cumsum([size for _, size in spec.parts])
    columns = np.concatenate(
        [
            np.arange(end - size, end)
            for (name, size), end in zip(spec.parts, ends, strict=True)
            if name in chosen
        ]
    )
    return vector(len(columns)), lambda obs: obs[..., columns]


def is_in(name: str, key: str) -> bool:
    return name == key or name.startswith(f"{key}/")
