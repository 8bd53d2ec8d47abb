"""Online sensitivity sampling for deep agents: new data decide when to switch (Algorithms 1, 2).

The paper's deep agent replaces Algorithm 2 by rollouts that grow. Here every collected (s,a) is
measured against the sampled set Ẑ. The function class is linear, f = θᵀφ (``lpo.math.features``),
with differences ‖Δθ‖ ≤ ρ. Its sensitivity (eq. E1) has a closed form,

    s(z) = sup_Δ Δ(z)² / (min{‖Δ‖²_Ẑ, 4NW²} + 1) = max{φᵀ(Σ + I/ρ²)⁻¹φ, ρ²‖φ‖²/(4NW² + 1)},

where Σ = Σ_Ẑ φφᵀ is the Gram matrix of Ẑ. Algorithm 1 switches whenever Ẑ changes. With real-valued
observations Ẑ changes at almost every step, so this switch waits until the additions matter: until
log det(Σ + I/ρ²) has risen by τ times the effective dimension d = tr Σ(Σ + I/ρ²)⁻¹.

For n samples of one distribution, ∂ log det/∂ log n = d. So with stationary data the switch fires
when the data have grown by the factor e^τ: this is the paper's schedule with 1 + 1/K = e^τ. With
new data it fires sooner.

Old data fade, since the policy that collected them is gone: half of them in ``memory`` steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from lpo.errors import LPOError, named
from lpo.math.features import FeatureOptions, Features, Fourier
from lpo.options import Axis, Count, Positive, PositiveInt, Rare, Short, options
from lpo.problem import Problem
from lpo.switch.base import Switch, SwitchOptions, SwitchPart
from lpo.types import Rollout

RHO = 1.0  # radius of the ball of differences Δθ; with ‖φ‖ ≤ 1 functions differ by at most ρ = 2W
BLOCK = 128  # samples that are measured together
RANK = 16  # additions that are made together


@SwitchPart.kinds.add
@options
class Sensitivity(SwitchOptions):
    """Online sensitivity sampling decides when the policy changes (Algorithms 1 and 2)."""

    kind: ClassVar[str] = "sensitivity"
    tau: Annotated[Axis[Positive], Short("switch_tau")] = 0.07
    """τ: the policy changes when log det of Ẑ has risen by τ times its effective dimension."""
    largest: Annotated[PositiveInt | None, Short("switch_largest")] = None
    """Largest rollout, in steps; by default 4 times the smallest, which is `rollout`."""
    memory: Annotated[Rare[Count], Short("switch_memory")] = 50_000
    """Half-life of the data in Ẑ, in environment steps (0: they never fade)."""
    factor: Annotated[Rare[Axis[Positive]], Short("switch_factor")] = 4.0
    """C·log(N𝒩/δ) of Algorithm 2: a sample enters Ẑ with probability about factor·sensitivity."""
    features: FeatureOptions = Fourier()
    """Features of (s,a)."""

    def __post_init__(self) -> None:
        if self.largest is not None and self.largest < self.rollout:
            raise LPOError(
                f"The largest rollout is {self.largest}, which is below the smallest, "
                f"{self.rollout}; "
                f"raise {named('switch_largest')} or lower {named('rollout')}."
            )

    def make(self, problem: Problem) -> Switch:
        pair = problem.reader("sa")
        return sensitivity(
            self.features.make(pair.size, problem.plain.size),
            pair.read,
            num_envs=problem.num_envs,
            smallest=self.rollout,
            largest=self.largest or 4 * self.rollout,
            tau=self.tau,
            memory=self.memory or None,
            factor=self.factor,
            horizon=problem.steps,
        )


class SensitivityState(NamedTuple):
    key: Array  # [2] uint32, this component's random stream
    looks: Array  # [] looks so far, the counter of that stream
    steps: Array  # [] environment steps since the last switch
    features: Any
    gram: Array  # [D, D] Σ of Ẑ, with copies and fading
    inverse: Array  # [D, D] (Σ + I/ρ²)⁻¹
    logdet: Array  # [] log det(ρ²Σ + I)
    rise: Array  # [] of logdet since the last switch
    added: Array  # [] additions since the last switch
    additions: Array  # [] additions so far
    zhat: Array  # [] |Ẑ| counted with copies, faded like Σ


class Turns(NamedTuple):
    """The state of the loop that adds a block of samples to Ẑ, one after another."""

    at: Any  # [] the first sample that was not yet looked at
    hit: Any  # [] the next sample to add
    s: Array  # [B] sensitivities
    n: Array  # [B] copies of each sample if it is added
    k: Array  # [B, B] ΦMΦᵀ
    copies: Array  # [B] copies that were added
    sensitivity: Array  # [B] of each sample when it was looked at
    rise: Array  # [] of log det


class Absorbed(NamedTuple):
    """The result of adding a block of samples to Ẑ."""

    gram: Array
    inverse: Array
    rise: Array  # [] of log det
    copies: Array  # [B] copies of each sample that were added
    sensitivity: Array  # [B] of each sample when it was looked at


def absorb(
    gram: Array, inverse: Array, phi: Array, u: Array, valid: Array, factor: float, floor: float
) -> Absorbed:
    """Runs Algorithm 2 on B samples. Equals one sample after another, but updates Σ only once.

    A sample enters Ẑ with probability 1/n, and then with n = max{1, ⌊1/s_z⌋} copies, where
    s_z = ``factor``·sensitivity. Between samples only K = ΦMΦᵀ [B, B] has to be updated: when
    c copies enter, M = (Σ + I/ρ²)⁻¹ changes by Sherman-Morrison, so K ← K − c k kᵀ/(1 + c k_i).
    """
    least = floor * (phi**2).sum(-1)
    order = jnp.arange(len(phi))

    def scores(k):
        s = jnp.maximum(jnp.diag(k), least)
        return s, jnp.maximum(1.0, jnp.floor(1 / jnp.maximum(factor * s, 1e-9)))

    def seek(turns: Turns) -> Turns:
        """Finds the next sample to add. Nothing changes before it, so all are compared at once."""
        s, n = scores(turns.k)
        hits = valid & (order >= turns.at) & (u * n < 1)
        return turns._replace(hit=jnp.where(hits.any(), hits.argmax(), len(phi)), s=s, n=n)

    def turn(now: Turns) -> Turns:
        i, c = now.hit, now.n[now.hit]
        column = now.k[:, i]
        gain = 1 + c * column[i]
        passed = (order >= now.at) & (order <= i)
        return seek(
            now._replace(
                at=i + 1,
                k=now.k - jnp.outer(column, column * (c / gain)),
                copies=jnp.where(order == i, c, now.copies),
                sensitivity=jnp.where(passed, now.s, now.sensitivity),
                rise=now.rise + jnp.log(gain),
            )
        )

    zeros = jnp.zeros(len(phi))
    k0 = phi @ (inverse @ phi.T)
    begin = Turns(0, 0, zeros, zeros, k0, zeros, zeros, jnp.float32(0))
    end = jax.lax.while_loop(lambda now: now.hit < len(phi), turn, seek(begin))
    sensitivity = jnp.where(order >= end.at, end.s, end.sensitivity) * valid
    copies, rise = end.copies, end.rise

    gram, inverse = add_copies(gram, inverse, phi, copies)
    return Absorbed(gram, inverse, rise, copies, sensitivity)


def add_copies(gram: Array, inverse: Array, phi: Array, copies: Array) -> tuple[Array, Array]:
    """Returns Σ + Φᵀ diag(c) Φ and the new inverse, by Woodbury's identity.

    M ← M − V(I + K)⁻¹Vᵀ with V = MΦᵀ√c and K = √c ΦMΦᵀ√c. It takes ``RANK`` rows with c > 0 at a
    time; once the data are known, there are few of them.
    """
    order = jnp.argsort(copies == 0, stable=True)  # the added ones come first
    order = jnp.pad(order, (0, -len(phi) % RANK), constant_values=len(phi))
    root = jnp.sqrt(jnp.append(copies, 0.0))

    def chunk(i, matrices):
        gram, inverse = matrices
        at = jax.lax.dynamic_slice(order, (i * RANK,), (RANK,))
        rows = root[at, None] * phi[jnp.minimum(at, len(phi) - 1)]
        v = inverse @ rows.T
        lower = jnp.linalg.cholesky(jnp.eye(RANK) + rows @ v)
        half = jax.scipy.linalg.solve_triangular(lower, v.T, lower=True)
        return gram + rows.T @ rows, inverse - half.T @ half

    return jax.lax.fori_loop(0, -(-(copies > 0).sum() // RANK), chunk, (gram, inverse))


def inverse_of(gram: Array, rho: float) -> tuple[Array, Array]:
    """Returns (Σ + I/ρ²)⁻¹ and log det(ρ²Σ + I), computed from Σ."""
    eye = jnp.eye(len(gram))
    lower = jnp.linalg.cholesky(rho**2 * gram + eye)
    inverse = rho**2 * jax.scipy.linalg.cho_solve((lower, True), eye)
    return inverse, 2 * jnp.log(jnp.diag(lower)).sum()


def dimension(inverse: Array, rho: float) -> Array:
    """Returns d = tr Σ(Σ + I/ρ²)⁻¹ = D − tr(Σ + I/ρ²)⁻¹/ρ², the directions that Ẑ knows."""
    return len(inverse) - jnp.trace(inverse) / rho**2


class Rule(NamedTuple):
    """The constants of a sensitivity switch."""

    features: Features
    smallest: int  # environment steps of a rollout
    largest: int
    tau: float
    memory: int | None  # half-life in steps
    factor: float  # C·log(N𝒩/δ)
    floor: float  # ρ²/(4NW² + 1)
    rho: float


def empty_set(rule: Rule, key: Array) -> SensitivityState:
    """Returns the state with Ẑ = ∅."""
    key_features, key_sampling = jax.random.split(key)
    size, zero = rule.features.size, jnp.int32(0)
    return SensitivityState(
        key=jax.random.key_data(key_sampling),
        looks=zero,
        steps=zero,
        features=rule.features.init(key_features),
        gram=jnp.zeros((size, size)),
        inverse=rule.rho**2 * jnp.eye(size),
        logdet=jnp.float32(0),
        rise=jnp.float32(0),
        added=zero,
        additions=zero,
        zhat=jnp.float32(0),
    )


def measure(rule: Rule, state: SensitivityState, x: Array, valid: Array):
    """Runs Algorithm 2 on the new samples. Returns the state and their mean sensitivity.

    The samples first enter the moments of the features, so that all inputs are normalised.
    """
    state = state._replace(features=rule.features.observe(state.features, x, valid))
    phi = rule.features.apply(state.features, x)
    key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.looks)
    u = jax.random.uniform(key, valid.shape)

    def blocks(a: Array) -> Array:
        a = jnp.pad(a, [(0, -len(a) % BLOCK)] + [(0, 0)] * (a.ndim - 1))
        return a.reshape(-1, BLOCK, *a.shape[1:])

    def step(carry, block):
        (gram, inverse), (phi, u, valid) = carry, block
        out = absorb(gram, inverse, phi, u, valid, rule.factor, rule.floor)
        return (out.gram, out.inverse), (out.rise, out.copies, out.sensitivity)

    (gram, inverse), (rise, copies, scores) = jax.lax.scan(
        step, (state.gram, state.inverse), (blocks(phi), blocks(u), blocks(valid))
    )
    added = (copies > 0).sum(dtype=jnp.int32)
    state = state._replace(
        looks=state.looks + 1,
        gram=gram,
        inverse=inverse,
        logdet=state.logdet + rise.sum(),
        rise=state.rise + rise.sum(),
        added=state.added + added,
        additions=state.additions + added,
        zhat=state.zhat + copies.sum(),
    )
    return state, scores.sum() / jnp.maximum(valid.sum(), 1)


def renew(rule: Rule, state: SensitivityState) -> SensitivityState:
    """Returns the state after a switch: old data fade, and the inverse is computed anew.

    Updates in float32 would make the inverse drift.
    """
    passed = 0.0 if rule.memory is None else state.steps / rule.memory
    keep = 0.5**passed
    gram = keep * state.gram
    inverse, logdet = inverse_of(gram, rule.rho)
    return state._replace(
        steps=jnp.int32(0),
        gram=gram,
        inverse=inverse,
        logdet=logdet,
        rise=jnp.float32(0),
        added=jnp.int32(0),
        zhat=keep * state.zhat,
    )


def decide(rule: Rule, state: SensitivityState, x: Array, valid: Array, steps: Array):
    """Line 7 of Algorithm 1: has Ẑ changed enough for a new policy?

    Returns the answer, the state and the metrics.
    """
    state, mean = measure(rule, state, x, valid)
    state = state._replace(steps=state.steps + steps)
    known = dimension(state.inverse, rule.rho)
    news = state.rise >= rule.tau * known
    fire = (state.steps >= rule.smallest) & (news | (state.steps >= rule.largest))
    metrics = {
        "switch/logdet": state.logdet,
        "switch/logdet_rise": state.rise,
        "switch/threshold": rule.tau * known,
        "switch/dimension": known,
        "switch/additions": state.added,
        "switch/additions_total": state.additions,
        "switch/zhat": state.zhat,
        "switch/sensitivity": mean,
    }
    return fire, jax.lax.cond(fire, partial(renew, rule), lambda same: same, state), metrics


def sensitivity(
    features: Features,
    read: Callable[[Rollout], Array],
    *,
    num_envs: int,
    smallest: int,
    largest: int,
    tau: float,
    memory: int | None,
    factor: float,
    horizon: int,
    rho: float = RHO,
) -> Switch:
    """Returns the switch that fires when Ẑ has grown by ``tau``.

    A rollout has between ``smallest`` and ``largest`` environment steps, and the switch looks at
    it every ``smallest``/4 steps. ``read`` turns steps into the inputs of the features.
    ``memory`` is the half-life of old data in steps (None: Ẑ never fades, as in the paper): as the
    policy changes, old data matter less. ``factor`` is C·log(N𝒩/δ) of Algorithm 2, ``horizon`` its
    N, the step budget.
    """
    rows = -(-smallest // (4 * num_envs))
    floor = rho**2 / (horizon * rho**2 + 1)  # 4NW² with W = ρ/2
    rule = Rule(features, smallest, largest, tau, memory, factor, floor, rho)

    @jax.jit
    def answer(state: SensitivityState, new: Rollout, steps: Any):
        x = read(new).reshape(rows * num_envs, -1)
        return decide(rule, state, x, new.valid.reshape(-1), steps)

    capacity = -(-largest // (rows * num_envs)) * rows * num_envs
    return Switch(
        capacity,
        partial(empty_set, rule),
        lambda state: rows * num_envs,
        lambda state, look: answer(state, look.last(rows), look.steps),
    )
