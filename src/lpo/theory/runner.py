"""One door to every algorithm of the theory room, with matched constants (theory room).

`run` builds the function class an algorithm wants, the constants it shares with the others, and
returns its trace. N is the number of outer iterations: d-samples for the policy-gradient methods,
episodes for the value-based ones.
"""

from __future__ import annotations

from dataclasses import asdict, fields

import numpy as np

from lpo.errors import LPOError
from lpo.theory.algorithms import Options, lpo
from lpo.theory.classes import Box, FunctionClass, LinearBall
from lpo.theory.constants import Constants
from lpo.theory.mdp import MDP
from lpo.theory.peers import copoe, eniac, lsvi_ucb, pcpg, subsampled_lsvi, tabular_features, ucbvi
from lpo.theory.trace import Trace

ALGORITHMS = (
    "lpo",
    "lpo-patient",
    "lpo-always",
    "eniac",
    "pcpg",
    "copoe",
    "lsvi-ucb",
    "ucbvi",
    "kong",
)
VALUE_BASED = ("lsvi-ucb", "ucbvi", "kong")
_SHARED = frozenset({"critic", "estimator", "reuse", "roll_in"})
_LPO = _SHARED | {"known", "rounding"}
APPLIES = {  # the options each algorithm heeds; others must be left at their defaults
    "lpo": _LPO | {"switch", "patience"},
    "lpo-patient": _LPO | {"patience"},
    "lpo-always": _LPO,
    **dict.fromkeys(("eniac", "pcpg", "copoe"), _SHARED),
    **dict.fromkeys(VALUE_BASED, frozenset()),
}


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


def run(
    algorithm: str,
    mdp: MDP,
    constants: Constants,
    seed: int = 0,
    options: Options = Options(),  # noqa: B008  (frozen)
    seconds: float = np.inf,
    epoch: int = 100,
    scale: float = 0.1,
) -> Trace:
    """Run one algorithm; `epoch` is ENIAC's and PC-PG's, `scale` the value-based bonus scale."""
    if algorithm not in ALGORITHMS:
        raise LPOError(
            f"no algorithm is called {algorithm!r}; choose one of {', '.join(ALGORITHMS)}."
        )
    _check(algorithm, options)
    rng = np.random.default_rng(seed)
    if algorithm in VALUE_BASED:
        if algorithm == "ucbvi":
            return ucbvi(mdp, constants.N, rng, scale, seconds)
        if algorithm == "lsvi-ucb":
            features = tabular_features(mdp)
            return lsvi_ucb(mdp, features, constants.N, rng, scale, seconds=seconds)
        F = function_class(mdp)
        return subsampled_lsvi(mdp, F, constants.N, rng, scale, constants.factor, seconds)
    if algorithm == "pcpg":
        return pcpg(mdp, linear_class(mdp), constants, rng, options, seconds, epoch)
    if algorithm == "copoe":
        return copoe(mdp, linear_class(mdp), constants, rng, options, seconds)
    F = function_class(mdp)
    if algorithm == "eniac":
        return eniac(mdp, F, constants, rng, options, seconds, epoch)
    if algorithm == "lpo-patient":
        options = Options(**{**asdict(options), "patience": options.patience or 0.1})
    if algorithm == "lpo-always":
        options = Options(**{**asdict(options), "switch": "always"})
    return lpo(mdp, F, constants, rng, options, seconds)


def _check(algorithm: str, options: Options) -> None:
    """No option is silently ignored."""
    for option in fields(Options):
        given = getattr(options, option.name)
        if given != option.default and option.name not in APPLIES[algorithm]:
            raise LPOError(f"{option.name}={given!r} means nothing to {algorithm}; leave it out.")


EPSILONS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)


def summary(trace: Trace) -> dict:
    """The figures of one run as plain numbers; steps are keyed by ε as a share of V*.

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
        "seconds": trace.seconds,
        "steps_until": {str(e): trace.steps_until(e * best) for e in EPSILONS},
        "steps_to": {str(e): trace.steps_to(e * best) for e in EPSILONS},
        "steps_to_mixture": {str(e): trace.steps_to(e * best, "gap_mixture") for e in EPSILONS},
    }
