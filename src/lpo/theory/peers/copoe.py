"""COPOE (Zanette, Cheng and Agarwal 2021), cautiously optimistic, linear (theory room; peers).

LPO's linear ancestor: every sample enters Σ = λI + Σφφᵀ, the policy changes when det Σ has doubled
since the last change, the bonus on known states is elliptic, the critic importance-sampled.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from lpo.theory.algorithms import Absorb, Options, Search
from lpo.theory.classes.linear import LinearBall, rank_one
from lpo.theory.constants import Constants
from lpo.theory.mdp import MDP
from lpo.theory.trace import Trace

DOUBLED = float(np.log(2.0)) + 1e-9  # strictly more than doubled, rounding aside


@njit(cache=True)
def _until_doubled(features, covariance, inverse, z, log_det):
    """Rank-one updates until ln det Σ has grown by ln 2; (samples used, growth so far)."""
    for i in range(len(z)):
        phi = features[z[i]]
        log_det += np.log1p(phi @ (inverse @ phi))
        rank_one(covariance, inverse, phi, 1.0)
        if log_det > DOUBLED:
            return i + 1, log_det
    return len(z), log_det


def elliptic_bonus(
    F: LinearBall, inverse: np.ndarray, c: Constants, mdp: MDP
) -> tuple[np.ndarray, np.ndarray]:
    """(known pairs, bonus): known when n0·‖φ‖²_{Σ⁻¹} < 1; b is that norm on known states."""
    norm = np.sqrt(c.n0 * np.einsum("zi,ij,zj->z", F.features, inverse, F.features, optimize=True))
    known = (norm < 1.0).reshape(mdp.num_states, -1)
    inside = np.repeat(known.all(axis=1), mdp.num_actions)
    return known, np.where(inside, c.width_bonus * norm, c.unknown_bonus)


def copoe(
    mdp: MDP,
    F: LinearBall,
    constants: Constants,
    rng: np.random.Generator,
    options: Options = Options(),  # noqa: B008  (frozen)
    seconds: float = np.inf,
    ridge: float = 0.1,
) -> Trace:
    """N samples; policy changes by determinant doubling."""
    search = Search(mdp, F, constants, rng, options, seconds)
    covariance, inverse = ridge * np.eye(F.dim), np.eye(F.dim) / ridge
    while search.goes_on:
        search.change_policy(*elliptic_bonus(F, inverse, constants, mdp))
        search.serve(_doubling(F, covariance, inverse), largest=1 << 14)
        inverse = np.linalg.inv(covariance)  # drift of the rank-one updates ends here
    return search.finish()


def _doubling(F: LinearBall, covariance: np.ndarray, inverse: np.ndarray) -> Absorb:
    """Every sample enters Σ; a change is due when det Σ has more than doubled."""
    growth = 0.0

    def absorb(z: np.ndarray) -> tuple[int, bool]:
        nonlocal growth
        used, growth = _until_doubled(F.features, covariance, inverse, z, growth)
        return used, growth > DOUBLED

    return absorb
