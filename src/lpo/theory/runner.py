"""One door to every algorithm of the theory room, with matched constants (theory room).

`run` builds the function class an algorithm wants, the constants it shares with the others, and
returns its trace. N is the number of outer iterations: d-samples for the policy-gradient methods,
episodes for the value-based ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from lpo.errors import LPOError, named
from lpo.options import fields_of
from lpo.theory.algorithms import Options, lpo
from lpo.theory.classes import (
    Box,
    Finite,
    FunctionClass,
    Glm,
    LinearBall,
    Neural,
    gaussian,
    kernel_ball,
)
from lpo.theory.constants import Constants
from lpo.theory.mdp import MDP, q_from_v, value
from lpo.theory.peers import copoe, eniac, lsvi_ucb, pcpg, subsampled_lsvi, tabular_features, ucbvi
from lpo.theory.policy import softmax
from lpo.theory.trace import Trace
from lpo.theory.zoo import DIAL, link, slope


def value_bound(mdp: MDP) -> float:
    """W: no Q_b − b exceeds (1 + 3/(1−γ))/(1−γ)."""
    return (1.0 + 3.0 / (1.0 - mdp.gamma)) / (1.0 - mdp.gamma)


def linear_class(mdp: MDP) -> LinearBall:
    """The ball that holds every Q_b − b: ‖θ‖ ≤ sqrt(d)·W when Σ|μ| ≤ 1 per coordinate."""
    features = tabular_features(mdp)
    return LinearBall(features, float(np.sqrt(features.shape[1])) * value_bound(mdp))


def function_class(mdp: MDP) -> FunctionClass:
    """The box for a tabular MDP, the linear ball where the MDP brings features."""
    return Box(mdp.num_pairs, value_bound(mdp)) if mdp.features is None else linear_class(mdp)


def kernel_class(mdp: MDP) -> LinearBall:
    """The ball of a Gaussian kernel on the features, of bandwidth .2."""
    return kernel_ball(tabular_features(mdp), gaussian(0.2), 10 * value_bound(mdp), 1e-6)


def neural_class(mdp: MDP) -> Neural:
    """The tangent class of 32 tanh units on the features, stretched so that the units bend."""
    return Neural(20.0 * tabular_features(mdp), hidden=32, radius=value_bound(mdp))


def glm_class(mdp: MDP) -> Glm:
    """Generalised linear functions with the link of `dial`."""
    return Glm(tabular_features(mdp), 1.05 * np.sqrt(3.0) * DIAL, link, slope)


def finite_class(mdp: MDP, count: int = 60) -> Finite:
    """A list that holds the values of π*, of `count` policies around it, and 0.

    Each policy is there twice: without a bonus, and with the largest one on three pairs of ten.
    """
    rng, S = np.random.default_rng(0), mdp.num_states
    best = q_from_v(mdp, mdp.optimal[0]).reshape(S, -1)
    table = [np.zeros(mdp.num_pairs), q_from_v(mdp, value(mdp, mdp.optimal[1]))]
    for bonus in (0.0, 3.0 / (1.0 - mdp.gamma)):
        for _ in range(count):
            noise = rng.uniform(0, 3) * rng.normal(size=best.shape)
            pi = softmax(rng.uniform(0, 20) * best + noise)
            spread = bonus * (rng.random(mdp.num_pairs) < 0.3)
            table.append(q_from_v(mdp, value(mdp, pi, spread)))
    return Finite(np.array(table))


CLASSES: dict[str, Callable[[MDP], FunctionClass]] = {
    "box": lambda mdp: Box(mdp.num_pairs, value_bound(mdp)),
    "linear": linear_class,
    "kernel": kernel_class,
    "neural": neural_class,
    "glm": glm_class,
    "finite": finite_class,
}


class Given(NamedTuple):
    """Everything a run is given; an algorithm takes what it needs."""

    mdp: MDP
    constants: Constants
    rng: np.random.Generator
    options: Options
    seconds: float
    epoch: int  # samples of an epoch of ENIAC and PC-PG
    scale: float  # of the bonus of the value-based methods

    def search(self) -> tuple[Constants, np.random.Generator, Options, float]:
        """The arguments that all policy-gradient methods share, after the MDP and the class."""
        return self.constants, self.rng, self.options, self.seconds

    def choosing(self, **options: Any) -> Given:
        return self._replace(options=replace(self.options, **options))


C = TypeVar("C")


@dataclass(frozen=True)
class Algorithm(Generic[C]):
    """A row of the table: the function, its class, and the options that it heeds."""

    learn: Callable[[Given, C], Trace]
    function_class: Callable[[MDP], C]
    heeds: frozenset[str]  # all other options must be left at their defaults
    episodes: bool = False  # whether N counts episodes instead of d-samples


def _lpo(g: Given, F: FunctionClass) -> Trace:
    return lpo(g.mdp, F, *g.search())


SHARED = frozenset({"critic", "estimator", "reuse", "roll_in", "bonus_share", "transfer"})
READINGS = SHARED | {"known", "rounding"}
NONE = frozenset[str]()
ALGORITHMS: dict[str, Algorithm[Any]] = {
    "lpo": Algorithm(_lpo, function_class, READINGS | {"switch", "patience"}),
    "lpo-patient": Algorithm(
        lambda g, F: _lpo(g.choosing(patience=g.options.patience or 0.1), F),
        function_class,
        READINGS | {"patience"},
    ),
    "lpo-always": Algorithm(
        lambda g, F: _lpo(g.choosing(switch="always"), F), function_class, READINGS
    ),
    "eniac": Algorithm(lambda g, F: eniac(g.mdp, F, *g.search(), g.epoch), function_class, SHARED),
    "pcpg": Algorithm(lambda g, F: pcpg(g.mdp, F, *g.search(), g.epoch), linear_class, SHARED),
    "copoe": Algorithm(lambda g, F: copoe(g.mdp, F, *g.search()), linear_class, SHARED),
    "lsvi-ucb": Algorithm(
        lambda g, phi: lsvi_ucb(g.mdp, phi, g.constants.N, g.rng, g.scale, seconds=g.seconds),
        tabular_features,
        NONE,
        episodes=True,
    ),
    "ucbvi": Algorithm(
        lambda g, _: ucbvi(g.mdp, g.constants.N, g.rng, g.scale, g.seconds),
        tabular_features,
        NONE,
        episodes=True,
    ),
    "kong": Algorithm(
        lambda g, F: subsampled_lsvi(
            g.mdp, F, g.constants.N, g.rng, g.scale, g.constants.factor, g.seconds
        ),
        function_class,
        NONE,
        episodes=True,
    ),
}
VALUE_BASED = tuple(name for name, row in ALGORITHMS.items() if row.episodes)


def find(algorithm: str) -> Algorithm[Any]:
    """Returns the row of an algorithm. Raises LPOError where there is none."""
    if algorithm not in ALGORITHMS:
        raise LPOError(
            f"no algorithm is called {algorithm!r}; choose one of {', '.join(ALGORITHMS)}."
        )
    return ALGORITHMS[algorithm]


def check_heeded(algorithm: str, options: Options) -> None:
    """Raises LPOError for an option that means nothing to the algorithm."""
    heeds = find(algorithm).heeds
    for name, option in fields_of(Options).items():
        given = getattr(options, name)
        if given != option.default and name not in heeds:
            others = ", ".join(a for a, row in ALGORITHMS.items() if name in row.heeds)
            raise LPOError(
                f"{named(name)} {given} means nothing to {algorithm}; leave it out, or choose "
                f"among {others}."
            )


def run(
    algorithm: str,
    mdp: MDP,
    constants: Constants,
    seed: int = 0,
    options: Options = Options(),  # noqa: B008  (frozen)
    seconds: float = np.inf,
    epoch: int = 100,
    scale: float = 0.1,
    F: str = "",
) -> Trace:
    """Runs one algorithm; `epoch` is ENIAC's and PC-PG's, `scale` the value-based bonus scale.

    `F` names a class of `CLASSES`. Without it the algorithm takes its own: the box or the ball.
    """
    row = find(algorithm)
    check_heeded(algorithm, options)
    rng = np.random.default_rng(seed)
    given = Given(mdp, constants, rng, options, seconds, epoch, scale)
    return row.learn(given, class_of(row, algorithm, F)(mdp))


def class_of(row: Algorithm[Any], algorithm: str, F: str) -> Callable[[MDP], Any]:
    """Returns what makes the class of a run. Raises LPOError where the algorithm cannot use it."""
    if F and F not in CLASSES:
        raise LPOError(f"no class is called {F!r}; choose one of {', '.join(CLASSES)}.")
    if F and row.function_class is not function_class:
        raise LPOError(f"the class of {algorithm} is given; leave function_class out.")
    return CLASSES[F] if F else row.function_class


EPSILONS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)


def summary(trace: Trace) -> dict:
    """Returns the figures of one run as plain numbers; steps are keyed by ε as a share of V*.

    `steps_until` is the first time the last iterate is that good, `steps_to` the time from which it
    stays so; optimists that never stop exploring reach the second late or never.
    """
    best = trace.mdp.optimal_value
    return {
        "mdp": trace.mdp.name,
        "gamma": trace.mdp.gamma,
        "optimal_value": best,
        "iterations": trace.iterations,
        "env_steps": trace.total_steps,
        "switches": trace.switches,
        "inner_iterations": trace.inner,
        "additions": trace.additions,
        "distinct": trace.distinct,
        "copies": trace.copies,
        "gap_last": trace.gap_last[-1],
        "gap_policy": trace.gap_policy[-1],
        "gap_mixture": trace.final_gap_mixture,
        "relative_gap_last": trace.gap_last[-1] / best,
        "relative_gap_mixture": trace.final_gap_mixture / best,
        "relative_gap_late": trace.late_gap() / best,
        "transfer_last": trace.transfer[-1] if trace.transfer else None,
        "transfer_most": max(trace.transfer, default=None),
        "seconds": trace.seconds,
        "steps_until": {str(e): trace.steps_until(e * best) for e in EPSILONS},
        "steps_to": {str(e): trace.steps_to(e * best) for e in EPSILONS},
    }
