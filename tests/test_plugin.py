"""A bonus and a switch of another package: installed with pip, they work wherever ours do."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lpo.cli
from lpo import Agent, LPOError
from lpo.config import configure
from lpo.engine.device import Program
from lpo.engine.rollout import empty_rollout
from lpo.envs.device import make_device
from lpo.explorer import Explorer
from lpo.report.runs import Runs
from lpo.runs.directory import RunDirectory
from lpo.types import vector

SOURCE = Path(__file__).parents[1] / "docs" / "algorithms" / "example"
FLAGS = """
    --algo eniac --bonus counts --switch on-reward --count-bits 6 --env lpo/DeepSea-v0 --steps 640
    --num-envs 4 --rollout 160 --batch-size 16 --epochs 2 --hidden 8 --eval-every 320
    --checkpoint-every 160 --quiet
""".split()  # noqa: SIM905 - as it is typed


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The example of the docs as pip installs it, in a folder of its own."""
    source = tmp_path_factory.mktemp("source") / "lpo-counts"
    shutil.copytree(SOURCE, source)
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", folder, source], check=True, timeout=120)
    return folder


@pytest.fixture
def installed(site, monkeypatch):
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)  # for the workers of a sweep
    yield
    from lpo.bonus import BonusPart
    from lpo.switch import SwitchPart

    for known in (BonusPart.kinds.ours, BonusPart.kinds.defined):
        known.pop("counts", None)
    for known in (SwitchPart.kinds.ours, SwitchPart.kinds.defined):
        known.pop("on-reward", None)


def test_it_is_one_short_file():
    files = [path for path in SOURCE.iterdir() if path.suffix == ".py"]
    assert len(files) == 1 and len(files[0].read_text().splitlines()) <= 110


def test_the_fifth_visit_is_worth_one_over_the_root_of_five(installed):
    import lpo_counts  # pyright: ignore[reportMissingImports]

    bonus = lpo_counts.counts(3, bits=10)
    data = jax.tree.map(jnp.asarray, empty_rollout(4, 1, vector(3), 1))
    data = data._replace(next_obs=data.next_obs + 1.0, valid=jnp.ones((4, 1), bool))
    state = bonus.init(jax.random.key(0))
    np.testing.assert_allclose(bonus.score(state, data)[0], 1.0)
    state, metrics = bonus.update(state, data, None)
    assert int(metrics["bonus/cells"]) == 1
    np.testing.assert_allclose(bonus.score(state, data)[0], 5**-0.5, rtol=1e-6)


@pytest.mark.parametrize("door", ["explorer", "sb3"])
def test_its_bonus_works_in_other_trainers(installed, door):
    """b = 1/√(1 + n), and a rollout is scored before it is counted: 1 in the first one."""
    options = {"bonus": "counts", "count_bits": 6, "hidden": (4,), "epochs": 1, "batch_size": 16}
    if door == "explorer":
        box, steps = gymnasium.spaces.Box(-1, 1, (3,)), np.zeros((8, 1))
        explorer = Explorer(box, gymnasium.spaces.Discrete(2), 1, **options)
        obs = np.random.default_rng(0).normal(size=(9, 1, 3))
        found = explorer.advantages(obs[:-1], steps, steps, obs[1:], steps, steps, last_obs=obs[-1])
        metrics = found.metrics | explorer.update()
    else:
        sb3 = pytest.importorskip("stable_baselines3")
        explore = importlib.import_module("lpo.sb3").Explore(**options)
        model = sb3.PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, device="cpu")
        model.learn(8, callback=[explore], log_interval=None)
        metrics = model.logger.name_to_value
    assert metrics["bonus/mean"] == 1.0
    assert 1 <= metrics["bonus/cells"] <= 8


@pytest.mark.slow
def test_it_trains_resumes_and_loads_by_the_command(installed, tmp_path, capsys):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    lpo.cli.main(["train", *FLAGS, "--out", str(whole)])
    saved = json.loads((whole / "config.json").read_text())
    assert saved["bonus"]["kind"] == "counts" and saved["bonus"]["bits"] == 6
    shutil.copytree(whole, cut)
    for file in (cut / "checkpoints").glob("000000000640.*"):
        file.unlink()
    lpo.cli.main(["resume", str(cut), "--quiet"])
    rows = (cut / "metrics.jsonl").read_bytes()
    assert rows == (whole / "metrics.jsonl").read_bytes() and b"bonus/cells" in rows
    assert Agent.load(whole).config.bonus.kind == "counts"
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        lpo.cli.main(["train", "--bonus", "counts", "--help"])
    assert ended.value.code == 0 and "--count-bits" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        lpo.cli.main(["train", *FLAGS, "--count-bits", "0", "--out", str(tmp_path / "no")])
    assert "--count-bits must be" in capsys.readouterr().err


@pytest.mark.slow
def test_bonus_and_switch_run_on_a_device(installed):
    """DeepSea pays −.01/5 for a step to the right, and 1 in its corner: looks find the latter.

    Both runs begin alike, and switch where their own rewards say so.
    """
    import lpo_counts  # pyright: ignore[reportMissingImports]

    parts = {"bonus": lpo_counts.Counts(bits=4), "switch": lpo_counts.OnReward(rollout=40)}
    sizes = {"num_envs": 2, "batch_size": 8, "epochs": 1, "hidden": [4], "steps": 200}
    c = configure("eniac", env="lpo/DeepSea-v0", env_kwargs={"size": 2}, **parts, **sizes)
    program = Program(c, make_device(c.task))
    _, log = program.advance(program.init([0, 1], {}), {}, jnp.int32(200), iterations=5)
    rows, found = log["switch/rollout_steps"], log["switch/found"]
    assert (rows % 10 == 0).all() and rows.min() >= 10 and rows.max() <= 40  # looks are at 10, 20 …
    assert np.array_equal(np.where(found == 0, rows, 40), np.full(rows.shape, 40))  # else the whole
    assert found.max() == 1 and np.array_equal(found, log["rollout/reward_rate"] > 0)
    assert (np.asarray(log["bonus/cells"]) > 1).all()


def test_its_environment_is_found_and_says_what_success_is(installed, tmp_path, capsys):
    from lpo.envs.registry import register_foreign

    gymnasium.registry.pop("counts/Corridor-v0", None)
    register_foreign.cache_clear()
    flags = [*FLAGS, "--steps", "320", "--out", str(tmp_path / "run")]
    flags[flags.index("--env") + 1] = "counts/Corridor-v0"
    lpo.cli.main(["train", *flags])
    row = RunDirectory(tmp_path / "run").metrics()[-1]
    assert 0 <= row["eval/success"] <= 1 and "eval/normalized_return" not in row
    assert row["eval/success"] == row["eval/return"]  # it pays 1 for a success and nothing else
    assert "mode: success " in capsys.readouterr().out


@pytest.mark.slow
def test_it_works_in_a_sweep_and_in_a_report(installed, tmp_path):
    grid = tmp_path / "grid.toml"
    grid.write_text(
        'name = "counts"\nalgos = ["eniac"]\nenvs = ["lpo/DeepSea-v0"]\nseeds = 2\nsteps = 320\n'
        "[overrides]\nnum_envs = 4\nrollout = 160\nbatch_size = 16\nepochs = 1\nhidden = [8]\n"
        'eval_every = 160\n[variants.counts]\nbonus = "counts"\ncount_bits = 5\n'
        "[variants.plain]\n"
    )
    root = tmp_path / "runs"
    with pytest.raises(SystemExit) as ended:
        lpo.cli.main(["sweep", str(grid), "--out", str(root)])
    assert ended.value.code == 0
    runs = Runs([root])
    assert {run.label: run.options.get("count_bits") for run in runs.runs} == {
        "counts": 5,
        "plain": None,
    }
    lpo.cli.main(["report", str(root), "--no-clips", "--out", str(tmp_path / "report")])
    page = (tmp_path / "report" / "index.html").read_text()
    assert "count_bits" in page and "counts" in page


@pytest.mark.slow
def test_without_the_package_a_run_says_what_is_missing(site, tmp_path):
    out = tmp_path / "run"
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", "lpo.cli", "train", *FLAGS, "--out", str(out)]
    subprocess.run(command, check=True, env=environment, capture_output=True, timeout=120)
    with pytest.raises(LPOError, match=r"No bonus is called 'counts'; .*[.?]$"):
        RunDirectory.open(out).config()
