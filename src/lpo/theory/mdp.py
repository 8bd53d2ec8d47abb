"""Finite MDPs with exact answers (theory room; Section 2 of the paper).

A state-action pair z = (s, a) is one index z = s·A + a everywhere in this room, so tables over
pairs are flat vectors of length S·A. Values are discounted sums from the fixed first state s_0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lpo.errors import LPOError


@dataclass(frozen=True, eq=False)
class MDP:
    """P[z, s'], r[z], discount γ and the single first state s_0; `features[z]` when linear.

    `terminal[s]` marks states that are absorbing with the same reward for every action: any
    policy is as good as any other there, and learners leave such states uniform.
    """

    name: str
    P: np.ndarray
    r: np.ndarray
    gamma: float
    num_actions: int
    start: int = 0
    features: np.ndarray | None = None
    bias: float = 0.0  # sup-norm distance of r and P from exact linearity in `features`
    terminal: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        _check(self)
        S, A = self.num_states, self.num_actions
        stays = self.P.reshape(S, A, S)[np.arange(S), :, np.arange(S)] == 1.0
        same = np.ptp(self.r.reshape(S, A), axis=1) == 0.0
        object.__setattr__(self, "terminal", stays.all(axis=1) & same)

    @property
    def num_states(self) -> int:
        return self.P.shape[1]

    @property
    def num_pairs(self) -> int:
        return self.P.shape[0]

    @cached_property
    def optimal(self) -> tuple[np.ndarray, np.ndarray]:
        """(V*, π*) by policy iteration: exact linear solves, ties to the first action."""
        S, A = self.num_states, self.num_actions
        pi = np.full((S, A), 1.0 / A)
        for _ in range(10_000):
            v = value(self, pi)
            q = q_from_v(self, v).reshape(S, A)
            keep = q.max(axis=1) - np.take_along_axis(q, pi.argmax(1)[:, None], 1)[:, 0] <= 1e-12
            best = np.where(keep, pi.argmax(1), q.argmax(1))
            new = np.eye(A)[best]
            if np.array_equal(new, pi):
                return v, pi
            pi = new
        raise LPOError(f"policy iteration on {self.name} did not settle; lower gamma.")

    @property
    def optimal_value(self) -> float:
        """V*(s_0)."""
        return float(self.optimal[0][self.start])


def _check(m: MDP) -> None:
    if not 0.0 <= m.gamma < 1.0:
        raise LPOError(f"gamma is {m.gamma}, outside [0, 1); choose a discount such as 0.9.")
    if m.num_actions < 1:
        raise LPOError("the action set is empty; give the MDP at least one action.")
    if m.P.ndim != 2 or m.P.shape[0] != m.P.shape[1] * m.num_actions or m.P.shape[0] == 0:
        raise LPOError(
            f"P has shape {m.P.shape}, not (S·A, S) with A={m.num_actions};"
            " lay the rows out as z = s·A + a."
        )
    off = np.abs(m.P.sum(axis=1) - 1.0)
    if m.P.min() < 0 or off.max() > 1e-9:
        row = int(off.argmax()) if m.P.min() >= 0 else int(m.P.min(axis=1).argmin())
        raise LPOError(
            f"row {row} of P sums to {m.P[row].sum():.6g} with least entry {m.P[row].min():.3g};"
            " normalise every row to a probability distribution."
        )
    if m.r.shape != (m.P.shape[0],) or not np.isfinite(m.r).all() or m.r.min() < 0 or m.r.max() > 1:
        raise LPOError("rewards must be S·A finite numbers in [0, 1]; rescale and shift them.")
    if not 0 <= m.start < m.P.shape[1]:
        raise LPOError(f"start state {m.start} does not exist; choose one below {m.P.shape[1]}.")
    if m.features is not None and len(m.features) != m.P.shape[0]:
        raise LPOError(f"features has {len(m.features)} rows; give one row per pair (s, a).")


def q_from_v(mdp: MDP, v: np.ndarray, extra: np.ndarray | None = None) -> np.ndarray:
    """Q(z) = r(z) + b(z) + γ Σ_s' P(s'|z) V(s'), a flat vector over pairs."""
    r = mdp.r if extra is None else mdp.r + extra
    return r + mdp.gamma * (mdp.P @ v)


def _kernels(mdp: MDP, pi: np.ndarray) -> np.ndarray:
    """I − γ P_π for one policy [S, A] or a stack [K, S, A]."""
    S, A = mdp.num_states, mdp.num_actions
    P_pi = np.matmul(np.moveaxis(pi, -2, 0).reshape(S, -1, A), mdp.P.reshape(S, A, S))
    P_pi = np.moveaxis(P_pi, 0, 1).reshape(*pi.shape[:-2], S, S)
    return np.eye(S) - mdp.gamma * P_pi


def value(mdp: MDP, pi: np.ndarray, extra: np.ndarray | None = None) -> np.ndarray:
    """V^π(s) = [(I − γ P_π)⁻¹ r_π](s) for `pi[..., S, A]`, with bonus `extra[z]` added to r."""
    r = mdp.r if extra is None else mdp.r + extra
    r_pi = (pi * r.reshape(mdp.num_states, mdp.num_actions)).sum(-1)
    return np.linalg.solve(_kernels(mdp, pi), r_pi[..., None])[..., 0]


def values(mdp: MDP, pi: np.ndarray, extra: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(V^π on r, V^π on r + extra) from one factorisation."""
    table = np.stack([mdp.r, mdp.r + extra], axis=-1)
    table = table.reshape(mdp.num_states, mdp.num_actions, 2)
    r_pi = (pi[..., None] * table).sum(-2)
    v = np.linalg.solve(_kernels(mdp, pi), r_pi)
    return v[..., 0], v[..., 1]


def visitation(mdp: MDP, pi: np.ndarray) -> np.ndarray:
    """d^π(z) = (1−γ) Σ_t γ^t Pr(z_t = z | s_0, π), for `pi[..., S, A]`; sums to one."""
    e0 = np.zeros(mdp.num_states)
    e0[mdp.start] = 1.0 - mdp.gamma
    transposed = np.swapaxes(_kernels(mdp, pi), -1, -2)
    d_s = np.linalg.solve(transposed, np.broadcast_to(e0, pi.shape[:-1])[..., None])[..., 0]
    return np.maximum(d_s[..., None] * pi, 0.0).reshape(*pi.shape[:-2], mdp.num_pairs)


def gap(mdp: MDP, pi: np.ndarray) -> float:
    """V*(s_0) − V^π(s_0); for a stack [K, S, A], of the uniform mixture over its members.

    A mixture draws one member for a whole episode (Alg. 3), so its value is the members' mean.
    """
    return mdp.optimal_value - float(np.mean(value(mdp, pi)[..., mdp.start]))
