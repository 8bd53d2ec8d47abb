"""Value-based optimism: UCBVI, LSVI-UCB and sub-sampled LSVI (theory room; peers).

All three act for H steps from s_0 by an optimistic Q_h computed backwards with discount γ, and
share data between stages because our MDPs do not change with h (Azar et al. and Jin et al. keep a
dataset a stage; sharing only helps them). What is reported is the stationary policy greedy in Q_0.
Transitions are kept as counts n(z, s'), so the cost of an update does not grow with the data.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numba import njit

from lpo.theory.classes.base import FunctionClass
from lpo.theory.classes.linear import rank_one
from lpo.theory.mdp import MDP
from lpo.theory.policy import uniform
from lpo.theory.simulate import move, next_uniform, tables
from lpo.theory.trace import Trace


@njit(cache=True)
def _episode(cut, choice, terminal, greedy, start, seed):
    """Act greedily for H steps; (pairs, next states, length)."""
    H, num_actions = greedy.shape[0], greedy.shape[2]
    z_out, s_out = np.empty(H, np.int64), np.empty(H, np.int64)
    rng, s, t = np.uint64(seed), start, 0
    while t < H and not terminal[s]:
        rng, u = next_uniform(rng)
        total, a = 0.0, num_actions - 1
        for b in range(num_actions):
            total += greedy[t, s, b]
            if u < total:
                a = b
                break
        z = s * num_actions + a
        rng, u = next_uniform(rng)
        s = move(cut, choice, z, u)
        z_out[t], s_out[t] = z, s
        t += 1
    return z_out[:t], s_out[:t]


def horizon(mdp: MDP) -> int:
    """H = ⌈3/(1−γ)⌉: what comes later weighs less than e⁻³."""
    return int(np.ceil(3.0 / (1.0 - mdp.gamma)))


def greedy(q: np.ndarray) -> np.ndarray:
    """Uniform over maximisers, for Q[..., S, A]."""
    top = q >= q.max(axis=-1, keepdims=True) - 1e-12
    return top / top.sum(axis=-1, keepdims=True)


class Counts:
    """n(z), n(z, s') and the reward seen at z (rewards are deterministic here)."""

    def __init__(self, mdp: MDP) -> None:
        self.mdp = mdp
        self.pair = np.zeros(mdp.num_pairs)
        self.next = np.zeros((mdp.num_pairs, mdp.num_states))
        self.reward = np.zeros(mdp.num_pairs)

    def add(self, z: np.ndarray, s: np.ndarray) -> None:
        np.add.at(self.pair, z, 1.0)
        np.add.at(self.next, (z, s), 1.0)
        self.reward[z] = self.mdp.r[z]


Backup = Callable[[np.ndarray], np.ndarray]  # V [S] → Q [S·A]


def backward(mdp: MDP, H: int, top: float, backup: Backup) -> np.ndarray:
    """Q_h = clip(backup(V_{h+1}), 0, top), h = H−1..0, V_H = 0; Q of shape [H, S, A]."""
    q = np.empty((H, mdp.num_states, mdp.num_actions))
    v = np.zeros(mdp.num_states)
    for h in range(H - 1, -1, -1):
        q[h] = np.clip(backup(v), 0.0, top).reshape(mdp.num_states, mdp.num_actions)
        v = q[h].max(axis=1)
    return q


@njit(cache=True)
def _affine(fixed, onward, H, num_actions, top):
    """`backward` for backups of the form fixed + onward·V, compiled."""
    P, S = onward.shape
    q = np.empty((H, S, num_actions))
    v = np.zeros(S)
    for h in range(H - 1, -1, -1):
        raw = fixed + onward @ v
        for z in range(P):
            q[h, z // num_actions, z % num_actions] = min(max(raw[z], 0.0), top)
        for s in range(S):
            v[s] = q[h, s].max()
    return q


class Stages:
    """What the three methods share: H stages, the counts, and the values at the end states.

    Nobody has to act in an end state to learn that each of its pairs is worth r·H_γ.
    """

    def __init__(self, mdp: MDP, H: int | None) -> None:
        self.mdp, self.H, self.data = mdp, H or horizon(mdp), Counts(mdp)
        self.top = (1.0 - mdp.gamma**self.H) / (1.0 - mdp.gamma)  # H_γ, the discounted horizon
        self.end = np.repeat(mdp.terminal, mdp.num_actions)
        self.worth = mdp.r * self.top

    def affine(self, fixed: np.ndarray, onward: np.ndarray) -> np.ndarray:
        """Returns Q for the backups fixed + onward·V."""
        fixed = np.where(self.end, self.worth, fixed)
        onward = np.where(self.end[:, None], 0.0, onward)
        return _affine(fixed, onward, self.H, self.mdp.num_actions, self.top)

    def general(self, backup: Backup) -> np.ndarray:
        """Returns Q for any backup of V."""
        return backward(
            self.mdp, self.H, self.top, lambda v: np.where(self.end, self.worth, backup(v))
        )


def _play(
    trace: Trace,
    plan: Callable[[], np.ndarray],
    absorb: Callable[[np.ndarray, np.ndarray], bool],
    episodes: int,
    seconds: float,
    rng: np.random.Generator,
) -> Trace:
    """Episodes: plan when asked to, act, absorb; `absorb` says whether to plan again."""
    mdp, began, again = trace.mdp, time.perf_counter(), True
    table, seeds = tables(mdp), rng.integers(0, 2**63, size=episodes)
    acting = uniform(mdp)
    trace.policy(acting, steps=0)
    for seed in seeds:
        if again:
            acting = greedy(plan())
            trace.policy(acting[:1], steps=0)
        z, s = _episode(*table, acting, mdp.start, np.uint64(seed))
        again = absorb(z, s)
        trace.served(1, len(z))
        if time.perf_counter() - began >= seconds:
            break
    trace.seconds = time.perf_counter() - began
    return trace


def ucbvi(
    mdp: MDP,
    episodes: int,
    rng: np.random.Generator,
    scale: float = 0.1,
    seconds: float = np.inf,
    H: int | None = None,
) -> Trace:
    """UCBVI-CH (Azar et al. 2017): model n(z,s')/n(z), bonus scale·H_γ/sqrt(n), a plan an episode.

    The paper's scale is 7 ln(5SAT/δ); H_γ is the discounted horizon.
    """
    stages = Stages(mdp, H)
    top, data = stages.top, stages.data

    def plan() -> np.ndarray:
        n = np.maximum(data.pair, 1.0)
        optimistic = np.where(data.pair > 0, data.reward + scale * top / np.sqrt(n), top)
        return stages.affine(optimistic, mdp.gamma * data.next / n[:, None])

    def absorb(z: np.ndarray, s: np.ndarray) -> bool:
        data.add(z, s)
        return True

    return _play(Trace(mdp), plan, absorb, episodes, seconds, rng)


def lsvi_ucb(
    mdp: MDP,
    features: np.ndarray,
    episodes: int,
    rng: np.random.Generator,
    scale: float = 0.1,
    ridge: float = 0.1,
    seconds: float = np.inf,
    H: int | None = None,
) -> Trace:
    """LSVI-UCB (Jin et al. 2020): ridge regression per stage, bonus scale·H_γ·‖φ‖_{Λ⁻¹}.

    Σ_i φ(z_i)(r_i + γV(s'_i)) is Φᵀ(n·r + γ n(·,s')V), the same sum gathered by pair.
    """
    stages, d = Stages(mdp, H), features.shape[1]
    data, gram, inverse = stages.data, ridge * np.eye(d), np.eye(d) / ridge
    one_hot = d == mdp.num_pairs and np.array_equal(features, np.eye(d))

    def plan() -> np.ndarray:
        sums = np.column_stack([data.pair * data.reward, data.next])
        if one_hot:  # the same numbers without the matrix products
            square = 1.0 / (ridge + data.pair)
            predicted = square[:, None] * sums
        else:
            lift = features @ inverse  # [P, d]
            square = np.maximum((lift * features).sum(axis=1), 0.0)
            predicted = lift @ (features.T @ sums)
        bonus = scale * stages.top * np.sqrt(square)
        return stages.affine(predicted[:, 0] + bonus, mdp.gamma * predicted[:, 1:])

    def absorb(z: np.ndarray, s: np.ndarray) -> bool:
        data.add(z, s)
        for pair in [] if one_hot else z:
            rank_one(gram, inverse, features[pair], 1.0)
        return True

    return _play(Trace(mdp), plan, absorb, episodes, seconds, rng)


def subsampled_lsvi(
    mdp: MDP,
    F: FunctionClass,
    episodes: int,
    rng: np.random.Generator,
    scale: float = 0.1,
    factor: float = 1.0,
    seconds: float = np.inf,
    H: int | None = None,
) -> Trace:
    """Kong et al. 2021: least squares in F, bonus = scale·H_γ·width over Ẑ, plans when Ẑ changes.

    Ẑ is built by the same online sensitivity sampling as LPO's; the fit uses all data. The width is
    taken at radius ε = 1, so in the box class it is 1/sqrt(n̂).
    """
    stages, sensed, trace = Stages(mdp, H), F.empty(), Trace(mdp)
    data, cap = stages.data, 4.0 * episodes * stages.H * F.W**2

    def plan() -> np.ndarray:
        n = np.maximum(data.pair, 1.0)
        model, width = data.next / n[:, None], F.width(sensed, 1.0)
        bonus = scale * stages.top * np.minimum(width, 1.0 / scale)
        return stages.general(
            lambda v: F.fit(data.pair, data.reward + mdp.gamma * (model @ v)) + bonus
        )

    def absorb(z: np.ndarray, s: np.ndarray) -> bool:
        data.add(z, s)
        _, added = F.absorb(sensed, z, rng.random(len(z)), factor, cap, False)
        trace.additions, trace.distinct = sensed.additions, sensed.distinct
        return added > 0

    return _play(trace, plan, absorb, episodes, seconds, rng)


def tabular_features(mdp: MDP) -> np.ndarray:
    """φ(z) = e_z, or the MDP's own features."""
    return np.eye(mdp.num_pairs) if mdp.features is None else mdp.features
