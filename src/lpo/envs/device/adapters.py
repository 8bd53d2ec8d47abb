"""Device environments: adapters for those of Gymnax and of MuJoCo Playground.

Neither package is imported: what counts is the methods that an object has. Time limits are taken
out of the environments and left to the loop, so that a time limit never looks like an end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from lpo.envs.device.base import DeviceEnv, Transition, check
from lpo.errors import LPOError, nearest
from lpo.math.distributions import ActionSpec

NEVER = 2**30  # a time limit that no episode meets


@dataclasses.dataclass(frozen=True, eq=False)
class Adapted:
    """What every adapted environment says of itself; two are equal only if they are one object."""

    id: str
    obs_size: int
    action: ActionSpec
    horizon: int | None
    facts: dict[str, Any]  # what the user knows: max_return, success_return, …

    @property
    def description(self) -> dict[str, Any]:
        row = {"id": self.id, "horizon": self.horizon, "backend": "device", "jax": jax.__version__}
        return row | self.facts


@dataclasses.dataclass(frozen=True, eq=False)
class Gymnax(Adapted):
    """An environment with Gymnax's methods; ``env_params`` has no time limit any more."""

    env: Any
    env_params: Any
    vary: tuple[str, ...]

    @property
    def params(self) -> dict[str, Any]:
        return {name: float(getattr(self.env_params, name)) for name in self.vary}

    def reset(self, key: Array, params: dict[str, Any]) -> tuple[Any, Float[Array, " O"]]:
        given = self._given(params)
        reset = getattr(self.env, "reset_env", self.env.reset)
        obs, state = reset(jax.random.key_data(key), given)
        return state, self._flat(obs, given)

    def step(
        self, state: Any, action: Float[Array, " A"], key: Array, params: dict[str, Any]
    ) -> Transition:
        given = self._given(params)
        step = getattr(self.env, "step_env", self.env.step)
        space = self.env.action_space(given)
        taken = _shaped(space, action)
        obs, state, reward, terminated, *cut, info = step(
            jax.random.key_data(key), state, taken, given
        )
        if not cut and hasattr(self.env, "is_truncated"):
            cut = [self.env.is_truncated(state, given)]
        return Transition(
            state,
            self._flat(info.get("final_observation", obs), given),
            _number(reward),
            _flag(terminated),
            truncated=_flag(cut[0]) if cut else None,
        )

    def _given(self, params: dict[str, Any]) -> Any:
        return _replace(self.env_params, **params) if params else self.env_params

    def _flat(self, obs: Any, given: Any) -> Float[Array, " O"]:
        return _flat(obs, getattr(self.env.observation_space(given), "n", None))


def gymnax_like(
    env: Any,
    env_params: Any = None,
    *,
    id: str | None = None,
    horizon: int | None = None,
    vary: tuple[str, ...] = (),
    **facts: Any,
) -> DeviceEnv:
    """Returns an environment of Gymnax, before or after its version 1.0, as a device environment.

    Where there are ``reset_env`` and ``step_env``, they are used, because `step` of Gymnax resets.
    An environment with `step` alone must not reset itself, or tell ``info["final_observation"]``.
    ``done`` of the old signature means terminated once the time limit is taken out.

    Args:
        env: the environment.
        env_params: its parameters; by default `env.default_params`.
        id: its name in runs and figures; by default its own.
        horizon: the time limit; by default `max_steps_in_episode` of the parameters.
        vary: names of parameters that may differ between the runs of one program.
        facts: entries of the description, such as max_return and success_return.
    """
    given = env.default_params if env_params is None else env_params
    own = getattr(given, "max_steps_in_episode", None)
    if own is not None:
        horizon = int(own) if horizon is None else horizon
        given = _replace(given, max_steps_in_episode=type(own)(NEVER))
    for name in vary:
        if not hasattr(given, name):
            fields = [field.name for field in dataclasses.fields(given)]
            raise LPOError(f"The parameters have no {name!r}; {nearest(name, fields)}")
    name = id or str(getattr(env, "name", type(env).__name__))
    space = env.observation_space(given)
    size = int(getattr(space, "n", 0)) or _size(env, given)
    action = _action_spec(name, env.action_space(given))
    made = Gymnax(name, size, action, horizon, facts, env, given, tuple(vary))
    check(made)
    return made


@dataclasses.dataclass(frozen=True, eq=False)
class Playground(Adapted):
    """An environment with MuJoCo Playground's methods; our state is the leaves of its state.

    MuJoCo Warp keeps one buffer of contacts. Such a leaf is shared by all worlds and rewritten by
    every step. We do not store it; we insert a placeholder before each step.
    """

    env: Any
    reads: str
    tree: Any  # structure of its state
    shared: tuple[np.ndarray | None, ...]  # a value for each leaf that all worlds share

    @property
    def params(self) -> dict[str, Any]:
        return {}

    def reset(self, key: Array, params: dict[str, Any]) -> tuple[Any, Float[Array, " O"]]:
        state = self.env.reset(jax.random.key_data(key))
        return self._own(state), _read(state.obs, self.reads)

    def step(
        self, state: Any, action: Float[Array, " A"], key: Array, params: dict[str, Any]
    ) -> Transition:
        after = self.env.step(self._whole(state), action)
        done, cut = _flag(after.done), after.info.get("truncation")
        obs, reward, own = _read(after.obs, self.reads), _number(after.reward), self._own(after)
        if cut is None:
            return Transition(own, obs, reward, done)
        return Transition(own, obs, reward, done & ~_flag(cut), truncated=_flag(cut))

    def _own(self, state: Any) -> tuple[Array, ...]:
        leaves, tree = jax.tree.flatten(state)
        if tree != self.tree:
            raise LPOError(
                f"The state of {self.id} is {self.tree} after reset and {tree} after step; return "
                "the same structure from both."
            )
        pairs = zip(leaves, self.shared, strict=True)
        return tuple(leaf for leaf, value in pairs if value is None)

    def _whole(self, own: tuple[Array, ...]) -> Any:
        left = iter(own)
        leaves = [next(left) if value is None else jnp.asarray(value) for value in self.shared]
        return jax.tree.unflatten(self.tree, leaves)


def playground(
    env: Any,
    *,
    id: str | None = None,
    horizon: int | None = 1000,
    reads: str = "state",
    **facts: Any,
) -> DeviceEnv:
    """Returns an environment of MuJoCo Playground as a device environment.

    Pass it as `registry.load` returns it. A wrapper that resets would hide the last observation.

    Args:
        env: the environment; its actions lie in [−1, 1].
        id: its name in runs and figures; by default the name of its class.
        horizon: the time limit; 1000 steps are the default of Playground, too.
        reads: which observation the agent sees, where there are several.
        facts: entries of the description, such as max_return and success_return.
    """
    name = id or type(getattr(env, "unwrapped", env)).__name__
    state = jax.eval_shape(env.reset, _key_data())
    if isinstance(state.obs, Mapping) and reads not in state.obs:
        raise LPOError(f"{name} has no observation {reads!r}; {nearest(reads, state.obs)}")
    size = jax.eval_shape(lambda obs: _read(obs, reads), state.obs).shape[0]
    bound = (1.0,) * int(env.action_size)
    action = ActionSpec(tuple(-one for one in bound), bound)
    tree, shared = jax.tree.structure(state), _shared(env)
    made = Playground(name, size, action, horizon, facts, env, reads, tree, shared)
    check(made)
    return made


def _shared(env: Any) -> tuple[np.ndarray | None, ...]:
    """Returns a value for each leaf of the state that all worlds share, None for the others."""
    key = _key_data()
    one = jax.tree.leaves(jax.eval_shape(env.reset, key))
    three = jax.tree.leaves(jax.eval_shape(jax.vmap(env.reset), jnp.stack([key] * 3)))
    own = [many.shape == (3, *single.shape) for single, many in zip(one, three, strict=True)]
    if all(own):
        return (None,) * len(own)
    values = jax.tree.leaves(jax.jit(env.reset)(key))
    return tuple(None if mine else np.asarray(v) for mine, v in zip(own, values, strict=True))


def _key_data() -> Array:
    return jax.random.key_data(jax.random.key(0))


def _action_spec(name: str, space: Any) -> ActionSpec:
    """Returns the actions of a Gymnax space: Discrete has ``n``, Box has bounds."""
    if hasattr(space, "n"):
        return ActionSpec(nvec=(int(space.n),), scalar=True)
    if not hasattr(space, "low"):
        raise LPOError(
            f"{name} acts in {type(space).__name__}, which is not supported; wrap it so that its "
            "actions are a Box or Discrete."
        )
    low, high = (np.broadcast_to(bound, space.shape).ravel() for bound in (space.low, space.high))
    return ActionSpec(tuple(low.astype(float).tolist()), tuple(high.astype(float).tolist()))


def _shaped(space: Any, action: Float[Array, " A"]) -> Array:
    """Returns a stored action in the form that a Gymnax space has."""
    return action[0].astype(jnp.int32) if hasattr(space, "n") else action.reshape(space.shape)


def _size(env: Any, given: Any) -> int:
    """Returns how many numbers an observation has."""
    reset = getattr(env, "reset_env", env.reset)
    obs, _ = jax.eval_shape(reset, _key_data(), given)
    return jax.eval_shape(_flat, obs).shape[0]


def _flat(obs: Any, choices: int | None = None) -> Float[Array, " O"]:
    """Returns an observation as one vector: one-hot where it is one of ``choices``."""
    if choices is not None:
        return jax.nn.one_hot(obs, choices, dtype=jnp.float32)
    leaves = [jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(obs)]
    return jnp.concatenate(leaves)


def _read(obs: Any, reads: str) -> Float[Array, " O"]:
    return _flat(obs[reads] if isinstance(obs, Mapping) else obs)


def _number(reward: Any) -> Float[Array, ""]:
    return jnp.asarray(reward, jnp.float32).reshape(())


def _flag(value: Any) -> Array:
    """Returns a flag as a boolean; some packages use 0.0 and 1.0."""
    return jnp.asarray(value).astype(bool).reshape(())


def _replace(params: Any, **changes: Any) -> Any:
    """Returns ``params`` with other values; a class of Flax has a method for it."""
    if hasattr(params, "replace"):
        return params.replace(**changes)
    return dataclasses.replace(params, **changes)
