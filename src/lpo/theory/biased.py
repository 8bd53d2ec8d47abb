"""MDPs whose features are wrong in a known way (theory room; Definition B.1, Assumption B.2).

`severity` is the size of the error, and 0 is an exact class. Where the error lies decides what it
costs: ε_bias counts only states that the comparator π* visits. In `corridor` and `keyless` it
visits none of the merged states; in `aliased` it visits all of them.
"""

from __future__ import annotations

import numpy as np

from lpo.errors import LPOError
from lpo.finite import combination_lock
from lpo.theory.mdp import MDP


def merged(group: np.ndarray, num_actions: int) -> np.ndarray:
    """State aggregation: φ(s, a) is the unit vector of (group of s, a)."""
    group = np.unique(group, return_inverse=True)[1]
    z = (group[:, None] * num_actions + np.arange(num_actions)).ravel()
    return np.eye(int(z.max()) + 1)[z]


def aliased(pairs: int = 3, severity: float = 0.1, gamma: float = 0.8) -> MDP:
    """State aggregation on the way of π*: s_0 scatters to 2n contexts, merged two by two.

    In the first context of a couple action 1 pays `severity` more than action 0, in the second
    action 0 pays 2·`severity` more. A policy of the class acts alike in both, so its best choice is
    action 0, and it loses `severity` in every first context. No class without the other features
    can do better.
    """
    _share(severity, 1.0 / 3.0)
    S = 2 * pairs + 2  # s_0, contexts, end
    P, r = np.zeros((S, 2, S)), np.zeros((S, 2))
    P[0, :, 1 : S - 1] = 0.5 / pairs
    P[1:, :, S - 1] = 1.0
    r[1 : S - 1] = 1.0 / 3.0
    r[1 : S - 1 : 2, 1] += severity
    r[2 : S - 1 : 2, 0] += 2 * severity
    group = np.r_[0, 1 + np.arange(2 * pairs) // 2, S]
    return _mdp("aliased", severity, P, r, gamma, merged(group, 2))


def corridor(length: int = 12, severity: int = 4, gamma: float = 0.8, safe: float = 0.15) -> MDP:
    """State aggregation off the way of π*: a corridor whose cells are merged by `severity`.

    In s_0 action 0 earns `safe` for ever. Action 1 enters a corridor of `length` cells, and at its
    end 1 for ever, which is worth γ^length of that in s_0. Merged cells look like one that is left
    by chance: a Bellman backup takes E[γ^T] of a geometric T for γ^severity, which is more. The
    return of a whole trajectory is not fooled. Severity 1 merges nothing.
    """
    if severity < 1 or length % severity:
        raise LPOError(f"severity {severity} does not divide {length} cells; choose a divisor.")
    S = length + 3  # s_0, cells, the safe place, the end
    P, r = np.zeros((S, 2, S)), np.zeros((S, 2))
    P[0, 0, S - 2] = P[0, 1, 1] = P[S - 2, :, S - 2] = P[S - 1, :, S - 1] = 1.0
    for cell in range(1, length + 1):
        P[cell, :, cell + 1 if cell < length else S - 1] = 1.0
    r[S - 2], r[S - 1] = safe, 1.0
    group = np.r_[0, 1 + np.arange(length) // severity, S - 2, S - 1]
    return _mdp("corridor", severity, P, r, gamma, merged(group, 2))


def keyless(
    length: int = 2, severity: float = 1.0, num_actions: int = 3, gamma: float = 0.9
) -> MDP:
    """PC-PG's lock, the second of its two locks seen through features of its levels alone.

    `severity` is the share of the second lock's levels, from the first on, whose three states are
    merged. π* opens the first lock, so it never meets them.
    """
    _share(severity, 1.0)
    table = combination_lock(length, num_actions)
    group = np.arange(len(table.reward))
    for level in range(round(severity * length)):
        here = 1 + 3 * (length + level)
        group[here : here + 3] = here
    P = table.transitions()
    return _mdp("keyless", severity, P, table.reward, gamma, merged(group, num_actions))


def decoy(dim: int = 6, severity: float = 0.3, num_states: int = 18, seed: int = 0) -> MDP:
    """Adversarial features on a linear MDP: pairs that π* does not choose look like the best one.

    φ of every pair but π*'s own is moved by `severity` towards φ of the pair of largest reward.
    """
    from lpo.theory.zoo import linear_mdp

    _share(severity, 1.0)
    m = linear_mdp(dim, num_states, 3, seed=seed)
    assert m.features is not None
    own = m.optimal[1].ravel() > 0
    top = m.features[m.r.argmax()]
    moved = (1 - severity) * m.features + severity * top
    features = np.where(own[:, None], m.features, moved)
    return _mdp("decoy", severity, m.P, m.r, m.gamma, features, 3)


def _mdp(
    name: str,
    severity: float,
    P: np.ndarray,
    r: np.ndarray,
    gamma: float,
    features: np.ndarray,
    num_actions: int = 0,
) -> MDP:
    num_actions = num_actions or r.shape[1]
    P = P.reshape(-1, P.shape[-1])
    return MDP(f"{name}({severity:g})", P, r.ravel(), gamma, num_actions, features=features)


def _share(severity: float, most: float) -> None:
    if not 0.0 <= severity <= most:
        raise LPOError(f"severity is {severity}, outside [0, {most:.3g}]; choose a smaller one.")
