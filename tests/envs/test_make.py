"""The one door: which backend is chosen, and which options are refused."""

from __future__ import annotations

import gc
import json
import threading
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from lpo.envs import make_batch, make_single
from lpo.envs.host.threads import Workers, usable_cores
from lpo.envs.tabular import make_deep_sea
from lpo.errors import LPOError

from .toys import Counter, DictCounter

HOPPER = "lpo/SparseHopper-v0"


@pytest.mark.parametrize(
    ("env", "options", "backend"),
    [
        (HOPPER, {}, "native"),
        ("lpo.envs:" + HOPPER, {}, "native"),
        (HOPPER, {"backend": "native", "threads": 1}, "native"),
        (HOPPER, {"backend": "gymnasium"}, "gymnasium"),
        (HOPPER, {"env_kwargs": {"reset_noise_scale": 0.0}}, "gymnasium"),
        ("CartPole-v1", {}, "gymnasium"),
        (gymnasium.spec("CartPole-v1"), {}, "gymnasium"),
        (Counter, {}, "gymnasium"),
    ],
)
def test_backends(env, options, backend):
    batch = make_batch(env, 2, **options)
    assert batch.description["backend"] == backend
    assert batch.num_envs == 2
    assert batch.resumable
    assert batch.reset(0).shape == (2, *(batch.observation_space.shape or ()))
    batch.close()


@pytest.mark.parametrize("backend", ["native", "gymnasium"])
def test_descriptions_name_the_threshold(backend):
    row = make_batch(HOPPER, 1, preset="hard", backend=backend).description
    assert (row["id"], row["preset"], row["threshold"]) == (HOPPER, "hard", 1.1103)
    assert (row["quantity"], row["horizon"]) == ("x_velocity", 1000)


X_VELOCITY = {"name": "x_velocity", "index": 5, "low": -2.0, "high": 4.0}
HEIGHT = {"name": "height", "index": 0, "low": 0.6, "high": 1.6}


@pytest.mark.parametrize("backend", ["native", "gymnasium", "vector"])
def test_descriptions_declare_success_and_projection(backend):
    if backend == "vector":
        row = make_batch(gymnasium.make_vec(HOPPER, 2), 2).description
    else:
        row = make_batch(HOPPER, 1, backend=backend).description
    assert row["success_return"] == 500.0
    assert row["projection"] == [X_VELOCITY, HEIGHT]
    assert json.loads(json.dumps(row)) == row


@pytest.mark.parametrize(
    ("env", "success", "coordinates"),
    [
        ("lpo/SparseMountainCarContinuous-v0", 100.0, ["position", "velocity"]),
        ("MountainCarContinuous-v0", 90.0, ["position", "velocity"]),  # Gymnasium's own threshold
        ("CartPole-v1", 475.0, None),
        ("Pendulum-v1", None, None),  # registered without a threshold
        (Counter, None, None),
    ],
)
@pytest.mark.parametrize("vector", [False, True])
def test_success_of_other_tasks(env, success, coordinates, vector):
    if vector and env is Counter:
        batch = make_batch(SyncVectorEnv([Counter]), 1)
    else:
        batch = make_batch(gymnasium.make_vec(env, 1) if vector else env, 1)
    row = batch.description
    assert row.get("success_return") == success
    names = [axis["name"] for axis in row["projection"]] if "projection" in row else None
    assert names == coordinates


def test_no_projection_of_changed_observations():
    """With x among the observations the indices would be off by one."""
    options = {"exclude_current_positions_from_observation": False}
    row = make_batch(HOPPER, 1, env_kwargs=options).description
    assert "projection" not in row
    assert row["success_return"] == 500.0


def test_success_of_a_finite_task_is_its_tables():
    env = make_deep_sea(4)
    assert make_batch(env, 1).description.get("success_return") == getattr(
        env.table, "success_return", None
    )
    declared = SimpleNamespace(**env.table._asdict() | {"success_return": 0.75})
    env.table = declared  # pyright: ignore[reportAttributeAccessIssue]
    assert make_batch(env, 1).description["success_return"] == 0.75


def test_env_kwargs_reach_the_environment():
    batch = make_batch("lpo/SparseHopper-v0", 1, env_kwargs={"reset_noise_scale": 0.0})
    assert np.array_equal(batch.reset(0)[0], [1.25, *[0.0] * 10])


@pytest.mark.parametrize(
    ("env", "num_envs", "options", "message"),
    [
        ("CartPole-v1", 2, {"preset": "half"}, "preset='half' does not apply to CartPole-v1"),
        ("CartPole-v1", 2, {"threshold": 1.0}, "threshold=1.0 does not apply to CartPole-v1"),
        ("CartPole-v1", 2, {"threads": 2}, "leave threads out"),
        ("CartPole-v1", 2, {"backend": "native"}, "has no native backend; use backend='auto'"),
        (HOPPER, 2, {"backend": "gpu"}, "choose one of auto, native, gymnasium"),
        (HOPPER, 2, {"backend": "gymnasium", "threads": 2}, "leave threads out"),
        (HOPPER, 2, {"backend": "native", "env_kwargs": {"a": 1}}, "use backend='gymnasium'"),
        (HOPPER, 2, {"preset": "easy"}, "has no preset 'easy'"),
        (HOPPER, 2, {"preset": "easy", "backend": "gymnasium"}, "has no preset 'easy'"),
        (HOPPER, 2, {"env_kwargs": {"colour": "red"}}, "could not be made, TypeError"),
        (HOPPER, 0, {}, "num_envs is 0"),
        (HOPPER, -3, {}, "num_envs is -3"),
        (HOPPER, 2.5, {}, "num_envs is 2.5"),
        (HOPPER, True, {}, "num_envs is True"),
        (HOPPER, 2, {"threads": 0}, "threads is 0"),
        (Counter(), 2, {}, "pass num_envs=1"),
        (Counter(), 1, {"preset": "half"}, "does not apply to Counter"),
        (Counter(), 1, {"env_kwargs": {"a": 1}}, "pass them where it is made"),
        (lambda: 3, 1, {}, "3 is not an environment"),
        (7, 1, {}, "7 is not an environment"),
        ("CartPole-v77", 1, {}, "CartPole-v1"),
    ],
)
def test_refused(env, num_envs, options, message):
    with pytest.raises(LPOError, match=message):
        make_batch(env, num_envs, **options)


def test_vector_environment_of_another_size():
    with pytest.raises(LPOError, match="pass num_envs=3"):
        make_batch(SyncVectorEnv([Counter] * 3), 2)


def test_function_that_returns_one_environment_twice():
    env = Counter()
    with pytest.raises(LPOError, match="make a new one"):
        make_batch(lambda: env, 2)


def test_single_has_the_spaces_of_the_batch():
    batch, single = make_batch(HOPPER, 1), make_single(HOPPER)
    assert single.observation_space == batch.observation_space
    assert single.action_space == batch.action_space
    assert single.render_mode == "rgb_array"
    assert np.array_equal(single.reset(seed=4)[0], batch.reset(4)[0])
    action = np.full(3, 0.5, np.float32)
    step, row = batch.step(action[None]), single.step(action)
    assert np.array_equal(row[0], step.obs[0])
    assert row[1] == step.reward[0]
    single.close()


def test_single_flattens():
    env = DictCounter()
    env.render_mode = "rgb_array"
    single = make_single(env)
    assert single.reset(seed=0)[0].tolist() == [0.0, 0.0]
    assert single.step(1)[0].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("env", "options", "message"),
    [
        (Counter(), {}, "render_mode='rgb_array'"),
        (Counter, {"preset": "half"}, "does not apply"),
        (SyncVectorEnv([Counter]), {}, "pass an id"),
        ("CartPole-v1", {"preset": "half"}, "does not apply"),
    ],
)
def test_single_refuses(env, options, message):
    with pytest.raises(LPOError, match=message):
        make_single(env, **options)


def test_workers_split_the_whole_range():
    for size, threads in [(1, 1), (5, 2), (7, 3), (2, 8)]:
        seen: list[int] = []
        workers = Workers(lambda a, b, seen=seen: seen.extend(range(a, b)), size, threads)
        assert workers.threads == min(size, threads)
        for _ in range(20):
            seen.clear()
            workers.run()
            assert sorted(seen) == list(range(size))
        workers.close()
        seen.clear()
        workers.run()
        assert seen == list(range(size))


def test_workers_pass_errors_on_and_go_on():
    def work(first, last):
        if fail and first > 0:
            raise ZeroDivisionError

    workers = Workers(work, 4, 2)
    fail = True
    with pytest.raises(ZeroDivisionError):
        workers.run()
    fail = False
    workers.run()
    workers.close()


def test_a_batch_that_nobody_closed_takes_its_threads_along():
    before = set(threading.enumerate())
    batch = make_batch(HOPPER, 4, threads=4)
    batch.reset(0)
    batch.step(np.zeros((4, 3), np.float32))
    mine = [t for t in threading.enumerate() if t.name == "lpo-physics" and t not in before]
    assert len(mine) == 3
    del batch
    gc.collect()
    for thread in mine:
        thread.join(timeout=5)
    assert not any(thread.is_alive() for thread in mine)


def test_default_threads_are_the_usable_cores(monkeypatch):
    assert Workers(lambda a, b: None, 1000, None).threads == len(usable_cores())
    monkeypatch.setattr("lpo.envs.host.threads.usable_cores", lambda: [3])
    assert Workers(lambda a, b: None, 1000, None)._inboxes == []
