"""Every registered device environment: compiled, described as on the host, a world by itself."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo.envs import make_batch
from lpo.envs.device import check, device_ids, has_device_form, make_device, register_device
from lpo.envs.task import TaskOptions
from lpo.errors import LPOError
from lpo.math.distributions import action_spec

from .play import defaults, draw, make, optimised_play, options, play

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
