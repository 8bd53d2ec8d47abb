"""MDPs to explore in, each with exact values (theory room; issue of the paper's App. B setting).

Rewards lie in [0, 1]. Names accepted by `make`: chain, riverswim, deepsea, deepsea-stochastic,
lock, random, linear, misspecified.
"""

from __future__ import annotations

import numpy as np

from lpo.errors import LPOError
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
    """DeepSea (Osband et al. 2019): a size×size triangle; only `size` rights in a row reach 1.

    Which of the two actions is "right" is drawn per cell from `seed`. A right costs .01/size, here
    shifted into [0, 1]: every move but a right earns that much, the terminal state earns nothing.
    With `slip`, a right becomes a left with that probability. State = row·size + column; last: end.
    """
    _size(size, 2)
    S, end = size * size + 1, size * size
    right = np.random.default_rng(seed).integers(0, 2, size=(size, size))
    P = np.zeros((S, 2, S))
    r = np.zeros((S, 2))
    cost = 0.01 / size
    for row in range(size):
        for col in range(size):
            s, a = row * size + col, right[row, col]
            down = [(row + 1) * size + c for c in (max(col - 1, 0), min(col + 1, size - 1))]
            left_to, right_to = down if row < size - 1 else (end, end)
            P[s, a, right_to] += 1.0 - slip
            P[s, a, left_to] += slip
            P[s, 1 - a, left_to] = 1.0
            r[s, 1 - a] = cost
            if row == size - 1 and col == size - 1:
                r[s, a] = 1.0
    P[end, :, end] = 1.0
    name = f"deepsea({size})" if slip == 0 else f"deepsea({size}, slip={slip})"
    return MDP(name, P.reshape(-1, S), r.ravel(), gamma, 2)


def lock(length: int = 5, num_actions: int = 10, gamma: float = 0.95, seed: int = 0) -> MDP:
    """The bidirectional combination lock of PC-PG (Agarwal et al. 2020), antagonistic rewards.

    The first state's actions choose one of two locks, half each. A lock has `length` levels of two
    good states and a dead one; in each good state one action goes on (to either good state of the
    next level), all others fall into the dead row, which is never left. The good action pays
    −1/length, opening the first lock pays 5 and the second 2; everything is shifted and scaled into
    [0, 1], which leaves the ordering of policies alone. State 0 = first, last = end.
    """
    _size(length, 1)
    if num_actions < 2:
        raise LPOError(f"a lock with {num_actions} actions has no choice; use at least 2 actions.")
    S, end = 2 + 6 * length, 1 + 6 * length
    code = np.random.default_rng(seed).integers(0, num_actions, size=(2, length, 2))
    P = np.zeros((S, num_actions, S))
    raw = np.zeros((S, num_actions))

    def at(side: int, level: int, kind: int) -> int:
        return 1 + side * 3 * length + 3 * level + kind

    for a in range(num_actions):
        side = 0 if a < (num_actions + 1) // 2 else 1
        P[0, a, [at(side, 0, 0), at(side, 0, 1)]] = 0.5
    for side in range(2):
        for level in range(length):
            last = level == length - 1
            good = [end] if last else [at(side, level + 1, 0), at(side, level + 1, 1)]
            dead = end if last else at(side, level + 1, 2)
            P[at(side, level, 2), :, dead] = 1.0
            for kind in range(2):
                s, key = at(side, level, kind), code[side, level, kind]
                P[s, :, dead] = 1.0
                P[s, key] = 0.0
                P[s, key, good] = 1.0 / len(good)
                raw[s, key] = -1.0 / length + ((5.0, 2.0)[side] if last else 0.0)
    P[end, :, end] = 1.0
    r = (raw + 1.0 / length) / 5.0
    return MDP(f"lock({length})", P.reshape(-1, S), r.ravel(), gamma, num_actions)


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
    "misspecified": lambda dim=10, **kw: linear_mdp(dim, bias=kw.pop("bias", 0.05), **kw),
}


def make(name: str, size: int | None = None, **options) -> MDP:
    """An MDP by name; `size` is its first argument (length, size, states or dimension)."""
    if name not in MAKERS:
        raise LPOError(f"no MDP is called {name!r}; choose one of {', '.join(sorted(MAKERS))}.")
    return MAKERS[name](*(() if size is None else (size,)), **options)
