"""The native batch is Gymnasium's environments, bit for bit."""

from __future__ import annotations

import copy
import dataclasses
import threading
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from lpo.envs import make_batch
from lpo.envs.host.native import NativeBatch
from lpo.envs.host.physics import (
    lean_model,
    load_physics,
    mj,
    random_pose,
    same_physics,
    touching_pairs,
    without_profiling,
)
from lpo.envs.specs import (
    HALF_CHEETAH,
    HOPPER,
    LOCOMOTION,
    WALKER2D,
    SparseLocomotion,
    Threshold,
)
from lpo.errors import LPOError

from .toys import same_step

IDS = tuple(LOCOMOTION)
N = 4


def sync(env_id: str, **kwargs: Any):
    options = {"autoreset_mode": AutoresetMode.SAME_STEP}
    return gymnasium.make_vec(env_id, N, vectorization_mode="sync", vector_kwargs=options, **kwargs)


def native(env_id: str, num_envs: int = N, **kwargs: Any) -> NativeBatch:
    batch = make_batch(env_id, num_envs, **{"threads": 1, **kwargs})
    assert isinstance(batch, NativeBatch)
    return batch


def actions_of(style: str, steps: int, size: int, seed: int = 0) -> np.ndarray:
    """Three kinds of behaviour: jitter, long pushes at full torque, and weak twitches."""
    rng = np.random.default_rng(seed)
    if style == "jitter":
        return rng.uniform(-1, 1, (steps, N, size)).astype(np.float32)
    if style == "push":
        held = rng.choice([-1.0, 0.0, 1.0], (steps // 20 + 1, N, size))
        return np.repeat(held, 20, axis=0)[:steps].astype(np.float32)
    return np.clip(rng.normal(0, 0.3, (steps, N, size)), -1, 1).astype(np.float32)


def assert_equal_to_gymnasium(env_id: str, style: str, steps: int, **kwargs: Any):
    """Step both; returns (episodes, truncations, rewards) that were seen."""
    vector, batch = sync(env_id, **kwargs), native(env_id, **kwargs)
    assert vector.single_action_space == batch.action_space
    assert vector.single_observation_space == batch.observation_space
    first, _ = vector.reset(seed=11)
    assert np.array_equal(first, batch.reset(11))
    episodes = truncations = rewards = 0
    for action in actions_of(style, steps, batch.action_space.shape[0]):
        obs, reward, terminated, truncated, info = vector.step(action)
        step = batch.step(action)
        assert np.array_equal(obs, step.obs)
        assert np.array_equal(reward, step.reward)
        assert np.array_equal(terminated, step.terminated)
        assert np.array_equal(truncated, step.truncated)
        assert step.valid.all()
        for i in np.flatnonzero(terminated | truncated):
            assert np.array_equal(info["final_obs"][i], step.next_obs[i])
        running = ~(terminated | truncated)
        assert np.array_equal(step.next_obs[running], step.obs[running])
        episodes += int((~running).sum())
        truncations += int(truncated.sum())
        rewards += int(reward.sum())
    vector.close()
    batch.close()
    return episodes, truncations, rewards


@pytest.mark.parametrize("style", ["jitter", "push"])
@pytest.mark.parametrize("env_id", IDS)
def test_equal_to_gymnasium(env_id, style):
    episodes, truncations, _ = assert_equal_to_gymnasium(env_id, style, 1100)
    assert episodes >= N
    if env_id == HALF_CHEETAH.id:
        assert truncations == N  # the time limit was crossed; nothing else ends this task


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        (HOPPER.id, {"preset": "unit"}),
        (HOPPER.id, {"threshold": 0.05}),
        (WALKER2D.id, {"preset": "hard"}),
        (WALKER2D.id, {"threshold": -0.3}),
        (HALF_CHEETAH.id, {"threshold": 0.1}),
        (HALF_CHEETAH.id, {"preset": "position"}),
    ],
)
def test_presets_equal_gymnasium(env_id, options):
    _, _, rewards = assert_equal_to_gymnasium(env_id, "push", 200, **options)
    if "threshold" in options:
        assert rewards > 0


def test_position_rewards_equal_gymnasium(monkeypatch):
    """A threshold within reach of random actions, so that the comparison sees both rewards."""
    near = dataclasses.replace(
        HOPPER, presets={"position": Threshold("position", "x_position", 0.1)}
    )
    table = {**LOCOMOTION, HOPPER.id: near}
    monkeypatch.setattr("lpo.envs.make.LOCOMOTION", table)
    monkeypatch.setattr("lpo.envs.sparse.LOCOMOTION", table)
    _, _, rewards = assert_equal_to_gymnasium(HOPPER.id, "push", 300, preset="position")
    assert 0 < rewards < 300 * N


@pytest.mark.slow
@pytest.mark.parametrize("style", ["jitter", "push", "twitch"])
@pytest.mark.parametrize("env_id", IDS)
def test_equal_to_gymnasium_at_length(env_id, style):
    assert_equal_to_gymnasium(env_id, style, 20_000)


@pytest.mark.parametrize("env_id", IDS)
def test_threads_change_nothing(env_id):
    one, three = native(env_id, 5, threads=1), native(env_id, 5, threads=3)
    assert three.description["threads"] == 3
    assert np.array_equal(one.reset(0), three.reset(0))
    rng = np.random.default_rng(0)
    action = np.zeros((5, one.action_space.shape[0]), np.float32)
    for _ in range(60):
        action = rng.uniform(-1, 1, action.shape).astype(np.float32)
        assert same_step(one.step(action), three.step(action))
    three.close()
    three.step(action)  # after close, on the calling thread


@pytest.mark.parametrize("env_id", IDS)
def test_state_round_trip_is_bit_equal(env_id):
    """Saved mid-episode, restored into another batch, through a reset of every environment."""
    batch, other = native(env_id), native(env_id)
    size = batch.action_space.shape[0]
    actions = actions_of("push", 1150, size, seed=4)
    obs = batch.reset(5)
    other.reset(99)
    for action in actions[:137]:
        obs = batch.step(action).obs
        other.step(-action)
    state = {key: value.copy() for key, value in batch.get_state().items()}
    assert state["rng"].dtype == np.uint64
    assert np.array_equal(other.set_state(state), obs)
    ended = np.zeros(N, bool)
    for action in actions[137:]:
        expected, got = batch.step(action), other.step(action)
        assert same_step(expected, got)
        ended |= expected.terminated | expected.truncated
    assert ended.all()
    for key, value in batch.get_state().items():
        assert np.array_equal(value, other.get_state()[key])


def test_saved_state_is_a_copy():
    batch = native(HOPPER.id)
    batch.reset(0)
    state = batch.get_state()
    before = {key: value.copy() for key, value in state.items()}
    batch.step(np.ones((N, 3), np.float32))
    assert all(np.array_equal(state[key], before[key]) for key in state)


def test_steps_may_be_kept():
    """No array of a step is overwritten by a later one."""
    batch = native(HOPPER.id)
    batch.reset(0)
    action = np.ones((N, 3), np.float32)
    steps = [batch.step(action) for _ in range(40)]
    copies = [copy.deepcopy(step) for step in steps]
    for _ in range(40):
        batch.step(action)
    assert all(same_step(a, b) for a, b in zip(steps, copies, strict=True))


@pytest.mark.parametrize("task", LOCOMOTION.values(), ids=lambda task: task.id)
def test_physics_is_lean(task):
    assert load_physics(task.xml).lean


def test_possible_contacts():
    """The walker and the cheetah touch the floor only; the hopper may touch itself."""
    pairs = touching_pairs(gymnasium_model(HOPPER))
    assert pairs == [(0, 1), (0, 2), (0, 3), (0, 4), (1, 3), (1, 4), (2, 4)]
    for task in (WALKER2D, HALF_CHEETAH):
        model = gymnasium_model(task)
        assert touching_pairs(model) == [(0, geom) for geom in range(1, model.ngeom)]


@pytest.mark.parametrize("change", ["margin", "friction", "pair"])
def test_a_model_that_differs_is_caught(change):
    """The proof at load sees wrong margins, a last bit of friction and a missing pair."""
    plain = gymnasium_model(HOPPER)
    other = load_physics(HOPPER.xml).model
    assert same_physics(plain, other)
    if change == "margin":
        other.pair_margin[:] /= 2
    elif change == "friction":
        other.pair_friction[3] *= 1.0 + 1e-15
    else:
        other.pair_margin[5] = -10.0  # torso and foot never meet
    assert not same_physics(plain, other)


@pytest.mark.parametrize("task", LOCOMOTION.values(), ids=lambda task: task.id)
def test_the_proof_meets_every_contact(task):
    model = gymnasium_model(task)
    data = mj.MjData(model)
    rng = np.random.default_rng(0)
    met = set()
    for _ in range(200):
        mj.mj_resetData(model, data)
        data.qpos[:] = random_pose(model, rng)
        mj.mj_forward(model, data)
        met |= {(int(contact.geom1), int(contact.geom2)) for contact in data.contact}
    assert met == set(touching_pairs(model))


def gymnasium_model(task: SparseLocomotion) -> Any:
    env = gymnasium.make(task.base_id)
    body: Any = env.unwrapped
    env.close()
    return body.model


def test_an_unprovable_model_falls_back(monkeypatch):
    monkeypatch.setattr("lpo.envs.host.physics.same_physics", lambda *_: False)
    model, lean = load_physics(HOPPER.xml)
    assert not lean
    assert model.npair == 0


def test_several_trees_are_left_alone(tmp_path):
    """The argument for islands needs one kinematic tree."""
    body = '<body><freejoint/><geom name="{}" size=".1"/></body>'
    bodies = body.format("a") + body.format("b")
    path = tmp_path / "two.xml"
    path.write_text(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    plain = mj.MjModel.from_xml_path(str(path))
    assert lean_model(str(path), plain, np.add) is None


def test_profiling_clock_is_the_users_own():
    """A clock the user installed is left in place."""
    calls = []
    mj.set_mjcb_time(lambda: calls.append(0) or 0.0)
    try:
        batch = native(HOPPER.id, 1)
        batch.reset(0)
        batch.step(np.zeros((1, 3), np.float32))
    finally:
        mj.set_mjcb_time(None)
    assert calls


def seconds_of_a_step(data: Any, model: Any) -> float:
    """What MuJoCo's own profile says of one more step."""
    timer = data.timer[mj.mjtTimer.mjTIMER_STEP]
    before = timer.duration
    mj.mj_step(model, data)
    return timer.duration - before


def test_profiling_stops_in_the_context_and_goes_on_after_it():
    model = gymnasium_model(HOPPER)
    data = mj.MjData(model)
    assert seconds_of_a_step(data, model) > 0
    with without_profiling:
        assert seconds_of_a_step(data, model) == 0
        with without_profiling:
            assert seconds_of_a_step(data, model) == 0
        assert seconds_of_a_step(data, model) == 0
    assert seconds_of_a_step(data, model) > 0


def test_a_native_batch_leaves_the_profile_of_others_alone():
    model = gymnasium_model(HOPPER)
    data = mj.MjData(model)
    batch = native(HOPPER.id, 1)
    batch.reset(0)
    before = [timer.duration for timer in batch._datas[0].timer]
    batch.step(np.zeros((1, 3), np.float32))
    assert [timer.duration for timer in batch._datas[0].timer] == before
    assert seconds_of_a_step(data, model) > 0


def test_contexts_of_several_threads_end_in_any_order():
    """The clock comes back with the last of them, not with the first."""
    model = gymnasium_model(HOPPER)
    data = mj.MjData(model)
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with without_profiling:
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with without_profiling:
        thread.start()
        assert entered.wait(10)
    assert seconds_of_a_step(data, model) == 0
    leave.set()
    thread.join(10)
    assert seconds_of_a_step(data, model) > 0


def test_a_clock_installed_meanwhile_stays():
    clock = lambda: 0.0  # noqa: E731
    try:
        with without_profiling:
            mj.set_mjcb_time(clock)
        assert mj.get_mjcb_time() is clock
        data = mj.MjData(gymnasium_model(HOPPER))
        assert seconds_of_a_step(data, gymnasium_model(HOPPER)) == 0
    finally:
        mj.set_mjcb_time(None)


def test_misuse():
    batch = native(HOPPER.id)
    with pytest.raises(LPOError, match="call reset"):
        batch.step(np.zeros((N, 3), np.float32))
    with pytest.raises(LPOError, match="call reset"):
        batch.get_state()
    batch.reset(0)
    with pytest.raises(LPOError, match="one row per environment"):
        batch.step(np.zeros((N, 4), np.float32))
    with pytest.raises(LPOError, match="num_envs"):
        native(HOPPER.id, 2).set_state(batch.get_state())
