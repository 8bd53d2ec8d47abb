"""The code of the page on device environments runs as it stands."""

import re
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import lpo.cli
from lpo import Agent, LPOError, Policy
from lpo.envs.task import TaskOptions
from lpo.sweep.grid import expand

ID = "my_river:my/River-v0"
SMALL: dict[str, Any] = dict(algo="ppo", rollout=256, hidden=[8], eval_every=256)
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


def test_a_grid_of_it_is_for_a_device_or_for_the_host(names):
    grid = {"name": "g", "algos": ["ppo"], "envs": [ID], "seeds": 1, "steps": 4096}
    for device in (True, False):
        assert expand(grid, device=device).items[0].config.task.env == ID
    with pytest.raises(LPOError, match="Pendulum-v1 runs on the host only"):
        expand(grid | {"envs": ["Pendulum-v1"]}, device=True)


def test_the_host_steps_its_worlds_and_goes_on_from_a_state(names):
    task = TaskOptions(env=ID, env_kwargs={"length": 1.2})
    batch = task.make(3)
    first, river = batch.reset(7), names["river"]
    keys = [jax.random.fold_in(jax.random.key(7), i) for i in range(3)]
    worlds = [names["begin"](river, key, river.params) for key in keys]
    np.testing.assert_array_equal(first, [world.obs for world in worlds])
    landed, step = 0, batch.step(np.zeros((3, 1)))
    for _ in range(40):
        step = batch.step(np.full((3, 1), 5.0))  # clipped to 1
        landed += int(step.terminated.sum())
        np.testing.assert_array_equal(step.reward, step.terminated)
        assert (step.next_obs[step.terminated, 0] >= 1.2).all()  # the true s′
        assert (step.obs[step.terminated, 0] <= 1.0).all()
    assert landed >= 3 and batch.description["success_return"] == 1.0
    state, again = batch.get_state(), task.make(3)
    np.testing.assert_array_equal(again.set_state(state), step.obs)
    for _ in range(5):
        ours, theirs = (b.step(np.ones((3, 1))) for b in (batch, again))
        np.testing.assert_array_equal(ours.obs, theirs.obs)


def test_an_option_of_gymnasium_is_refused(names):
    with pytest.raises(LPOError, match="is a device environment, and backend gymnasium is for"):
        TaskOptions(env=ID, backend="gymnasium").make(1)


def test_a_clip_shows_what_it_draws_or_what_it_observes(names):
    drawn = TaskOptions(env=ID).make_single()
    drawn.reset(seed=0)
    for _ in range(9):
        drawn.step(np.ones(1))
    image = drawn.render()
    assert image.shape == (48, 200, 3) and (image[:24] != 255).any(-1).sum() > 200
    river = type(drawn.batch.env)
    river.draw = lambda self, state: jax.numpy.full((2, 3, 3), 7)
    try:
        np.testing.assert_array_equal(drawn.render(), np.full((2, 3, 3), 7))
    finally:
        del river.draw


@pytest.mark.slow
def test_it_is_a_whole_citizen(names, tmp_path, capsys):
    """Swept on a device and on the host, evaluated, drawn, made a card of, and an agent's task."""
    text = f'name = "g"\nalgos = ["ppo"]\nenvs = ["{ID}"]\nseeds = 1\nsteps = 512\n'
    (tmp_path / "g.toml").write_text(
        text + "[overrides]\nrollout = 256\nhidden = [8]\neval_every = 256\n"
    )
    trusted = ["--import", "my_river"]
    flags = [str(tmp_path / "g.toml"), "--out", str(tmp_path / "out"), *trusted]
    run = str(tmp_path / "out" / "ppo-River-v0-s0")
    with pytest.raises(SystemExit) as ended:
        lpo.cli.main(["sweep", *flags, "--device", "cpu"])
    assert ended.value.code == 0
    lpo.cli.main(["eval", run, "--episodes", "2", *trusted])
    assert "my/River-v0" in capsys.readouterr().out
    lpo.cli.main(["render", run, "--out", str(tmp_path / "a.gif"), *trusted])
    assert (tmp_path / "a.gif").stat().st_size > 100
    lpo.cli.main(["card", run, "--out", str(tmp_path / "card"), *trusted])
    assert (tmp_path / "card" / "README.md").exists()
    agent = Agent(ID, **SMALL).learn(256)  # on the host
    assert agent.evaluate(2)["length"] > 0 and Policy.load(run).predict([0.0, 0.0])[0].shape == (1,)
    assert Agent(ID, device="cpu", seeds=2, **SMALL).learn(256).env_steps == 256


def test_the_page_names_every_task_with_a_device_form():
    from lpo.envs.device import device_ids

    text = PAGE.read_text()
    missing = [
        name
        for name in device_ids()
        if name.startswith(("lpo/", "Mount", "MiniGrid-")) and name not in text
    ]
    assert missing == []
