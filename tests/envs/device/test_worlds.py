"""Clock, time limit, resets and keys, on an environment whose every number is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo.envs import make_batch
from lpo.envs.device import (
    Transition,
    advance,
    begin,
    check,
    device_ids,
    has_device_form,
    make_device,
    register_device,
)
from lpo.envs.task import TaskOptions
from lpo.errors import LPOError
from lpo.math.distributions import ActionSpec, action_spec

from .play import defaults, draw, make, optimised_play, options, play


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


# -- Every registered device environment: compiled, described as on the host, a world by itself

OURS = [
    "MountainCarContinuous-v0",
    "lpo/SparseMountainCarContinuous-v0",
    "lpo/DeepSea-v0",
    "lpo/CombinationLock-v0",
    "lpo/PointMaze-v0",
    "lpo/PointMazeLarge-v0",
    "lpo/SwingUp-v0",
]
KWARGS: list[tuple[str, dict[str, Any]]] = [
    *((env_id, {}) for env_id in OURS),
    ("MountainCarContinuous-v0", {"goal_velocity": 0.02}),
    ("lpo/DeepSea-v0", {"size": 6, "slip": 0.25, "layout": 3}),
    ("lpo/CombinationLock-v0", {"length": 3, "num_actions": 4}),
]


def test_ours_are_registered():
    assert set(OURS) <= set(device_ids())


@pytest.mark.parametrize(("env_id", "kwargs"), KWARGS)
def test_it_says_of_itself_what_the_host_says(env_id, kwargs):
    env, batch = make(env_id, **kwargs), make_batch(env_id, 1, env_kwargs=kwargs)
    said, steps = dict(env.description), ("backend", "gymnasium", "jax")
    assert said["backend"] == "device" and said["jax"] == jax.__version__
    host = {name: value for name, value in batch.description.items() if name not in steps}
    assert {name: value for name, value in said.items() if name not in steps} == host
    assert (env.obs_size,) == batch.observation_space.shape
    assert env.action == action_spec(batch.action_space)
    ends_by_itself = env_id in ("lpo/DeepSea-v0", "lpo/CombinationLock-v0")
    assert env.horizon == (None if ends_by_itself else said["horizon"])


@pytest.mark.parametrize("env_id", OURS)
def test_it_keeps_the_protocol_and_is_a_value(env_id):
    env = make(env_id)
    check(env)
    assert env == make(env_id) and hash(env) == hash(make(env_id))
    assert len({make(one) for one in OURS}) == len(OURS)


TWINS = {"lpo/SparseMountainCarContinuous-v0": "reward", "lpo/PointMazeLarge-v0": "drawing"}


@pytest.mark.slow
@pytest.mark.parametrize("env_id", OURS)
def test_a_world_does_not_depend_on_those_beside_it(env_id):
    """Worlds 0 and 4 of 37 are, to the bit, those of a batch of two; ranks are not promoted."""
    env, rng = make(env_id), np.random.default_rng(0)
    played = play if env_id in TWINS else optimised_play  # a twin's program is optimised alike
    keys, actions = jax.random.split(jax.random.key(1), 37), draw(env, rng, (60, 37))
    some = np.array([0, 4])
    _, many = played(env, keys, actions, defaults(env))
    _, two = played(env, keys[some], actions[:, some], defaults(env))
    for whole, part in zip(jax.tree.leaves(many), jax.tree.leaves(two), strict=True):
        np.testing.assert_array_equal(np.asarray(whole)[:, some], part)
    assert many.obs.shape == (60, 37, env.obs_size) and many.obs.dtype == jnp.float32
    assert (many.reward.dtype, many.terminated.dtype) == (jnp.float32, jnp.bool_)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (options("Pendulum-v1"), "Pendulum-v1 runs on the host only; leave device out, or choose"),
        (options("lpo/DeepSea-v0", threshold=1.0), "has no threshold; leave threshold out"),
        (options("lpo/DeepSea-v0", size=1), "pass a whole number"),
        (options("lpo/DeepSea-v0", depth=3), "could not be made on the device, TypeError.*depth"),
        (options("lpo/SwingUp-v0", depth=3), "check env_kwargs {'depth': 3}"),
        (options("MountainCarContinuous-v0", depth=3), "depth"),
        (options("no_such_package:Thing-v0"), "`import no_such_package` first"),
    ],
)
def test_what_cannot_be_made_says_why(task, message):
    with pytest.raises(LPOError, match=message):
        make_device(task)


def test_options_of_a_run_are_a_task():
    env = make_device(TaskOptions(env="lpo/DeepSea-v0", env_kwargs={"size": 4}))
    assert env.obs_size == 17 and env.description["env_kwargs"] == {"size": 4}


def test_an_id_of_the_user(monkeypatch):
    monkeypatch.setattr("lpo.envs.device._MAKERS", dict.fromkeys(device_ids(), "json:dumps"))
    assert not has_device_form("mine/Sea-v0")
    register_device("mine/Sea-v0", lambda size, threshold=None: (size, threshold))  # type: ignore[arg-type, return-value]
    assert has_device_form("json:mine/Sea-v0")
    assert make_device(options("mine/Sea-v0", threshold=2.0, size=3)) == (3, 2.0)
