"""Engine on a device: rollouts, lines 5 and 6 of Algorithm 7, of many runs side by side.

Worlds of all runs are stepped as one flat batch. A run that has reached its budget, or whose switch
has fired, stands still until the others are there too.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from lpo.engine.device.setting import Setting, overflowed
from lpo.engine.device.state import Axes, Ended, Group, Moving, Walk, choose, stream
from lpo.engine.learner import ACT, ROLL_IN, TrainState, viewed
from lpo.envs.device.worlds import Stepped, World
from lpo.switch import Look, Rows
from lpo.types import Obs, Rollout


def collect(s: Setting, group: Group, axes: Axes, until: Array) -> Walk:
    """Lines 5 and 6: every run acts until its switch fires or its budget is spent."""
    params = s.params(axes, *group.moving.returns.shape)
    walk = set_out(s, group, axes, until)
    if s.in_step:
        one = lambda _, w: step(s, w, group, axes, params)  # noqa: E731
        return arrive(s, jax.lax.fori_loop(0, walk.last, one, walk), axes, until)

    def one_and_look(walk: Walk) -> Walk:
        return look(s, step(s, walk, group, axes, params), axes, until)

    going = lambda w: (w.row < w.last) & ~w.fired.all()  # noqa: E731
    return jax.lax.while_loop(going, one_and_look, walk)


def set_out(s: Setting, group: Group, axes: Axes, until: Array) -> Walk:
    """Returns a rollout of no rows."""
    runs, n = group.moving.returns.shape
    due = -(-waits(s, group.switch, runs) // n)
    left = -(-(until - group.moving.env_steps[0]) // n)
    ahead = jnp.clip(jnp.minimum(due[0], left), 0, s.rows)
    zero = jnp.zeros(runs, jnp.int32)
    return Walk(
        row=jnp.int32(0),
        last=ahead if s.in_step else jnp.int32(s.rows),
        moving=group.moving,
        switch=group.switch,
        buffer=empty(s, runs),
        ended=Ended(*(jnp.zeros(runs) for _ in Ended._fields)),
        seen=zero,
        due=due,
        rows=zero,
        fired=group.moving.env_steps >= until,
        looked=first_look(s, group, axes),
    )


def empty(s: Setting, runs: int) -> Rollout:
    shape = (s.rows, runs, s.num_envs)
    dist = s.parts.dist

    def room(*lead: int) -> Obs:
        return s.space.obs.map(lambda leaf: jnp.zeros((*lead, *leaf.shape), leaf.dtype))

    return Rollout(
        obs=room(*shape),
        action=jnp.zeros((*shape, dist.action_size)),
        reward=jnp.zeros(shape),
        terminated=jnp.zeros(shape, bool),
        truncated=jnp.zeros(shape, bool),
        next_obs=room(*shape),
        valid=jnp.zeros(shape, bool),
        start=jnp.zeros(shape, bool),
        taken=jnp.zeros(shape, bool),
        last_obs=room(runs, s.num_envs),
    )


# -- one step


def step(s: Setting, walk: Walk, group: Group, axes: Axes, params: dict[str, Array]) -> Walk:
    """One step of every world; those of a run that waits stand still."""
    now = walk.moving
    memory, action = jax.vmap(partial(act, s))(group.train, group.known, now, dict(axes))
    worlds, out = s.simulate(now.worlds, action, params, s.env)
    return record(s, walk, group, axes, action, worlds, out, memory)


def act(s: Setting, state: TrainState, known: Any, now: Moving, axes: Axes) -> tuple[Any, Array]:
    """Returns the memories and the actions [N] of one run: the policy's, or those of a roll-in."""
    obs, steps = now.worlds.obs, now.env_steps
    key = jax.random.fold_in(stream(state.seed, ACT), steps)
    memory, outputs = s.outputs(state, now.memory, obs, now.lengths == 0)
    action = s.parts.dist.act(outputs, state.params.log_std, key)
    rolled = s.start(axes).act(known, now.plans, obs, action, roll_key(state.seed, steps, 0))
    return memory, rolled


def follow(
    s: Setting, seed: Array, known: Any, plans: Any, done: Array, steps: Array, axes: Axes
) -> tuple[Any, Array]:
    """The plans [N] of one run after a step, and which rows may be learned from."""
    return s.start(axes).follow(known, plans, done, roll_key(seed, steps, 1))


def roll_key(seed: Array, steps: Array, which: int) -> Array:
    key = jax.random.fold_in(stream(seed, ROLL_IN), steps)
    return jax.random.fold_in(key, which)


def record(
    s: Setting,
    walk: Walk,
    group: Group,
    axes: Axes,
    action: Array,
    worlds: World,
    out: Stepped,
    memory: Any,
) -> Walk:
    """Adds a step of every world to the rollout."""
    now = walk.moving
    active = jnp.ones_like(walk.fired) if s.in_step else ~walk.fired
    ret, length = now.returns + out.reward, now.lengths + 1
    done = (out.terminated | out.truncated) & active[:, None]
    plans, own = jax.vmap(partial(follow, s))(
        group.train.seed, group.known, now.plans, done, now.env_steps, dict(axes)
    )
    ended = Ended(
        walk.ended.episodes + done.sum(1),
        walk.ended.ret + (ret * done).sum(1),
        walk.ended.length + (length * done).sum(1),
        walk.ended.success + (s.succeeded(out, ret) & done).sum(1),
        jnp.maximum(walk.ended.overflow, overflowed(out, done.shape).max(1)),
    )
    valid = own & active[:, None]
    row = (now.worlds.obs, action, out.reward, out.terminated, out.truncated, out.next_obs, valid)
    row += (now.lengths == 0, jnp.broadcast_to(active[:, None], valid.shape))
    write = partial(jax.lax.dynamic_update_index_in_dim, index=walk.row, axis=0)
    names = Rollout._fields[:-2]
    new = {
        n: jax.tree.map(write, getattr(walk.buffer, n), x) for n, x in zip(names, row, strict=True)
    }
    moved = Moving(
        worlds=worlds,
        returns=jnp.where(done, 0.0, ret),
        lengths=jnp.where(done, 0, length),
        env_steps=now.env_steps + s.num_envs,
        plans=plans,
        memory=memory,
    )
    return walk._replace(
        row=walk.row + 1,
        moving=choose(active, moved, now),
        buffer=walk.buffer._replace(**new),
        ended=ended,
        rows=walk.rows + active,
    )


# -- the switches


def look(s: Setting, walk: Walk, axes: Axes, until: Array) -> Walk:
    """Asks the switches whose turn it is."""
    asked = ~walk.fired & ((walk.row >= walk.due) | (walk.row >= s.rows))
    return jax.lax.cond(
        asked.any(),
        lambda w: ask(s, w, asked, axes, until),
        lambda w: w._replace(fired=w.fired | (w.moving.env_steps >= until)),
        walk,
    )


def arrive(s: Setting, walk: Walk, axes: Axes, until: Array) -> Walk:
    """Asks the switches at the end of a rollout in step."""
    asked = (walk.last > 0) & ((walk.last >= walk.due) | (walk.last >= s.rows))
    return ask(s, walk, asked, axes, until)


def ask(s: Setting, walk: Walk, asked: Array, axes: Axes, until: Array) -> Walk:
    fire, switch, looked = updates(s, walk, axes)
    spent = walk.moving.env_steps >= until
    wait = -(-waits(s, switch, len(asked)) // s.num_envs)
    return walk._replace(
        switch=choose(asked, switch, walk.switch),
        fired=walk.fired | (asked & (fire | (walk.row >= s.rows))) | spent,
        seen=jnp.where(asked, walk.row, walk.seen),
        due=jnp.where(asked, walk.row + wait, walk.due),
        looked=choose(asked, looked, walk.looked),
    )


def waits(s: Setting, switch: Any, runs: int) -> Array:
    """Environment steps until the next look of every switch."""
    wait = lambda state: jnp.asarray(s.parts.switch.wait(state), jnp.int32)  # noqa: E731
    return jax.vmap(wait, axis_size=runs)(switch)


def updates(s: Setting, walk: Walk, axes: Axes):
    """(fire, state, metrics) of every switch."""

    def of_run(state: Any, buffer: Rollout, seen: Array, axes: Axes):
        rows = Look(viewed(s.parts, buffer), Rows(seen, walk.row))
        fire, state, metrics = s.parts_of(axes).switch.update(state, rows)
        return jnp.asarray(fire), state, {k: jnp.asarray(v) for k, v in metrics.items()}

    buffer = Rollout(*(1 for _ in Rollout._fields[:-2]), 0, 0)  # type: ignore[arg-type]
    ask_all = jax.vmap(of_run, in_axes=(0, buffer, 0, 0))
    return ask_all(walk.switch, walk.buffer, walk.seen, dict(axes))


def first_look(s: Setting, group: Group, axes: Axes) -> dict[str, Array]:
    """Zeros of the metrics of a look, so that the walk has one shape throughout."""
    runs = len(group.moving.env_steps)
    zero = jnp.zeros(runs, jnp.int32)
    blank = Walk(
        jnp.int32(0), jnp.int32(0), group.moving, group.switch, empty(s, runs),
        Ended(*(jnp.zeros(runs),) * len(Ended._fields)), zero, zero, zero, zero == 1, {},
    )  # fmt: skip
    shapes = jax.eval_shape(lambda w: updates(s, w, axes)[2], blank)
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
