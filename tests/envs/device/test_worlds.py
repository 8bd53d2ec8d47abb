"""Clock, time limit, resets and keys, on an environment whose every number is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo.envs.device import Transition, advance, begin, check
from lpo.errors import LPOError
from lpo.math.distributions import ActionSpec

from .play import defaults, play


@dataclass(frozen=True)
class Count:
    """Counts up from 0; the reward is the count; ends at params["end"]."""

    horizon: int | None = None
    cut: int | None = None  # the environment itself truncates here
    says: bool = False  # tells success: an even count

    obs_size = 1
    action = ActionSpec((-1.0,), (1.0,))

    @property
    def params(self) -> dict[str, Any]:
        return {"end": 3.0}

    @property
    def description(self) -> dict[str, Any]:
        return {"id": "Count", "horizon": self.horizon, "backend": "device"}

    def reset(self, key, params):
        return {"t": jnp.zeros((), jnp.int32)}, jnp.zeros(1)

    def step(self, state, action, key, params):
        t = state["t"] + 1
        return Transition(
            {"t": t},
            t.astype(jnp.float32)[None],
            t.astype(jnp.float32),
            t >= params["end"],
            success=t % 2 == 0 if self.says else None,
            truncated=None if self.cut is None else t == self.cut,
        )


def played(env, steps, **params):
    """The steps of one world as NumPy arrays."""
    given = {name: jnp.asarray(params.get(name, value)) for name, value in env.params.items()}
    _, out = play(env, jax.random.split(jax.random.key(0), 1), jnp.zeros((steps, 1, 1)), given)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:, 0], out)


def test_an_end_resets_within_the_step_and_keeps_the_last_observation():
    out = played(Count(), 7)
    assert out.next_obs[:, 0].tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert out.obs[:, 0].tolist() == [1, 2, 0, 1, 2, 0, 1]
    assert out.reward.tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert out.terminated.tolist() == [False, False, True, False, False, True, False]
    assert not out.truncated.any() and out.success is None


def test_the_time_limit_truncates_and_does_not_terminate():
    out = played(Count(horizon=2), 5)
    assert out.next_obs[:, 0].tolist() == [1, 2, 1, 2, 1]
    assert out.obs[:, 0].tolist() == [1, 0, 1, 0, 1]
    assert out.truncated.tolist() == [False, True, False, True, False]
    assert not out.terminated.any()


def test_an_end_on_the_last_step_is_both_as_in_gymnasium():
    out = played(Count(horizon=3), 4)
    assert out.terminated.tolist() == out.truncated.tolist() == [False, False, True, False]


def test_an_environment_may_truncate_by_itself():
    out = played(Count(cut=2), 4)
    assert out.truncated.tolist() == [False, True, False, True]
    assert out.obs[:, 0].tolist() == [1, 0, 1, 0]


def test_success_is_passed_on():
    assert played(Count(says=True), 3).success.tolist() == [False, True, False]


def test_worlds_of_one_program_have_parameters_of_their_own():
    env, ends = Count(), jnp.array([1.0, 2.0, 5.0])
    keys = jax.random.split(jax.random.key(0), 3)
    worlds = jax.vmap(lambda key, end: begin(env, key, {"end": end}))(keys, ends)
    step = jax.jit(jax.vmap(lambda w, a, end: advance(env, w, a, {"end": end})))
    ended = []
    for _ in range(5):
        worlds, out = step(worlds, jnp.zeros((3, 1)), ends)
        ended.append(np.asarray(out.terminated).tolist())
    assert np.array(ended).sum(0).tolist() == [5, 2, 1]
    assert worlds.clock.tolist() == [0, 1, 0]


@dataclass(frozen=True)
class Dice(Count):
    """Shows a number drawn at reset and one drawn at the step."""

    obs_size = 2

    def reset(self, key, params):
        start = jax.random.uniform(key)
        return {"t": jnp.zeros((), jnp.int32), "start": start}, jnp.stack([start, jnp.zeros(())])

    def step(self, state, action, key, params):
        t = state["t"] + 1
        obs = jnp.stack([state["start"], jax.random.uniform(key)])
        return Transition(state | {"t": t}, obs, jnp.zeros(()), t >= params["end"])


def test_every_draw_is_new():
    out = played(Dice(), 30)
    assert len(set(out.next_obs[:, 1].tolist())) == 30  # steps
    starts = out.next_obs[:, 0].reshape(10, 3)
    assert (starts == starts[:, :1]).all() and len(set(starts[:, 0].tolist())) == 10  # episodes
    assert not set(starts[:, 0].tolist()) & set(out.next_obs[:, 1].tolist())


def test_a_world_is_plain_arrays():
    """So that a checkpoint can hold it: no key types, no Python numbers."""
    world = jax.jit(begin, static_argnums=0)(Dice(), jax.random.key(3), defaults(Dice()))
    leaves = jax.tree.leaves(world)
    assert {leaf.dtype.name for leaf in leaves} == {"float32", "int32", "uint32"}


def test_check_lets_a_good_environment_pass():
    check(Count())
    check(Dice())


class Wrong(Count):
    """Takes another reset or step."""

    def __init__(self, reset=None, step=None):
        super().__init__()
        for name, method in (("reset", reset), ("step", step)):
            if method is not None:
                object.__setattr__(self, name, method)


def branching(state, action, key, params):
    return Count().step(state, action if action[0] > 0 else -action, key, params)


def through_numpy(state, action, key, params):
    return Count().step(state, np.asarray(action), key, params)


def forgetful(state, action, key, params):
    return Count().step(state, action, key, params)._replace(state={"t": jnp.zeros(())})


def vector_reward(state, action, key, params):
    return Count().step(state, action, key, params)._replace(reward=jnp.zeros(1))


def float_flag(state, action, key, params):
    return Count().step(state, action, key, params)._replace(terminated=jnp.zeros(()))


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Wrong(step=branching), "step of Count cannot be compiled .*use jnp.where"),
        (Wrong(step=through_numpy), "step of Count cannot be compiled .*use jnp.where"),
        (Wrong(step=forgetful), "int32.* after reset and .*float32.* after step; return the same"),
        (Wrong(step=vector_reward), r"reward that step .* is float32\[1\]; return float32\[\]"),
        (Wrong(step=float_flag), r"terminated that step .* is float32\[\]; return bool\[\]"),
        (
            Wrong(reset=lambda key, params: ({"t": 0}, jnp.zeros(2))),
            r"observation that reset .* is float32\[2\]; return float32\[1\]",
        ),
    ],
)
def test_check_says_what_is_wrong(env, message):
    with pytest.raises(LPOError, match=message):
        check(env)
