"""ENIAC (Feng et al. 2021), the sampled version with soft policy iteration (theory room; peers).

What differs from LPO: fixed epochs of `epoch` samples that all enter the dataset, an indicator
bonus 1{ω ≥ β}/(1−γ) on pairs and no width bonus, the whole bonus in the critic, fresh roll-outs for
every inner iteration. The cover counts epochs.
"""

from __future__ import annotations

import time

import numpy as np

from lpo.theory.algorithms import Options, cover_needs, d_sampler, policy_update
from lpo.theory.classes.base import FunctionClass
from lpo.theory.constants import Constants
from lpo.theory.mdp import MDP
from lpo.theory.policy import Cover, uniform
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
    """Runs N/epoch epochs; a width is taken over all samples so far, F̂ of radius ε."""
    c, began = constants.with_(kappa=0), time.perf_counter()
    options = fresh(options)
    laws, walks = cover_needs(options)
    cover, sensed, trace = Cover(mdp, laws, walks), F.empty(), Trace(mdp)
    cover.append(uniform(mdp))
    trace.policy(uniform(mdp), steps=0)
    guess = np.zeros(mdp.num_pairs)
    for _ in range(c.N // epoch):
        z, steps = d_sampler(mdp, cover, epoch, rng, options.roll_in)
        for pair, copies in zip(*np.unique(z, return_counts=True), strict=True):
            F.add(sensed, int(pair), float(copies))
        trace.served(epoch, steps, sensed)
        known = (F.width(sensed, c.epsilon) < c.beta).reshape(mdp.num_states, -1)
        bonus = np.where(known.ravel(), 0.0, 1.0 / (1.0 - mdp.gamma))
        update = (mdp, F, cover, bonus, known, c, rng, options, guess)
        stack, steps, inner = policy_update(*update)
        trace.policy(stack, steps, inner=inner)
        cover.append(stack)
        if time.perf_counter() - began >= seconds:
            break
    trace.finish(time.perf_counter() - began)
    return trace


def fresh(options: Options) -> Options:
    """The same options with new roll-outs at every inner iteration."""
    return Options(**{**options.__dict__, "reuse": "kappa"})
