"""Engine on a device: many runs at once, one compiled program (Algorithm 7).

The runs of a group differ in their seeds and in options that are marked as axes; all else is one
program. The parts are those of the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from lpo.config import Config
from lpo.engine.device.collect import collect
from lpo.engine.device.evaluate import evaluate
from lpo.engine.device.learn import learn
from lpo.engine.device.setting import Setting
from lpo.engine.device.state import Axes, Group, Moving, Walk, stream, unflat
from lpo.engine.learner import START, SWITCH, WORLDS, Parts, Space, TrainState, init_state
from lpo.envs.device.base import DeviceEnv
from lpo.envs.device.worlds import World, begin
from lpo.math.descent import Compute
from lpo.math.kernels import compute_here


class Program:
    """The compiled functions of a group."""

    def __init__(self, c: Config, env: DeviceEnv, compute: Compute | None = None):
        self.setting = s = Setting(c, env, compute_here() if compute is None else compute)
        self.advance = jax.jit(self._advance, static_argnames="iterations")
        self.evaluate = jax.jit(partial(evaluate, s))
        self._begin = jax.jit(self._worlds)
        self._first = jax.jit(jax.vmap(lambda seed, axes: init_state(s.parts_of(axes), seed)))

    @property
    def parts(self) -> Parts:
        return self.setting.parts

    @property
    def space(self) -> Space:
        return self.setting.space

    def init(self, seeds: Sequence[int], axes: Axes) -> Group:
        """Returns the first states of the runs, each as it would be alone."""
        s = self.setting
        train = self._first(jnp.array(seeds, jnp.uint32), dict(axes))
        switch = jax.vmap(lambda seed: s.parts.switch.init(stream(seed, SWITCH)))(train.seed)
        count, zero = len(seeds), jnp.zeros((len(seeds), s.num_envs))

        def start_of(train: TrainState, axes: Axes) -> Any:
            key = stream(train.seed, START)
            return s.start(axes).init(key, s.num_envs, train.params, train.moments)

        known, plans = jax.vmap(start_of)(train, dict(axes))
        moving = Moving(
            worlds=self._begin(train.seed, axes),
            returns=zero,
            lengths=zero.astype(jnp.int32),
            env_steps=jnp.zeros(count, jnp.int32),
            plans=plans,
            memory=s.no_memory(count, s.num_envs),
        )
        return Group(train, switch, known, moving)

    def _worlds(self, seeds: Array, axes: Axes) -> World:
        s = self.setting

        def of_run(seed: Array) -> Array:
            key = stream(seed, WORLDS)
            return jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(s.num_envs))

        keys = jax.vmap(of_run)(seeds).reshape(-1)
        params = s.params(axes, len(seeds), s.num_envs)
        return unflat(jax.vmap(partial(begin, s.env))(keys, params), len(seeds))

    def _advance(
        self, group: Group, axes: Axes, until: Array, iterations: int
    ) -> tuple[Group, dict[str, Array]]:
        """Runs ``iterations`` turns of the algorithm; metrics [iterations, R]."""
        turn = lambda group, _: self.iterate(group, axes, until)  # noqa: E731
        return jax.lax.scan(turn, group, length=iterations)

    def iterate(self, group: Group, axes: Axes, until: Array) -> tuple[Group, dict[str, Array]]:
        """One turn: collect D_k until the switch of every run has fired, then learn from it."""
        return learn(self.setting, self.collect(group, axes, until), group, axes)

    def collect(self, group: Group, axes: Axes, until: Array) -> Walk:
        return collect(self.setting, group, axes, until)
