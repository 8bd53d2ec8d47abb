"""The code of the page on device environments runs as it stands."""

import re
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import lpo.cli
from lpo import LPOError
from lpo.sweep.grid import expand

ID = "my_river:my/River-v0"
PAGE = Path(__file__).parents[2] / "docs" / "device-env.md"


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the blocks of the page define, after they ran in order."""
    first, *rest = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / re.match(r"# (\w+\.py)\n", first)[1]).write_text(first)  # type: ignore[index]
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("lpo.envs.device._MAKERS", {})
    found: dict = {}
    for block in rest:
        exec(compile(block, str(PAGE), "exec"), found)
    yield found
    sys.modules.pop("my_river", None)


def test_the_code_of_the_page(names, capsys):
    """At full speed: .9 v + .05 − .02 keeps .3 m a step, so 10 m take about 40 steps."""
    steps = names["steps"]
    assert steps.obs.shape == (200, 1000, 2)
    landings = np.asarray(steps.terminated).sum(0)
    assert landings.min() >= 3 and landings.max() <= 6
    assert set(np.asarray(steps.reward)[np.asarray(steps.terminated)].tolist()) == {1.0}
    assert (names["short"].length, names["river"].length) == (5.0, 10.0)


def test_a_step_by_hand(names):
    """.9 · .2 + .05 · .5 − .02 = .185, and a gust of a hundredth of the key's normal."""
    key = jax.random.key(3)
    state = np.array([4.0, 0.2], np.float32)
    step = names["river"].step(state, np.array([0.5], np.float32), key, {"current": 0.02})
    speed = 0.185 + 0.01 * float(jax.random.normal(key))
    np.testing.assert_allclose(step.obs, [4.0 + speed, speed], rtol=1e-6)


ONLY = "runs on a device only, so the host cannot step or draw it; train it with"


def test_a_grid_of_it_is_for_a_device(names, tmp_path):
    grid = {"name": "g", "algos": ["ppo"], "envs": [ID], "seeds": 1, "steps": 4096}
    assert expand(grid, device=True).items[0].config.task.env == ID
    with pytest.raises(LPOError, match=ONLY):
        expand(grid)
    with pytest.raises(LPOError, match="Pendulum-v1 runs on the host only"):
        expand(grid | {"envs": ["Pendulum-v1"]}, device=True)


@pytest.mark.slow
def test_it_is_swept_on_a_device_and_said_to_be_of_a_device(names, tmp_path, capsys):
    text = f'name = "g"\nalgos = ["ppo"]\nenvs = ["{ID}"]\nseeds = 1\nsteps = 512\n'
    (tmp_path / "g.toml").write_text(text + "[overrides]\nrollout = 256\nhidden = [8]\n")
    flags = [str(tmp_path / "g.toml"), "--out", str(tmp_path / "out"), "--import", "my_river"]
    with pytest.raises(SystemExit) as ended:
        lpo.cli.main(["sweep", *flags, "--device", "cpu"])
    assert ended.value.code == 0
    run = str(tmp_path / "out" / "ppo-River-v0-s0")
    capsys.readouterr()
    for words in (["eval", run], ["render", run], ["sweep", *flags]):
        with pytest.raises(SystemExit) as ended:
            lpo.cli.main(words)
        assert ended.value.code == 2 and ONLY in capsys.readouterr().err


def test_the_page_names_every_task_with_a_device_form():
    from lpo.envs.device import device_ids

    text = PAGE.read_text()
    missing = [
        name
        for name in device_ids()
        if name.startswith(("lpo/", "Mount", "MiniGrid-")) and name not in text
    ]
    assert missing == []
