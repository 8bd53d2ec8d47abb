"""Sweeps: the same runs as tasks of a Ray cluster.

A task is one worker process on some node, with one core or one GPU. Ray retries it where a node is
lost or the process is killed, and the retry goes on from the run directory, which every node must
see.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lpo.errors import LPOError
from lpo.platform import GPU_LOOPS, IMPORT, trusted_packages
from lpo.sweep.board import Board
from lpo.sweep.local import PATIENCE, TICK, stop_flag
from lpo.sweep.plan import PLAN, last_words, log_file
from lpo.sweep.worker import command, environment

RETRIES = 20  # of one run, after a lost node or a killed process
PLATFORM: dict[str, dict[str, str]] = {
    "cpu": {},
    "gpu": {"JAX_PLATFORMS": "cuda,cpu", "XLA_FLAGS": GPU_LOOPS},
}


class Killed(Exception):
    """The process of a run was killed from outside; Ray tries it again."""


def load_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise LPOError("--ray needs Ray; run `pip install 'lpo-rl[ray]'`.") from error
    return ray


def work_on_node(root: str, name: str, packages: list[str], module: str, device: str) -> int:
    """Runs ``name`` on the node that Ray chose. Returns its exit status.

    ``packages`` are those that the user has trusted where the sweep was started. Ray has chosen the
    GPU, where ``device`` is "gpu".
    """
    if not (Path(root) / PLAN).exists():
        raise LPOError(f"A node does not see {root}; pass an --out on storage that all share.")
    # Ray cancels by calling the handler of SIGINT. Python installs none where a node was started
    # with SIGINT ignored (`ray start &` in a script), and the cancellation would be lost.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with open(log_file(Path(root), name), "ab") as log:
        log.write(b"taken by a node\n")
        log.flush()
        process = subprocess.Popen(
            command(Path(root), name, None, module),
            env=environment(**PLATFORM[device]) | {IMPORT: ",".join(packages)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        while process.poll() is None:  # in short waits: Ray's cancellation does not wake a long one
            time.sleep(TICK)
    except KeyboardInterrupt:  # cancelled: a checkpoint is written first
        process.terminate()
        return process.wait(PATIENCE)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode < 0:
        raise Killed(f"killed by signal {-process.returncode}")
    return process.returncode


def run_on_ray(
    root: Path,
    names: Sequence[str],
    address: str,
    board: Board,
    module: str = "lpo.sweep.worker",
    device: str = "cpu",
) -> bool:
    """Runs ``names`` on the cluster at ``address``. Returns False if a signal stopped it.

    ``module`` is what a process runs, with one core, or one GPU where ``device`` is "gpu".
    """
    ray, root = load_ray(), root.resolve()
    connect(ray, address)
    try:
        kind = device.upper()  # Ray's word for cores and GPUs
        board.workers = max(int(ray.cluster_resources().get(kind, 1)), 1)
        needs = {"num_gpus": 1} if device == "gpu" else {"num_cpus": 1}
        task = ray.remote(**needs, max_retries=RETRIES, retry_exceptions=[Killed])(work_on_node)
        sizes = {name: log_size(root, name) for name in names}
        waiting = set(names)  # until a node writes to the log
        packages = trusted_packages()
        tasks = {task.remote(str(root), name, packages, module, device): name for name in names}
        with stop_flag() as stopped:
            while tasks and not stopped:
                ready, _ = ray.wait(list(tasks), timeout=1.0)
                for name in [n for n in waiting if log_size(root, n) != sizes[n]]:
                    waiting.discard(name)
                    board.begin(name)
                for ref in ready:
                    finish(ray, root, ref, tasks.pop(ref), board)
                board.refresh()
                given_up = {ref: n for ref, n in tasks.items() if board.gives_up(n)}
                cancel(ray, given_up, board, "pruned")
                tasks = {ref: n for ref, n in tasks.items() if ref not in given_up}
            if stopped:
                cancel(ray, tasks, board)
        return not stopped
    finally:
        ray.shutdown()


def connect(ray: Any, address: str) -> None:
    try:
        reach(address)
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise LPOError(
            f"No Ray cluster answers at {address} ({why}); start one with `ray start --head` and "
            "pass the address that it prints."
        ) from error


def reach(address: str) -> None:
    """Raises OSError at once where nobody listens: Ray itself would go on trying for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def log_size(root: Path, name: str) -> int:
    path = log_file(root, name)
    return path.stat().st_size if path.exists() else 0


def finish(ray: Any, root: Path, ref: Any, name: str, board: Board) -> None:
    try:
        code = ray.get(ref)
        words = last_words(root, name)
    except ray.exceptions.RayError as error:
        code, words = 1, str(getattr(error, "cause", None) or error).strip().splitlines()[-1]
    if code == 0:
        board.end(name, "done")
    else:
        board.end(name, "failed", f"{words} (log: {log_file(root, name)})")


def cancel(ray: Any, tasks: dict[Any, str], board: Board, state: str = "paused") -> None:
    """Stops all tasks; those that run write a checkpoint first."""
    if not tasks:
        return
    for ref in tasks:
        ray.cancel(ref, force=False)
    ray.wait(list(tasks), num_returns=len(tasks), timeout=PATIENCE)
    for name in tasks.values():
        if board.tracks[name].state == "running":
            board.end(name, state)
