"""The grid on a real Ray cluster of several nodes: a node that is killed loses no run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lpo.runs.directory import RunDirectory
from lpo.sweep.grid import read_grid
from lpo.sweep.plan import log_file, standing
from tests.sweep.test_sweep import long_grid, lpo, wait_for, workers_of


def test_a_missing_ray_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    grid = long_grid(tmp_path)
    assert lpo("sweep", grid, "--out", tmp_path / "out", "--ray", "auto") == 2
    assert "pip install 'lpo-rl[ray]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert lpo("sweep", grid, "--ray", "auto", "--workers", "1") == 2
    assert "leave one out" in capsys.readouterr().err


CLUSTER = """
import signal, sys
from ray.cluster_utils import Cluster

signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited by the nodes, as from a script's `&`
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
print(cluster.address, flush=True)
sys.stdin.readline()
cluster.remove_node(nodes[0], allow_graceful=False)
print("killed", flush=True)
sys.stdin.readline()
cluster.shutdown()
"""


@pytest.fixture
def cluster(tmp_path):
    """A head without cores and two nodes, in a process of their own; a line in kills a node."""
    environment = {
        **os.environ,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_health_check_period_ms": "500",
    }
    errors = (tmp_path / "cluster.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
    )  # fmt: skip
    assert process.stdin and process.stdout
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(60)
        errors.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_node_killed_in_the_middle_loses_no_run(tmp_path, cluster):
    process, address = cluster
    grid, local, root = long_grid(tmp_path), tmp_path / "local", tmp_path / "ray"
    names = [item.name for item in read_grid(grid).items]
    command = [sys.executable, "-m", "lpo.cli", "sweep", str(grid)]
    said = (tmp_path / "said.txt").open("wb")
    sweep = subprocess.Popen([*command, "--out", str(root), "--ray", address], stdout=said)
    wait_for(lambda: list(root.glob("*/checkpoints/0*.json")) and len(workers_of(root)) == 2, 180)
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline().strip() == "killed"
    assert sweep.wait(400) == 0
    said.close()
    assert "4/4 done" in (tmp_path / "said.txt").read_text()
    taken = [Path(f"{root / name}.log").read_text().count("taken by a node") for name in names]
    assert sum(taken) > len(names)  # at least one run was begun twice
    assert subprocess.run([*command, "--out", str(local)], timeout=400).returncode == 0
    for name in names:
        for file in ("metrics.jsonl", "checkpoints/000000024000.safetensors"):
            assert (root / name / file).read_bytes() == (local / name / file).read_bytes(), name


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_stopped_sweep_leaves_checkpoints_and_a_failed_run_is_named(tmp_path, cluster):
    _, address = cluster
    root, grid = tmp_path / "ray", long_grid(tmp_path, 120_000)  # not done before it is stopped
    command = [sys.executable, "-m", "lpo.cli", "sweep", str(grid), "--ray", address, "--out"]
    sweep = subprocess.Popen([*command, str(root)], stdout=subprocess.DEVNULL)
    wait_for(lambda: list(root.glob("*/checkpoints/0*.json")), 180)
    sweep.send_signal(signal.SIGINT)
    assert sweep.wait(90) == 130
    wait_for(lambda: not workers_of(root), 30)
    names = [item.name for item in read_grid(grid).items]
    states = [standing(root, item) for item in read_grid(grid).items]
    rows = [RunDirectory(root / name).latest_metrics() for name in names]
    assert any(s.state == "started" for s in states), states
    assert all(s.env_steps == r["env_steps"] for s, r in zip(states, rows, strict=True) if r)
    for name, s in zip(names, states, strict=True):
        if s.state != "new":  # it was asked to stop, and neither finished nor was killed
            assert f"Stopped at step {s.env_steps};" in log_file(root, name).read_text(), s
    for name in names[1:]:  # leave one to do, and break the others
        (root / name).mkdir(exist_ok=True)
        (root / name / "thesis.tex").write_text("all my work")
        for record in (root / name).glob("checkpoints/0*.json"):
            record.unlink()
    ended = subprocess.run([*command, str(root)], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1 and "1/4 done" in ended.stdout and "3 failed" in ended.stdout
    assert ended.stdout.count("thesis.tex, which is not a file of a run; move it away. (log: ") == 3


GROUPS = """
name = "groups"
algos = ["ppo", "eniac"]
envs = ["lpo/DeepSea-v0"]
seeds = 2
steps = 12_000
[overrides]
num_envs = 4
rollout = 64
batch_size = 16
epochs = 2
hidden = [8]
eval_every = 256
checkpoint_every = 64
env_kwargs = {size = 5}
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_groups_run_one_to_a_device_and_survive_a_node(tmp_path, cluster):
    """Cores stand in for GPUs. The bytes are those of the same groups one after the other."""
    process, address = cluster
    grid, local, root = tmp_path / "grid.toml", tmp_path / "local", tmp_path / "ray"
    grid.write_text(GROUPS)
    command = [sys.executable, "-m", "lpo.cli", "sweep", str(grid), "--device", "cpu"]
    said = (tmp_path / "said.txt").open("wb")
    sweep = subprocess.Popen([*command, "--out", str(root), "--ray", address], stdout=said)
    wait_for(lambda: len(list(root.glob("device/*/0*.json"))) >= 2, 240)
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline().strip() == "killed"
    assert sweep.wait(400) == 0
    said.close()
    assert "2/2 done" in (tmp_path / "said.txt").read_text()
    logs = [path.read_text() for path in root.glob("group-*.log")]
    assert len(logs) == 2 and sum(log.count("taken by a node") for log in logs) >= 3
    assert subprocess.run([*command, "--out", str(local)], timeout=400).returncode == 0
    for item in read_grid(grid).items:
        for file in ("metrics.jsonl", "checkpoints/000000012000.safetensors"):
            assert (root / item.name / file).read_bytes() == (local / item.name / file).read_bytes()
