"""PC-PG (Agarwal et al. 2020), policy cover guided policy gradient (theory room; peers).

Linear throughout: Σ_cov = λI + Σ_epochs Σ̂(π^n) from `epoch` d-samples each; a pair is known when
φᵀΣ_cov⁻¹φ < β; the bonus is 1/(1−γ) on unknown pairs; NPG with fresh roll-outs from the cover.
"""

from __future__ import annotations

import time

import numpy as np

from lpo.theory.algorithms import Options, cover_needs, d_sampler, policy_update
from lpo.theory.classes.linear import LinearBall
from lpo.theory.constants import Constants
from lpo.theory.mdp import MDP
from lpo.theory.peers.eniac import fresh
from lpo.theory.policy import Cover, uniform
from lpo.theory.trace import Trace


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
    """Runs N/epoch epochs. β is set so that n0 visits of a lone feature make it known."""
    c, began = constants.with_(kappa=0), time.perf_counter()
    options, beta = fresh(options), 1.0 / (constants.n0 + ridge)
    laws, walks = cover_needs(options)
    cover, trace = Cover(mdp, laws, walks), Trace(mdp)
    cover.append(uniform(mdp))
    trace.policy(uniform(mdp), steps=0)
    covariance = ridge * np.eye(F.dim)
    guess = np.zeros(mdp.num_pairs)
    for _ in range(c.N // epoch):
        z, steps = d_sampler(mdp, cover, epoch, rng, options.roll_in)
        covariance += F.features[z].T @ F.features[z]
        trace.served(epoch, steps)
        novelty = (F.features * np.linalg.solve(covariance, F.features.T).T).sum(axis=1)
        known = (novelty < beta).reshape(mdp.num_states, -1)
        bonus = np.where(known.ravel(), 0.0, 1.0 / (1.0 - mdp.gamma))
        update = (mdp, F, cover, bonus, known, c, rng, options, guess)
        stack, steps, inner = policy_update(*update)
        trace.policy(stack, steps, inner=inner)
        cover.append(stack)
        if time.perf_counter() - began >= seconds:
            break
    trace.finish(time.perf_counter() - began)
    return trace
