"""What a device does not heed is refused; what it heeds beside training: quiet, and more steps."""

import contextlib
import json
import shutil
from typing import Any

import pytest

import lpo.cli
from lpo import LPOError
from lpo.config import configure, host_only, with_options
from lpo.engine.device import GroupTrainer
from lpo.runs.directory import RunDirectory
from lpo.sweep.device import disk_errors, refuse_host_only
from lpo.sweep.grid import Item, expand
from lpo.sweep.plan import read_plan, standing

REFUSED: dict[str, Any] = {
    "backend": "gymnasium",
    "threads": 3,
    "step_timeout": 2.5,
    "env_workers": 2,
    "wrapper": "tests.envs.toys:Walk",
    "keep_checkpoints": 1,
    "loggers": ("tensorboard", "wandb"),
}
TINY = """
    --env lpo/DeepSea-v0 --env-kwargs {"size":5} --num-envs 4 --rollout 2048 --batch-size 64
    --epochs 1 --hidden 8 --eval-every 8192 --seeds 2 --device cpu
""".split()  # noqa: SIM905 - as it is typed
GRID = """
name = "g"
algos = ["ppo"]
envs = ["lpo/SparseHopper-v0"]
seeds = 2
steps = 4096
[overrides]
"""


def command(*arguments: object) -> int:
    try:
        lpo.cli.main([str(a) for a in arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_the_options_of_the_host_alone_are_marked():
    assert set(host_only(configure())) >= set(REFUSED)


@pytest.mark.parametrize("name", REFUSED)
def test_an_option_of_the_host_is_refused_before_anything_is_written(name, tmp_path, capsys):
    value = REFUSED[name]
    flag, words = "--" + name.replace("_", "-"), value if isinstance(value, tuple) else (value,)
    assert command("train", *TINY, flag, *words, "--out", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert said.startswith(f"lpo: {flag} {' '.join(map(str, words))} is for runs on the host")
    assert f"leave {flag} out, or leave --device out." in said
    for kind, search in {"sweep": "", "tune": "[search]\nlearning_rate = [1e-4, 1e-3]\n"}.items():
        given = json.dumps(value)
        (tmp_path / "g.toml").write_text(f"{GRID}{name} = {given}\n{search}")
        flags = [tmp_path / "g.toml", "--device", "cpu", "--out", tmp_path / "out"]
        assert command(kind, *flags) == 2
        assert f"leave {flag} out" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["g.toml"]


def test_what_nobody_asked_for_is_not_refused():
    """The default loggers, none at all, and the one thread that a sweep gives to a run."""
    refuse_host_only([Item("a", "a", configure()), Item("b", "b", configure(loggers=()))])
    values = {"name": "g", "algos": ["ppo"], "envs": ["lpo/SparseHopper-v0"], "seeds": 1}
    grid = expand(values | {"steps": 4096}, device=True)
    refuse_host_only(grid.items)
    with pytest.raises(LPOError, match="threads 1 is for runs on the host"):
        refuse_host_only(expand(values | {"steps": 4096}).items)


def test_a_sweep_that_an_older_version_began_goes_on(tmp_path):
    """It wrote a thread for each run."""
    c = configure("ppo", env="lpo/SparseHopper-v0")
    old = with_options(c, {"threads": 1})
    RunDirectory.create(tmp_path / "device", old, {"backend": "device"})
    RunDirectory.create(tmp_path / "host", old, {"backend": "native"})
    assert standing(tmp_path, Item("device", "ppo", c)).state == "new"
    with pytest.raises(LPOError, match="made with threads 1, and the grid says None"):
        standing(tmp_path, Item("host", "ppo", c))


@pytest.mark.slow
def test_runs_of_a_device_go_on_to_more_steps_with_the_same_bytes(tmp_path, capsys, monkeypatch):
    """Two runs to 8,192 and on to 16,384, killed on the way, are two runs to 16,384."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert command("train", *TINY, "--steps", 16384, "--out", whole) == 0
    assert command("train", *TINY, "--steps", 8192, "--out", cut) == 0
    capsys.readouterr()
    for more in ([], ["--steps", 4096], ["--steps", 8192]):
        assert command("resume", cut, "--device", "cpu", *more) == 0
        said = capsys.readouterr().out
        assert said == f"{cut} is complete at 8192 steps; pass --steps to continue.\n"

    stopped: list[int] = []
    turn = GroupTrainer.turn
    with monkeypatch.context() as patch:
        patch.setattr("lpo.sweep.device.stop_flag", lambda: contextlib.nullcontext(stopped))
        patch.setattr(GroupTrainer, "turn", lambda *a: stopped.append(2) or turn(*a))
        patch.setattr(GroupTrainer, "turns", lambda *a: 1)
        assert command("resume", cut, "--device", "cpu", "--steps", 16384) == 130
    said = capsys.readouterr().out
    assert "2 to do" in said and "10,240 / 16,384" in said and "lpo resume" in said
    assert {item.goal for item in read_plan(cut).items} == {16384}
    assert command("resume", cut, "--device", "cpu", "--quiet") == 0
    assert capsys.readouterr().out == f"All done; look at them with `lpo report {cut}`.\n"

    runs = sorted(p.name for p in whole.iterdir() if RunDirectory(p).exists)
    assert len(runs) == 2
    for name in runs:
        file = "checkpoints/000000016384.safetensors"
        assert (cut / name / file).read_bytes() == (whole / name / file).read_bytes()
        rows, others = (RunDirectory(root / name).metrics() for root in (cut, whole))
        claimed = next(row for row in rows if row["env_steps"] == 8192)  # its end at first
        assert "best/return" in claimed and "best/return" in rows[-1]
        for found in (*rows[:-1], *others[:-1]):
            found |= {key: None for key in found if key.startswith("best/")}
        assert [{k: v for k, v in row.items() if v is not None} for row in rows] == others
        assert (
            RunDirectory(cut / name).config().steps == 8192
        )  # what it was made with, as on a host
    assert command("resume", cut, "--device", "cpu") == 0
    assert "complete at 16384 steps" in capsys.readouterr().out


@pytest.mark.slow
def test_runs_without_the_state_of_their_group_are_not_touched(tmp_path, capsys):
    out = tmp_path / "out"
    assert command("train", *TINY, "--steps", 2048, "--out", out, "--quiet") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("All done") and said[1].startswith("run    ")  # no progress
    shutil.rmtree(out / "device")
    before = {p: p.read_bytes() for p in out.glob("*/**/*") if p.is_file()}
    assert command("resume", out, "--device", "cpu", "--steps", 4096) == 2
    assert "no state from which they could go on" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in out.glob("*/**/*") if p.is_file()} == before


def test_a_reader_that_goes_away_is_no_error_of_the_disk(tmp_path):
    with pytest.raises(BrokenPipeError), disk_errors(tmp_path, "cpu"):
        raise BrokenPipeError
    with pytest.raises(LPOError, match="free some space"), disk_errors(tmp_path, "cpu"):
        raise OSError(28, "No space left on device")


def test_a_plan_says_a_sound_goal(tmp_path):
    from lpo.sweep.grid import Grid
    from lpo.sweep.plan import write_plan

    item = Item("a", "a", configure("ppo"), until=900_000)
    write_plan(tmp_path, Grid("g", [item]))
    assert read_plan(tmp_path).items == [item] and item.goal == 900_000
    plan = json.loads((tmp_path / "sweep.json").read_text())
    plan["runs"][0]["until"] = -1
    (tmp_path / "sweep.json").write_text(json.dumps(plan))
    with pytest.raises(LPOError, match="until is -1"):
        read_plan(tmp_path)
