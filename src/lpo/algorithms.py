"""The table: an algorithm is a bonus and a switch over one engine. A new method is one row here."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import fields
from typing import NamedTuple

from lpo.bonus import Bonus, none, rnd
from lpo.config import PARTS, Config
from lpo.distributions import Distribution
from lpo.errors import LPOError
from lpo.switch import Switch, every, growth, growth_iterations


class Problem(NamedTuple):
    """What the environment fixes."""

    obs_size: int
    dist: Distribution


class Algorithm(NamedTuple):
    summary: str
    parts: tuple[str, ...]  # groups of options that mean something to it (config.PARTS)
    bonus: Callable[[Config, Problem], Bonus]
    switch: Callable[[Config], Switch]


def _none(c: Config, problem: Problem) -> Bonus:
    return none()


def _rnd(default_inputs: str) -> Callable[[Config, Problem], Bonus]:
    def make(c: Config, problem: Problem) -> Bonus:
        dist = problem.dist
        return rnd(
            inputs=c.bonus_inputs or default_inputs,
            obs_size=problem.obs_size,
            action_size=dist.num_outputs,
            action_features=dist.features,
            num_envs=c.num_envs,
            gamma=c.gamma_int,
            learning_rate=c.predictor_learning_rate,
            passes=c.predictor_passes,
            batch_size=c.predictor_batch_size,
            hidden=c.predictor_hidden,
            num_features=c.predictor_features,
        )

    return make


def _every(c: Config) -> Switch:
    return every(c.rollout)


def _growth(c: Config) -> Switch:
    return growth(c.rollout, c.growth_iterations or growth_iterations(c.rollout, c.steps))


ALGORITHMS: dict[str, Algorithm] = {
    "lpo": Algorithm(
        "RND width on (s,a), growing rollouts",
        ("bonus", "predictor", "growth"),
        _rnd("sa"),
        _growth,
    ),
    "eniac": Algorithm(
        "RND width on (s,a), constant rollouts", ("bonus", "predictor"), _rnd("sa"), _every
    ),
    "rnd": Algorithm(
        "random network distillation on s′, constant rollouts",
        ("bonus", "predictor"),
        _rnd("next"),
        _every,
    ),
    "ppo": Algorithm("no bonus, constant rollouts", (), _none, _every),
}


def get(c: Config) -> Algorithm:
    """The row of ``c.algo``; an option that the row would ignore is refused."""
    if c.algo not in ALGORITHMS:
        near = difflib.get_close_matches(c.algo, ALGORITHMS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(ALGORITHMS)}."
        raise LPOError(f"No algorithm is called {c.algo!r}; {hint}")
    row = ALGORITHMS[c.algo]
    defaults = {f.name: f.default for f in fields(Config)}
    for part, names in PARTS.items():
        for name in names:
            if part not in row.parts and getattr(c, name) != defaults[name]:
                flag = "--" + name.replace("_", "-")
                raise LPOError(
                    f"{flag} has no effect on {c.algo}, which has no {part}; leave it out."
                )
    return row
