"""A function that wraps each environment, from Python and the command; files need a word more."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import lpo.cli
from lpo import Agent
from lpo.config import configure, from_json, to_json
from lpo.envs import import_package, make_batch, make_single, registry
from lpo.errors import LPOError
from lpo.runs.directory import RunDirectory

from .toys import Counter


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
