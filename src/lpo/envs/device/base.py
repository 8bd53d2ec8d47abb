"""Device environments: the protocol, and a check that an environment keeps it.

A device environment is written for one world in `jax.numpy`; the loop maps it over all worlds of
all runs. It neither resets itself nor counts steps: `worlds.py` adds both, once for all.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from lpo.errors import LPOError
from lpo.math.distributions import ActionSpec
from lpo.types import Obs, ObsSpec, vector


class Transition(NamedTuple):
    """One step of one world."""

    state: Any  # pytree of arrays
    obs: Obs  # the true s′
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]  # the MDP ended
    success: Bool[Array, ""] | None = None  # meaningful where the episode ends; None: by return
    truncated: Bool[Array, ""] | None = None  # cut, but not by ``horizon``; None: never
    overflow: Int[Array, ""] | None = None  # bits of buffers that were too small; None: has none


class DeviceEnv(Protocol):
    """What the loop asks of an environment on the device.

    One that observes more than a vector has an attribute ``obs`` with the form (``ObsSpec``), and
    returns images, codes and masks as a dict by path. Its ``obs_size`` is not read.

    Compiled programs are shared between environments that are equal and have the same hash, so a
    frozen dataclass of numbers and texts serves best.
    """

    @property
    def obs_size(self) -> int: ...

    @property
    def action(self) -> ActionSpec: ...

    @property
    def horizon(self) -> int | None:
        """The time limit in steps; None where the MDP ends by itself, or never."""
        ...

    @property
    def description(self) -> dict[str, Any]:
        """What a host batch says of itself (id, horizon, max_return, …), with backend "device"."""
        ...

    @property
    def params(self) -> dict[str, Any]:
        """Numbers that may differ between the runs of one program, with their defaults."""
        ...

    def reset(self, key: Array, params: dict[str, Any]) -> tuple[Any, Obs]:
        """Returns the state and the observation at the start of an episode."""
        ...

    def step(
        self, state: Any, action: Float[Array, " A"], key: Array, params: dict[str, Any]
    ) -> Transition:
        """Takes one step.

        ``action`` is a stored action: clipped to its bounds, or the indices of choices as floats.
        """
        ...


def observed(env: DeviceEnv) -> ObsSpec:
    """Returns the form of an observation."""
    return getattr(env, "obs", None) or vector(env.obs_size)


def check(env: DeviceEnv) -> None:
    """Raises LPOError where ``env`` cannot be compiled or does not keep the protocol.

    It traces one reset and one step and computes nothing.
    """
    name = env.description["id"]
    key = jax.eval_shape(jax.random.key, 0)
    params = jax.tree.map(jnp.asarray, env.params)
    action = jax.ShapeDtypeStruct((len(env.action.nvec or env.action.low),), jnp.float32)
    state, obs = _traced(name, "reset", env.reset, key, params)
    _expect_form(name, "reset", observed(env), obs)
    step: Transition = _traced(name, "step", env.step, state, action, key, params)
    _expect_form(name, "step", observed(env), step.obs)
    _expect(name, "step", "reward", step.reward, (), jnp.float32)
    for flag in ("terminated", "truncated", "success"):
        if getattr(step, flag) is not None:
            _expect(name, "step", flag, getattr(step, flag), (), jnp.bool_)
    if step.overflow is not None:
        _expect(name, "step", "overflow", step.overflow, (), jnp.int32)
    if _kinds(state) != _kinds(step.state):
        raise LPOError(
            f"The state of {name} is {_kinds(state)} after reset and {_kinds(step.state)} after "
            "step; return the same structure, shapes and dtypes from both."
        )


def _traced(name: str, method: str, function: Any, *args: Any) -> Any:
    """Returns the shapes that ``function`` returns."""
    try:
        return jax.eval_shape(function, *args)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise LPOError(
            f"{method} of {name} cannot be compiled ({reason}); use jnp.where and jax.lax instead "
            "of if, while, int() and NumPy on what depends on state, action, key or params."
        ) from error


def _expect(name: str, method: str, what: str, found: Any, shape: tuple, dtype: Any) -> None:
    if (found.shape, found.dtype) != (shape, dtype):
        raise LPOError(
            f"The {what} that {method} of {name} returns is {found.dtype}{list(found.shape)}; "
            f"return {jnp.dtype(dtype)}{list(shape)}."
        )


def _expect_form(name: str, call: str, spec: ObsSpec, obs: Any) -> None:
    if not spec.bare and (not isinstance(obs, dict) or obs.keys() != {p for p, _ in spec.leaves}):
        raise LPOError(
            f"{name} returned observations {sorted(obs) if isinstance(obs, dict) else obs} from "
            f"{call}; return a dict of {', '.join(path for path, _ in spec.leaves)}."
        )
    for path, leaf in spec.leaves:
        part = obs if spec.bare else obs[path]
        _expect(name, call, f"observation {path}".strip(), part, leaf.shape, jnp.dtype(leaf.dtype))


def _kinds(state: Any) -> Any:
    """Returns a state with its leaves as texts such as float32[2]."""
    return jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", state)
