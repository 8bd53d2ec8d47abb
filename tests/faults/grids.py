"""Grids: a run, a worker of Ray, a node and the driver are killed in the middle of a grid."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lpo.sweep.worker import environment
from tests.faults.lives import contents, differences
from tests.faults.table import Result
from tests.sweep.test_ray import CLUSTER
from tests.sweep.test_sweep import long_grid, wait_for, workers_of

LPO = [sys.executable, "-m", "lpo.cli", "sweep"]
PATIENCE = 900.0  # seconds for a whole grid


class Sweep:
    """A sweep of four runs as a process."""

    def __init__(self, grid: Path, root: Path, *flags: str):
        self.root, self.words = root, [*LPO, str(grid), "--out", str(root), *flags]
        self.start()

    def start(self) -> None:
        self.said = self.root.with_suffix(".said").open("ab")
        self.process = subprocess.Popen(
            self.words, stdout=self.said, stderr=subprocess.STDOUT, env=environment()
        )

    def finished(self) -> bool:
        code = self.process.wait(PATIENCE)
        self.said.close()
        return code == 0

    def in_the_middle(self) -> list[int]:
        """Waits until a run has a checkpoint. Returns the processes that train."""
        wait_for(lambda: list(self.root.glob("*/checkpoints/0*.json")) or self.ended(), PATIENCE)
        return workers_of(self.root)

    def ended(self) -> bool:
        return self.process.poll() is not None


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill_run(sweep: Sweep, rng: random.Random) -> None:
    os.kill(rng.choice(sweep.in_the_middle()), signal.SIGKILL)


def kill_worker(sweep: Sweep, rng: random.Random) -> None:
    """Kills the process of Ray that looks after a run; the run ends with it."""
    os.kill(parent_of(rng.choice(sweep.in_the_middle())), signal.SIGKILL)


def kill_driver(sweep: Sweep, rng: random.Random) -> None:
    sweep.in_the_middle()
    sweep.process.kill()
    sweep.process.wait()
    sweep.start()  # the same command again


@contextlib.contextmanager
def cluster(log: Path) -> Iterator[tuple[Any, str]]:
    """A head and two nodes in a process of their own; a line in kills a node."""
    variables = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_health_check_period_ms": "500"}
    with open(log, "wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", CLUSTER],
            env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
    assert process.stdin and process.stdout
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(60)


def grids(work: Path, rng: random.Random, times: int) -> Iterator[Result]:
    """Yields the results of grids on this machine and on a Ray cluster."""
    grid, whole = long_grid(work), work / "whole-grid"
    shutil.rmtree(whole, ignore_errors=True)
    assert Sweep(grid, whole).finished(), (work / "whole-grid.said").read_text()
    expected = without_logs(whole)

    def trial(kind: str, deed: Any, *flags: str) -> Result:
        root = work / "cut-grid"
        shutil.rmtree(root, ignore_errors=True)
        sweep = Sweep(grid, root, *flags)
        deed(sweep, rng)
        lost = not sweep.finished()
        wrong = differences(expected, without_logs(root))
        return Result(kind, "grid of 4", lost=lost, equal=not (lost or wrong), why=str(wrong))

    for _ in range(times):
        yield trial("grid: driver killed", kill_driver)
    with cluster(work / "cluster.log") as (process, address):

        def kill_node(sweep: Sweep, rng: random.Random) -> None:
            sweep.in_the_middle()
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline().strip() == "killed"

        ray = ("--ray", address)
        for _ in range(times):
            yield trial("Ray: run killed", kill_run, *ray)
            yield trial("Ray: worker killed", kill_worker, *ray)
            yield trial("Ray: driver killed", kill_driver, *ray)
        yield trial("Ray: node killed", kill_node, *ray)


def without_logs(root: Path) -> dict[str, Any]:
    return {k: v for k, v in contents(root).items() if not k.endswith(".log")}
