"""MDPs to explore in, each with exact values (theory room; the setting of App. B).

Rewards lie in [0, 1]. Names accepted by `make`: chain, riverswim, deepsea, deepsea-stochastic,
lock, random, linear, comb, dial; misspecified, aliased, corridor, keyless and decoy have features
that are wrong in a known way.
"""

from __future__ import annotations

import numpy as np

from lpo.errors import LPOError
from lpo.finite import Table, combination_lock, deep_sea
from lpo.theory import biased
from lpo.theory.mdp import MDP


def chain(length: int = 6, gamma: float = 0.9, slip: float = 0.0) -> MDP:
    """States 0..L−1 in a row: action 1 goes right (left with probability `slip`), 0 goes left.

    Reward 1 for going right in the last state, .01 for going left in the first.
    """
    _size(length, 2)
    P = np.zeros((length, 2, length))
    for s in range(length):
        left, right = max(s - 1, 0), min(s + 1, length - 1)
        P[s, 0, left] += 1.0
        P[s, 1, right] += 1.0 - slip
        P[s, 1, left] += slip
    r = np.zeros((length, 2))
    r[0, 0], r[-1, 1] = 0.01, 1.0
    return MDP(f"chain({length})", P.reshape(-1, length), r.ravel(), gamma, 2)


def riverswim(length: int = 6, gamma: float = 0.95) -> MDP:
    """RiverSwim (Strehl and Littman 2008): a stroke right succeeds with .35, fails with .05."""
    _size(length, 3)
    P = np.zeros((length, 2, length))
    for s in range(length):
        P[s, 0, max(s - 1, 0)] = 1.0
        up, back = (0.35, 0.05)
        if s == 0:
            up, back = 0.4, 0.0
        if s == length - 1:
            up, back = 0.0, 0.4
        P[s, 1, min(s + 1, length - 1)] += up
        P[s, 1, max(s - 1, 0)] += back
        P[s, 1, s] += 1.0 - up - back
    r = np.zeros((length, 2))
    r[0, 0], r[-1, 1] = 0.005, 1.0
    return MDP(f"riverswim({length})", P.reshape(-1, length), r.ravel(), gamma, 2)


def deepsea(size: int = 8, gamma: float = 0.95, slip: float = 0.0, seed: int = 0) -> MDP:
    """DeepSea of ``lpo.finite``; `seed` draws which action is "right" in each cell."""
    name = f"deepsea({size})" if slip == 0 else f"deepsea({size}, slip={slip})"
    return from_table(name, deep_sea(size, slip, seed), gamma)


def lock(length: int = 5, num_actions: int = 10, gamma: float = 0.95, seed: int = 0) -> MDP:
    """The combination lock of ``lpo.finite``; `seed` draws the actions that open it."""
    return from_table(f"lock({length})", combination_lock(length, num_actions, seed), gamma)


def from_table(name: str, table: Table, gamma: float) -> MDP:
    """Returns the MDP of a table: the same transitions and rewards, discounted."""
    return MDP(name, table.transitions(), table.reward.ravel(), gamma, table.reward.shape[1])


def random_mdp(num_states: int = 6, num_actions: int = 3, gamma: float = 0.9, seed: int = 0) -> MDP:
    """Dirichlet(½) transitions and uniform rewards."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(num_states, 0.5), size=num_states * num_actions)
    P /= P.sum(axis=1, keepdims=True)
    return MDP(f"random({num_states}, {num_actions})", P, rng.random(len(P)), gamma, num_actions)


def linear_mdp(
    dim: int = 20,
    num_states: int = 60,
    num_actions: int = 5,
    gamma: float = 0.9,
    seed: int = 0,
    bias: float = 0.0,
    sparse: bool = True,
) -> MDP:
    """A linear MDP: P(·|z) = φ(z)ᵀμ, r(z) = φ(z)ᵀθ with φ(z) on the simplex, so ‖φ‖₂ ≤ 1.

    μ's rows are distributions over states, so every row of P is one. With `sparse`, the d latent
    factors form a ladder: factor i leads to its own block of states, pairs of block i mix factors
    i+1 (hard to choose) and 0, and only the last factor pays: exploration is needed. `bias` mixes
    an arbitrary non-linear part of that total-variation weight into P and r; it is recorded as the
    known misspecification: |r − φᵀθ| ≤ bias and TV(P, φᵀμ) ≤ bias.
    """
    if not 0.0 <= bias < 1.0:
        raise LPOError(f"bias is {bias}, outside [0, 1); choose a small fraction such as 0.05.")
    if num_states < dim:
        raise LPOError(f"{num_states} states cannot carry {dim} blocks; use num_states ≥ dim.")
    rng = np.random.default_rng(seed)
    block = np.arange(num_states) * dim // num_states  # the factor that owns each state
    mu = np.zeros((dim, num_states))
    for i in range(dim):
        own = np.flatnonzero(block == i)
        mu[i, own] = rng.dirichlet(np.ones(len(own)))
    phi = rng.dirichlet(np.full(dim, 0.3), size=num_states * num_actions)
    theta = rng.random(dim)
    if sparse:
        phi, theta = _ladder(block, num_actions, dim, rng)
    P, r = phi @ mu, phi @ theta
    if bias:
        P = (1 - bias) * P + bias * rng.dirichlet(np.ones(num_states), size=len(P))
        r = np.clip(r + bias * rng.uniform(-1, 1, len(r)), 0, 1)
    P /= P.sum(axis=1, keepdims=True)
    name = f"linear({dim})" if not bias else f"misspecified({dim}, {bias})"
    return MDP(name, P, r, gamma, num_actions, features=phi, bias=bias)


def comb(cells: int = 20, gamma: float = 0.8, slip: float = 0.1) -> MDP:
    """Cells in a row with two hills of reward; the first step leads to any cell.

    The best action changes three times along the row. Its features are (1, position) for each
    action, so a linear advantage changes its sign at most once: no linear class can hold it.
    """
    _size(cells, 8)
    S, x = cells + 1, np.linspace(0.0, 1.0, cells)
    P, r = np.zeros((S, 2, S)), np.zeros((S, 2))
    P[0, :, 1:] = 1.0 / cells
    for i in range(cells):
        sides = 1 + max(i - 1, 0), 1 + min(i + 1, cells - 1)
        for a in range(2):
            P[1 + i, a, sides[a]] += 1.0 - slip
            P[1 + i, a, sides[1 - a]] += slip
    r[1:] = np.exp(-((x[:, None] - [0.15, 0.85]) ** 2) / (2 * 0.05**2)).sum(axis=1)[:, None]
    phi = np.zeros((S, 2, 2, 3))
    for a in range(2):
        phi[0, a, a, 2] = 1.0
        phi[1:, a, a, 0], phi[1:, a, a, 1] = np.sqrt(0.5), x * np.sqrt(0.5)
    features = phi.reshape(-1, 6)
    return MDP(f"comb({cells})", P.reshape(-1, S), np.minimum(r, 1).ravel(), gamma, 2,
               features=features)  # fmt: skip


def link(x: np.ndarray) -> np.ndarray:
    """The link of `dial`: steep about 0 and flat elsewhere, strictly increasing."""
    return 0.15 + 0.1 * x + 0.4 / (1.0 + np.exp(-4.0 * x))


def slope(x: np.ndarray) -> np.ndarray:
    """The derivative of `link`."""
    s = 1.0 / (1.0 + np.exp(-4.0 * x))
    return 0.1 + 1.6 * s * (1.0 - s)


def dial(copies: int = 2, gamma: float = 0.8) -> MDP:
    """Contexts with two actions; the reward is the link of c + u + v, a generalised linear model.

    u varies where the link is steep, v where it is flat, so a linear fit in (c, u, v) takes v for
    weak. In the last kind of context the actions offer 1 of u or 1.3 of v. The second pays .49
    against .35, and the linear fit prefers the first.
    """
    _size(copies, 1)
    kinds = [[(0, -1, 0), (0, 1, 0)], [(1, 0, 0), (1, 0, 3)], [(-1, 1, 0), (-1, 0, 1.3)]]
    contexts = np.repeat(np.array(kinds, float), [copies, 2 * copies, copies], axis=0)
    S = len(contexts) + 2  # s_0, contexts, end
    P, r, phi = np.zeros((S, 2, S)), np.zeros((S, 2)), np.zeros((S, 2, 3))
    P[0, :, 1:-1] = 1.0 / len(contexts)
    P[1:, :, -1] = 1.0
    r[1:-1] = link(contexts.sum(axis=-1))
    phi[1:-1] = contexts / DIAL
    return MDP(f"dial({copies})", P.reshape(-1, S), r.ravel(), gamma, 2,
               features=phi.reshape(-1, 3))  # fmt: skip


DIAL = float(np.sqrt(10.0))  # the largest norm of (c, u, v); θ = (1, 1, 1)·DIAL


def _ladder(
    block: np.ndarray, num_actions: int, dim: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """φ that climbs from block i to i+1 under one action per state, and θ that pays at the top."""
    phi = np.zeros((len(block), num_actions, dim))
    for s, i in enumerate(block):
        up = min(i + 1, dim - 1)
        for a in range(num_actions):
            mix = 0.2 * rng.dirichlet(np.ones(dim))
            mix[max(i - 1, 0)] += 0.8
            phi[s, a] = mix
        climb = rng.integers(num_actions)
        phi[s, climb] *= 0.1
        phi[s, climb, up] += 0.9
    theta = np.zeros(dim)
    theta[0], theta[-1] = 0.02, 1.0
    return phi.reshape(-1, dim), theta


def _size(value: int, least: int) -> None:
    if value < least:
        raise LPOError(f"size {value} is too small for this MDP; use at least {least}.")


MAKERS = {
    "chain": chain,
    "riverswim": riverswim,
    "deepsea": deepsea,
    "deepsea-stochastic": lambda size=8, **kw: deepsea(size, slip=kw.pop("slip", 0.1), **kw),
    "lock": lock,
    "random": random_mdp,
    "linear": linear_mdp,
    "comb": comb,
    "dial": dial,
    "misspecified": lambda dim=10, **kw: linear_mdp(dim, bias=kw.pop("bias", 0.05), **kw),
    "aliased": biased.aliased,
    "corridor": biased.corridor,
    "keyless": biased.keyless,
    "decoy": biased.decoy,
}


def make(name: str, size: int | None = None, **options) -> MDP:
    """An MDP by name; `size` is its first argument (length, size, states or dimension)."""
    if name not in MAKERS:
        raise LPOError(f"no MDP is called {name!r}; choose one of {', '.join(sorted(MAKERS))}.")
    return MAKERS[name](*(() if size is None else (size,)), **options)
