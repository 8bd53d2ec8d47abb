"""Batched roll-outs of finite MDPs, compiled (theory room; feeds Algorithms 4 and 6).

Transitions are drawn by the alias method and actions by inverse cumulative sums; the stream is
SplitMix64, so a call is a pure function of its seed. One call advances thousands of trajectories.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit

from lpo.theory.mdp import MDP

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


class Tables(NamedTuple):
    """Alias tables of P: slot i of pair z holds two states, the first with probability `cut`."""

    cut: np.ndarray  # [SA, m]
    choice: np.ndarray  # [SA, m, 2]
    terminal: np.ndarray  # [S]


class Trajectories(NamedTuple):
    """Pairs of all trajectories end to end; trajectory i is pairs[offsets[i]:offsets[i+1]].

    `tails[i]` is the state that trajectory i's last pair led to; seeing it costs no step.
    """

    pairs: np.ndarray
    offsets: np.ndarray
    tails: np.ndarray


@lru_cache(maxsize=64)
def tables(mdp: MDP) -> Tables:
    """Vose's alias tables for every row of P, as wide as the largest support."""
    width = max(int((mdp.P > 0).sum(axis=1).max()), 1)
    cut = np.ones((mdp.num_pairs, width))
    choice = np.zeros((mdp.num_pairs, width, 2), np.int32)
    for z, row in enumerate(mdp.P):
        support = np.flatnonzero(row)
        mass = np.zeros(width)
        mass[: len(support)] = row[support] * width
        names = np.full(width, support[0])
        names[: len(support)] = support
        _alias_row(mass, names, cut[z], choice[z])
    return Tables(cut, choice, mdp.terminal)


def _alias_row(mass: np.ndarray, names: np.ndarray, cut: np.ndarray, choice: np.ndarray) -> None:
    """Fills one row of the tables, in place."""
    small = [i for i in range(len(mass)) if mass[i] < 1.0]
    large = [i for i in range(len(mass)) if mass[i] >= 1.0]
    choice[:] = names[:, None]
    while small and large:
        i, j = small.pop(), large[-1]
        cut[i], choice[i, 1] = mass[i], names[j]
        mass[j] -= 1.0 - mass[i]
        if mass[j] < 1.0:
            small.append(large.pop())
    for i in small:  # left over through rounding only: mass is 1 up to an ulp
        if mass[i] > 0.5:
            cut[i] = 1.0


@njit(cache=True, inline="always")
def next_uniform(state):
    state = state + _GOLDEN
    x = state
    x = (x ^ (x >> _S30)) * _MIX1
    x = (x ^ (x >> _S27)) * _MIX2
    x = x ^ (x >> _S31)
    return state, (x >> _S11) * (1.0 / 9007199254740992.0)


@njit(cache=True, inline="always")
def _act(cdf_row, num_actions, u):
    a = 0
    for j in range(num_actions - 1):  # counting has no branch to mispredict
        a += u >= cdf_row[j]
    return a


@njit(cache=True, inline="always")
def move(cut, choice, z, u):
    x = u * cut.shape[1]
    i = int(x)
    return choice[z, i, int(x - i >= cut[z, i])]


@njit(cache=True)
def _roll_in(cut, choice, terminal, cdf, member, start, log_gamma, seed):
    """d-sampler for many trajectories: τ ~ Geometric, τ−1 moves, then an action (Alg. 6)."""
    n, num_actions = len(member), cdf.shape[2]
    out = np.empty(n, np.int64)
    steps = 0
    rng = np.uint64(seed)
    for i in range(n):
        rng, u = next_uniform(rng)
        left = int(np.log(1.0 - u) / log_gamma)  # τ − 1
        s = start
        k = member[i]
        while True:
            rng, u = next_uniform(rng)
            z = s * num_actions + _act(cdf[k, s], num_actions, u)
            if terminal[s]:
                break
            steps += 1
            if left == 0:
                break
            left -= 1
            rng, u = next_uniform(rng)
            s = move(cut, choice, z, u)
        out[i] = z
    return out, steps


@njit(cache=True)
def _roll_out(cut, choice, terminal, cdf, heads, lengths, seed):
    """Continue from each head pair under one policy for length − 1 further pairs (Alg. 4)."""
    n, num_actions = len(heads), cdf.shape[1]
    offsets = np.empty(n + 1, np.int64)
    offsets[0] = 0
    for i in range(n):
        offsets[i + 1] = offsets[i] + lengths[i]
    pairs = np.empty(offsets[n], np.int32)
    tails = np.empty(n, np.int32)
    steps = 0
    rng = np.uint64(seed)
    for i in range(n):
        z = heads[i]
        at = offsets[i]
        pairs[at] = z
        for _ in range(lengths[i] - 1):
            rng, u = next_uniform(rng)
            s = move(cut, choice, z, u)
            rng, u = next_uniform(rng)
            z = s * num_actions + _act(cdf[s], num_actions, u)
            at += 1
            pairs[at] = z
            steps += not terminal[s]
        rng, u = next_uniform(rng)
        tails[i] = move(cut, choice, z, u)
    return pairs, offsets, tails, steps


def action_cdf(pi: np.ndarray) -> np.ndarray:
    """Cumulative action probabilities, the form the kernels take."""
    return np.cumsum(pi, axis=-1)


def geometric(gamma: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """h ≥ 1 with probability γ^(h−1)(1−γ)."""
    return rng.geometric(1.0 - gamma, size=count)


def _seed(rng: np.random.Generator) -> np.uint64:
    return np.uint64(rng.integers(0, 2**63))


def roll_in(
    mdp: MDP, stack_cdf: np.ndarray, member: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    """(pairs drawn from d^{π_member[i]}, environment steps taken); terminal states cost nothing."""
    t = tables(mdp)
    log_gamma = np.log(mdp.gamma) if mdp.gamma > 0 else -np.inf
    return _roll_in(*t, stack_cdf, member, mdp.start, log_gamma, _seed(rng))


def roll_out(
    mdp: MDP, cdf: np.ndarray, heads: np.ndarray, lengths: np.ndarray, rng: np.random.Generator
) -> tuple[Trajectories, int]:
    """(trajectories from the head pairs, environment steps taken after the heads)."""
    pairs, offsets, tails, steps = _roll_out(*tables(mdp), cdf, heads, lengths, _seed(rng))
    return Trajectories(pairs, offsets, tails), steps


@njit(cache=True)
def returns(pairs, offsets, ratio, reward, bonus, form):
    """Per-trajectory return samples of Q_b − b under importance ratios (Def. E.1, Alg. 5 line 6).

    form 0 "sum":  Σ_t λ_{2:t}(r_t + b_t 1{t≥2}); 1 "last": λ_{2:h}(r_h + b_h 1{h≥2});
    2 "alg5": λ_{2:h}(r_h + b_h). The caller multiplies forms 1 and 2 by 1/(1−γ), and for form 2
    takes b at the first pair off. Returns (G, λ_{2:h}).
    """
    n = len(offsets) - 1
    G, weight = np.empty(n), np.empty(n)
    for i in range(n):
        lam, total = 1.0, 0.0
        for t in range(offsets[i], offsets[i + 1]):
            z = pairs[t]
            gain = reward[z]
            if t > offsets[i]:
                lam *= ratio[z]
                gain += bonus[z]
            elif form == 2:
                gain += bonus[z]
            total = total + lam * gain if form == 0 else lam * gain
        G[i], weight[i] = total, lam
    return G, weight


@njit(cache=True)
def every_visit(pairs, offsets, tails, ratio, reward, bonus, q, v, gamma):
    """Sums and counts per pair of the return from every position of every trajectory.

    A geometric length is memoryless: given that position t exists, what follows it is again a
    geometric-length roll-out from (s_t, a_t), so each suffix is an unbiased sample at its own head.
    With a guess q of Q_b and v(s) = Σ_a π(a|s) q(s,a), both fixed before the data came, the doubly
    robust form takes the predictable part out of the noise and stays unbiased for Q_b − b:

        G_t = r_t + γ v(s_{t+1}) + 1{t < h} ρ_{t+1} (b_{t+1} + G_{t+1} − q(s_{t+1}, a_{t+1})).

    Pr(t < h | h ≥ t) = γ, so the expected correction is γ(V_b − v). q = v = 0 is the plain sum.
    """
    num_actions = len(q) // len(v)
    sums, counts = np.zeros(len(q)), np.zeros(len(q))
    for i in range(len(offsets) - 1):
        tail = gamma * v[tails[i]]
        for t in range(offsets[i + 1] - 1, offsets[i] - 1, -1):
            z = pairs[t]
            g = reward[z] + tail
            sums[z] += g
            counts[z] += 1.0
            tail = gamma * v[z // num_actions] + ratio[z] * (bonus[z] + g - q[z])
    return sums, counts
