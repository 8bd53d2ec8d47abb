"""Misspecification measured: the transfer error of Def. B.1, exactly (theory room; App. B.3)."""

from __future__ import annotations

import numpy as np

from lpo.theory.classes.base import FunctionClass
from lpo.theory.mdp import MDP, q_from_v, value, visitation


def best_fit(
    mdp: MDP, F: FunctionClass, law: np.ndarray, pi: np.ndarray, bonus: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(f*, Q_b^π − b): f* = argmin_F L(f; ρ_cov, Q_b^π − b) of Def. B.4, for ρ_cov = `law`."""
    target = q_from_v(mdp, value(mdp, pi, bonus))
    return F.fit(law, target), target


def transfer_error(
    mdp: MDP,
    F: FunctionClass,
    law: np.ndarray,
    pi: np.ndarray,
    bonus: np.ndarray,
    comparator: np.ndarray,
) -> float:
    """ε_k^n = L(f*; d̃, Q_b^π − b) with d̃(s, a) = d^π̃(s)·Unif(A), the bias Assumption B.2 bounds.

    Where several f minimise the loss under `law`, this is that of the least-norm one, an upper
    bound of the infimum in the definition.
    """
    return float(transfer_errors(mdp, F, law, pi[None], bonus, comparator)[0])


def transfer_errors(
    mdp: MDP,
    F: FunctionClass,
    law: np.ndarray,
    stack: np.ndarray,
    bonus: np.ndarray,
    comparator: np.ndarray,
) -> np.ndarray:
    """`transfer_error` of every member of `stack` [K, S, A]."""
    states = visitation(mdp, comparator).reshape(mdp.num_states, -1).sum(axis=1)
    d = np.repeat(states / mdp.num_actions, mdp.num_actions)
    targets = mdp.r + mdp.gamma * (value(mdp, stack, bonus) @ mdp.P.T)
    return np.array([d @ (F.fit(law, target) - target) ** 2 for target in targets])
