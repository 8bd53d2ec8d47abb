"""Policy cover and roll-in: a rollout begins where an earlier policy leads (Alg. 1, 4 and 6).

At the start of an episode a member π_j of the cover is drawn and acts for τ − 1 steps. Then the
policy acts until the episode ends, and the environment resets as usual. Roll-in steps count as
environment steps, but the policy did not choose them. They are marked as not ``valid``: PPO, the
advantages, the bonus and the switch ignore them.

In the papers a trajectory ends after a geometric time. Here it goes on to the end of the episode:
the advantages do the discounting, and no episode is cut short.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lpo.errors import LPOError, named
from lpo.math.features import Features, Reader, fourier
from lpo.math.nets import ActorCritic
from lpo.math.normalize import Moments
from lpo.options import PositiveInt, Rare, Short, Unit, options
from lpo.problem import Problem
from lpo.start.base import Start, StartPart
from lpo.start.rollin import GAME_TURNS, Member, cover_on_device
from lpo.types import Rollout, Step

GAME_FEATURES = 64  # of the log-det game; each member of the cover stores their covariance


@StartPart.kinds.add
@options
class Cover(StartPart):
    """Episodes begin after a roll-in of a past policy (Algorithms 1, 4 and 6)."""

    kind: ClassVar[str] = "cover"
    size: Annotated[Rare[PositiveInt], Short("cover_size")] = 32
    """Number of past policies kept for roll-ins; of more, a uniform sample is kept."""
    weights: Annotated[Literal["uniform", "logdet"], Short("cover_weights")] = "uniform"
    """Weights of the past policies: all equal, or by PC-PG's log-det game."""
    share: Annotated[Unit, Short("rollin_share")] = 0.5
    """Share of the episodes that begin with a roll-in (the others begin at the reset)."""
    length: Annotated[Literal["geometric", "uniform"], Short("rollin_length")] = "geometric"
    """Length of a roll-in: geometric with the reward's discount (the d-sampler, Algorithm 6), or
    uniform."""
    horizon: Annotated[Rare[PositiveInt | None], Short("rollin_horizon")] = None
    """Roll-ins have fewer steps than this; by default the environment's time limit."""
    first_uniform: Unit = 0.0
    """Probability that the first action after a roll-in is uniform instead of the policy's."""

    def check(self, run: Any) -> None:
        if run.network.remembers:
            raise LPOError(
                "A cover rolls in with policies that have no memory; leave "
                f"{named('network')} {run.network.kind} out, or choose {named('start')} reset."
            )

    def make(self, problem: Problem) -> Start:
        horizon = self.horizon or problem.horizon
        gamma = problem.gamma if self.length == "geometric" else 1.0
        if horizon is None and gamma == 1:
            raise LPOError(
                f"A uniform roll-in (or a geometric one with {named('gamma_ext')} 1) needs a "
                f"largest length, and the environment has no time limit; pass "
                f"{named('rollin_horizon')}."
            )
        self.refuse(problem)
        reader = problem.reader("sa")
        features = fourier(reader.size, GAME_FEATURES, 1.0)
        lengths = Lengths(self.share, gamma, horizon or 2**31 - 1)
        start = cover(
            features,
            reader,
            capacity=self.size,
            weighting=self.weights,
            lengths=lengths,
            epsilon=self.first_uniform,
        )
        if problem.masked:  # members on a device do not read masks
            return start
        on_device = cover_on_device(
            features,
            visits(features, reader),
            problem.dist,
            capacity=self.size,
            weighting=self.weights,
            **lengths._asdict(),
            epsilon=self.first_uniform,
            obs_clip=problem.obs_clip,
        )
        return start._replace(on_device=on_device)

    def refuse(self, problem: Problem) -> None:
        """Raises LPOError where members cannot act as the policies that they were."""
        if self.first_uniform > 0:
            problem.dist.uniform(np.random.default_rng(0), 1)  # refuses a space without bounds
            if problem.masked:
                raise LPOError(
                    "A uniform action after a roll-in may be one that is not allowed; leave "
                    f"{named('first_uniform')} out."
                )
        problem.obs_size  # noqa: B018 - refuses what is no vector: members act on vectors
        if not problem.plain_policy:
            raise LPOError(
                "A cover rolls in with policies that read the vector itself; leave "
                f"{named('network')} out, or choose {named('start')} reset."
            )


class CoverState(NamedTuple):
    members: Member  # every array with a leading axis [C]
    weights: np.ndarray  # [C] mixture weights, zero for empty slots
    covariance: np.ndarray  # [C, D, D] E φφᵀ under each member, for the log-det game
    features: Any
    seen: np.ndarray  # [] policies offered so far
    member: np.ndarray  # [N] which member rolls in
    remaining: np.ndarray  # [N] steps left of the roll-in
    uniform: np.ndarray  # [N] bool: the action after the roll-in is uniform


class Plan(NamedTuple):
    """How an episode begins."""

    member: int
    steps: int
    uniform: bool


class Lengths(NamedTuple):
    """The distribution of the length of a roll-in."""

    share: float  # of the episodes that begin with a roll-in; the others have length 0
    gamma: float  # P(τ − 1 = k) ∝ γ^k; 1: uniform
    horizon: int  # for k = 0 … horizon − 1

    def draw(self, rng: np.random.Generator) -> int:
        """Draws a length from the d-sampler's geometric law (Alg. 6), restricted to the horizon.

        In the paper an ended episode goes on in an absorbing state, where there is nothing to
        learn.
        """
        if rng.random() >= self.share:
            return 0
        if self.gamma == 1:
            return int(rng.integers(self.horizon))
        within = -np.expm1(self.horizon * np.log(self.gamma)) if self.gamma else 1.0
        k = np.log1p(-within * rng.random()) / np.log(self.gamma) if self.gamma else 0.0
        return min(int(k), self.horizon - 1)


def draw_plan(
    rng: np.random.Generator, weights: np.ndarray, lengths: Lengths, epsilon: float
) -> Plan:
    """Draws a member j ~ weights and a length; there is no roll-in while the cover is empty."""
    uniform = bool(rng.random() < epsilon)
    if weights.sum() == 0:
        return Plan(0, 0, uniform)
    member = int(rng.choice(len(weights), p=weights / weights.sum(dtype=np.float64)))
    return Plan(member, lengths.draw(rng), uniform)


def logdet_game(covariance: np.ndarray, weights: np.ndarray, ridge: float = 1e-3) -> np.ndarray:
    """Returns PC-PG's weights of the cover: argmax_α log det(Σ_i α_i Σ_i + ridge·I) on the simplex.

    α_i ← α_i tr(Σ_i A⁻¹)/Σ_j α_j tr(Σ_j A⁻¹) is the multiplicative rule of optimal designs. It
    never decreases the determinant and keeps α on the simplex.
    """
    alpha = np.asarray(weights, np.float64)
    eye = ridge * np.eye(covariance.shape[-1])
    for _ in range(GAME_TURNS):
        inverse = np.linalg.inv(np.tensordot(alpha, covariance, axes=1) + eye)
        gain = alpha * np.tensordot(covariance, inverse, axes=2)
        if gain.sum() <= 0:
            return alpha
        alpha = gain / gain.sum()
    return alpha


class RollIn:
    """Acts with a member of the cover, then with the policy. Updates the plans in ``state``."""

    def __init__(self, state: CoverState, policy: Any, rng: np.random.Generator, draw: Callable):
        self.state, self.policy, self.rng, self.draw = state, policy, rng, draw
        self.cache: dict[int, Any] = {}

    def acting(self, j: int) -> Any:
        if j not in self.cache:
            m = jax.tree.map(lambda x: x[j], self.state.members)
            moments = Moments(np.float32(1), m.mean, m.var)
            params = ActorCritic(m.policy, m.log_std, ())
            self.cache[j] = self.policy.like(params, moments)
        return self.cache[j]

    def sample(self, obs: np.ndarray, noise: np.ndarray) -> np.ndarray:
        s, action = self.state, self.policy.sample(obs, noise)
        for i in np.flatnonzero(s.remaining):
            member = self.acting(int(s.member[i]))
            action[i] = member.sample(obs[i : i + 1], noise[i : i + 1])[0]
        for i in np.flatnonzero(s.uniform & (s.remaining == 0)):
            action[i] = self.policy.dist.uniform(self.rng, 1)[0]
        return action

    def follow(self, step: Step) -> np.ndarray:
        """Records a step. Returns the rows that may be learned from: no roll-in, no uniform action.

        A uniform action is not a sample of π, so its probability ratio would be wrong. The steps
        after it are on-policy.
        """
        s = self.state
        rolling = s.remaining > 0
        own = step.valid & ~rolling & ~s.uniform
        s.uniform[step.valid & ~rolling] = False
        s.remaining[step.valid & rolling] -= 1
        for i in np.flatnonzero(step.terminated | step.truncated):
            s.member[i], s.remaining[i], s.uniform[i] = self.draw(self.rng, s.weights)
        return own


def visits(features: Features, reader: Reader) -> Callable[[Any, Rollout], tuple[Any, Any]]:
    """Returns the function to the features with updated moments, and E φφᵀ over a rollout."""

    def visited(state: Any, rollout: Rollout) -> tuple[Any, Any]:
        x, valid = reader.read(rollout).reshape(-1, reader.size), rollout.valid.reshape(-1)
        state = features.observe(state, x, valid)
        phi = features.apply(state, x) * valid[:, None]
        return state, phi.T @ phi / jnp.maximum(valid.sum(), 1)

    return visited


def empty_cover(
    member: Member, features: Any, capacity: int, size: int, num_envs: int
) -> CoverState:
    """Returns a cover without members, with room for ``capacity`` policies like ``member``."""
    return CoverState(
        members=jax.tree.map(lambda x: np.zeros((capacity, *x.shape), np.float32), member),
        weights=np.zeros(capacity, np.float32),
        covariance=np.zeros((capacity, size, size), np.float32),
        features=features,
        seen=np.zeros((), np.int32),
        member=np.zeros(num_envs, np.int32),
        remaining=np.zeros(num_envs, np.int32),
        uniform=np.zeros(num_envs, bool),
    )


def cover(
    features: Features,
    reader: Reader,
    *,
    capacity: int,
    weighting: str,
    lengths: Lengths,
    epsilon: float,
) -> Start:
    """Returns the start with a policy cover.

    ``weighting`` is "uniform" or "logdet", ``epsilon`` the probability of a uniform first action.
    Of more policies than ``capacity`` a uniform sample is kept (reservoir sampling).
    """
    size = features.size if weighting == "logdet" else 0

    def draw(rng: np.random.Generator, weights: np.ndarray) -> Plan:
        return draw_plan(rng, weights, lengths, epsilon)

    def init(key: jax.Array, num_envs: int, params: ActorCritic, moments: Moments) -> CoverState:
        member = Member(params.policy, params.log_std, moments.mean, moments.var)
        return empty_cover(member, features.init(key), capacity, size, num_envs)

    def sample(state: CoverState, policy: Any, rng: np.random.Generator):
        plans = (np.array(x) for x in (state.member, state.remaining, state.uniform))
        member, remaining, uniform = plans
        state = state._replace(member=member, remaining=remaining, uniform=uniform)
        return RollIn(state, policy, rng, draw), state

    visited = jax.jit(visits(features, reader))

    def reweigh(state: CoverState, rollout: Rollout, slot: int) -> CoverState:
        """Returns the state with new weights after a new member came into ``slot``."""
        filled = np.arange(capacity) < min(int(state.seen), capacity)
        weights = filled / filled.sum()
        if weighting == "uniform":
            return state._replace(weights=weights.astype(np.float32))
        moved, second = jax.device_get(visited(state.features, rollout))
        covariance = np.array(state.covariance)
        covariance[slot] = second
        weights = logdet_game(covariance, weights).astype(np.float32)
        return state._replace(weights=weights, covariance=covariance, features=moved)

    def update(state: CoverState, params, moments, rollout: Rollout, rng: np.random.Generator):
        """Line 5 of Algorithm 1: adds π^n to the cover; a full cover keeps a uniform sample."""
        seen = int(state.seen)
        slot = seen if seen < capacity else int(rng.integers(seen + 1))
        state = state._replace(seen=np.int32(seen + 1))
        if slot < capacity:
            new = Member(params.policy, params.log_std, moments.mean, moments.var)
            state = state._replace(members=jax.tree.map(put(slot), state.members, new))
            state = reweigh(state, rollout, slot)
        p = state.weights[state.weights > 0].astype(np.float64)
        metrics = {
            "start/members": float(len(p)),
            "start/effective_members": float(np.exp(-(p * np.log(p)).sum())),
        }
        return state, metrics

    def anew(state: CoverState) -> CoverState:
        """Returns the state without the plans of the episodes that were under way."""
        plans = ("member", "remaining", "uniform")
        return state._replace(**{name: np.zeros_like(getattr(state, name)) for name in plans})

    return Start(init, sample, update, anew=anew)


def put(slot: int):
    """Returns a function that copies an array and writes ``row`` into its row ``slot``."""

    def write(all_rows: np.ndarray, row: Any) -> np.ndarray:
        all_rows = np.array(all_rows)
        all_rows[slot] = np.asarray(row)
        return all_rows

    return write
