"""The locomotion tasks on the device are the host's, to float32."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo.envs.device import check, make_device, physics
from lpo.envs.device.locomotion import (
    Locomotion,
    Pose,
    locomotion,
    sparse_half_cheetah,
    sparse_hopper,
    sparse_walker2d,
)
from lpo.envs.device.physics import CONTACTS, ROWS, Body, Buffers, largest
from lpo.envs.host.native import NativeBatch
from lpo.envs.host.physics import STATE, mj, plain_model, random_pose
from lpo.envs.specs import HALF_CHEETAH, HOPPER, LOCOMOTION, WALKER2D, SparseLocomotion
from lpo.errors import LPOError

from .play import defaults, draw, go_on, options, play

pytest.importorskip("mujoco_warp")

N = 4
KEY = jax.random.key(0)
TASKS = list(LOCOMOTION.values())
# Kernels of one body compile in seconds; the other bodies are left to the slow tests.
HOPPER_FIRST = [HOPPER, *(pytest.param(t, marks=pytest.mark.slow) for t in TASKS if t != HOPPER)]


def name(value: Any) -> str | None:
    return value.id if isinstance(value, SparseLocomotion) else None


def stepper(env: Locomotion) -> Any:
    """Takes one step in all worlds; parameters are shared."""
    return jax.jit(jax.vmap(lambda pose, action: env.step(pose, action, KEY, env.params)))


def actions_of(env: Locomotion, steps: int, seed: int = 0) -> np.ndarray:
    """Long pushes, which move a body and make it fall."""
    rng = np.random.default_rng(seed)
    held = rng.uniform(-1, 1, (steps // 5 + 1, N, len(env.action.low)))
    return np.repeat(held, 5, axis=0)[:steps].astype(np.float32)


def stacked(datas: list[Any]) -> Pose:
    def rows(name: str) -> jax.Array:
        return jnp.asarray(np.stack([getattr(data, name) for data in datas]), jnp.float32)

    return Pose(rows("qpos"), rows("qvel"), rows("qacc_warmstart"))


def poses_of(batch: NativeBatch, model: Any) -> Pose:
    """Where the host's simulators are."""
    data, datas = mj.MjData(model), []
    for row in batch.get_state()["physics"]:
        mj.mj_setState(model, data, row, STATE)
        datas.append(data)
        data = mj.MjData(model)
    return stacked(datas)


class Distances(NamedTuple):
    """How far positions are from those of C after T env steps, the worst joint of each world."""

    device: np.ndarray  # [N]
    rounded: np.ndarray  # of C that rounds its state to float32 after each physics step


def distances(env: Locomotion, steps: int, worlds: int = N) -> Distances:
    """Of the same random controls from the model's own pose."""
    model, step, rng = plain_model(env.task.xml), stepper(env), np.random.default_rng(0)
    exact, rounded = ([mj.MjData(model) for _ in range(worlds)] for _ in range(2))
    pose = stacked(exact)
    for _ in range(steps):
        action = rng.uniform(-1, 1, (worlds, model.nu)).astype(np.float32)
        pose = step(pose, action).state
        for i in range(worlds):
            exact[i].ctrl[:] = rounded[i].ctrl[:] = action[i]
            for _ in range(env.task.frame_skip):
                mj.mj_step(model, exact[i])
                mj.mj_step(model, rounded[i])
                rounded[i].qpos[:] = rounded[i].qpos.astype(np.float32)
                rounded[i].qvel[:] = rounded[i].qvel.astype(np.float32)
    truth = np.stack([data.qpos for data in exact])
    others = np.asarray(pose.qpos), np.stack([data.qpos for data in rounded])
    return Distances(*(np.abs(other - truth).max(1) for other in others))


@pytest.mark.parametrize("task", HOPPER_FIRST, ids=name)
def test_near_to_c_after_ten_physics_steps(task):
    steps = -(-10 // task.frame_skip)
    assert distances(locomotion(task), steps).device.max() < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS, ids=name)
def test_near_to_c_after_200_physics_steps(task):
    """The half cheetah is chaotic, so the distance is held against that of float32 states in C."""
    found = distances(locomotion(task), 200 // task.frame_skip, worlds=16)
    assert np.median(found.device) < 50 * np.median(found.rounded)


@pytest.mark.slow
def test_warp_is_near_to_c():
    assert distances(sparse_half_cheetah(simulator="warp"), 2).device.max() < 1e-6


@pytest.mark.slow
def test_deterministic_mode_is_near_to_c():
    env = sparse_half_cheetah(simulator="warp", deterministic=True)
    assert distances(env, 2).device.max() < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("task", HOPPER_FIRST, ids=name)
def test_rewards_and_ends_along_a_trajectory_of_the_host(task):
    """Each device step begins where the host is; thresholds at speeds that random pushes meet."""
    env = locomotion(task, threshold=0.1)
    batch, step = NativeBatch(task, N, threshold=0.1, threads=1), stepper(env)
    model = plain_model(task.xml)
    obs = batch.reset(3)
    assert obs.shape == (N, env.obs_size)
    rewards, ends = [], []
    for action in actions_of(env, 40):
        pose = poses_of(batch, model)
        host, device = batch.step(action), step(pose, action)
        np.testing.assert_allclose(device.obs, host.next_obs, atol=2e-3)
        assert np.array_equal(device.reward, host.reward)
        assert np.array_equal(device.terminated, host.terminated)
        assert not np.asarray(device.overflow).any()
        rewards.append(host.reward)
        ends.append(host.terminated)
    assert 0 < np.mean(rewards) < 1
    assert np.any(ends) == (task != HALF_CHEETAH)


@pytest.mark.slow
@pytest.mark.parametrize("task", HOPPER_FIRST, ids=name)
def test_fast_and_fallen_bodies_as_on_the_host(task):
    """Worlds of the model's own pose at 150 m/s, at 50 m/s, near the floor, and tilted by 1.5."""
    env, batch = locomotion(task), NativeBatch(task, N, threads=1)
    model, datas, rows = plain_model(task.xml), [], []
    for column, value in ((model.nq, 150.0), (model.nq, 50.0), (1, 0.5), (2, 1.5)):
        data = mj.MjData(model)
        state = np.concatenate([data.qpos, data.qvel])
        state[column] = value
        data.qpos[:], data.qvel[:] = state[: model.nq], state[model.nq :]
        datas.append(data)
        rows.append(np.empty(mj.mj_stateSize(model, STATE)))
        mj.mj_getState(model, data, rows[-1], STATE)
    batch.reset(0)
    batch.set_state({**batch.get_state(), "physics": np.stack(rows)})
    action = np.zeros((N, len(env.action.low)), np.float32)
    device, host = stepper(env)(stacked(datas), action), batch.step(action)
    np.testing.assert_allclose(device.obs, host.next_obs, atol=5e-3)
    assert np.array_equal(device.reward, host.reward)
    assert np.array_equal(device.terminated, host.terminated)
    ends = {HOPPER.id: [1, 0, 1, 1], WALKER2D.id: [0, 0, 1, 1], HALF_CHEETAH.id: [0, 0, 0, 0]}
    assert host.terminated.tolist() == ends[task.id]


@pytest.mark.parametrize("task", TASKS, ids=name)
def test_resets_have_gymnasiums_law(task):
    env, model = locomotion(task), plain_model(task.xml)
    draws, noise = 20_000, task.reset_noise
    pose, obs = jax.vmap(lambda key: env.reset(key, env.params))(jax.random.split(KEY, draws))
    qpos, qvel = np.asarray(pose.qpos) - model.qpos0, np.asarray(pose.qvel)
    assert np.array_equal(obs, np.concatenate([pose.qpos[:, 1:], qvel], axis=1))
    assert not np.asarray(pose.warmstart).any()
    even = noise / np.sqrt(3)
    sides = [(qpos, even), (qvel, noise if task is HALF_CHEETAH else even)]
    for drawn, deviation in sides:
        assert np.abs(drawn.mean(0)).max() < 5 * deviation / np.sqrt(draws)
        np.testing.assert_allclose(drawn.std(0), deviation, rtol=0.03)
    assert np.abs(qpos).max() <= noise * 1.0001
    assert (np.abs(qvel).max() > noise * 3) == (task is HALF_CHEETAH)
    together = np.corrcoef(np.concatenate([qpos, qvel], axis=1).T)
    assert np.abs(together - np.eye(len(together))).max() < 0.05


@pytest.mark.slow
def test_thresholds_differ_between_worlds():
    env = sparse_hopper()
    pose, _ = env.reset(KEY, env.params)
    pose = pose._replace(qvel=pose.qvel.at[0].set(1.0))
    action = jnp.zeros(3)
    threshold = jnp.array([-1.0, 0.9, 1.1, 1000.1, 999.0])
    by_position = jnp.array([0.0, 0.0, 0.0, 1.0, 1.0])

    def reward(threshold, by_position, x):
        params = {"threshold": threshold, "by_position": by_position}
        moved = pose._replace(qpos=pose.qpos.at[0].set(x))
        return env.step(moved, action, KEY, params).reward

    found = jax.jit(jax.vmap(reward, (0, 0, None)))(threshold, by_position, 1000.0)
    assert found.tolist() == [1, 1, 0, 0, 1]


@pytest.mark.slow
def test_worlds_under_two_maps_equal_worlds_under_one_and_a_world_alone():
    env = sparse_hopper()
    pose, _ = jax.vmap(lambda key: env.reset(key, env.params))(jax.random.split(KEY, 6))
    action = jax.random.uniform(KEY, (6, 3), minval=-1.0)

    def step(pose, action):
        return env.step(pose, action, KEY, env.params)

    def fold(x):
        return x.reshape(2, 3, *x.shape[1:])

    @jax.jit
    def every_way(pose, action):
        once = jax.vmap(step)(pose, action)
        twice = jax.vmap(jax.vmap(step))(*jax.tree.map(fold, (pose, action)))
        shared = jax.vmap(step, (0, None))(pose, action[4])
        return once, twice, shared, step(jax.tree.map(lambda x: x[4], pose), action[4])

    once, twice, shared, alone = every_way(pose, action)
    jax.tree.map(np.testing.assert_array_equal, jax.tree.map(fold, once), twice)
    for many in once, shared:
        jax.tree.map(np.testing.assert_array_equal, jax.tree.map(lambda x: x[4], many), alone)


@pytest.mark.slow
def test_x_changes_nothing_but_x():
    env = sparse_hopper()
    pose, _ = env.reset(KEY, env.params)
    far = pose._replace(qpos=pose.qpos.at[0].add(4096.0))
    both = jax.tree.map(lambda *x: jnp.stack(x), pose, far)
    after = stepper(env)(both, jnp.ones((2, 3)))
    assert np.array_equal(after.obs[0], after.obs[1])
    np.testing.assert_allclose(after.state.qpos[1, 0] - after.state.qpos[0, 0], 4096, rtol=1e-6)


@pytest.mark.slow
def test_a_state_of_nan_ends_the_episode_and_is_not_shown():
    env = sparse_hopper()
    pose, _ = env.reset(KEY, env.params)
    after = env.step(
        pose._replace(qvel=pose.qvel.at[2].set(jnp.nan)), jnp.zeros(3), KEY, env.params
    )
    assert after.terminated
    assert after.reward == 0
    assert np.array_equal(after.obs, [1.25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])


@pytest.mark.parametrize(
    ("task", "contacts", "rows"),
    [
        (HOPPER, 2 * 7, 4 * 2 * 4 + 3 * 2 * 1 + 3),  # 4 limbs on the floor; 3 pairs of limbs
        (WALKER2D, 2 * 7, 7 * 2 * 4 + 6),  # 7 limbs on the floor
        (HALF_CHEETAH, 2 * 8, 8 * 2 * 4 + 6),
    ],
    ids=name,
)
def test_buffers_hold_every_pose(task, contacts, rows):
    """Counted by hand from the model file, and never exceeded in C."""
    model = plain_model(task.xml)
    assert largest(model) == (contacts, rows)
    data, rng, most = mj.MjData(model), np.random.default_rng(0), 0
    for _ in range(3000):
        data.qpos[:] = random_pose(model, rng)
        mj.mj_forward(model, data)
        assert data.ncon <= contacts
        assert data.nefc <= rows
        most = max(most, data.nefc)
    assert most > rows / 2


def lying(env: Locomotion) -> Pose:
    """A body half in the floor."""
    pose, _ = env.reset(KEY, env.params)
    pose = jax.tree.map(lambda x: jnp.stack([x] * N), pose)
    return pose._replace(qpos=pose.qpos.at[:, 1].set(-0.5).at[:, 2].set(1.5))


@pytest.mark.parametrize(
    ("small", "flag"),
    [(Buffers(14, 2), ROWS), (Buffers(1, 41), CONTACTS)],
    ids=["rows", "contacts"],
)
@pytest.mark.slow
def test_an_overflow_is_noticed_and_mended(small, flag):
    env = sparse_hopper(simulator="warp")
    tight = dataclasses.replace(env, buffers=small)
    pose, action = lying(env), jnp.zeros((N, 3))
    assert np.asarray(stepper(tight)(pose, action).overflow).tolist() == [flag] * N
    assert not np.asarray(stepper(env)(pose, action).overflow).any()
    grown = tight.grown(flag)
    twice = (small.contacts, 2 * small.rows) if flag == ROWS else (2, small.rows)
    assert grown.buffers == twice
    assert grown != tight


def test_thresholds_share_a_program():
    half, hard, far = (sparse_walker2d(threshold=name) for name in ("half", "hard", "position"))
    assert half == hard == far
    assert hash(half) == hash(hard)
    assert [env.params["threshold"] for env in (half, hard, far)] == [2.3415, 3.51225, 1.0]
    assert [env.params["by_position"] for env in (half, hard, far)] == [0, 0, 1]
    assert sparse_walker2d(threshold=0.25).params["threshold"] == 0.25
    assert half != sparse_walker2d(simulator="warp")


@pytest.mark.parametrize("task", TASKS, ids=name)
def test_described_as_on_the_host(task: SparseLocomotion):
    env, host = locomotion(task, "hard"), NativeBatch(task, 1, preset="hard")
    other = {"backend", "lean_physics", "threads"}
    shared = {key: value for key, value in host.description.items() if key not in other}
    assert shared.items() <= env.description.items()
    assert env.description["backend"] == "device"
    assert env.description["deterministic"]
    assert not locomotion(task, simulator="warp").description["deterministic"]
    assert env.horizon == 1000
    assert (env.obs_size,) == host.observation_space.shape
    assert np.array_equal(env.action.low, host.action_space.low)
    assert np.array_equal(env.action.high, host.action_space.high)


@pytest.mark.slow
@pytest.mark.parametrize("task", HOPPER_FIRST, ids=name)
def test_made_by_id_it_plays_in_worlds(task):
    """A thousand steps are the time limit; an end before it begins the next episode at once."""
    env = make_device(options(task.id, threshold=-100.0))
    assert isinstance(env, Locomotion)
    check(env)
    actions = draw(env, np.random.default_rng(0), (30, 3))
    worlds, steps = play(env, jax.random.split(KEY, 3), actions, defaults(env))
    assert np.asarray(steps.reward).all()
    ended = np.asarray(steps.terminated)
    assert ended.any() == (task != HALF_CHEETAH)
    assert not np.asarray(steps.truncated).any()
    near = np.abs(np.asarray(steps.obs)[..., 0] - env.body.model.qpos0[1])  # the height
    assert near[ended].max(initial=0) <= task.reset_noise
    late = worlds._replace(clock=jnp.full(3, 999, jnp.int32))
    _, last = go_on(env, late, actions[:1], defaults(env))
    assert np.asarray(last.truncated).all()


def test_refusals_name_their_remedy(monkeypatch):
    with pytest.raises(LPOError, match="choose one of planar, warp"):
        sparse_hopper(simulator="brax")
    with pytest.raises(LPOError, match="planar has no buffers; leave them out"):
        sparse_hopper(buffers={"contacts": 16, "rows": 70})
    monkeypatch.setitem(physics.SIMULATORS, "planar", "lpo.envs.device.absent")
    with pytest.raises(LPOError, match=r"pip install 'lpo-rl\[gpu\]'"):
        physics.stepper(Body("hopper.xml", 1))
    with pytest.raises(LPOError, match="preset"):
        sparse_hopper(threshold="easy")


@pytest.mark.slow
@pytest.mark.parametrize("task", HOPPER_FIRST, ids=name)
def test_dense_rewards_are_gymnasiums(task):
    """Each device step begins where Gymnasium's is, along long pushes that make a body fall."""
    env = make_device(options(task.base_id))
    assert isinstance(env, Locomotion) and not env.params
    theirs: Any = gymnasium.make(task.base_id)
    theirs.reset(seed=0)
    step = jax.jit(lambda pose, action: env.step(pose, action, KEY, {}))
    ends = []
    for action in actions_of(env, 60)[:, 0]:
        data = theirs.unwrapped.data
        pose = jax.tree.map(lambda x: x[0], stacked([data]))
        ours = step(pose, action)
        obs, reward, terminated, truncated, _ = theirs.step(action)
        np.testing.assert_allclose(ours.obs, obs, atol=2e-3)
        np.testing.assert_allclose(ours.reward, reward, atol=2e-3)
        assert bool(ours.terminated) == terminated and not truncated
        ends.append(terminated)
        if terminated:
            theirs.reset()
    assert np.any(ends) == (task != HALF_CHEETAH)
