"""Engine: many runs at once, one compiled program (Algorithm 7 over environments on a device).

The runs of a group differ in their seeds and in options that are marked as axes; all else is one
program. The parts are those of the host. Worlds of all runs are stepped as one flat batch, and a
run that has reached its budget, or its switch, stands still until the others are there too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lpo.config import Config, with_axes
from lpo.engine.learner import (
    ACT,
    EVAL,
    ROLL_IN,
    START,
    SWITCH,
    WORLDS,
    Parts,
    Space,
    TrainState,
    assemble,
    init_state,
    learn,
    problem_of,
)
from lpo.envs.device.base import DeviceEnv
from lpo.envs.device.worlds import Stepped, World, advance, begin
from lpo.errors import LPOError
from lpo.math.descent import PLAIN, Compute
from lpo.math.normalize import normalize
from lpo.start.base import OnDevice
from lpo.switch import Look, Rows
from lpo.types import Rollout

SAMPLED = 1 << 30  # what tells the episodes of sampled actions from the others
Axes = Mapping[str, Array]  # short name of an option → one value for each run


class Moving(NamedTuple):
    """What a step of the environments changes."""

    worlds: World  # [R, N, …]
    returns: Array  # [R, N] of the episodes under way
    lengths: Array  # [R, N]
    env_steps: Array  # [R]
    plans: Any  # of the start


class Group(NamedTuple):
    """R runs under way: every array has a leading axis [R]."""

    train: TrainState
    switch: Any
    known: Any  # of the start
    moving: Moving


class Ended(NamedTuple):
    """Sums over the episodes that ended in a rollout, [R] each."""

    episodes: Array
    ret: Array
    length: Array
    success: Array
    overflow: Array  # bits of the buffers of the physics that were too small


class Walk(NamedTuple):
    """A rollout under way."""

    row: Array  # [] rows so far
    last: Array  # [] rows at which it ends, at the latest
    moving: Moving
    switch: Any
    buffer: Rollout  # [T, R, N, …]
    ended: Ended
    seen: Array  # [R] rows at the last look
    due: Array  # [R] rows at the next look
    rows: Array  # [R] rows that each run collected
    fired: Array  # [R] its switch has fired, or its budget is spent
    looked: dict[str, Array]  # [R] metrics of the last look


class Program:
    """The compiled functions of a group: shapes, parts and environment are fixed in it."""

    def __init__(self, c: Config, env: DeviceEnv, compute: Compute | None = None):
        self.config, self.env = c, env
        self.held_out: DeviceEnv = getattr(env, "held_out", env)  # what evaluations play
        self.compute = compute_here() if compute is None else compute
        horizon = env.description.get("horizon", env.horizon)
        self.space = Space(env.obs_size, env.action, horizon)
        self.parts = assemble(c, problem_of(c, self.space, self.compute))
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
        self.advance = jax.jit(self._advance, static_argnames="iterations")
        self.evaluate = jax.jit(self._evaluate)
        self._begin = jax.jit(self._worlds)
        self._first = jax.jit(jax.vmap(lambda seed, axes: init_state(self.parts_of(axes), seed)))

    # -- the group

    def init(self, seeds: Sequence[int], axes: Axes) -> Group:
        """Returns the first states of the runs, each as it would be alone."""
        train = self._first(jnp.array(seeds, jnp.uint32), dict(axes))
        switch = jax.vmap(lambda seed: self.parts.switch.init(stream(seed, SWITCH)))(train.seed)
        count, zero = len(seeds), jnp.zeros((len(seeds), self.num_envs))

        def start_of(train: TrainState, axes: Axes) -> Any:
            key = stream(train.seed, START)
            return self.start(axes).init(key, self.num_envs, train.params, train.moments)

        known, plans = jax.vmap(start_of)(train, dict(axes))
        moving = Moving(
            worlds=self._begin(train.seed, axes),
            returns=zero,
            lengths=zero.astype(jnp.int32),
            env_steps=jnp.zeros(count, jnp.int32),
            plans=plans,
        )
        return Group(train, switch, known, moving)

    def _worlds(self, seeds: Array, axes: Axes) -> World:
        def of_run(seed: Array) -> Array:
            key = stream(seed, WORLDS)
            return jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(self.num_envs))

        keys = jax.vmap(of_run)(seeds).reshape(-1)
        params = self.params(axes, len(seeds), self.num_envs)
        return unflat(jax.vmap(partial(begin, self.env))(keys, params), len(seeds))

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

    # -- Algorithm 7

    def _advance(
        self, group: Group, axes: Axes, until: Array, iterations: int
    ) -> tuple[Group, dict[str, Array]]:
        """Runs ``iterations`` turns of the algorithm; metrics [iterations, R]."""
        turn = lambda group, _: self.iterate(group, axes, until)  # noqa: E731
        return jax.lax.scan(turn, group, length=iterations)

    def iterate(self, group: Group, axes: Axes, until: Array) -> tuple[Group, dict[str, Array]]:
        """One turn: collect D_k until the switch of every run has fired, then learn from it."""
        return self.learn(self.collect(group, axes, until), group, axes)

    def learn_from(
        self, walk: Walk, group: Group, axes: Axes, until: Array
    ) -> tuple[Group, dict[str, Array]]:
        """What follows a rollout that was collected beside others."""
        return self.learn(self.arrive(walk, group, axes, until), group, axes)

    def learn(self, walk: Walk, group: Group, axes: Axes) -> tuple[Group, dict[str, Array]]:
        """Lines 7 to 10 for the runs that have collected something."""
        worked = walk.rows > 0
        rollout = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), walk.buffer)
        rollout = rollout._replace(last_obs=walk.moving.worlds.obs)

        def learn_one(state: TrainState, known: Any, rollout: Rollout, axes: Axes, steps: Array):
            train, metrics = learn(self.parts_of(axes), state, rollout)
            key = jax.random.fold_in(stream(state.seed, START), steps)
            known, covered = self.start(axes).update(
                known, state.params, state.moments, rollout, key
            )
            return train, known, metrics | covered

        rows: Any = Rollout(*(0 for _ in Rollout._fields))
        if self.in_step:
            rollout, rows = rollout._replace(valid=rollout.valid[0]), rows._replace(valid=None)
        train, known, metrics = jax.vmap(learn_one, in_axes=(0, 0, rows, 0, 0))(
            group.train, group.known, rollout, dict(axes), walk.moving.env_steps
        )
        train, known = choose(worked, (train, known), (group.train, group.known))
        metrics |= walk.looked | self.episode_metrics(walk.ended)
        metrics["switch/count"] = train.iteration
        metrics["switch/rollout_steps"] = walk.rows * self.num_envs
        metrics["env_steps"] = walk.moving.env_steps
        return Group(train, walk.switch, known, walk.moving), metrics

    def episode_metrics(self, ended: Ended) -> dict[str, Array]:
        """Means over the episodes that ended; not a number where none did."""
        count = jnp.where(ended.episodes > 0, ended.episodes, jnp.nan)
        return {
            "rollout/return": ended.ret / count,
            "rollout/length": ended.length / count,
            "rollout/success": ended.success / count,
            "rollout/episodes": ended.episodes,
            "rollout/overflow": ended.overflow,
        }

    def collect(self, group: Group, axes: Axes, until: Array) -> Walk:
        """Lines 5 and 6: every run acts until its switch fires or its budget is spent."""
        params = self.params(axes, *group.moving.returns.shape)
        step = lambda w: self.step(w, group, axes, params, until)  # noqa: E731
        walk = self.set_out(group, axes, until)
        if self.in_step:
            walk = jax.lax.fori_loop(0, walk.last, lambda i, w: step(w), walk)
        else:
            walk = jax.lax.while_loop(lambda w: ~self.ended(w), step, walk)
        return self.arrive(walk, group, axes, until)

    def set_out(self, group: Group, axes: Axes, until: Array) -> Walk:
        """Returns a rollout of no rows."""
        runs, n = group.moving.returns.shape
        due = -(-self.waits(group.switch, runs) // n)
        left = -(-(until - group.moving.env_steps[0]) // n)
        ahead = jnp.clip(jnp.minimum(due[0], left), 0, self.rows)
        zero = jnp.zeros(runs, jnp.int32)
        return Walk(
            row=jnp.int32(0),
            last=ahead if self.in_step else jnp.int32(self.rows),
            moving=group.moving,
            switch=group.switch,
            buffer=self.empty(runs),
            ended=Ended(*(jnp.zeros(runs) for _ in Ended._fields)),
            seen=zero,
            due=due,
            rows=zero,
            fired=group.moving.env_steps >= until,
            looked=self.first_look(group, axes),
        )

    def ended(self, walk: Walk) -> Array:
        """Whether a rollout is complete."""
        full = walk.row >= walk.last
        return full if self.in_step else full | walk.fired.all()

    def arrive(self, walk: Walk, group: Group, axes: Axes, until: Array) -> Walk:
        """Asks the switches at the end of a rollout in step; others were asked on the way."""
        if not self.in_step:
            return walk
        asked = (walk.last > 0) & ((walk.last >= walk.due) | (walk.last >= self.rows))
        return self.ask(walk, asked, group.train, axes, until)

    def empty(self, runs: int) -> Rollout:
        shape = (self.rows, runs, self.num_envs)
        size, dist = self.space.obs_size, self.parts.dist
        return Rollout(
            obs=jnp.zeros((*shape, size)),
            action=jnp.zeros((*shape, dist.action_size)),
            reward=jnp.zeros(shape),
            terminated=jnp.zeros(shape, bool),
            truncated=jnp.zeros(shape, bool),
            next_obs=jnp.zeros((*shape, size)),
            valid=jnp.zeros(shape, bool),
            start=jnp.zeros(shape, bool),
            taken=jnp.zeros(shape, bool),
            last_obs=jnp.zeros((runs, self.num_envs, size)),
        )

    def step(
        self, walk: Walk, group: Group, axes: Axes, params: dict[str, Array], until: Array
    ) -> Walk:
        """One step of every world; those of a run that waits stand still."""
        action = self.actions(walk, group, axes)
        worlds, out = self.simulate(walk.moving.worlds, action, params)
        return self.record(walk, group, axes, until, action, worlds, out)

    def actions(self, walk: Walk, group: Group, axes: Axes) -> Array:
        """Actions [R, N] of all runs."""
        now = walk.moving
        return jax.vmap(self.act)(
            group.train, group.known, now.plans, now.worlds.obs, now.env_steps, dict(axes)
        )

    def record(
        self,
        walk: Walk,
        group: Group,
        axes: Axes,
        until: Array,
        action: Array,
        worlds: World,
        out: Stepped,
    ) -> Walk:
        """Adds a step of every world to the rollout, and asks the switches whose turn it is."""
        now = walk.moving
        active = jnp.ones_like(walk.fired) if self.in_step else ~walk.fired
        obs = now.worlds.obs
        ret, length = now.returns + out.reward, now.lengths + 1
        done = (out.terminated | out.truncated) & active[:, None]
        plans, own = jax.vmap(self.follow)(
            group.train.seed, group.known, now.plans, done, now.env_steps, dict(axes)
        )
        ended = Ended(
            walk.ended.episodes + done.sum(1),
            walk.ended.ret + (ret * done).sum(1),
            walk.ended.length + (length * done).sum(1),
            walk.ended.success + (self.succeeded(out, ret) & done).sum(1),
            jnp.maximum(walk.ended.overflow, self.overflowed(out, done.shape).max(1)),
        )
        valid = own & active[:, None]
        row = (obs, action, out.reward, out.terminated, out.truncated, out.next_obs, valid)
        row += (now.lengths == 0, jnp.broadcast_to(active[:, None], valid.shape))
        write = partial(jax.lax.dynamic_update_index_in_dim, index=walk.row, axis=0)
        names = Rollout._fields[:-1]
        new = {n: write(getattr(walk.buffer, n), x) for n, x in zip(names, row, strict=True)}
        moved = Moving(
            worlds=worlds,
            returns=jnp.where(done, 0.0, ret),
            lengths=jnp.where(done, 0, length),
            env_steps=now.env_steps + self.num_envs,
            plans=plans,
        )
        walk = walk._replace(
            row=walk.row + 1,
            moving=choose(active, moved, now),
            buffer=walk.buffer._replace(**new),
            ended=ended,
            rows=walk.rows + active,
        )
        return walk if self.in_step else self.look(walk, group.train, axes, until)

    def act(
        self, state: TrainState, known: Any, plans: Any, obs: Array, steps: Array, axes: Axes
    ) -> Array:
        """Actions [N] of one run: the policy's, or those of a roll-in."""
        key = jax.random.fold_in(stream(state.seed, ACT), steps)
        action = self.parts.dist.act(self.outputs(state, obs), state.params.log_std, key)
        return self.start(axes).act(known, plans, obs, action, self.roll_key(state.seed, steps, 0))

    def follow(
        self, seed: Array, known: Any, plans: Any, done: Array, steps: Array, axes: Axes
    ) -> tuple[Any, Array]:
        """The plans [N] of one run after a step, and which rows may be learned from."""
        return self.start(axes).follow(known, plans, done, self.roll_key(seed, steps, 1))

    @staticmethod
    def roll_key(seed: Array, steps: Array, which: int) -> Array:
        key = jax.random.fold_in(stream(seed, ROLL_IN), steps)
        return jax.random.fold_in(key, which)

    def simulate(
        self, worlds: World, action: Array, params: dict[str, Array], env: DeviceEnv | None = None
    ) -> tuple[World, Stepped]:
        """One step of all worlds [R, N] as one flat batch."""
        worlds, out = self.physics(flat(worlds), flat(action), params, env)
        return unflat(worlds, len(action)), unflat(out, len(action))

    def physics(
        self, worlds: World, action: Array, params: dict[str, Array], env: DeviceEnv | None = None
    ) -> tuple[World, Stepped]:
        """One step of worlds [W]."""
        limits = jnp.clip(action, self.low[None], self.high[None])
        return jax.vmap(partial(advance, env or self.env))(worlds, limits, params)

    def succeeded(self, out: Stepped, ret: Array) -> Array:
        if out.success is not None:
            return out.success
        least = self.env.description.get("success_return")
        return jnp.zeros(ret.shape, bool) if least is None else ret >= least

    @staticmethod
    def overflowed(out: Stepped, shape: tuple[int, ...]) -> Array:
        """The buffers that were too small for a world, as bits; those of the largest value stay."""
        return jnp.zeros(shape) if out.overflow is None else out.overflow.astype(jnp.float32)

    def look(self, walk: Walk, train: TrainState, axes: Axes, until: Array) -> Walk:
        """Asks the switches whose turn it is."""
        asked = ~walk.fired & ((walk.row >= walk.due) | (walk.row >= self.rows))
        return jax.lax.cond(
            asked.any(),
            lambda w: self.ask(w, asked, train, axes, until),
            lambda w: w._replace(fired=w.fired | (w.moving.env_steps >= until)),
            walk,
        )

    def ask(self, walk: Walk, asked: Array, train: TrainState, axes: Axes, until: Array) -> Walk:
        fire, switch, looked = self.updates(walk, train, axes)
        spent = walk.moving.env_steps >= until
        wait = -(-self.waits(switch, len(asked)) // self.num_envs)
        return walk._replace(
            switch=choose(asked, switch, walk.switch),
            fired=walk.fired | (asked & (fire | (walk.row >= self.rows))) | spent,
            seen=jnp.where(asked, walk.row, walk.seen),
            due=jnp.where(asked, walk.row + wait, walk.due),
            looked=choose(asked, looked, walk.looked),
        )

    def waits(self, switch: Any, runs: int) -> Array:
        """Environment steps until the next look of every switch."""
        wait = lambda state: jnp.asarray(self.parts.switch.wait(state), jnp.int32)  # noqa: E731
        return jax.vmap(wait, axis_size=runs)(switch)

    def updates(self, walk: Walk, train: TrainState, axes: Axes):
        """(fire, state, metrics) of every switch."""

        def of_run(state: Any, buffer: Rollout, seen: Array, train: TrainState, axes: Axes):
            look = Look(buffer, Rows(seen, walk.row), train.params, train.moments)
            fire, state, metrics = self.parts_of(axes).switch.update(state, look)
            return jnp.asarray(fire), state, {k: jnp.asarray(v) for k, v in metrics.items()}

        buffer = Rollout(*(1 for _ in Rollout._fields[:-1]), 0)  # type: ignore[arg-type]
        ask = jax.vmap(of_run, in_axes=(0, buffer, 0, 0, 0))
        return ask(walk.switch, walk.buffer, walk.seen, train, dict(axes))

    def first_look(self, group: Group, axes: Axes) -> dict[str, Array]:
        """Zeros of the metrics of a look, so that the walk has one shape throughout."""
        runs = len(group.moving.env_steps)
        zero = jnp.zeros(runs, jnp.int32)
        blank = Walk(
            jnp.int32(0), jnp.int32(0), group.moving, group.switch, self.empty(runs),
            Ended(*(jnp.zeros(runs),) * len(Ended._fields)), zero, zero, zero, zero == 1, {},
        )  # fmt: skip
        shapes = jax.eval_shape(lambda w: self.updates(w, group.train, axes)[2], blank)
        return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)

    # -- evaluation

    def _evaluate(self, group: Group, axes: Axes) -> dict[str, Array]:
        """Scores [R] of the policies on fresh worlds, and of their sampled actions on others."""
        now = jax.vmap(lambda seed, n: jax.random.fold_in(stream(seed, EVAL), n))(
            group.train.seed, group.moving.env_steps
        )
        scores = self.score_episodes(group, axes, now, self.config.evaluation.deterministic)
        others = jax.vmap(lambda key: jax.random.fold_in(key, SAMPLED))(now)
        sampled = self.score_episodes(group, axes, others, False)
        overflow = jnp.maximum(scores["overflow"], sampled.pop("overflow"))
        kept = {k: v for k, v in sampled.items() if k in ("return", "normalized_return", "success")}
        return (
            {f"eval/{k}": v for k, v in scores.items()}
            | {f"eval/sampled_{k}": v for k, v in kept.items()}
            | {"eval/overflow": overflow}
        )

    def score_episodes(
        self, group: Group, axes: Axes, now: Array, deterministic: bool
    ) -> dict[str, Array]:
        """Plays an episode in every world of an evaluation. Returns the means [R]."""
        c, runs = self.config.evaluation, len(group.moving.env_steps)
        keys = jax.vmap(lambda key: jax.random.split(key, c.episodes))(now)
        params = self.params(axes, runs, c.episodes)
        worlds = unflat(jax.vmap(partial(begin, self.held_out))(keys.reshape(-1), params), runs)
        blank = jnp.zeros((runs, c.episodes))

        def step(carry):
            t, worlds, ret, length, success, overflow, running = carry
            noise = jax.vmap(lambda key: jax.random.fold_in(key, t))(now)
            act = partial(self.act_to_score, deterministic=deterministic)
            action = jax.vmap(act)(group.train, worlds.obs, noise)
            worlds, out = self.simulate(worlds, action, params, self.held_out)
            ret, length = ret + out.reward * running, length + running
            ends = running & (out.terminated | out.truncated)
            success = success | (ends & self.succeeded(out, ret))
            overflow = jnp.maximum(overflow, self.overflowed(out, ret.shape))
            return t + 1, worlds, ret, length, success, overflow, running & ~ends

        limit = min(c.max_steps, self.space.horizon or c.max_steps)
        start = (jnp.int32(0), worlds, blank, blank, blank > 0, blank, blank == 0)
        _, _, ret, length, success, overflow, _ = jax.lax.while_loop(
            lambda carry: (carry[0] < limit) & carry[-1].any(), step, start
        )
        scores = {
            "return": ret.mean(1),
            "length": length.mean(1),
            "success": success.mean(1),
            "episodes": jnp.full(runs, c.episodes),
            "overflow": overflow.max(1),
        }
        return scores | self.normalized(ret)

    def act_to_score(self, state: TrainState, obs: Array, key: Array, deterministic: bool) -> Array:
        """Actions [E] of one run in an evaluation: the most likely ones, or drawn."""
        outputs = self.outputs(state, obs)
        if deterministic:
            return self.parts.dist.act_mode(outputs)
        return self.parts.dist.act(outputs, state.params.log_std, key)

    def outputs(self, state: TrainState, obs: Array) -> Array:
        seen = normalize(state.moments, obs, self.config.network.obs_clip)
        return self.compute.apply(state.params.policy, seen)

    def normalized(self, ret: Array) -> dict[str, Array]:
        task = self.env.description
        least, largest = task.get("min_return", 0.0), task.get("max_return")
        if largest is None:
            return {}
        score = (ret - least) / (largest - least)
        return {"normalized_return": jnp.clip(score, 0, 1).mean(1)}


class Together:
    """Several programs on one environment, whose worlds take their steps as one batch.

    A step of the physics takes a GPU about as long for few worlds as for many. So rows that cannot
    share a program share the steps: they collect side by side, and each learns for itself when its
    rollout is complete, while the others stand still.
    """

    def __init__(self, programs: Sequence[Program]):
        self.programs = programs
        self.set_out = [jax.jit(p.set_out) for p in programs]
        self.learn = [jax.jit(p.learn_from) for p in programs]
        self.collect = jax.jit(self._collect)

    def _collect(
        self, walks: list[Walk], groups: list[Group], axes: list[Axes], until: list[Array]
    ) -> tuple[list[Walk], Array]:
        """Goes on with all rollouts until one is complete; also returns which ones are."""
        programs = self.programs
        worlds_of = [w.moving.returns.shape for w in walks]
        params = joined(
            [p.params(a, *shape) for p, a, shape in zip(programs, axes, worlds_of, strict=True)]
        )

        def complete(walks: list[Walk]) -> Array:
            return jnp.stack([p.ended(w) for p, w in zip(programs, walks, strict=True)])

        def step(walks: list[Walk]) -> list[Walk]:
            each = list(zip(programs, walks, groups, axes, until, strict=True))
            actions = [p.actions(w, g, a) for p, w, g, a, _ in each]
            before = joined([flat(w.moving.worlds) for w in walks])
            after = programs[0].physics(before, joined([flat(a) for a in actions]), params)
            parts = parted(after, worlds_of)
            return [
                p.record(w, g, a, u, action, *part)
                for (p, w, g, a, u), action, part in zip(each, actions, parts, strict=True)
            ]

        walks = jax.lax.while_loop(lambda w: ~complete(w).any(), step, walks)
        return walks, complete(walks)


def compute_here() -> Compute:
    """Returns how to compute on the default device."""
    [device] = jnp.zeros(()).devices()  # the default one, however it was chosen
    return compute_on(device)


def compute_on(device: Any) -> Compute:
    """Returns kernels for an NVIDIA GPU that multiplies in TF32, and plain code elsewhere."""
    if "cuda" not in device.client.platform_version.lower() or float(device.compute_capability) < 8:
        return PLAIN
    try:
        from lpo.math.fused import Fused  # where there is no GPU, Pallas need not be imported
        from lpo.math.fused_adam import FusedAdam
    except ImportError:  # a JAX without Pallas on Triton
        return PLAIN
    return Compute(Fused(), FusedAdam())


def joined(trees: Sequence[Any]) -> Any:
    """[W_1, …], [W_2, …], … → [W_1 + W_2 + …, …]."""
    return jax.tree.map(lambda *x: jnp.concatenate(x), *trees)


def parted(tree: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """[Σ R·N, …] → a tree [R, N, …] for each shape (R, N)."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])

    def part(end: int, shape: tuple[int, ...]) -> Any:
        start = end - math.prod(shape)
        return jax.tree.map(lambda x: x[start:end].reshape(*shape, *x.shape[1:]), tree)

    return [part(int(end), shape) for end, shape in zip(ends, shapes, strict=True)]


def stream(seed: Array, component: int) -> Array:
    """Returns the key of a component of a run."""
    return jax.random.fold_in(jax.random.key(seed), component)


def flat(tree: Any) -> Any:
    """[R, N, …] → [R·N, …]."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


def unflat(tree: Any, runs: int) -> Any:
    """[R·N, …] → [R, N, …]."""
    return jax.tree.map(lambda x: x.reshape(runs, -1, *x.shape[1:]), tree)


def choose(which: Array, new: Any, old: Any) -> Any:
    """Returns ``new`` for the runs that ``which`` [R] marks, and ``old`` for the others."""

    def pick(a: Array, b: Array) -> Array:
        return jnp.where(which.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, new, old)


def host(tree: Any) -> Any:
    """Returns the arrays of a tree as NumPy's."""
    return jax.tree.map(np.asarray, jax.device_get(tree))
