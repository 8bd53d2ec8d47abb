"""Adapters, with small environments that have the methods of Gymnax and of MuJoCo Playground."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters import batching

from lpo.envs.device import gymnax_like, playground
from lpo.errors import LPOError
from lpo.math.distributions import ActionSpec

from .play import defaults, play


def register(cls: type) -> type:
    """A frozen dataclass as a pytree, as Flax makes them."""
    frozen = dataclass(frozen=True)(cls)
    names = [field.name for field in dataclasses.fields(frozen)]
    jax.tree_util.register_dataclass(frozen, names, [])
    frozen.replace = dataclasses.replace  # type: ignore[attr-defined]
    return frozen


@register
class WalkState:
    place: Any
    time: Any


@register
class WalkParams:
    stride: Any = 1.0
    goal: Any = 3.0
    max_steps_in_episode: Any = 5


def discrete(n: int) -> Any:
    return SimpleNamespace(n=n, shape=())


def box(low: Any, high: Any, shape: tuple[int, ...]) -> Any:
    return SimpleNamespace(low=low, high=high, shape=shape)


class OldWalk:
    """Gymnax 0.0: one ``done``, which the time limit sets, too; `step` resets by itself."""

    name = "Walk"
    default_params = WalkParams()

    def action_space(self, params: Any) -> Any:
        return discrete(2)

    def observation_space(self, params: Any) -> Any:
        return box(-10.0, 10.0, (1, 2))

    def observe_state(self, state: Any) -> jax.Array:
        return jnp.stack([state.place, jnp.float32(state.time)])[None]

    def reset_env(self, key: Any, params: Any) -> Any:
        state = WalkState(jnp.zeros(()), 0)  # a Python number, as many of theirs have it
        return self.observe_state(state), state

    def moved(self, state: Any, action: Any, params: Any) -> Any:
        place = state.place + params.stride * jnp.where(action == 1, 1.0, -1.0)
        return WalkState(place, state.time + 1)

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        state = self.moved(state, action, params)
        done = (state.place >= params.goal) | (state.time >= params.max_steps_in_episode)
        return self.observe_state(state), state, state.place * 10, done, {"discount": 1.0}

    def reset(self, key: Any, params: Any = None) -> Any:
        raise AssertionError("reset_env is there")

    def step(self, key: Any, state: Any, action: Any, params: Any = None) -> Any:
        raise AssertionError("step resets by itself; step_env is there")


class NewWalk(OldWalk):
    """Gymnax 1.0: ``step_env`` tells the end alone, ``is_truncated`` what cuts the episode."""

    def step_env(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        state = self.moved(state, action, params)
        ended = state.place >= params.goal
        return self.observe_state(state), state, state.place * 10, ended, {}

    def is_truncated(self, state: Any, params: Any) -> Any:
        return (state.time >= params.max_steps_in_episode) | (state.place <= -2)


class StepOnly:
    """The signature of 1.0 without ``step_env``: six results, reset within the step."""

    default_params = WalkParams()
    action_space, observation_space = OldWalk.action_space, OldWalk.observation_space

    def reset(self, key: Any, params: Any) -> Any:
        return OldWalk().reset_env(key, params)

    def step(self, key: Any, state: Any, action: Any, params: Any) -> Any:
        walk = NewWalk()
        obs, state, reward, ended, info = walk.step_env(key, state, action, params)
        cut = walk.is_truncated(state, params)
        fresh_obs, fresh = walk.reset_env(key, params)
        state = jax.tree.map(lambda a, b: jnp.where(ended | cut, a, b), fresh, state)
        info = {"final_observation": obs}
        return jnp.where(ended | cut, fresh_obs, obs), state, reward, ended, cut, info


def played(env, actions, **params):
    given = defaults(env) | {name: jnp.asarray(value) for name, value in params.items()}
    rows = jnp.asarray(np.array(actions, np.float32).reshape(len(actions), 1, -1))
    _, out = play(env, jax.random.split(jax.random.key(0), 1), rows, given)
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:, 0], out)


WALKS = [OldWalk, NewWalk, StepOnly]


@pytest.mark.parametrize("walk", WALKS)
def test_a_goal_terminates(walk):
    """Three to the right: 1, 2, 3, and again."""
    out = played(gymnax_like(walk()), [1, 1, 1, 1, 1, 1])
    assert out.next_obs.tolist() == [[1, 1], [2, 2], [3, 3]] * 2
    assert out.obs.tolist() == [[1, 1], [2, 2], [0, 0]] * 2
    assert out.reward.tolist() == [10, 20, 30] * 2
    assert out.terminated.tolist() == [False, False, True] * 2
    assert not out.truncated.any()


@pytest.mark.parametrize("walk", WALKS)
def test_the_time_limit_truncates(walk):
    """To and fro for the five steps of ``max_steps_in_episode``."""
    env = gymnax_like(walk())
    assert env.horizon == 5
    out = played(env, [1, 0, 1, 0, 1, 1])
    assert out.next_obs[:, 1].tolist() == [1, 2, 3, 4, 5, 1]
    assert out.truncated.tolist() == [False] * 4 + [True, False]
    assert not out.terminated.any()


@pytest.mark.parametrize("walk", [NewWalk, StepOnly])
def test_an_environment_of_the_new_signature_cuts_by_itself(walk):
    out = played(gymnax_like(walk()), [0, 0, 1])
    assert out.truncated.tolist() == [False, True, False] and not out.terminated.any()
    assert out.next_obs[:, 0].tolist() == [-1, -2, 1] and out.obs[:, 0].tolist() == [-1, 0, 1]


def test_another_time_limit_and_other_parameters():
    env = gymnax_like(OldWalk(), WalkParams(stride=0.5, goal=9.0), horizon=7)
    out = played(env, [1] * 8)
    assert out.truncated.tolist() == [False] * 6 + [True, False] and not out.terminated.any()
    assert out.reward.tolist() == [5, 10, 15, 20, 25, 30, 35, 5]


def test_parameters_that_vary_between_runs():
    env = gymnax_like(OldWalk(), vary=("stride",))
    assert env.params == {"stride": 1.0}
    assert played(env, [1, 1], stride=2.0).terminated.tolist() == [False, True]  # at 4
    with pytest.raises(LPOError, match="no 'strid'; did you mean 'stride'"):
        gymnax_like(OldWalk(), vary=("strid",))


def test_description_and_spaces():
    env = gymnax_like(OldWalk(), id="gymnax/Walk", max_return=60.0, success_return=50.0)
    row = env.description
    assert (row["id"], row["horizon"], row["backend"]) == ("gymnax/Walk", 5, "device")
    assert (row["max_return"], row["success_return"]) == (60.0, 50.0)
    assert env.action == ActionSpec(nvec=(2,), scalar=True) and env.obs_size == 2
    assert gymnax_like(OldWalk()).description["id"] == "Walk"


class Boxed(NewWalk):
    """Acts in a Box of shape (1, 2) and observes one of four places."""

    def action_space(self, params: Any) -> Any:
        return box(-1.0, np.array([[1.0, 2.0]]), (1, 2))

    def observation_space(self, params: Any) -> Any:
        return discrete(4)

    def observe_state(self, state: Any) -> jax.Array:
        return state.place.astype(jnp.int32)

    def moved(self, state: Any, action: Any, params: Any) -> Any:
        assert action.shape == (1, 2)
        return WalkState(state.place + action.sum(), state.time + 1)


def test_boxes_keep_their_shape_and_choices_become_one_hot():
    env = gymnax_like(Boxed())
    assert env.action == ActionSpec((-1.0, -1.0), (1.0, 2.0)) and env.obs_size == 4
    out = played(env, [[1.0, 0.0], [-1.0, 2.0]])
    assert out.next_obs.tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]


def test_actions_without_a_flat_form_are_refused():
    walk = OldWalk()
    walk.action_space = lambda params: SimpleNamespace(spaces={})  # type: ignore[method-assign]
    with pytest.raises(LPOError, match=r"Walk acts in SimpleNamespace.*Box or Discrete"):
        gymnax_like(walk)


@register
class PointState:
    obs: Any
    reward: Any
    done: Any
    metrics: Any
    info: Any


class Point:
    """MuJoCo Playground: one state with everything; ``done`` is a float."""

    action_size = 2

    def __init__(self, several: bool = False, truncates: bool = False):
        self.several, self.truncates = several, truncates

    def seen(self, place: jax.Array) -> Any:
        return {"state": place, "privileged_state": jnp.zeros(7)} if self.several else place

    def reset(self, rng: jax.Array) -> Any:
        assert rng.dtype == jnp.uint32  # Playground keeps it in its state
        info = {"rng": rng, "place": jnp.zeros(2), "steps": jnp.zeros(())}
        info |= {"truncation": jnp.zeros(())} if self.truncates else {}
        return PointState(self.seen(jnp.zeros(2)), jnp.zeros(()), jnp.zeros(()), {}, info)

    def step(self, state: Any, action: jax.Array) -> Any:
        place, steps = state.info["place"] + action, state.info["steps"] + 1
        info = state.info | {"place": place, "steps": steps}
        done = place[0] >= 2.0
        if self.truncates:  # as Brax's EpisodeWrapper: a time limit is done, too
            cut = (steps >= 3.0) & ~done
            info, done = info | {"truncation": cut.astype(jnp.float32)}, done | cut
        return state.replace(
            obs=self.seen(place), reward=place[1], done=done.astype(jnp.float32), info=info
        )


@pytest.mark.parametrize("several", [False, True])
def test_playground_by_hand(several):
    env = playground(Point(several), horizon=3, max_return=1.0)
    assert env.action == ActionSpec((-1.0, -1.0), (1.0, 1.0)) and env.obs_size == 2
    assert env.description["id"] == "Point" and env.description["max_return"] == 1.0
    out = played(env, [[1, 0.5], [1, 0.5], [0, 1], [0, 1], [0, 1], [1, 0]])
    assert out.next_obs.tolist() == [[1, 0.5], [2, 1], [0, 1], [0, 2], [0, 3], [1, 0]]
    assert out.obs.tolist() == [[1, 0.5], [0, 0], [0, 1], [0, 2], [0, 0], [1, 0]]
    assert out.reward.tolist() == [0.5, 1, 1, 2, 3, 0]
    assert out.terminated.tolist() == [False, True, False, False, False, False]
    assert out.truncated.tolist() == [False, False, False, False, True, False]


def test_playground_with_a_time_limit_of_its_own():
    out = played(playground(Point(truncates=True), horizon=None), [[0, 1]] * 4)
    assert out.truncated.tolist() == [False, False, True, False] and not out.terminated.any()
    assert out.obs.tolist() == [[0, 1], [0, 2], [0, 0], [0, 1]]


class Pool:
    """Physics with one number for all worlds, as MuJoCo Warp counts contacts."""

    def __init__(self, place: Any, count: Any):
        self.place, self.count = place, count


jax.tree_util.register_pytree_node(
    Pool, lambda pool: ((pool.place, pool.count), None), lambda _, leaves: Pool(*leaves)
)
batching.register_vmappable(
    Pool,
    int,
    int,
    lambda cont, _, pool, axis: Pool(cont(pool.place, axis), pool.count),
    lambda cont, size, pool, axis: Pool(cont(size, pool.place, axis), pool.count),
    None,
)


class Pooled(Point):
    """Keeps its place in such physics; the shared number must not become one of a world."""

    def reset(self, rng: jax.Array) -> Any:
        state = super().reset(rng)
        return state.replace(metrics=Pool(jnp.zeros(2), jnp.full((3,), 7)))

    def step(self, state: Any, action: jax.Array) -> Any:
        pool = state.metrics
        moved = super().step(state, action)
        paid = pool.count.sum().astype(jnp.float32)
        return moved.replace(metrics=Pool(pool.place + action, pool.count), reward=paid)


def test_playground_keeps_what_all_worlds_share_out_of_the_state():
    env = playground(Pooled(), horizon=2)
    out = played(env, [[0, 1]] * 3)
    assert out.reward.tolist() == [21, 21, 21] and out.obs[:, 1].tolist() == [1, 0, 1]
    state, _ = jax.eval_shape(env.reset, jax.random.key(0), {})
    assert (3,) not in {leaf.shape for leaf in state}


def test_playground_reads_the_observation_that_is_named():
    assert playground(Point(True), reads="privileged_state").obs_size == 7
    with pytest.raises(LPOError, match="has no observation 'privileged'; did you mean"):
        playground(Point(True), reads="privileged")
