"""Engine on a device: what is fixed in a compiled program."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from lpo.config import Config, with_axes
from lpo.engine.device.state import Axes, flat, unflat
from lpo.engine.learner import Parts, Space, TrainState, assemble, problem_of
from lpo.envs.device.base import DeviceEnv, observed
from lpo.envs.device.worlds import Stepped, World, advance
from lpo.errors import LPOError
from lpo.math.descent import Compute
from lpo.math.distributions import masked
from lpo.start.base import OnDevice
from lpo.types import Obs


class Setting:
    """Shapes, parts and environment of the runs of a group."""

    def __init__(self, c: Config, env: DeviceEnv, compute: Compute):
        self.config, self.env, self.compute = c, env, compute
        self.held_out: DeviceEnv = getattr(env, "held_out", env)  # what evaluations play
        horizon = env.description.get("horizon", env.horizon)
        self.space = Space(observed(env), env.action, horizon)
        self.parts = assemble(c, problem_of(c, self.space, compute))
        if self.parts.start.on_device is None:
            raise LPOError(
                f"The start {c.start.kind!r} runs on the host only; leave --device out, or choose "
                "--start reset."
            )
        # Where all runs collect the same number of rows, and learn from all of them, no run waits
        # and the loops of the program have one length: less for the GPU to ask and to copy.
        self.in_step = self.parts.switch.in_step and self.parts.start.on_device.all_rows
        self.num_envs = c.task.num_envs
        self.rows = -(-self.parts.switch.capacity // self.num_envs)
        self.low = jnp.array(env.action.low or [-jnp.inf] * len(env.action.nvec), jnp.float32)
        self.high = jnp.array(env.action.high or [jnp.inf] * len(env.action.nvec), jnp.float32)

    def params(self, axes: Axes, runs: int, worlds: int) -> dict[str, Array]:
        """Returns the parameters of the environment for every world, flat."""
        values = {
            name: axes.get(name, jnp.full(runs, value, jnp.float32))
            for name, value in self.env.params.items()
        }
        return {name: jnp.repeat(value, worlds) for name, value in values.items()}

    def parts_of(self, axes: Axes) -> Parts:
        """Returns the parts of one run, with its values of the axes."""
        learned = {name: value for name, value in axes.items() if name not in self.env.params}
        if not learned:
            return self.parts
        c = with_axes(self.config, learned)
        return assemble(c, problem_of(c, self.space, self.compute))

    def start(self, axes: Axes) -> OnDevice:
        """Returns the start of one run."""
        start = self.parts_of(axes).start.on_device
        assert start is not None  # asked for in __init__
        return start

    def no_memory(self, runs: int, worlds: int) -> Any:
        """Returns the memories [R, N, …] of the policies before an episode."""
        memory = self.parts.sight.body.memory(worlds)
        return jax.tree.map(lambda x: jnp.zeros((runs, *x.shape), x.dtype), memory)

    def outputs(self, state: TrainState, memory: Any, obs: Obs, begins: Array) -> tuple[Any, Array]:
        """Returns the memory and the outputs of the policy of one run after a step."""
        sight, params = self.parts.sight, state.params
        seen = sight.observer.apply(state.moments, sight.view(obs))
        memory, features = sight.body.step(params.body, memory, seen, begins)
        outputs = self.compute.apply(params.policy, features)
        return memory, masked(outputs, sight.allowed(obs), jnp.where)

    def simulate(
        self, worlds: World, action: Array, params: dict[str, Array], env: DeviceEnv
    ) -> tuple[World, Stepped]:
        """One step of all worlds [R, N] as one flat batch."""
        limits = jnp.clip(flat(action), self.low[None], self.high[None])
        after, out = jax.vmap(partial(advance, env))(flat(worlds), limits, params)
        return unflat(after, len(action)), unflat(out, len(action))

    def succeeded(self, out: Stepped, ret: Array) -> Array:
        """Returns which episodes succeed if they end here; ``ret`` is their return so far."""
        if out.success is not None:
            return out.success
        least = self.env.description.get("success_return")
        return jnp.zeros(ret.shape, bool) if least is None else ret >= least


def overflowed(out: Stepped, shape: tuple[int, ...]) -> Array:
    """The buffers that were too small for a world, as bits; those of the largest value stay."""
    return jnp.zeros(shape) if out.overflow is None else out.overflow.astype(jnp.float32)


def defines_success(env: DeviceEnv) -> bool:
    """Returns whether a task says, by itself or by a return, which episodes succeed."""
    step = jax.eval_shape(
        lambda key: env.step(
            env.reset(key, env.params)[0],
            jnp.zeros(len(env.action.nvec or env.action.low)),
            key,
            env.params,
        ),
        jax.random.key(0),
    )
    return step.success is not None or "success_return" in env.description
