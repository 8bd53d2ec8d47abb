"""The table: an algorithm is a bonus, a switch and a start over one engine. A new one is a row.

A part is a file, a maker here and the groups of options (``config.PARTS``) that it reads; any row
can be run with another part (``--bonus``, ``--switch``), which is what ablations are made of.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

import jax.numpy as jnp

from lpo import features
from lpo.bonus import Bonus, none, rnd
from lpo.config import PARTS, Config
from lpo.distributions import Distribution
from lpo.errors import LPOError
from lpo.normalize import normalize
from lpo.switch import Look, Switch, every, growth, growth_iterations, sensitivity


class Problem(NamedTuple):
    """What the environment fixes."""

    obs_size: int
    dist: Distribution


class Part(NamedTuple):
    make: Callable  # (config, problem, row) → Bonus or Switch
    options: tuple[str, ...] = ()  # groups of config.PARTS


class Algorithm(NamedTuple):
    summary: str
    bonus: str
    switch: str
    inputs: str = "sa"  # what its bonus reads


ALGORITHMS: dict[str, Algorithm] = {
    "lpo": Algorithm("RND width on (s,a), growing rollouts", "rnd", "growth"),
    "lpo-s": Algorithm(
        "RND width on (s,a), switching by online sensitivity sampling", "rnd", "sensitivity"
    ),
    "eniac": Algorithm("RND width on (s,a), constant rollouts", "rnd", "every"),
    "rnd": Algorithm(
        "random network distillation on s′, constant rollouts", "rnd", "every", inputs="next"
    ),
    "ppo": Algorithm("no bonus, constant rollouts", "none", "every"),
}


def _reader(c: Config, problem: Problem, inputs: str) -> features.Reader:
    dist = problem.dist
    return features.reader(inputs, problem.obs_size, dist.num_outputs, dist.features)


def _rnd(c: Config, problem: Problem, row: Algorithm) -> Bonus:
    return rnd(
        inputs=row.inputs,
        obs_size=problem.obs_size,
        action_size=problem.dist.num_outputs,
        action_features=problem.dist.features,
        num_envs=c.num_envs,
        gamma=c.gamma_int,
        learning_rate=c.predictor_learning_rate,
        passes=c.predictor_passes,
        batch_size=c.predictor_batch_size,
        hidden=c.predictor_hidden,
        num_features=c.predictor_features,
    )


def _feature_map(c: Config, input_size: int) -> features.Features:
    if c.features == "network":
        return features.network(input_size, c.num_features)
    return features.fourier(input_size, c.num_features, c.feature_bandwidth)


def _growth(c: Config, problem: Problem, row: Algorithm) -> Switch:
    return growth(c.rollout, c.growth_iterations or growth_iterations(c.rollout, c.steps))


def _look_reader(c: Config, problem: Problem) -> tuple[int, Callable[[Look], Any]]:
    """What the sensitivity switch reads: (s,a), or the critic's last hidden layer and a."""
    pair = _reader(c, problem, "sa")
    if c.features != "critic":
        return pair.size, lambda look: pair.read(look.rollout)
    clip = 10.0 if c.normalize_obs else float("inf")

    def read(look: Look):
        obs = normalize(look.moments, look.rollout.obs, clip)
        hidden = features.critic_layer(look.params.critics, obs)
        return jnp.concatenate([hidden, problem.dist.features(look.rollout.action)], axis=-1)

    return c.hidden[-1] + problem.dist.num_outputs, read


def _sensitivity(c: Config, problem: Problem, row: Algorithm) -> Switch:
    size, read = _look_reader(c, problem)
    return sensitivity(
        _feature_map(c, size),
        read,
        num_envs=c.num_envs,
        smallest=c.rollout,
        largest=c.switch_largest or 4 * c.rollout,
        tau=c.switch_tau,
        memory=c.switch_memory or None,
        factor=c.switch_factor,
        horizon=c.steps,
    )


BONUSES: dict[str, Part] = {
    "none": Part(lambda c, problem, row: none()),
    "rnd": Part(_rnd, ("bonus", "predictor")),
}
SWITCHES: dict[str, Part] = {
    "every": Part(lambda c, problem, row: every(c.rollout)),
    "growth": Part(_growth, ("growth",)),
    "sensitivity": Part(_sensitivity, ("sensitivity", "features")),
}


def get(c: Config) -> Algorithm:
    """The row of ``c.algo`` with the parts that ``c`` puts in; an idle option is refused."""
    if c.algo not in ALGORITHMS:
        near = difflib.get_close_matches(c.algo, ALGORITHMS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(ALGORITHMS)}."
        raise LPOError(f"No algorithm is called {c.algo!r}; {hint}")
    row = ALGORITHMS[c.algo]
    row = row._replace(
        bonus=c.bonus or row.bonus,
        switch=c.switch or row.switch,
        inputs=c.bonus_inputs or row.inputs,
    )
    options = BONUSES[row.bonus].options + SWITCHES[row.switch].options
    defaults = {f.name: f.default for f in fields(Config)}
    for part, names in PARTS.items():
        for name in names:
            if part not in options and getattr(c, name) != defaults[name]:
                flag = "--" + name.replace("_", "-")
                raise LPOError(
                    f"{flag} has no effect on {c.algo}, which has no {part}; leave it out."
                )
    return row


def make(c: Config, problem: Problem) -> tuple[Bonus, Switch]:
    """The parts of ``c.algo`` with the numbers of ``c``."""
    row = get(c)
    bonus = BONUSES[row.bonus].make(c, problem, row)
    return bonus, SWITCHES[row.switch].make(c, problem, row)
