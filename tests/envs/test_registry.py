"""The sparse tasks in Gymnasium's registry, reached by id alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import lpo.cli
from lpo import Agent
from lpo.config import configure, from_json, to_json
from lpo.envs import (
    describe,
    find_spec,
    import_package,
    make_batch,
    make_single,
    register_envs,
    registry,
)
from lpo.envs.specs import MOUNTAIN_CAR, TASKS
from lpo.errors import LPOError
from lpo.runs.directory import RunDirectory

from .toys import Counter

SOURCE = Path(__file__).parents[2] / "src"

# The module before the colon is what Gymnasium imports; the script itself imports nothing of ours.
BY_ID = """
import json, gymnasium
env = gymnasium.make("MODULE:lpo/SparseHopper-v0", preset="hard")
env.reset(seed=0)
_, reward, *_ = env.step(env.action_space.sample())
print(json.dumps([env.spec.id, env.spec.max_episode_steps, env.unwrapped.spec.kwargs, reward]))
"""


@pytest.mark.parametrize("module", ["lpo", "lpo.envs"])
def test_make_by_id_without_importing_lpo(module):
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", BY_ID.replace("MODULE", module)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    name, horizon, kwargs, reward = json.loads(result.stdout)
    assert name == "lpo/SparseHopper-v0"
    assert horizon == 1000
    assert kwargs == {"task": "lpo/SparseHopper-v0", "preset": "hard"}
    assert reward in (0.0, 1.0)


@pytest.mark.parametrize(
    "task", [task for task in TASKS.values() if task.base_id], ids=lambda task: task.id
)
def test_every_task_on_gymnasium_is_made_and_stepped(task):
    with gymnasium.make(task.id) as env, gymnasium.make(task.base_id) as base:
        assert env.spec is not None and env.spec.max_episode_steps == task.horizon
        assert env.observation_space == base.observation_space
        assert env.action_space == base.action_space
        first, _ = env.reset(seed=3)
        assert np.array_equal(first, base.reset(seed=3)[0])
        action = env.action_space.sample()
        ours, theirs = env.step(action), base.step(action)
        assert np.array_equal(ours[0], theirs[0])
        assert ours[2:4] == theirs[2:4]


def test_registering_twice_warns_of_nothing():
    before = dict(gymnasium.registry)
    register_envs()
    assert gymnasium.registry == before


def test_mountain_car_pays_at_the_goal_only():
    """Pushing with the velocity climbs the hill; the return is the goal's reward alone."""
    rewards: list[float] = []
    with gymnasium.make(MOUNTAIN_CAR.id) as env:
        obs, _ = env.reset(seed=0)
        terminated = False
        while not terminated:
            obs, reward, terminated, truncated, _ = env.step(np.sign(obs[1:]).astype(np.float32))
            assert not truncated
            rewards.append(float(reward))
    assert rewards[-1] == 100.0
    assert not any(rewards[:-1])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lpo/SparseHoper-v0", "lpo/SparseHopper-v0"),
        ("CartPole-v9", "CartPole-v1"),
        ("zzzzzz", "lpo list"),
        ("no_such_package:Thing-v0", "`import no_such_package` first"),
        ("not an id", "package:Name-v0"),
    ],
)
def test_unknown_ids_name_the_closest(name, expected):
    with pytest.raises(LPOError, match=expected):
        find_spec(name)


def test_unknown_keyword_is_refused():
    with pytest.raises(TypeError, match="speed"):
        gymnasium.make("lpo/SparseHopper-v0", speed=2.0)


@pytest.mark.parametrize("env_id", [row["id"] for row in describe()])
@pytest.mark.filterwarnings("ignore:.*infinity. This is probably too")  # as its own MuJoCo tasks
def test_gymnasium_finds_no_fault(env_id):
    """Its checker of a task, and the passive one of `make` over steps and resets; a warning fails.

    Gymnasium advises against observations without bounds, which its own bodies have too.
    """
    with gymnasium.make(env_id) as env:
        assert "PassiveEnvChecker" in str(env)
        env.action_space.seed(0)
        env.reset(seed=0)
        for _ in range(60):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
        check_env(env.unwrapped, skip_render_check=True)


def test_the_entry_point_of_another_package_adds_a_device_form(monkeypatch):
    """A function that registers environments may register them for the device."""
    from lpo.envs import device, registry

    def register():
        device.register_device("theirs/Thing-v0", "lpo.envs.device.poles:cart_pole")

    entry = SimpleNamespace(value="theirs:register", load=lambda: register)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    monkeypatch.setattr(device, "_MAKERS", dict(device._MAKERS))
    registry.register_foreign.cache_clear()
    try:
        assert device.has_device_form("theirs/Thing-v0")
        assert "theirs/Thing-v0" in device.device_ids()
    finally:
        registry.register_foreign.cache_clear()


@pytest.mark.parametrize(
    ("env_id", "home", "extra"),
    [
        ("PointMaze_UMaze-v99", "gymnasium_robotics", "robotics"),
        ("ALE/MontezumaRevenge-v99", "ale_py", "atari"),
        ("VizdoomMyWayHome-v99", "vizdoom.gymnasium_wrapper", "vizdoom"),
    ],
)
def test_ids_of_known_packages_say_what_to_write(env_id, home, extra):
    with pytest.raises(LPOError) as caught:
        find_spec(env_id)
    assert f"write {home}:{env_id}, after `pip install 'lpo-rl[{extra}]'`" in str(caught.value)


def test_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium_robotics", None)
    with pytest.raises(LPOError, match=r"run `pip install 'lpo-rl\[robotics\]'`, or add"):
        import_package("gymnasium_robotics:PointMaze_UMaze-v3")


@pytest.mark.parametrize(
    "env_id", ["gymnasium_robotics:PointMaze_UMaze-v3", "gymnasium_robotics:FetchReach-v4"]
)
def test_robots(env_id):
    pytest.importorskip("gymnasium_robotics")
    import_package(env_id)
    batch = make_batch(env_id, 2)
    assert batch.reset(0).shape == (2, *(batch.observation_space.shape or ()))
    step = batch.step(np.zeros((2, *(batch.action_space.shape or ())), np.float32))
    assert not step.terminated.any()
    batch.close()


# -- A function that wraps each environment, from Python and the command; files need a word more


@pytest.fixture
def wrappers(faulty, monkeypatch):
    """The module ``wrappers``, which nobody has named or imported yet."""
    monkeypatch.setattr(registry, "NAMED", set())
    monkeypatch.delitem(sys.modules, "wrappers", raising=False)
    yield
    sys.modules.pop("wrappers", None)


def rewards(batch, steps: int = 3) -> list[float]:
    batch.reset(0)
    found = [float(batch.step(np.zeros(batch.num_envs, np.int64)).reward[0]) for _ in range(steps)]
    batch.close()
    return found


def test_each_environment_is_wrapped(wrappers):
    import_package("wrappers")
    assert rewards(make_batch(Counter, 2)) == [1, 2, 3]
    for workers in (0, 2):
        batch = make_batch(Counter, 2, wrapper="wrappers:doubled", env_workers=workers)
        assert rewards(batch) == [2, 4, 6]
    assert rewards(make_batch(Counter(), 1, wrapper="wrappers:doubled")) == [2, 4, 6]
    assert rewards(make_batch("CartPole-v1", 1, wrapper="wrappers:doubled")) == [2, 2, 2]
    single = make_single("CartPole-v1", wrapper="wrappers:doubled")
    single.reset(seed=0)
    assert single.step(np.int64(0))[1] == 2.0
    single.close()


def test_a_native_task_is_then_stepped_by_gymnasium(wrappers):
    import_package("wrappers")
    batch = make_batch("lpo/SparseHopper-v0", 1, wrapper="wrappers:doubled")
    assert batch.description["backend"] == "gymnasium"
    with pytest.raises(LPOError, match="cannot wrap the native"):
        make_batch("lpo/SparseHopper-v0", 1, wrapper="wrappers:doubled", backend="native")


SMALL: dict[str, Any] = dict(
    algo="ppo", rollout=64, batch_size=16, epochs=1, hidden=(4,), num_envs=2, eval_every=0
)


def test_python_takes_the_function_or_its_name(wrappers):
    with Agent("CartPole-v1", wrapper="wrappers:doubled", **SMALL) as agent:
        agent.learn(64)
        assert agent.metrics[0]["rollout/reward_max"] == 2.0
    named = Agent("CartPole-v1", wrapper=sys.modules["wrappers"].doubled, **SMALL)
    assert named.config.task.wrapper == "wrappers:doubled"
    with pytest.raises(LPOError, match="no module has by its name"):
        Agent("CartPole-v1", wrapper=lambda env: env, **SMALL)


def test_a_file_does_not_run_code_by_itself(wrappers):
    text = to_json(configure("ppo", env="CartPole-v1")).replace(
        '"wrapper": null', '"wrapper": "wrappers:doubled"'
    )
    c = from_json(text, "a file")  # it can be read
    for make in (lambda: c.task.make(2), c.task.check, c.task.make_single):
        with pytest.raises(LPOError, match=r"'wrappers', and a file may not run code by itself"):
            make()
    assert "wrappers" not in sys.modules
    import_package("wrappers")
    assert rewards(c.task.make(2)) == [2, 2, 2]


@pytest.mark.parametrize("name", ["os:system", "subprocess:Popen", "builtins:exec", "lpo:Agent"])
def test_an_imported_module_is_not_enough(name, wrappers):
    assert name.partition(":")[0] in sys.modules
    with pytest.raises(LPOError, match="may not run code by itself"):
        make_batch(Counter, 2, wrapper=name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wrappers:absent", "has no function 'absent'"),
        ("wrappers:number", "has no function 'number'"),
        ("wrappers", "has no function ''"),
        ("wrappers:nothing", "returned None; return an environment"),
        ("wrappers:broken", r"failed with Counter \(RuntimeError: no wool\)"),
    ],
)
def test_wrong_functions(name, message, wrappers):
    import_package("wrappers")
    with pytest.raises(LPOError, match=message):
        make_batch(Counter, 2, wrapper=name)


def command(*arguments: object) -> int:
    try:
        lpo.cli.main([str(a) for a in arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_the_command_names_it_and_the_run_remembers_it(wrappers, tmp_path, capsys, monkeypatch):
    flags = "--algo ppo --env CartPole-v1 --steps 64 --rollout 64 --batch-size 16 --epochs 1"
    flags += " --hidden 4 --num-envs 2 --eval-every 0 --quiet --loggers --wrapper wrappers:doubled"
    assert command("train", *flags.split(), "--out", tmp_path / "run") == 0
    run = RunDirectory.open(tmp_path / "run")
    assert run.config().task.wrapper == "wrappers:doubled"
    monkeypatch.setattr(registry, "NAMED", set())
    capsys.readouterr()
    assert command("eval", tmp_path / "run", "--episodes", 2, "--checkpoint", "last") == 2
    assert "if you trust the module, add `--import wrappers`" in capsys.readouterr().err
    shown = ("eval", tmp_path / "run", "--episodes", 2, "--checkpoint", "last")
    assert command(*shown, "--import", "wrappers") == 0
