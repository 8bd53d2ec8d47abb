"""What a user named for a run is remembered; what a stranger's run names is not imported."""

import json
import shutil
import sys

import pytest

from lpo.cli import memory
from lpo.cli.main import main
from lpo.envs.registry import NAMED

MODULE = """
import gymnasium, numpy as np

class {name}(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {{}}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, True, False, {{}}

gymnasium.register("{name}-v0", {name})
"""
FLAGS = "--algo ppo --num-envs 2 --rollout 32 --batch-size 8 --hidden 4 --steps 64 --quiet"


@pytest.fixture
def named(tmp_path, monkeypatch):
    """A run of an environment in a file that the user named, in a process that is new since."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "remembered_env.py").write_text(MODULE.format(name="Remembered"))
    source = tmp_path / "remembered_env.py"
    env = ["--env", "Remembered-v0", "--import", str(source)]
    main(["train", *env, *FLAGS.split(), "--out", str(tmp_path / "run")])
    forget()
    yield tmp_path
    forget()


def forget():
    import gymnasium

    sys.modules.pop("remembered_env", None)
    NAMED.discard("remembered_env")
    gymnasium.registry.pop("Remembered-v0", None)


def test_later_commands_need_no_import_again(named, capsys):
    main(["eval", str(named / "run"), "--episodes", "2"])
    main(["resume", str(named / "run"), "--steps", "128", "--quiet"])
    assert "Remembered-v0: 128 steps" in capsys.readouterr().out


def test_a_run_elsewhere_and_a_changed_place_import_nothing(named, capsys):
    shutil.copytree(named / "run", named / "stranger")
    for run, source in [("stranger", "remembered_env.py"), ("run", "moved.py")]:
        if source == "moved.py":
            (named / "remembered_env.py").rename(named / source)
        with pytest.raises(SystemExit):
            main(["eval", str(named / run)])
        assert "Unknown environment 'Remembered-v0'" in capsys.readouterr().err
        assert "remembered_env" not in sys.modules


def test_the_run_itself_holds_none_of_it(named):
    texts = [p.read_text() for p in (named / "run").rglob("*.json")]
    assert texts and not any("remembered_env" in text for text in texts)
    kept = json.loads(memory.place().read_text())[str(named / "run")]
    assert kept["remembered_env"] == str(named / "remembered_env.py")


@pytest.mark.parametrize("text", ["{", "3", '{"a": 3}', '{"a": {"b": 3}}'])
def test_a_damaged_memory_is_no_memory(text, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    memory.place().parent.mkdir()
    memory.place().write_text(text)
    assert memory.read() == {}
    memory.recall(["a", "\0", "--flag"])


def test_a_module_of_that_name_in_another_place_is_not_imported(tmp_path, monkeypatch):
    """As where a stranger's folder holds a module that is called like the user's."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for place in ("mine", "theirs"):
        (tmp_path / place / "remembered_pack").mkdir(parents=True)
        (tmp_path / place / "remembered_pack" / "__init__.py").write_text("")
    sys.path.insert(0, str(tmp_path / "theirs"))
    mine = tmp_path / "mine" / "remembered_pack" / "__init__.py"
    memory.imported_again("remembered_pack", mine)
    assert "remembered_pack" not in sys.modules
    sys.path.insert(0, str(tmp_path / "mine"))
    memory.imported_again("remembered_pack", mine)
    assert sys.modules.pop("remembered_pack").__file__ == str(mine)
