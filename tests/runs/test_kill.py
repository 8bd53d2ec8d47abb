"""A run killed anywhere and resumed ends bit-equal to one that was never killed."""

import random
import signal
import subprocess
import sys
import time

import pytest

COMMAND = [sys.executable, "-m", "lpo.cli"]
FLAGS = """
    --steps 24000 --num-envs 4 --rollout 320 --batch-size 32 --epochs 4 --eval-every 2000
    --eval-episodes 2 --eval-max-steps 100 --checkpoint-every 300 --threads 1 --quiet
""".split()  # noqa: SIM905 - as it is typed


def finish(*arguments):
    subprocess.run([*COMMAND, *arguments, "--quiet"], check=True, timeout=300, capture_output=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "env", ["lpo/SparseHopper-v0", "MountainCarContinuous-v0"], ids=["native", "gymnasium"]
)
def test_sigkill_anywhere_loses_nothing(env, tmp_path):
    flags = [*FLAGS, "--env", env]
    flags = flags if env.startswith("lpo/") else [f for f in flags if f not in ("--threads", "1")]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    finish("train", *[f for f in flags if f != "--quiet"], "--out", str(whole))
    rng = random.Random(env)
    kills, arguments = 0, ["train", *flags, "--out", str(cut)]
    for _ in range(5):
        process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not any((cut / "checkpoints").glob("*.json")) and time.monotonic() < deadline:
            time.sleep(0.05)
        before = {p.name for p in (cut / "checkpoints").glob("*.json")}
        while process.poll() is None and time.monotonic() < deadline:
            if {p.name for p in (cut / "checkpoints").glob("*.json")} != before:
                break  # it has got somewhere
            time.sleep(0.02)
        time.sleep(rng.uniform(0.0, 0.3))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
        arguments = ["resume", str(cut), "--quiet"]
    finish("resume", str(cut))
    assert kills >= 3
    last = "checkpoints/000000024000.safetensors"
    for name in ("metrics.jsonl", last, "checkpoints/best.safetensors", "config.json"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes(), name


@pytest.mark.slow
def test_an_interrupt_checkpoints_and_says_how_to_go_on(tmp_path):
    out = tmp_path / "run"
    flags = ["--steps", "2000000", *FLAGS[2:]]
    process = subprocess.Popen(
        [*COMMAND, "train", *flags, "--out", str(out)], stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not any((out / "checkpoints").glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert f"lpo resume {out}" in said
