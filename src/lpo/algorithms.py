"""The table: an algorithm is a bonus, a switch and a start over one engine. A new one is a row.

A part is a file, a maker here and the groups of options (``config.PARTS``) that it reads. Any row
can be run with another part (``--bonus``, ``--switch``, ``--start``): that is what ablations are.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from lpo.bonus import Bonus, elliptic, none, rnd, width_network
from lpo.config import PARTS, Config
from lpo.errors import LPOError
from lpo.math import features
from lpo.math.distributions import Distribution
from lpo.math.normalize import normalize
from lpo.start import Lengths, Start, cover, reset
from lpo.switch import Look, Switch, every, growth, growth_iterations, sensitivity

COVER_FEATURES = 64  # of the log-det game; each member of the cover stores their covariance


class Problem(NamedTuple):
    """What the environment fixes."""

    obs_size: int
    dist: Distribution
    horizon: int | None = None  # its time limit


class Part(NamedTuple):
    make: Callable  # (config, problem, row) → Bonus, Switch or Start
    options: tuple[str, ...] = ()  # groups of config.PARTS


class Algorithm(NamedTuple):
    summary: str
    bonus: str
    switch: str
    start: str = "reset"
    inputs: str = "sa"  # what its bonus reads
    shape: str = "raw"  # of a bonus that is a width


ALGORITHMS: dict[str, Algorithm] = {
    "lpo": Algorithm("RND width on (s,a), growing rollouts", "rnd", "growth"),
    "lpo-s": Algorithm(
        "RND width on (s,a), switching by online sensitivity sampling", "rnd", "sensitivity"
    ),
    "eniac": Algorithm("RND width on (s,a), constant rollouts", "rnd", "every"),
    "rnd": Algorithm(
        "random network distillation on s′, constant rollouts", "rnd", "every", inputs="next"
    ),
    "pcpg": Algorithm(
        "kernel width on (s,a) as an indicator, constant rollouts, policy cover with roll-in",
        "elliptic",
        "every",
        "cover",
        shape="indicator",
    ),
    "eniac-original": Algorithm(
        "width network on (s,a) as an indicator, constant rollouts, policy cover with roll-in",
        "width",
        "every",
        "cover",
        shape="indicator",
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


def _elliptic(c: Config, problem: Problem, row: Algorithm) -> Bonus:
    if c.features == "critic":
        raise LPOError(
            "The elliptic bonus needs features that stay put and --features is critic; "
            "choose fourier, network or product."
        )
    size, read = _reader(c, problem, row.inputs)
    return elliptic(
        _feature_map(c, problem, size),
        read,
        num_envs=c.num_envs,
        gamma=c.gamma_int,
        shape=c.bonus_shape or row.shape,
        threshold=c.bonus_threshold,
        epsilon=c.bonus_epsilon,
        gamma_ext=c.gamma_ext,
    )


def _width(c: Config, problem: Problem, row: Algorithm) -> Bonus:
    size, read = _reader(c, problem, row.inputs)
    return width_network(
        size,
        read,
        num_envs=c.num_envs,
        gamma=c.gamma_int,
        shape=c.bonus_shape or row.shape,
        threshold=c.bonus_threshold,
        gamma_ext=c.gamma_ext,
        prior=c.rollout,
        learning_rate=c.predictor_learning_rate,
        passes=c.predictor_passes,
        batch_size=c.predictor_batch_size,
        hidden=c.predictor_hidden,
    )


def _feature_map(c: Config, problem: Problem, input_size: int) -> features.Features:
    if c.features == "product":
        return features.product(problem.obs_size, input_size - problem.obs_size)
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
        _feature_map(c, problem, size),
        read,
        num_envs=c.num_envs,
        smallest=c.rollout,
        largest=c.switch_largest or 4 * c.rollout,
        tau=c.switch_tau,
        memory=c.switch_memory or None,
        factor=c.switch_factor,
        horizon=c.steps,
    )


def _cover(c: Config, problem: Problem, row: Algorithm) -> Start:
    reader = _reader(c, problem, "sa")
    horizon = c.rollin_horizon or problem.horizon
    gamma = c.gamma_ext if c.rollin_length == "geometric" else 1.0
    if horizon is None and gamma == 1:
        raise LPOError(
            "A uniform roll-in (or a geometric one with --gamma-ext 1) needs a longest episode and "
            "the environment has no time limit; pass --rollin-horizon."
        )
    if c.first_uniform > 0:
        problem.dist.uniform(np.random.default_rng(0), 1)  # refuses a space without bounds
    return cover(
        features.fourier(reader.size, COVER_FEATURES, 1.0),
        reader,
        capacity=c.cover_size,
        weighting=c.cover_weights,
        lengths=Lengths(c.rollin_share, gamma, horizon or 2**31 - 1),
        epsilon=c.first_uniform,
    )


BONUSES: dict[str, Part] = {
    "none": Part(lambda c, problem, row: none()),
    "rnd": Part(_rnd, ("bonus", "predictor", "distillation")),
    "elliptic": Part(_elliptic, ("bonus", "width", "elliptic width", "features")),
    "width": Part(_width, ("bonus", "width", "predictor")),
}
SWITCHES: dict[str, Part] = {
    "every": Part(lambda c, problem, row: every(c.rollout)),
    "growth": Part(_growth, ("growth",)),
    "sensitivity": Part(_sensitivity, ("sensitivity", "features")),
}

STARTS: dict[str, Part] = {
    "reset": Part(lambda c, problem, row: reset()),
    "cover": Part(_cover, ("cover",)),
}


def get(c: Config) -> Algorithm:
    """The row of ``c.algo`` with the parts that ``c`` puts in."""
    if c.algo not in ALGORITHMS:
        near = difflib.get_close_matches(c.algo, ALGORITHMS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(ALGORITHMS)}."
        raise LPOError(f"No algorithm is called {c.algo!r}; {hint}")
    row = ALGORITHMS[c.algo]
    return row._replace(
        bonus=c.bonus or row.bonus,
        switch=c.switch or row.switch,
        start=c.start or row.start,
        inputs=c.bonus_inputs or row.inputs,
    )


def idle_options(c: Config) -> dict[str, str]:
    """Options off their default that the row of ``c`` does not read, with the part they are of."""
    row = get(c)
    parts = BONUSES[row.bonus], SWITCHES[row.switch], STARTS[row.start]
    groups = {group for part in parts for group in part.options}
    read = {name for group in groups for name in PARTS[group]}
    defaults = {f.name: f.default for f in fields(Config)}
    return {
        name: part
        for part, names in PARTS.items()
        for name in names
        if name not in read and getattr(c, name) != defaults[name]
    }


def refuse_idle_options(c: Config) -> None:
    """A new run is refused where an option would do nothing.

    Not so a saved one: its file holds every option, and defaults may have changed since.
    """
    for name, part in idle_options(c).items():
        flag = "--" + name.replace("_", "-")
        raise LPOError(f"{flag} has no effect on {c.algo}, which has no {part}; leave it out.")


def make(c: Config, problem: Problem) -> tuple[Bonus, Switch, Start]:
    """The parts of ``c.algo`` with the numbers of ``c``."""
    row = get(c)
    parts = BONUSES[row.bonus], SWITCHES[row.switch], STARTS[row.start]
    bonus, switch, start = (part.make(c, problem, row) for part in parts)
    return bonus, switch, start
