"""COPOE (Zanette, Cheng and Agarwal 2021), cautiously optimistic, linear (theory room; peers).

LPO's linear ancestor: every sample enters Σ = λI + Σφφᵀ, the policy changes when det Σ has doubled
since the last change, the bonus on known states is elliptic, the critic importance-sampled.
"""

from __future__ import annotations

import time

import numpy as np
from numba import njit

from lpo.theory.algorithms import Options, cover_needs, d_sampler, policy_update
from lpo.theory.classes.linear import LinearBall, _rank_one
from lpo.theory.constants import Constants
from lpo.theory.mdp import MDP
from lpo.theory.policy import Cover, uniform
from lpo.theory.trace import Trace


@njit(cache=True)
def _until_doubled(features, covariance, inverse, z, log_det):
    """Rank-one updates until ln det Σ has grown by ln 2; (samples used, growth so far)."""
    for i in range(len(z)):
        phi = features[z[i]]
        log_det += np.log1p(phi @ (inverse @ phi))
        _rank_one(covariance, inverse, phi, 1.0)
        if log_det > np.log(2.0) + 1e-9:  # strictly more than doubled, rounding aside
            return i + 1, log_det
    return len(z), log_det


def elliptic_bonus(F: LinearBall, inverse: np.ndarray, c: Constants, mdp: MDP):
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
    c, began = constants, time.perf_counter()
    laws, walks = cover_needs(options)
    cover, trace = Cover(mdp, laws, walks), Trace(mdp)
    cover.append(uniform(mdp))
    trace.policy(uniform(mdp), steps=0)
    covariance, inverse = ridge * np.eye(F.dim), np.eye(F.dim) / ridge
    guess, n = np.zeros(mdp.num_pairs), 1
    while n <= c.N and time.perf_counter() - began < seconds:
        known, bonus = elliptic_bonus(F, inverse, c, mdp)
        update = (mdp, F, cover, bonus, known, c, rng, options, guess)
        stack, steps, inner = policy_update(*update)
        trace.policy(stack, steps, inner=inner)
        cover.append(stack, repeats=0)
        served, log_det, block, walked = 0, 0.0, 16, 0.0
        while n + served <= c.N and log_det <= np.log(2.0) + 1e-9:
            block = min(block * 2, 1 << 14, c.N - n - served + 1)
            z, cost = d_sampler(mdp, cover, block, rng, options.roll_in)
            used, log_det = _until_doubled(F.features, covariance, inverse, z, log_det)
            served, walked = served + used, walked + cost * used / block
        inverse = np.linalg.inv(covariance)  # drift of the rank-one updates ends here
        cover.repeat_last(served)
        n += served
        trace.served(served, round(walked))
    trace.finish(time.perf_counter() - began)
    return trace
