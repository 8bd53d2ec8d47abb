"""ENIAC and PC-PG: fixed epochs, an indicator bonus, fresh roll-outs (theory room; peers).

What differs from LPO: all `epoch` samples of an epoch enter the dataset, the bonus is 1/(1−γ) on
unknown pairs and nothing elsewhere, the whole bonus is in the critic, and every inner iteration has
roll-outs of its own. The cover counts epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lpo.theory.algorithms import Options, Search
from lpo.theory.classes.base import FunctionClass, Sensed
from lpo.theory.classes.linear import LinearBall
from lpo.theory.constants import Constants
from lpo.theory.mdp import MDP
from lpo.theory.trace import Trace


def eniac(
    mdp: MDP,
    F: FunctionClass,
    constants: Constants,
    rng: np.random.Generator,
    options: Options = Options(),  # noqa: B008  (frozen)
    seconds: float = np.inf,
    epoch: int = 100,
) -> Trace:
    """ENIAC (Feng et al. 2021), the sampled version with soft policy iteration.

    A pair is known when its width over all samples so far is below β, F̂ of radius ε.
    """
    c, sensed = constants, F.empty()

    def learn(z: np.ndarray) -> np.ndarray:
        for pair, copies in zip(*np.unique(z, return_counts=True), strict=True):
            F.add(sensed, int(pair), float(copies))
        return F.width(sensed, c.epsilon) < c.beta

    return _epochs(_fresh(mdp, F, c, rng, options, seconds), epoch, learn, sensed)


def pcpg(
    mdp: MDP,
    F: LinearBall,
    constants: Constants,
    rng: np.random.Generator,
    options: Options = Options(),  # noqa: B008  (frozen)
    seconds: float = np.inf,
    epoch: int = 100,
    ridge: float = 1.0,
) -> Trace:
    """PC-PG (Agarwal et al. 2020), policy cover guided policy gradient, linear throughout.

    Σ_cov = λI + Σ_epochs Σ̂(π^n). A pair is known when φᵀΣ_cov⁻¹φ < β; β is set so that n0 visits
    of a lone feature make it known.
    """
    beta, covariance = 1.0 / (constants.n0 + ridge), ridge * np.eye(F.dim)

    def learn(z: np.ndarray) -> np.ndarray:
        covariance[:] += F.features[z].T @ F.features[z]
        return (F.features * np.linalg.solve(covariance, F.features.T).T).sum(axis=1) < beta

    return _epochs(_fresh(mdp, F, constants, rng, options, seconds), epoch, learn)


def _fresh(
    mdp: MDP,
    F: FunctionClass,
    constants: Constants,
    rng: np.random.Generator,
    options: Options,
    seconds: float,
) -> Search:
    """Returns a search with new roll-outs at every inner iteration."""
    c, options = constants.with_(kappa=0), replace(options, reuse="kappa")
    return Search(mdp, F, c, rng, options, seconds)


def _epochs(
    search: Search,
    epoch: int,
    learn: Callable[[np.ndarray], np.ndarray],
    sensed: Sensed | None = None,
) -> Trace:
    """Runs N/epoch epochs; `learn` takes an epoch's samples in and says which pairs are known."""
    mdp = search.mdp
    for _ in range(search.constants.N // epoch):
        z, steps = search.sample(epoch)
        known = learn(z)
        search.trace.served(epoch, steps, sensed)
        bonus = np.where(known, 0.0, 1.0 / (1.0 - mdp.gamma))
        search.change_policy(known.reshape(mdp.num_states, -1), bonus, repeats=1)
        if search.late:
            break
    return search.finish()
