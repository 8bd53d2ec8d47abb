"""Groups of runs as processes that share a device."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import jax
import pytest

from lpo.sweep.cluster import PLATFORM
from lpo.sweep.grid import read_grid
from lpo.sweep.group import MPS, shared_gpu

from .test_device import command

GRID = """
name = "beside"
algos = ["ppo", "rnd"]
envs = ["lpo/DeepSea-v0"]
seeds = 2
steps = 512
[overrides]
num_envs = 4
rollout = 64
batch_size = 16
epochs = 2
hidden = [8]
eval_every = 256
env_kwargs = {size = 5}
"""


@pytest.mark.slow
def test_programs_beside_each_other_end_as_one_after_the_other(tmp_path):
    grid = tmp_path / "grid.toml"
    grid.write_text(GRID)
    alone, beside = tmp_path / "alone", tmp_path / "beside"
    sweep = [sys.executable, "-m", "lpo.cli", "sweep", str(grid), "--device", "cpu", "--out"]
    assert subprocess.run([*sweep, str(alone)], timeout=300).returncode == 0
    said = subprocess.run([*sweep, str(beside), "--workers", "2"], timeout=300, text=True,
                          capture_output=True)  # fmt: skip
    assert said.returncode == 0 and "2/2 done" in said.stdout
    for item in read_grid(grid).items:
        for file in ("metrics.jsonl", "checkpoints/000000000512.safetensors"):
            own, other = (root / item.name / file for root in (alone, beside))
            assert own.read_bytes() == other.read_bytes()


def test_a_missing_gpu_is_said_before_anything_is_written(tmp_path, capsys, monkeypatch):
    grid = tmp_path / "grid.toml"
    grid.write_text(GRID)
    if not any(d.platform == "gpu" for d in jax.devices()):
        flags = ["--device", "gpu", "--workers", "2", "--out", str(tmp_path / "no")]
        # whoever asks for the devices takes a place on the GPU, so the parent must not
        monkeypatch.setattr(jax, "devices", None)
        assert command("sweep", grid, *flags) == 2
        assert "JAX sees no gpu here" in capsys.readouterr().err
        assert not (tmp_path / "no").exists()


def service(folder, monkeypatch, answers: str) -> None:
    """Puts a stand-in for NVIDIA's service on the path; it writes down what it was told."""
    path = folder / MPS
    path.write_text(
        f'#!/bin/sh\nwords=$1\n[ -n "$words" ] || read words\n'
        f'echo "$words $CUDA_MPS_PIPE_DIRECTORY" >> {folder}/told\n'
        f'case "$words" in {answers} esac\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)


def test_the_service_is_started_and_ended(tmp_path, monkeypatch):
    service(tmp_path, monkeypatch, "get_server_list) exit 1;; *) exit 0;;")
    with shared_gpu() as variables:
        folder = variables["CUDA_MPS_PIPE_DIRECTORY"]
        assert os.path.isdir(folder)
    told = (tmp_path / "told").read_text().split("\n")
    assert told[:3] == ["get_server_list ", f"-d {folder}", f"quit {folder}"]
    assert not os.path.exists(folder)


def test_a_service_that_runs_is_used(tmp_path, monkeypatch):
    service(tmp_path, monkeypatch, "*) exit 0;;")
    with shared_gpu() as variables:
        assert variables == {}
    assert (tmp_path / "told").read_text() == "get_server_list \n"


def test_a_service_that_does_not_start_is_said(tmp_path, monkeypatch, capsys):
    service(tmp_path, monkeypatch, "*) exit 1;;")
    with shared_gpu() as variables:
        assert variables == {}
    assert "take turns" in capsys.readouterr().out


def test_a_process_on_a_gpu_also_has_the_host():
    """First weights are drawn there, so that they have the same bits on every device."""
    assert PLATFORM["gpu"]["JAX_PLATFORMS"].split(",") == ["cuda", "cpu"]
