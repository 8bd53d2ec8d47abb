"""The commands as a user types them: what they leave behind, what they say when it fails."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lpo import cli
from lpo.cli.train import read_command
from lpo.config import CHOICES, configure, leaves
from lpo.runs import checkpoint
from lpo.runs.directory import RunDirectory

TINY = """
    --steps 1200 --num-envs 4 --rollout 160 --batch-size 16 --epochs 2 --hidden 8 --eval-every 400
    --eval-episodes 2 --eval-max-steps 50 --checkpoint-every 300 --algo lpo
""".split()  # noqa: SIM905 - as it is typed


pytestmark = pytest.mark.usefixtures("faulty")


def lpo(*arguments: str) -> int:
    """Exit status of the command in this process."""
    try:
        cli.main([str(a) for a in arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    assert lpo("train", *TINY, "--threads", "1", "--out", out) == 0
    return out


def test_train_leaves_a_whole_run_directory(run, capsys):
    files = {"config.json", "task.json", "metrics.jsonl", "timing.jsonl", "curve.png"}
    files |= {"visits.json"}
    assert {p.name for p in run.iterdir()} == files | {"tensorboard", "checkpoints"}
    rows = RunDirectory(run).metrics()
    assert rows[-1]["env_steps"] == 1200 and "eval/return" in rows[-1]
    assert not any(key.startswith("time/") for row in rows for key in row)
    assert RunDirectory(run).timing()[-1]["time/env_steps_per_s"] > 0
    names = checkpoint.names(run / "checkpoints")
    assert len(names) == 3 and names[-1] == "000000001200"
    assert (run / "checkpoints" / "best.safetensors").exists()
    assert any((run / "tensorboard").iterdir())


def test_config_replays_a_run(run, tmp_path, capsys):
    assert lpo("train", "--config", run / "config.json", "--out", tmp_path / "again") == 0
    for name in ("metrics.jsonl", "checkpoints/000000001200.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes()
    assert (
        lpo("train", "--config", run / "config.json", "--seed", "5", "--out", tmp_path / "s5") == 0
    )
    assert json.loads((tmp_path / "s5" / "config.json").read_text())["seed"] == 5
    again = ["--algo", "ppo", "--steps", "160", "--out", tmp_path / "ppo"]
    assert lpo("train", "--config", run / "config.json", *again) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line[:7] for line in said[-4:]] == ["why    ", "try    ", "curve  ", "run    "]
    replayed = RunDirectory(tmp_path / "ppo").config()
    assert (replayed.algo, replayed.bonus.kind, replayed.network.hidden) == ("ppo", "none", (8,))


@pytest.mark.slow
def test_resume_goes_further_and_is_bit_equal(run, tmp_path, capsys):
    long, short = tmp_path / "long", tmp_path / "short"
    flags = [*TINY[2:], "--threads", "1", "--growth-iterations", "4"]
    assert lpo("train", "--steps", "1200", *flags, "--out", long) == 0
    assert lpo("train", "--steps", "1200", *flags, "--out", short) == 0
    # take away the last two checkpoints and what was logged after the first
    for name in checkpoint.names(short / "checkpoints")[1:]:
        (short / "checkpoints" / f"{name}.json").unlink()
    assert lpo("resume", short) == 0
    for name in ("metrics.jsonl", "checkpoints/000000001200.safetensors"):
        assert (short / name).read_bytes() == (long / name).read_bytes()
    capsys.readouterr()
    assert lpo("resume", short) == 0
    assert "pass --steps" in capsys.readouterr().out
    assert lpo("resume", short, "--steps", "1500") == 0
    assert RunDirectory(short).metrics()[-1]["env_steps"] >= 1500


def test_eval_plot_and_list(run, tmp_path, capsys):
    assert lpo("eval", run, "--episodes", "3", "--checkpoint", "last") == 0
    said = capsys.readouterr().out
    assert "over 3 episodes" in said and "step 1200" in said and "x_velocity > 0.7402" in said
    assert lpo("plot", run, run, "--out", tmp_path / "a.png") == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert lpo("list") == 0
    said = capsys.readouterr().out
    assert all(word in said for word in ("eniac", "SparseWalker2d", "hard", "paper"))


def test_help_names_every_option_of_the_papers_table(capsys):
    assert lpo("train", "--help") == 0
    said = capsys.readouterr().out
    table = "rollout gae-lambda gamma-int gamma-ext alpha beta learning-rate batch-size epochs"
    for flag in (*table.split(), "steps", "seed", "config", "out"):
        assert f"--{flag}" in said


def test_the_help_opens_with_the_five_options_that_matter(capsys):
    assert lpo("train", "--help") == 0
    opening = capsys.readouterr().out.split("the five to begin with:")[1].split("\n\n")[0]
    found = re.findall(r"^  --([a-z-]+)", opening, re.M)
    assert found == ["env", "steps", "seed", "out", "bonus"]


def test_help_into_a_pipe_that_closes_is_no_error():
    command = f"{sys.executable} -m lpo.cli --help | head -1"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert ended.stdout.startswith("usage: lpo") and "Traceback" not in ended.stderr


def test_the_help_shows_the_options_of_the_chosen_parts(capsys):
    said = {}
    for name, flags in {"ppo": ["--algo", "ppo"], "lpo-s": ["--algo=lpo-s"], "lpo": []}.items():
        assert lpo("train", *flags, "--help") == 0
        said[name] = capsys.readouterr().out
    assert "--beta" in said["lpo"] and "--beta" not in said["ppo"]
    assert "--switch-tau" in said["lpo-s"] and "--switch-tau" not in said["lpo"]
    assert "bonus (rnd)" in said["lpo"] and "switch (sensitivity)" in said["lpo-s"]
    assert lpo("train", "--bonus", "elliptic", "--start", "cover", "--help") == 0
    text = capsys.readouterr().out
    assert "--rollin-share" in text and "--num-features" in text
    assert "--predictor-passes" not in text


def test_rare_options_are_shown_on_request_and_accepted_always(capsys):
    rare = {f"--{leaf.short.replace('_', '-')}" for leaf in leaves(configure()) if leaf.option.rare}
    assert {"--adam-eps", "--eval-max-steps", "--weighing-memory"} <= rare
    shown = {}
    for words in (["--help"], ["--help", "--all"]):
        assert lpo("train", *words) == 0
        shown[len(words)] = set(re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.M))
    assert not rare & shown[1] and shown[2] == shown[1] | rare
    assert read_command(["--adam-eps", "1e-6"]).config.ppo.adam_eps == 1e-6
    assert lpo("train", "--all") == 2
    assert "--all belongs to --help" in capsys.readouterr().err


def test_the_help_offers_every_kind_that_can_be_chosen(capsys):
    assert lpo("train", "--help") == 0
    offered = re.findall(r"^  --(bonus|weighing) {(.*)}", capsys.readouterr().out, re.M)
    assert len(offered) == 2
    for name, kinds in offered:
        for kind in kinds.split(","):
            assert read_command([f"--{name}", kind]).config


def test_the_help_names_the_default_and_every_flag_that_chooses(capsys):
    assert lpo("--help") == 0
    assert "Without arguments: the default on SparseHopper" in capsys.readouterr().out
    assert lpo("train", "--help") == 0
    about = capsys.readouterr().out.split("options:")[0].split()
    chosen = ["algo", *CHOICES]
    named = [word.strip("(),.") for word in about if "--" in word and "help" not in word]
    assert named == [*(f"--{name}" for name in chosen), "--all"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--algo ppo --beta 2", "with bonus 'none'; leave it out, or choose --bonus rnd."),
        ("--bonus none --weighing fading", "with bonus 'none'; leave it out, or choose --bonus r"),
        ("--features product", "with bonus 'rnd'; leave it out, or choose --bonus elliptic."),
    ],
)
def test_a_hint_names_a_part_that_has_the_option(flags, words, capsys):
    assert lpo("train", *flags.split()) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("command", ["eval", "render", "card", "resume"])
def test_the_directory_of_a_sweep_names_the_runs_inside(command, tmp_path, capsys):
    for name in ("a", "b"):
        RunDirectory.create(tmp_path / name, configure("ppo"), {"backend": "native"})
    assert lpo(command, tmp_path) == 2
    said = capsys.readouterr().err
    assert f"holds 2 runs; pass one of them, such as {tmp_path / 'a'}." in said


def test_a_hint_for_runs_of_a_device_names_one_that_is_there(tmp_path, capsys, monkeypatch):
    RunDirectory.create(tmp_path / "a", configure("ppo"), {"backend": "device"})
    for gpus, device in (((), "cpu"), ((str(tmp_path),), "gpu")):
        monkeypatch.setattr("lpo.platform.GPUS", gpus)
        for path in (tmp_path, tmp_path / "a"):
            assert lpo("resume", path) == 2
            assert f"`lpo resume {tmp_path} --device {device}`" in capsys.readouterr().err
        assert lpo("train", "--seeds", "4") == 2
        assert f"add --device {device}" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["resume", "eval", "render", "plot"])
def test_what_is_not_a_run_is_refused(command, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("hello")
    assert lpo(command, tmp_path) == 2
    error = capsys.readouterr().err
    assert str(tmp_path) in error and len(error.strip().splitlines()) == 1


def test_a_run_is_never_written_over(run, capsys):
    before = (run / "metrics.jsonl").read_bytes()
    assert lpo("train", *TINY, "--out", run) == 2
    assert "lpo resume" in capsys.readouterr().err
    assert (run / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("Raises", "the motor is on fire"),
        ("NaN", "not finite|NaN|nan"),
        pytest.param("Shape", "shape", marks=pytest.mark.slow),
        pytest.param("Reward", "reward", marks=pytest.mark.slow),
        ("Hangs", "did not return within 0.5 seconds, the --step-timeout"),
    ],
)
def test_an_environment_that_breaks_leaves_the_last_checkpoint(env, words, tmp_path, capsys):
    out = tmp_path / "run"
    limit = ["--step-timeout", "0.5"] if env == "Hangs" else []
    assert lpo("train", *TINY, *limit, "--env", f"faulty:{env}-v0", "--out", out) == 2
    error = capsys.readouterr().err.strip()
    assert "\n" not in error
    assert any(word in error for word in words.split("|"))
    saved, problems = checkpoint.load_latest(out / "checkpoints")
    assert saved.record["env_steps"] == 348 and problems == []  # rollouts of 160 and 188


def test_a_damaged_checkpoint_is_passed_over_with_a_word(run, tmp_path, capsys):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    newest = copy / "checkpoints" / "000000001200.safetensors"
    newest.write_bytes(newest.read_bytes()[:-3])
    assert lpo("resume", copy) == 0
    assert "checksum" in capsys.readouterr().err
    assert (copy / "metrics.jsonl").read_bytes() == (run / "metrics.jsonl").read_bytes()


def test_no_command_and_wrong_command(capsys):
    assert lpo() == 2
    assert lpo("trian") == 2
    assert "did you mean 'train'" in capsys.readouterr().err
    assert lpo("--help") == 0
    assert lpo("--version") == 0


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_reported_and_the_run_resumes(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", disk], check=True)
    try:
        command = [sys.executable, "-m", "lpo.cli"]
        flags = [*TINY, "--keep-checkpoints", "50", "--checkpoint-every", "1", "--quiet"]
        ended = subprocess.run(
            [*command, "train", *flags, "--steps", "20000", "--out", disk / "run"],
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert ended.returncode == 2
        assert len(ended.stderr.strip().splitlines()) == 1
        assert "No space left" in ended.stderr and "lpo resume" in ended.stderr
        saved, problems = checkpoint.load_latest(disk / "run" / "checkpoints")
        assert problems == [] and saved.record["env_steps"] > 0
        subprocess.run(["mount", "-o", "remount,size=100m", disk], check=True)
        done = subprocess.run([*command, "resume", disk / "run", "--quiet"], timeout=300)
        assert done.returncode == 0
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_reader_that_goes_away_is_no_error():
    """As in `lpo doctor RUN | head`: the pipe is closed before anything is written."""
    old = Path(__file__).parents[1] / "data" / "run-0.2"
    command = [sys.executable, "-u", "-m", "lpo.cli", "doctor", old]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read().decode()
    assert said == "" and process.returncode == 141


def test_list_says_what_a_task_observes(capsys):
    pytest.importorskip("minigrid")
    cli.main(["list", "--env", "MiniGrid-DoorKey-8x8-v0"])
    said = capsys.readouterr().out
    assert "observes  1033 numbers (direction 4, image 1029)" in said
    assert "acts in   Discrete(7)" in said and "rnd, by the episode first-visit" in said
    cli.main(["list", "--env", "MiniGrid-DoorKey-8x8-v0", "--network", "cnn"])
    said = capsys.readouterr().out
    assert "direction: 4 numbers, image: image 7 × 7 × 3 of codes" in said
    assert "cnn: 260 features of it" in said
