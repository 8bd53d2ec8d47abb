"""Free angles as (cos, sin): found in the model, the same everywhere, and undone for nobody."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from lpo import Agent, LPOError, Policy
from lpo.config import configure
from lpo.envs.angles import (
    Drift,
    described,
    free_angles,
    largest,
    places,
    turned,
    unbounded,
)
from lpo.envs.codec import Codec
from lpo.envs.device import angles as device_angles
from lpo.envs.device import make_device
from lpo.envs.device.locomotion import Locomotion
from lpo.envs.make import make_batch, make_single
from lpo.envs.specs import HALF_CHEETAH, HOPPER, WALKER2D
from lpo.policy import angles_of

CHEETAH = "lpo/SparseHalfCheetah-v0"


def test_the_cosine_takes_the_place_and_the_sine_follows():
    obs = np.array([[1.0, np.pi / 2, 5.0, np.pi], [2.0, 0.0, 6.0, 0.0]])
    expected = [[1, 0, 5, -1, 1, 0], [2, 1, 6, 1, 0, 0]]
    np.testing.assert_allclose(turned(obs, (1, 3)), expected, atol=1e-15)
    assert turned(obs, ()) is obs


def test_a_whole_turn_changes_nothing():
    obs = np.array([0.3, 0.7])
    around = np.array([0.3, 0.7 + 2 * np.pi])
    np.testing.assert_allclose(turned(around, (1,)), turned(obs, (1,)))


@pytest.mark.parametrize(
    ("env_id", "expected"),
    [
        ("HalfCheetah-v5", (1,)),
        ("Hopper-v5", (1,)),
        ("Swimmer-v5", (0,)),
        ("Reacher-v5", ()),  # it observes cosines and sines
        ("Ant-v5", ()),  # all hinges have limits
        ("CartPole-v1", ()),
    ],
)
def test_free_hinges_are_found_in_the_model(env_id, expected):
    env = gymnasium.make(env_id)
    assert free_angles(env) == expected
    env.close()


def test_places_follow_the_positions_that_are_observed():
    env = gymnasium.make("HalfCheetah-v5", exclude_current_positions_from_observation=False)
    assert free_angles(env) == (2,)
    assert free_angles(gymnasium.wrappers.TimeAwareObservation(env)) == ()
    env.close()


def test_looking_for_angles_leaves_the_environment_as_it_was():
    env, other = gymnasium.make("HalfCheetah-v5"), gymnasium.make("HalfCheetah-v5")
    assert free_angles(env) == (1,)
    for one in (env, other):
        one.reset(seed=3)
    action = np.full(6, 0.5, np.float32)
    np.testing.assert_array_equal(env.step(action)[0], other.step(action)[0])


def test_native_gymnasium_and_single_environments_agree():
    options: dict[str, Any] = {"preset": "half", "periodic": "auto"}
    native = make_batch(CHEETAH, 2, threads=1, **options)
    other = make_batch(CHEETAH, 2, backend="gymnasium", **options)
    single = make_single(CHEETAH, **options)
    assert native.observation_space == other.observation_space == single.observation_space
    assert native.description["periodic"] == other.description["periodic"] == [1]
    assert native.description["projection"] == other.description["projection"]
    assert native.description["projection"][1]["name"] == "cos pitch"
    native.reset(0)
    step = native.step(np.full((2, 6), 0.5))
    angles = np.arctan2(step.obs[:, -1], step.obs[:, 1])
    assert step.obs.shape == (2, 18) and (np.abs(angles) < 1).all()
    np.testing.assert_allclose(step.obs[:, 1] ** 2 + step.obs[:, -1] ** 2, 1)


def test_a_vector_environment_takes_named_places():
    batch = make_batch(gymnasium.make_vec("CartPole-v1", 2), 2, periodic=(2,))
    obs = batch.reset(0)
    assert obs.shape == (2, 5) and (obs[:, 2] > 0.9).all()
    space: Any = batch.observation_space
    assert space.high[2] == 1


def test_the_device_sees_what_the_host_sees():
    task = configure(env="MountainCarContinuous-v0", periodic=(0,)).task
    env, plain = make_device(task), make_device(configure(env="MountainCarContinuous-v0").task)
    key = jax.random.key(0)
    state, obs = env.reset(key, {})
    raw = np.asarray(plain.reset(key, {})[1])
    np.testing.assert_allclose(obs, turned(raw, (0,)), rtol=1e-6)
    step = env.step(state, jnp.ones(1), key, env.params)
    raw = np.asarray(plain.step(state, jnp.ones(1), key, env.params).obs)
    np.testing.assert_allclose(step.obs, turned(raw, (0,)), rtol=1e-6)
    host = task.make(1)
    assert (env.obs_size,) == host.observation_space.shape == (3,)
    assert env.description["periodic"] == host.description["periodic"] == [0]
    assert env == make_device(task) and hash(env) == hash(make_device(task))


@pytest.mark.parametrize("task", [HOPPER, WALKER2D, HALF_CHEETAH], ids=lambda task: task.id)
def test_the_bodies_on_the_device_have_the_angles_of_the_native_ones(task):
    native = make_batch(task.id, 1, threads=1, periodic="auto")
    body = Locomotion(task.id, task.threshold())
    assert list(body.free_angles) == native.description["periodic"] == [1]
    both = device_angles.turned(body, body.free_angles)
    assert (both.obs_size,) == native.observation_space.shape
    assert both.description["projection"] == native.description["projection"]
    larger: Any = both
    assert larger.grown(1) == device_angles.turned(body.grown(1), body.free_angles) != both


def test_places_that_are_not_there_are_refused():
    box = spaces.Box(-1, 1, (3,))
    with pytest.raises(LPOError, match="pass places from 0 to 2"):
        Codec("Toy-v0", box, box, (1, 3))
    with pytest.raises(LPOError, match="pass places from 0 to 1"):
        make_device(configure(env="MountainCarContinuous-v0", periodic=(2,)).task)


@pytest.mark.parametrize("saved", [3, [-1], [True], [1, 0], [2, 2], [[0]], ["0"]])
def test_a_saved_policy_with_wrong_places_is_refused(saved):
    with pytest.raises(LPOError, match="which numbers are angles"):
        angles_of({"env": {"periodic": saved}}, "here")


def test_places_are_read_from_texts_and_lists():
    assert places("3,0") == places([3, 0, 3]) == (0, 3)
    assert places("auto") == "auto" and places("a,b") == "a,b"
    assert configure(periodic="2").task.periodic == (2,)


def test_a_description_without_angles_is_left_alone():
    row = {"id": "Toy-v0"}
    assert described(row, ()) is row


def test_a_number_drifts_from_sixteen_times_its_first_size_on():
    """Sizes 2, .1 and 3 at first: told at 32, at 16, and never (bounded); each is told once."""
    high = np.array([np.inf, np.inf, 9.0])
    drift = Drift("Toy-v0", unbounded(spaces.Box(-high, high, dtype=np.float64)))

    def look(*sizes: float) -> list[str]:
        return drift.look(np.array(sizes), 5000)

    assert look(2, 0.1, 3) == look(31.9, 15.9, 99) == []
    (told,) = look(32, 1, 1)
    assert "Number 0" in told and "was 2 at first and is 32 at step 5,000" in told
    (told,) = look(40, 16, 1)
    assert "Number 1" in told and told.endswith(".")
    assert look(50, 50, 1) == []


def test_the_size_of_a_rollout_is_that_of_its_real_steps():
    obs, valid = np.array([[[1.0, -3.0]], [[99.0, 0.0]]]), np.array([[True], [False]])
    np.testing.assert_array_equal(largest(obs, valid), [1, 3])


SMALL: dict[str, Any] = dict(
    num_envs=2, rollout=64, batch_size=16, epochs=1, hidden=[8], eval_every=0
)


@pytest.mark.slow
def test_a_saved_policy_takes_raw_observations(tmp_path):
    agent = Agent(CHEETAH, periodic="auto", threads=1, **SMALL).learn(128)
    raw = np.random.default_rng(0).standard_normal((3, 17))
    action, _ = agent.predict(raw, deterministic=True)
    agent.policy.save(tmp_path / "policy")
    loaded = Policy.load(tmp_path / "policy")
    np.testing.assert_array_equal(loaded.predict(raw, deterministic=True)[0], action)
    raw[:, 1] += 2 * np.pi
    np.testing.assert_allclose(loaded.predict(raw, deterministic=True)[0], action, atol=1e-5)
    agent.save(tmp_path / "agent")
    other = Agent.load(tmp_path / "agent").learn(64)
    np.testing.assert_array_equal(
        agent.learn(64).predict(raw, deterministic=True)[0],
        other.predict(raw, deterministic=True)[0],
    )


class Turner(gymnasium.Env):
    """Observes an angle that only grows."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.angle = 0.0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.angle += 0.1
        return np.array([self.angle], np.float32), 0.0, False, False, {}


@pytest.mark.slow
def test_a_run_warns_once_of_an_angle_that_grows():
    agent = Agent(Turner, **SMALL)
    with pytest.warns(UserWarning, match="drifts without bound.*pass angles 0") as told:
        agent.learn(2000)
    assert len(told) == 1
    Agent(Turner, periodic=(0,), **SMALL).learn(2000)
