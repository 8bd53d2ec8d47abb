"""The contract of a switch (when may the policy change?), and switches with a fixed schedule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lpo.errors import LPOError, named
from lpo.math.arrays import Scalar
from lpo.options import Axis, Kinds, Part, Positive, PositiveInt, Short, options
from lpo.problem import Problem
from lpo.types import Rollout

S = TypeVar("S")  # the state of a switch: arrays
Bool: TypeAlias = bool | np.bool_ | Array


class Rows(NamedTuple):
    """Rows ``since`` to ``upto − 1`` of a buffer: numbers on the host, traced on a device.

    A traced number cannot cut an array. So a switch asks ``Look`` for what it needs.
    """

    since: Any
    upto: Any

    @property
    def on_host(self) -> bool:
        return isinstance(self.upto, int)


class Look(NamedTuple):
    """What a switch sees: the rollout so far, and which rows are new.

    The buffer is longer than the rollout, and what stands in its other rows means nothing. ``new``,
    ``steps`` and ``last`` are the same on the host and on a device; a switch that uses them alone
    runs on both.
    """

    rollout: Rollout  # the whole padded buffer [T, N]
    rows: Rows  # collected since the last look

    @property
    def new(self) -> Any:
        """Which steps [T, N] of the rollout were collected since the last look."""
        row = np.arange(len(self.rollout.valid))
        fresh = (row >= self.rows.since) & (row < self.rows.upto)
        spread = np.broadcast_to if self.rows.on_host else jnp.broadcast_to
        return spread(fresh[:, None], self.rollout.valid.shape)

    @property
    def steps(self) -> Any:
        """Environment steps since the last look."""
        steps = (self.rows.upto - self.rows.since) * self.rollout.valid.shape[1]
        return np.int32(steps) if self.rows.on_host else steps

    def last(self, rows: int) -> Rollout:
        """Returns the last ``rows`` rows, of which only the new ones are valid."""
        r = self.rollout
        if self.rows.on_host:
            first = max(self.rows.upto, rows) - rows
            cut = lambda x: x[first : first + rows]  # noqa: E731
        else:
            first = jnp.maximum(self.rows.upto, rows) - rows
            cut = partial(jax.lax.dynamic_slice_in_dim, start_index=first, slice_size=rows)
        fields = {
            name: jax.tree.map(cut, getattr(r, name)) for name in r._fields if name != "last_obs"
        }
        fresh = first + np.arange(rows) >= self.rows.since
        fields["valid"] = fields["valid"] & fresh[:, None]
        return r._replace(**fields)


class Switch(NamedTuple, Generic[S]):
    """The engine collects ``wait(state)`` steps, asks ``update``, and learns when it fires."""

    capacity: int  # the largest rollout it can ask for, in environment steps: fixes all shapes
    init: Callable[[Array], S]  # from a key
    wait: Callable[[S], Array | int]  # environment steps to collect before the next look
    update: Callable[[S, Look], tuple[Bool, S, dict[str, Array]]]  # fire, state, metrics
    in_step: bool = False  # True: it fires after wait(state) steps, the same for every run


class SwitchPart(Part):
    """The options of a switch. ``make`` returns the switch itself."""

    kinds: ClassVar[Kinds[SwitchPart]] = Kinds("switch", "lpo.switches")
    rollout: int

    def make(self, problem: Problem) -> Switch:
        raise NotImplementedError


@options
class SwitchOptions(SwitchPart):
    """Options that every switch has."""

    rollout: PositiveInt = 2048
    """N: steps of a rollout, all environments together (of the first rollout where they grow)."""


class ScheduleState(NamedTuple):
    k: Array  # policy changes so far


def schedule(sizes: np.ndarray) -> Switch:
    """Returns the switch whose rollout k has ``sizes[k]`` steps; the last size repeats."""
    table = jnp.asarray(sizes, jnp.int32)

    def wait(state: ScheduleState) -> Array:
        return table[jnp.minimum(state.k, len(sizes) - 1)]

    def update(state: ScheduleState, look: Look):
        return jnp.bool_(True), ScheduleState(state.k + 1), {}

    return Switch(
        int(sizes.max()), lambda key: ScheduleState(jnp.int32(0)), wait, update, in_step=True
    )


@SwitchPart.kinds.add
@options
class Every(SwitchOptions):
    """A policy change every N steps."""

    kind: ClassVar[str] = "every"

    def make(self, problem: Problem) -> Switch:
        return every(self.rollout)


def every(n: int) -> Switch:
    """Returns the switch that changes the policy every ``n`` steps (PPO, RND, ENIAC)."""
    return schedule(np.array([n]))


@SwitchPart.kinds.add
@options
class Growth(SwitchOptions):
    """Rollouts that grow: ⌈(1+1/K)^k N⌉ steps (line 5 of Algorithm 7)."""

    kind: ClassVar[str] = "growth"
    iterations: Annotated[PositiveInt | None, Short("growth_iterations")] = None
    """K of the growth (1+1/K)^k; by default solved from the step budget."""
    horizon: Annotated[PositiveInt | None, Short("growth_steps")] = None
    """T of the growth (1+1/T)^t instead, where t is the number of environment steps so far."""

    def __post_init__(self) -> None:
        if self.iterations and self.horizon:
            raise LPOError(
                f"{named('growth_iterations')} and {named('growth_steps')} are two readings of one "
                "schedule; leave one of them out."
            )

    def make(self, problem: Problem) -> Switch:
        if self.horizon:
            return schedule(sizes_by_steps(self.rollout, self.horizon, problem.steps))
        iterations = self.iterations or growth_iterations(self.rollout, problem.steps)
        return growth(self.rollout, iterations)


def growth_sizes(n: int, iterations: int) -> np.ndarray:
    """Returns T_k = ⌈(1 + 1/K)^k N⌉ for k = 0 … K−1 (line 5 of Algorithm 7)."""
    k = np.arange(iterations)
    return np.ceil((1 + 1 / iterations) ** k * n - 1e-9).astype(np.int64)


def sizes_by_steps(n: int, horizon: int, budget: int) -> np.ndarray:
    """Returns ⌈(1 + 1/T)^t N⌉ for the t steps before each rollout, as the paper's text has it."""
    sizes, t = [], 0
    while t < budget:
        sizes.append(int(np.ceil(np.exp(t * np.log1p(1 / horizon)) * n - 1e-9)))
        t += sizes[-1]
    return np.array(sizes)


def growth_iterations(n: int, budget: int) -> int:
    """Returns the smallest K whose rollouts fill the step budget: Σ_k T_k ≥ budget.

    The paper states no value of K (its table lists T = 2e6, the number of steps).
    """
    low, high = 1, max(1, -(-budget // n))
    while low < high:
        middle = (low + high) // 2
        if growth_sizes(n, middle).sum() >= budget:
            high = middle
        else:
            low = middle + 1
    return low


def growth(n: int, iterations: int) -> Switch:
    """Returns LPO's switch (line 5 of Algorithm 7): each rollout is 1 + 1/K times the one before.

    In the paper this schedule replaces the sensitivity sampling of Algorithm 2.
    """
    return schedule(growth_sizes(n, iterations))


@SwitchPart.kinds.add
@options
class Ramp(SwitchOptions):
    """Rollouts of one length first and of another one later."""

    kind: ClassVar[str] = "ramp"
    later: Annotated[PositiveInt, Short("ramp_rollout")] = 5500
    """Steps of a rollout later."""
    until: Annotated[Axis[Positive], Short("ramp_until")] = 100_000.0
    """Environment steps after which rollouts have the later length."""

    def make(self, problem: Problem) -> Switch:
        return ramp(self.rollout, self.later, self.until)


class RampState(NamedTuple):
    steps: Array  # environment steps so far
    size: Array  # steps of the rollout under way


def ramp(first: int, later: int, until: Scalar) -> Switch:
    """Returns the switch whose rollouts have ``first`` steps, and ``later`` from ``until`` on.

    The control of a switch that decides by itself: `lpo-s` changes its policy about every 2.7k
    steps at first and every 5.5k steps after 100k, whatever it learns.
    """

    def init(key: Array) -> RampState:
        return RampState(jnp.int32(0), jnp.int32(first))

    def update(state: RampState, look: Look):
        steps = state.steps + look.steps
        size = jnp.where(steps >= until, later, first).astype(jnp.int32)
        return jnp.bool_(True), RampState(steps, size), {}

    return Switch(max(first, later), init, lambda state: state.size, update)
