"""Algorithms 1-6 of the paper, one function each (theory room; Section 3 and Appendix A).

Line numbers are those of the paper's pseudocode. Readings of unclear places are listed in
docs/theory.md and marked here with one comment where they act.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Literal

import numpy as np

from lpo.options import NonNegative, Unit, options
from lpo.theory.classes.base import FunctionClass, Sensed, keep_probability
from lpo.theory.constants import Constants
from lpo.theory.mdp import MDP, q_from_v, value
from lpo.theory.policy import Cover, first_policy, softmax, uniform
from lpo.theory.simulate import Trajectories, every_visit, geometric, returns, roll_in, roll_out
from lpo.theory.trace import Trace
from lpo.theory.transfer import transfer_errors

Critic = Literal["sampled", "exact"]
Estimator = Literal["robust", "every", "sum", "last", "alg5"]
Reuse = Literal["ess", "kappa"]
RollIn = Literal["rollout", "law"]
Known = Literal["state", "pair"]
Switch = Literal["lazy", "always"]
Absorb = Callable[[np.ndarray], tuple[int, bool]]  # d-samples → (how many were used, change now?)


@options
class Options:
    """Readings of the paper and variance reduction; the defaults are the ones we recommend."""

    critic: Critic = "sampled"
    """Estimate values from sampled trajectories, or compute them exactly: by linear solves,
    projected onto the class under the cover."""
    estimator: Estimator = "robust"
    """Return estimator of Algorithm 5; last and alg5 are the paper's."""
    reuse: Reuse = "ess"
    """Resample by effective sample size, or after kappa iterations, as in Algorithm 3."""
    roll_in: RollIn = "rollout"
    """Reach the first pairs of the trajectories by rollouts, or draw them from their exact law."""
    known: Known = "state"
    """Bonus indicator on the state (eq. E5) or on the pair (Alg. 1)."""
    switch: Switch = "lazy"
    """Change the policy as Algorithm 1 does, or at every sample."""
    rounding: bool = False
    """Round samples to the cover of eq. (E2)."""
    patience: NonNegative = 0.0
    """Wait until the additions to the sampled set grow by this share (0, as in the paper: by 1)."""
    bonus_share: Unit = 0.5
    """Share of the bonus in the critic on known states (1: the critic is not pessimistic)."""
    transfer: bool = False
    """Also measure the transfer error of Definition B.1 along the run."""


class Search:
    """A run in progress: the cover π^{0:n−1}, the trace, the clock and n.

    Every policy-gradient method of this room is such a search. The methods differ in their bonus,
    in when they change the policy, and in what the cover counts.
    """

    def __init__(
        self,
        mdp: MDP,
        F: FunctionClass,
        constants: Constants,
        rng: np.random.Generator,
        options: Options,
        seconds: float,
    ) -> None:
        """Starts with the uniform policy π^0, which the cover counts once."""
        self.mdp, self.F, self.constants, self.rng, self.options = mdp, F, constants, rng, options
        self._began, self._seconds = time.perf_counter(), seconds
        laws = options.roll_in == "law" or options.critic == "exact" or options.transfer
        self.cover = Cover(mdp, laws, walks=options.roll_in == "rollout")
        self.trace = Trace(mdp)
        self.guess = np.zeros(mdp.num_pairs)  # the critic of the last update's π_0, for "robust"
        self.n = 1
        self.cover.append(uniform(mdp))
        self.trace.policy(uniform(mdp), steps=0)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._began

    @property
    def late(self) -> bool:
        return self.seconds >= self._seconds

    @property
    def goes_on(self) -> bool:
        """Whether fewer than N samples were served, and there is time."""
        return self.n <= self.constants.N and not self.late

    def change_policy(self, known: np.ndarray, bonus: np.ndarray, repeats: int = 0) -> None:
        """Algorithm 3; the new policy enters the cover `repeats` times."""
        stack, steps, inner = policy_update(
            self.mdp, self.F, self.cover, bonus, known, self.constants, self.rng, self.options,
            self.guess,
        )  # fmt: skip
        if self.options.transfer:
            best = self.mdp.optimal[1]
            errors = transfer_errors(self.mdp, self.F, self.cover.law(), stack, bonus, best)
            self.trace.transfer.append(float(errors.max()))
        self.trace.policy(stack, steps, inner=inner)
        self.cover.append(stack, repeats)

    def sample(self, count: int) -> tuple[np.ndarray, int]:
        """Algorithm 6 for the newest policy, `count` times: (pairs, environment steps)."""
        return d_sampler(self.mdp, self.cover, count, self.rng, self.options.roll_in)

    def serve(self, absorb: Absorb, largest: int, sensed: Sensed | None = None) -> None:
        """Draws d-samples of the newest policy until `absorb` asks for another policy.

        d-samples of one policy are independent, so they are drawn in blocks of at most `largest`.
        Those after the change count as never drawn; the block's steps are counted in proportion.
        """
        N, served, steps, block = self.constants.N, 0, 0.0, 16
        while self.n + served <= N:
            block = min(block * 2, largest, N - self.n - served + 1)
            z, cost = self.sample(block)
            used, change = absorb(z)
            served, steps = served + used, steps + cost * used / block
            if change:
                break
        self.cover.repeat_last(served)
        self.n += served
        self.trace.served(served, round(steps), sensed)

    def finish(self) -> Trace:
        self.trace.seconds = self.seconds
        return self.trace


def lpo(
    mdp: MDP,
    F: FunctionClass,
    constants: Constants,
    rng: np.random.Generator,
    options: Options = Options(),  # noqa: B008  (frozen)
    seconds: float = np.inf,
) -> Trace:
    """Algorithm 1, LPO. Stops after N samples, or at the first switch after `seconds`."""
    c, sensed = constants, F.empty()
    nearest = _rounding(F, c) if options.rounding else None
    search = Search(mdp, F, c, rng, options, seconds)  # line 3; search.cover = π^{0:n−1}, line 5
    largest = 1 if options.switch == "always" else 1 << 16
    while search.goes_on:  # at n = 1 Ẑ is empty and there is no sample yet, so line 6 is skipped
        known, bonus = bonus_function(F, sensed, c, mdp, options.known)  # lines 8-10
        search.change_policy(known, bonus)  # lines 11-12
        search.serve(_until_switch(search, sensed, nearest), largest, sensed)  # lines 6 and 15
    return search.finish()


def _until_switch(search: Search, sensed: Sensed, nearest: np.ndarray | None) -> Absorb:
    """Line 6, S-Sampling over a block; a switch is due when Ẑ has changed enough."""
    F, c, options = search.F, search.constants, search.options
    due = sensed.additions + max(1, math.ceil(options.patience * sensed.additions))
    cap = 4.0 * c.N * F.W**2

    def absorb(z: np.ndarray) -> tuple[int, bool]:
        z = z if nearest is None else nearest[z]
        used, _ = F.absorb(sensed, z, search.rng.random(len(z)), c.factor, cap, True)
        return used, sensed.additions >= due or options.switch == "always"

    return absorb


def s_sampling(
    F: FunctionClass,
    sensed: Sensed,
    z: int,
    constants: Constants,
    rng: np.random.Generator,
) -> bool:
    """Algorithm 2, S-Sampling, for one pair z; True when Ẑ changed (`F.absorb` does streams).

    Eq. (E1) is read relative to Ẑ, the sampled set, and copies go into Ẑ in both branches.
    """
    cap = 4.0 * constants.N * F.W**2
    score = constants.factor * F.sensitivity(sensed, np.array([z]), cap)  # line 2
    chance, copies = keep_probability(score)  # lines 4-8
    if rng.random() < chance[0]:
        F.add(sensed, z, float(copies[0]))
        return True
    return False


def bonus_function(
    F: FunctionClass, sensed: Sensed, c: Constants, mdp: MDP, known: Known = "state"
) -> tuple[np.ndarray, np.ndarray]:
    """Alg. 1 lines 9-10 / eq. (E5): (known pairs [S, A], bonus[z]).

    b = width_bonus·ω/β on known states (the paper's factor is 2) and 3/(1−γ) elsewhere. Eq. (E5)
    asks about the state, Alg. 1 about the pair; `known` chooses.
    """
    width = F.width(sensed, c.epsilon)
    pairs = (width < c.beta).reshape(mdp.num_states, mdp.num_actions)
    inside = pairs.all(axis=1, keepdims=True) & pairs if known == "state" else pairs
    inside = inside.ravel()
    return pairs, np.where(inside, c.width_bonus * width / c.beta, c.unknown_bonus)


def policy_update(
    mdp: MDP,
    F: FunctionClass,
    cover: Cover,
    bonus: np.ndarray,
    known: np.ndarray,
    c: Constants,
    rng: np.random.Generator,
    options: Options = Options(),  # noqa: B008
    guess: np.ndarray | None = None,
) -> tuple[np.ndarray, int, int]:
    """Algorithm 3, Policy Update: (mixture π_0..π_{K−1}, steps taken, inner iterations).

    With no known state the update is a no-op, and π_0 comes back at once. States whose actions
    are all alike (terminal) stay uniform, which keeps their importance ratios at exactly one.
    `guess` holds f for π_0 from the last update and is overwritten by this one's.
    """
    logits = first_policy(known)  # lines 2-3
    known_states = np.asarray(known.all(axis=1))
    update = known_states & ~mdp.terminal
    if not update.any():
        return softmax(logits)[None], 0, 0
    members, steps, data, behaviour, base = [], 0, None, softmax(logits), 0
    f = np.zeros(mdp.num_pairs) if guess is None else guess.copy()
    for k in range(c.K):  # line 4, from k = 0 so that the first dataset exists
        pi = softmax(logits)
        members.append(pi)
        if options.critic == "exact":
            f = exact_critic(mdp, F, cover, pi, bonus)
        else:
            if data is None or _stale(data, pi, behaviour, k - base, c, options):  # line 5
                base, behaviour = k, pi
                data, cost = behaviour_policy_sampling(mdp, pi, cover, c.M, rng, options.roll_in)
                steps += cost
            f = policy_evaluation_oracle(mdp, F, pi, data, behaviour, bonus, c, options, f)
        if k == 0 and guess is not None:
            guess[:] = f
        q = half_bonus(f, bonus, known_states, options.bonus_share)  # Alg. 5 line 10
        logits[update] += c.eta * q.reshape(logits.shape)[update]  # lines 10-11
        logits[update] -= logits[update].max(axis=1, keepdims=True)
    return np.stack(members), steps, c.K  # line 13


def behaviour_policy_sampling(
    mdp: MDP, pi: np.ndarray, cover: Cover, M: int, rng: np.random.Generator, roll_in: RollIn
) -> tuple[Trajectories, int]:
    """Algorithm 4: M roll-outs of π of geometric length from heads drawn from the cover."""
    heads, steps = d_sampler(mdp, cover, M, rng, roll_in, whole_cover=True)  # lines 4-5
    h = geometric(mdp.gamma, M, rng)  # line 6
    data, more = roll_out(mdp, np.cumsum(pi, axis=-1), heads, h, rng)  # lines 7-8
    return data, steps + more


def policy_evaluation_oracle(
    mdp: MDP,
    F: FunctionClass,
    pi: np.ndarray,
    data: Trajectories,
    behaviour: np.ndarray,
    bonus: np.ndarray,
    c: Constants,
    options: Options = Options(),  # noqa: B008
    guess: np.ndarray | None = None,
) -> np.ndarray:
    """Algorithm 5, Policy Evaluation Oracle: f̂ ≈ Q_b^π − b from importance-weighted returns.

    Line 10, which needs 𝒦, is `half_bonus`. `guess` is an earlier f̂, for estimator="robust".
    """
    ratio = importance_ratio(pi, behaviour, c, options)
    if guess is None:
        guess = np.zeros(mdp.num_pairs)
    counts, means = return_targets(mdp, data, pi, ratio, bonus, options.estimator, guess)
    return F.fit(counts, means)  # line 9


def half_bonus(
    f: np.ndarray, bonus: np.ndarray, known_states: np.ndarray, share: float = 0.5
) -> np.ndarray:
    """Alg. 5 line 10: Q̂ = f̂ + ½b on known states (`share` is the ½), f̂ + b otherwise."""
    known = np.repeat(known_states, len(f) // len(known_states))
    return f + np.where(known, share, 1.0) * bonus


def return_targets(
    mdp: MDP,
    data: Trajectories,
    pi: np.ndarray,
    ratio: np.ndarray,
    bonus: np.ndarray,
    estimator: Estimator,
    guess: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Alg. 5 lines 2-8: (samples, mean target) per pair; targets estimate Q_b^π − b.

    All forms are unbiased when `guess` was fixed before the data came. When a dataset is reused,
    "robust" gets the f̂ fitted to it one iteration earlier: consistent, no longer exactly unbiased.
    """
    P, S = mdp.num_pairs, mdp.num_states
    if estimator in ("every", "robust"):
        q = guess + bonus if estimator == "robust" else np.zeros(P)
        v = (pi * q.reshape(S, -1)).sum(axis=1)
        sums, counts = every_visit(*data, ratio, mdp.r, bonus, q, v, mdp.gamma)
    else:
        form = {"sum": 0, "last": 1, "alg5": 2}[estimator]
        G, _ = returns(data.pairs, data.offsets, ratio, mdp.r, bonus, form)
        heads = data.pairs[data.offsets[:-1]]
        if form:
            G = G / (1.0 - mdp.gamma)
        if form == 2:
            G = G - bonus[heads]
        counts = np.bincount(heads, minlength=P).astype(float)
        sums = np.bincount(heads, weights=G, minlength=P)
    return counts, sums / np.maximum(counts, 1.0)


def importance_ratio(
    pi: np.ndarray, behaviour: np.ndarray, c: Constants, options: Options
) -> np.ndarray:
    """π/π̲ per pair (1 where both are 0); with reuse="ess" its logarithm is bounded."""
    ratio = np.where(behaviour > 0, pi / np.maximum(behaviour, 1e-30), 1.0)
    if options.reuse == "ess":
        ratio = np.clip(ratio, np.exp(-c.max_log_ratio), np.exp(c.max_log_ratio))
    return ratio.ravel()


def _stale(
    data: Trajectories,
    pi: np.ndarray,
    behaviour: np.ndarray,
    age: int,
    c: Constants,
    options: Options,
) -> bool:
    """Alg. 3 line 5, k − k̲ > κ; or an effective sample size (Σλ)²/Σλ² below min_ess·M."""
    if options.reuse == "kappa":
        return age > c.kappa
    ratio = importance_ratio(pi, behaviour, c.with_(max_log_ratio=np.inf), options)
    zeros = np.zeros(len(ratio))
    _, weight = returns(data.pairs, data.offsets, ratio, zeros, zeros, 1)
    total = float(weight.sum())
    return total**2 < c.min_ess * len(weight) * float(weight @ weight)


def exact_critic(
    mdp: MDP, F: FunctionClass, cover: Cover, pi: np.ndarray, bonus: np.ndarray
) -> np.ndarray:
    """Algorithm 5 with M = ∞: f* = argmin_F L(f; ρ_cov, Q_b^π − b) (Def. B.4)."""
    v = value(mdp, pi, bonus)
    return F.fit(cover.law(), q_from_v(mdp, v))  # Q_b − b = r + γ P V_b


def d_sampler(
    mdp: MDP,
    cover: Cover,
    count: int,
    rng: np.random.Generator,
    roll_in_mode: RollIn = "rollout",
    whole_cover: bool = False,
) -> tuple[np.ndarray, int]:
    """Algorithm 6, d-sampler, `count` times: ((s, a) ~ d^π each, environment steps).

    π is the newest mixture of the cover, or with `whole_cover` a π^j of it (Alg. 4 lines 4-5).
    ν is read as s_0 and a_0 ~ π: any other first action changes the law. "law" draws from the
    same distribution by its exact table, and counts the steps the walks would take on average.
    """
    if roll_in_mode == "law":
        law = cover.law() if whole_cover else cover.last_law()
        cumulative = np.cumsum(law)
        z = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
        alive = law.reshape(mdp.num_states, -1)[~mdp.terminal].sum() / (1.0 - mdp.gamma)
        return np.minimum(z, mdp.num_pairs - 1), round(count * alive)
    if whole_cover:
        return roll_in(mdp, cover.cdfs, cover.draw(count, rng), rng)
    member = rng.integers(0, cover.sizes[-1], size=count)
    return roll_in(mdp, cover.last, member, rng)


def _rounding(F: FunctionClass, c: Constants) -> np.ndarray:
    """The cover of eq. (E2), radius 1/(16·sqrt(64N³/δ))."""
    return F.rounding(1.0 / (16.0 * np.sqrt(64.0 * float(c.N) ** 3 / c.delta)))
