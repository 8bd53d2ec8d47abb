"""Processes that step environments: the numbers of one process, and nothing left behind."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from lpo import Agent
from lpo.config import configure, with_options
from lpo.envs import make_batch
from lpo.envs.host import episodes
from lpo.envs.host.stepper import LocalStepper
from lpo.envs.host.workers import WorkerStepper
from lpo.envs.make import maker_of
from lpo.envs.maker import read_maker
from lpo.errors import LPOError
from lpo.runs.run import make_trainer, start

from .toys import (
    DictCounter,
    Goal,
    Local,
    Mortal,
    Obedient,
    Slow,
    SlowUnseeded,
    Stillborn,
    Walk,
    same_step,
)


def children() -> set[int]:
    """Returns the processes that this one has started, zombies among them."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(path.parent.name))
    return found


def opened() -> int:
    """Returns the sockets and the pieces of shared memory that are open."""
    found = 0
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += os.readlink(file).startswith(("socket:", "/memfd:"))
    return found


@pytest.fixture(scope="module", autouse=True)
def _old_objects_are_not_looked_at():
    """Of all that the tests of other files have made, which takes a second each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _nothing_is_left():
    """No process, no zombie, no descriptor and no shared memory may be left by a test."""
    gc.collect()
    files, shared, before = opened(), os.listdir("/dev/shm"), children()
    yield
    gc.collect()
    assert children() == before
    assert opened() <= files  # what an earlier test left may be gone now
    assert set(os.listdir("/dev/shm")) <= set(shared)


@contextlib.contextmanager
def batch_of(env, n, **options) -> Iterator[Any]:
    batch = make_batch(env, n, **options)
    try:
        yield batch
    finally:
        batch.close()


def actions(batch, steps: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    space = batch.action_space
    for _ in range(steps):
        if hasattr(space, "n"):
            yield rng.integers(space.n, size=batch.num_envs)
        else:
            yield rng.uniform(-0.3, 0.3, (batch.num_envs, *space.shape)).astype(np.float32)


def same_life(one, other, steps: int) -> int:
    """Asserts that two batches take the same steps; returns the number of episodes that ended."""
    ended = 0
    for a, b in zip(actions(one, steps), actions(other, steps), strict=True):
        x, y = one.step(a), other.step(b)
        assert same_step(x, y)
        ended += int((x.terminated | x.truncated).sum())
    return ended


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("env", [Walk, "CartPole-v1"])
def test_any_number_of_processes_lives_the_same_life(env, number):
    """They have 3, 2 + 1 and 1 + 1 + 1 environments."""
    with batch_of(env, 3, env_workers=0) as one, batch_of(env, 3, env_workers=number) as other:
        assert one.description == other.description
        assert np.array_equal(one.reset(4), other.reset(4))
        assert same_life(one, other, 150) >= 5
        states = one.get_state(), other.get_state()
        assert states[0].keys() == states[1].keys()
        for name, array in states[0].items():
            assert array.dtype == states[1][name].dtype
            assert array.tobytes() == states[1][name].tobytes()
        same_life(one, other, 20)
        for batch, state in zip((one, other), reversed(states), strict=True):  # crosswise
            assert np.array_equal(batch.set_state(state), state["obs"])
        assert same_life(one, other, 100) >= 2
        assert np.array_equal(one.reset(5), other.reset(5))
        same_life(one, other, 10)


@pytest.mark.parametrize("kind", [Goal, DictCounter])
def test_dictionaries_and_success(kind):
    with batch_of(kind, 2, env_workers=0) as one, batch_of(kind, 2, env_workers=2) as other:
        assert np.array_equal(one.reset(0), other.reset(0))
        assert same_life(one, other, 12) >= 4


SMALL: dict[str, Any] = dict(
    algo="ppo", env="MountainCarContinuous-v0", steps=800, num_envs=3, rollout=150, batch_size=16,
    epochs=1, hidden=(8,), eval_every=400, eval_episodes=2, eval_max_steps=40, checkpoint_every=400,
    loggers=(),
)  # fmt: skip


def written(folder: Path) -> dict[str, bytes]:
    """Returns what a run says and keeps, without the seconds and the option itself."""
    kept = {p.name: p.read_bytes() for p in sorted((folder / "checkpoints").glob("*.safetensors"))}
    for path in (folder / "checkpoints").glob("*.json"):
        record = json.loads(path.read_text())
        del record["config"]["task"]["env_workers"]
        for name in ("seconds", "record_sha256", "log_sha256", "logs"):
            record.pop(name, None)
        kept[path.name] = json.dumps(record).encode()
    return kept | {p.name: p.read_bytes() for p in [folder / "metrics.jsonl"]}


def test_a_run_writes_the_same_bytes_with_any_number_of_processes(tmp_path):
    runs = []
    for number in (0, 2):  # 2 + 1 environments
        with start(configure(**SMALL, env_workers=number), tmp_path / str(number)) as run:
            run.advance(800)
        runs.append(written(tmp_path / str(number)))
    assert len(runs[0]) >= 5
    assert runs[0] == runs[1]


def test_a_run_goes_on_with_another_number_of_processes():
    c = with_options(configure(**SMALL), {"eval_every": 0})
    whole = make_trainer(with_options(c, {"env_workers": 0}))
    parts = [make_trainer(with_options(c, {"env_workers": n})) for n in (2, 0, 3)]
    for i, part in enumerate(parts):
        if i:
            part.restore(parts[i - 1].arrays())
        assert part.iterate(800) == whole.iterate(800)
        part.env.close()
    ends = whole.arrays(), parts[-1].arrays()
    assert all(np.array_equal(value, ends[1][name]) for name, value in ends[0].items())


def wrong(kind: float, row: int, n: int = 3) -> np.ndarray:
    action = np.zeros((n, 1), np.float32)
    action[row] = kind
    return action


@pytest.mark.parametrize("kind", [0.4, 0.5, 0.6])
def test_a_fault_has_the_words_of_one_process(kind):
    """It raises, returns NaN, or a wrong shape, in two environments at once: the first is named."""
    said = []
    for number in (0, 2):
        with batch_of(Obedient, 3, env_workers=number) as batch:
            batch.reset(0)
            batch.step(np.zeros((3, 1), np.float32))
            with pytest.raises(LPOError) as caught:
                batch.step(wrong(kind, 1) + wrong(kind, 2))
            said.append(str(caught.value))
    assert said[0] == said[1]
    assert "Obedient (environment 1)" in said[0] and "episode step 2" in said[0]


def test_a_reset_that_fails():
    message = r"environment 0\) failed at episode step 0, raised OSError: no licence"
    with batch_of(Stillborn, 2, env_workers=2) as batch, pytest.raises(LPOError, match=message):
        batch.reset(0)


def test_a_reset_within_a_step_that_fails():
    said = []
    for number in (0, 2):
        with batch_of(Mortal, 2, env_workers=number) as batch:
            batch.reset(0)
            for _ in range(2):
                batch.step(np.zeros(2, np.int64))
            with pytest.raises(LPOError, match="no second life") as caught:
                batch.step(np.zeros(2, np.int64))
            said.append(str(caught.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("kind", [0.7, 0.8])
def test_an_environment_that_hangs_is_named(kind):
    """The second one cannot be interrupted in its own process, only with it."""
    with batch_of(Obedient, 3, env_workers=2, step_timeout=0.3) as batch:
        batch.reset(0)
        began = time.monotonic()
        with pytest.raises(LPOError, match=r"Obedient \(environment 2\) .*within 0\.3 seconds"):
            batch.step(wrong(kind, 2))
        assert time.monotonic() - began < 8


def test_a_killed_process_is_named():
    with batch_of(Obedient, 3, env_workers=2) as batch:
        batch.reset(0)
        with pytest.raises(
            LPOError, match=r"environment 1 to 2\) was killed by signal 9"
        ) as caught:
            batch.step(wrong(0.9, 2))
        assert str(caught.value).endswith("resume from the last checkpoint.")
        with pytest.raises(LPOError, match="its processes are gone"):
            batch.step(wrong(0.0, 0))


def test_a_process_that_is_killed_between_steps():
    before = children()
    with batch_of(Walk, 2, env_workers=2) as batch:
        batch.reset(0)
        os.kill(max(children() - before), signal.SIGKILL)
        with pytest.raises(LPOError, match="was killed by signal 9"):
            for action in actions(batch, 100):
                batch.step(action)


def test_a_run_keeps_its_checkpoint_when_a_process_is_killed(tmp_path):
    before = children()
    run = start(configure(**SMALL, env_workers=2), tmp_path / "run")
    with pytest.raises(LPOError, match="was killed by signal 9"), run:
        run.advance(400)
        for process in children() - before:
            os.kill(process, signal.SIGKILL)
        run.advance(800)
    assert sorted(p.name for p in (tmp_path / "run" / "checkpoints").glob("0*.safetensors"))


def test_an_interrupt_within_a_step_leaves_no_process():
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with batch_of(Obedient, 2, env_workers=2) as batch:
            batch.reset(0)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(KeyboardInterrupt):
                batch.step(wrong(0.7, 1, 2))
            with pytest.raises(LPOError, match="was interrupted"):
                batch.step(wrong(0.0, 0, 2))
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_batch_that_nobody_closed_takes_its_processes_along():
    batch = make_batch(Walk, 2, env_workers=2)
    batch.reset(0)
    del batch  # the fixture looks


# -- auto


@pytest.fixture
def hasty(monkeypatch):
    """The choice is made after 50 ms of steps."""
    monkeypatch.setattr(episodes, "PATIENCE", 0.05)
    monkeypatch.setattr("lpo.envs.make.usable_cores", lambda: [0, 1])


def moves(batch) -> bool:
    kinds = [type(batch._stepper)]
    for action in actions(batch, 40, seed=9):
        batch.step(action)
        kinds.append(type(batch._stepper))
    assert kinds[0] is LocalStepper
    return WorkerStepper in kinds


def test_slow_environments_move_to_processes_in_mid_episode(hasty):
    with batch_of(Slow, 4) as one, batch_of(Slow, 4, env_workers=0) as other:
        assert np.array_equal(one.reset(1), other.reset(1))
        same_life(one, other, 30)
        assert isinstance(one._stepper, WorkerStepper)
        for name, array in one.get_state().items():
            assert array.tobytes() == other.get_state()[name].tobytes()


def test_quick_environments_stay(hasty):
    with batch_of(Walk, 2) as batch:
        batch.reset(0)
        batch._choice.seconds = 0.0
        while batch._choice is not None:
            batch.step(np.zeros((2, 1), np.float32))
        assert isinstance(batch._stepper, LocalStepper)


def made_by_hand():
    return Slow()


def test_what_cannot_be_moved_stays(hasty, monkeypatch):
    cases = [(SlowUnseeded, 2), (Slow(), 1), (lambda: Slow(), 2)]
    for env, n in cases:
        with batch_of(env, n) as batch:
            batch.reset(0)
            assert not moves(batch)
    monkeypatch.setattr("lpo.envs.make.usable_cores", lambda: [0])
    with batch_of(Slow, 2) as batch:
        batch.reset(0)
        assert not moves(batch)
    monkeypatch.undo()


# -- what can be told in words


def told(env: Any) -> Any:
    """Returns the maker of ``env`` as another process reads it; None where it cannot."""
    words = maker_of(env, 1, None, None, {} if isinstance(env, str) else None, None).in_words()
    return words and read_maker(words)


def test_makers_in_words():
    assert told("CartPole-v1").source == gymnasium.spec("CartPole-v1")
    assert told("lpo/SparseHopper-v0").source == gymnasium.spec("lpo/SparseHopper-v0")
    assert told(Walk).source is Walk and told(made_by_hand).source is made_by_hand
    make: Any = Walk
    gymnasium.register("LpoTest/Class-v0", entry_point=make, kwargs={"a": (1, 2), "b": None})
    try:
        spec = told("LpoTest/Class-v0").source
        assert spec.entry_point == "tests.envs.toys:Walk"
        assert spec.kwargs == {"a": (1, 2), "b": None}
        assert told(dataclasses.replace(spec, kwargs={"a": np.zeros(2)})) is None
        assert told(dataclasses.replace(spec, kwargs={"a": Walk})) is None
    finally:
        del gymnasium.registry["LpoTest/Class-v0"]
    assert told(Walk()) is None and told(lambda: Walk()) is None


@pytest.mark.parametrize(
    ("env", "n", "message"),
    [
        (Walk(), 1, "cannot be made in another process, so env_workers 2"),
        (lambda: Walk(), 2, "a function that a module has by name"),
        ("lpo/SparseHopper-v0", 2, "is native, and stepped by threads; leave env_workers 2 out"),
        (SyncVectorEnv([Walk] * 2), 2, "a vector environment, which steps itself"),
    ],
)
def test_refused(env, n, message):
    with pytest.raises(LPOError, match=message):
        make_batch(env, n, env_workers=2)


def test_what_a_process_cannot_make_is_named(monkeypatch):
    monkeypatch.setattr(sys, "of_the_tests", True, raising=False)
    with pytest.raises(LPOError, match=r"another process \(raised ImportError: no module named th"):
        make_batch(Local, 2, env_workers=2)


SCRIPT = """
import gymnasium, lpo, os, sys
class Mine(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample() * 0, {}
    def step(self, action):
        return self.observation_space.sample() * 0, 0.0, False, False, {}
print("began")
from lpo.envs import make_batch
batch = make_batch("CartPole-v1", 2, env_workers=2)
batch.reset(0)
batch.step(batch.action_space.sample()[None].repeat(2))
batch.close()
try:
    make_batch(Mine, 2, env_workers=2)
except lpo.LPOError as error:
    print(error)
"""


def test_a_script_needs_no_guard(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == "began" and lines[1].startswith("Mine cannot be made in another process")
    assert len(lines) == 2


HANGS = """
import numpy as np, os
from lpo.envs import make_batch
from tests.envs.toys import Obedient
batch = make_batch(Obedient, 2, env_workers=2)
batch.reset(0)
print("ready", flush=True)
batch.step(np.array([[0.7], [0.8]], np.float32))
"""


def group(leader: int) -> set[int]:
    """Returns the processes of a group that run."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, pgrp = path.read_text().rpartition(")")[2].split()[:3]
            if int(pgrp) == leader and state != "Z":
                found.add(int(path.parent.name))
    return found


def test_processes_end_with_the_run_that_started_them():
    """Even where it is killed while both environments hang."""
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.Popen(
        [sys.executable, "-c", HANGS], stdout=subprocess.PIPE, text=True, env=variables,
        start_new_session=True,
    )  # fmt: skip
    with run:
        assert run.stdout is not None and run.stdout.readline() == "ready\n"
        assert len(group(run.pid)) == 3
        run.kill()
    until = time.monotonic() + 10
    while group(run.pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not group(run.pid)


def test_an_agent_with_processes_closes_them():
    small: dict[str, Any] = dict(
        rollout=64, batch_size=16, epochs=1, hidden=(4,), num_envs=2, eval_every=0
    )
    with Agent("CartPole-v1", algo="ppo", env_workers=2, **small) as agent:
        agent.learn(128)
        assert agent.evaluate(2)["length"] > 1
