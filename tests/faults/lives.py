"""Lives of a run: processes that are forked from one that has imported everything.

The parent never touches a JAX backend, so every child can start its own. A fork costs a hundredth
of a new interpreter, and compiled programs come from a cache on disk. What a child is doing lies in
memory that outlives it. The kernel kills it at a moment that was drawn before.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import hashlib
import json
import mmap
import os
import pickle
import select
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy
from jax.experimental import serialize_executable
from jax.experimental.compilation_cache import compilation_cache

from lpo.config import Config, configure
from lpo.engine import host
from lpo.engine.device import Program
from lpo.engine.host import Trainer
from lpo.errors import LPOError
from lpo.math import trees
from lpo.runs import checkpoint
from lpo.runs.directory import RunDirectory
from lpo.runs.group import GroupFiles
from lpo.runs.journal import Journal
from lpo.runs.loggers import TensorBoard
from lpo.runs.run import Run, RunFiles, resume, start
from lpo.runs.session import Session, stopping_on_signals
from lpo.sweep import device
from lpo.sweep.device import sweep_on_device
from lpo.sweep.grid import Grid, Item
from lpo.sweep.worker import die_with

ROWS = ("lpo", "lpo-s", "eniac", "rnd", "pcpg", "eniac-original", "ppo")
SMALL: dict[str, Any] = dict(
    steps=1600, num_envs=4, rollout=160, batch_size=16, epochs=2, hidden=(8,), eval_every=480,
    eval_episodes=2, eval_max_steps=50, checkpoint_every=300,
)  # fmt: skip
TASKS: dict[str, dict[str, Any]] = {
    "native": dict(env="lpo/SparseHopper-v0", threads=1),
    "gymnasium": dict(env="MountainCarContinuous-v0"),
    "finite": dict(env="lpo/DeepSea-v0", env_kwargs={"size": 6}),
    "device": dict(env="lpo/DeepSea-v0", env_kwargs={"size": 6}, checkpoint_every=32),
    "strange": dict(env="Strange-v0", step_timeout=5.0),  # of tests.faults.others
    "image": dict(env="Dot-v0", image_features=16),
    "memory": dict(env="Cue-v0", network="gru", stretch=8, memory_size=16),
    "workers": dict(env="MountainCarContinuous-v0", env_workers=2),
}
GUESTS = ("image", "memory", "workers")
for name in ("Dot", "Cue"):
    gymnasium.register(f"{name}-v0", f"tests.network.guests:{name}")
VOLATILE = ("seconds", "logs", "log_sha256", "record_sha256")  # of a checkpoint's record: seconds
PHASES = ("opening", "rollout", "update", "evaluation", "log write", "checkpoint write")


class Case(NamedTuple):
    """A run of the harness."""

    row: str
    task: str

    @property
    def name(self) -> str:
        return f"{self.row}-{self.task}"

    @property
    def config(self) -> Config:
        return configure(self.row, **(SMALL | TASKS[self.task]))

    def train(self, out: Path) -> None:
        """Goes on with the run in ``out`` as a user would: starts it, or resumes what is there."""
        c = self.config
        if self.task == "device":
            items = [Item(f"run-s{s}", self.row, dataclasses.replace(c, seed=s)) for s in range(2)]
            if sweep_on_device(Grid("faults", items), out, "cpu"):
                raise KeyboardInterrupt
            return
        train(start(c, out), c.steps)

    def go_on(self, out: Path) -> None:
        if self.task == "device" or not RunDirectory(out).exists:
            return self.train(out)
        found = resume(out)
        for problem in found.problems:
            print(f"warning: {problem}", flush=True)
        train(found.run, found.until)


def train(run: Run, until: int) -> None:
    with run, stopping_on_signals(run):
        run.advance(until)
    if run.stop_requested:
        raise KeyboardInterrupt


class Kept:
    """A jitted function whose compiled program lies in a file after its first call."""

    def __init__(self, jitted: Any, folder: Path, name: str):
        self.jitted, self.call = jitted, None
        self.file = folder / f"{hashlib.sha256(name.encode()).hexdigest()}.program"

    def __call__(self, *args: Any, **static: Any) -> Any:
        if self.call is None:
            if not self.file.exists():
                self.compile(*args, **static)
            find_lapack()
            self.call = serialize_executable.deserialize_and_load(
                *pickle.loads(self.file.read_bytes())
            )
        return self.call(*args)

    def compile(self, *args: Any, **static: Any) -> None:
        with no_cache():  # what comes out of the cache cannot be written again
            found = serialize_executable.serialize(self.jitted.lower(*args, **static).compile())
        self.file.with_suffix(".tmp").write_bytes(pickle.dumps(found))
        self.file.with_suffix(".tmp").rename(self.file)


@functools.cache
def find_lapack() -> None:
    """Does what tracing a program does: without it, calls of LAPACK in one from a file crash."""
    jax.jit(jnp.linalg.cholesky).lower(np.eye(2))


@contextlib.contextmanager
def no_cache() -> Iterator[None]:
    for used in (False, True):
        jax.config.update("jax_enable_compilation_cache", used)
        compilation_cache.reset_cache()
        if not used:
            yield


def remember(folder: Path) -> None:
    """Lets processes read first weights and compiled programs from files of this harness.

    To trace them again takes a second of every life.
    """
    folder.mkdir(exist_ok=True)
    draw, compiled, make = host.init_state, host.compiled, Program.__init__

    def first(parts: Any, seed: int) -> Any:
        like = jax.eval_shape(functools.partial(draw, parts, seed))
        name = hashlib.sha256(f"{seed} {like}".encode()).hexdigest()
        file = folder / f"{name}.safetensors"
        if not file.exists():
            checkpoint.write_atomically(
                file, safetensors.numpy.save(trees.flatten("first", draw(parts, seed)))
            )
        return trees.unflatten("first", like, safetensors.numpy.load_file(file))

    def with_kept(c: Config, space: Any) -> Any:
        parts, learn = compiled(c, space)
        return parts, Kept(learn, folder, f"{dataclasses.replace(c, seed=0)} {space}")

    def program(self: Program, c: Config, env: Any, compute: Any = None) -> None:
        make(self, c, env, compute)
        for name in ("advance", "evaluate"):
            setattr(self, name, Kept(getattr(self, name), folder, f"{name} {c} {env}"))

    host.init_state, host.compiled, Program.__init__ = first, with_kept, program


CASES = [
    Case(row, task)
    for task in TASKS
    if task != "strange"
    for row in (("default", "lpo", "lpo-s", "ppo") if task in GUESTS else ROWS)
]  # covers read vectors and remember nothing


# -- what a process does, and when it is killed


class Order(NamedTuple):
    """When to die: in the n-th entry of a phase, after some seconds or at a call."""

    phase: str
    entry: int
    seconds: float
    call: int | None = None  # at this call that changes a file, instead of the seconds


class Watch:
    """Phase, entries and seconds of every phase, in memory that the parent shares."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 8 * (1 + 2 * len(PHASES)))

    def _get(self, i: int) -> float:
        return struct.unpack_from("d", self.memory, 8 * i)[0]

    def _set(self, i: int, value: float) -> None:
        struct.pack_into("d", self.memory, 8 * i, value)

    @property
    def phase(self) -> str:
        return PHASES[int(self._get(0))]

    def entries(self, phase: str) -> int:
        return int(self._get(1 + 2 * PHASES.index(phase)))

    def seconds(self, phase: str) -> float:
        """Seconds of the last entry; the first one may compile."""
        return self._get(2 + 2 * PHASES.index(phase))

    @contextlib.contextmanager
    def inside(self, phase: str, order: Order | None) -> Iterator[None]:
        i, before, began = PHASES.index(phase), self._get(0), time.perf_counter()
        self._set(0, i)
        self._set(1 + 2 * i, self._get(1 + 2 * i) + 1)
        if order and order.phase == phase and order.entry == self.entries(phase):
            if order.call is None:
                kill_after(order.seconds)
            else:
                kill_at_call(order.call)
        try:
            yield
        finally:
            self._set(0, before)
            self._set(2 + 2 * i, time.perf_counter() - began)

    def install(self, order: Order | None) -> None:
        """Marks the phases of this process. Call it in the child only."""
        for owner, name, phase in (
            (Trainer, "collect", "rollout"),
            (Trainer, "evaluate", "evaluation"),
            (Journal, "write", "log write"),
            (TensorBoard, "write", "log write"),
            (RunDirectory, "create", "checkpoint write"),
            (RunFiles, "save", "checkpoint write"),
            (Session, "keep_best", "checkpoint write"),
            (GroupFiles, "save", "checkpoint write"),
            (GroupFiles, "finish", "checkpoint write"),
            (device, "write_plan", "checkpoint write"),
        ):
            mark(owner, name, lambda phase=phase: self.inside(phase, order))
        begin, make, watch = Trainer.__init__, Program.__init__, self

        def with_learn(self: Any, *args: Any, **kwargs: Any) -> None:
            begin(self, *args, **kwargs)
            learn = self.learn
            self.learn = lambda *args: jax.block_until_ready(learn(*args))
            mark(self, "learn", lambda: watch.inside("update", order))

        Trainer.__init__ = with_learn

        def with_marks(self: Any, c: Config, env: Any, compute: Any = None) -> None:
            make(self, c, env, compute)
            # one compiled program collects and learns, so an update counts as a rollout here
            mark(self, "advance", lambda: watch.inside("rollout", order))
            mark(self, "evaluate", lambda: watch.inside("evaluation", order))

        Program.__init__ = with_marks

    def reset(self) -> None:
        self.memory[:] = bytes(len(self.memory))


def mark(owner: Any, name: str, context: Callable[[], Any]) -> None:
    found = owner.__dict__.get(name) or getattr(owner, name)
    inner = found.__func__ if isinstance(found, classmethod) else found

    @functools.wraps(inner)
    def marked(*args: Any, **kwargs: Any) -> Any:
        with context():
            return inner(*args, **kwargs)

    setattr(owner, name, classmethod(marked) if isinstance(found, classmethod) else marked)


def kill_after(seconds: float) -> None:
    """Lets the kernel send SIGKILL to this process; no code of ours runs at that moment."""

    class Event(ctypes.Structure):
        _fields_ = (
            ("value", ctypes.c_void_p),
            ("signal", ctypes.c_int),
            ("notify", ctypes.c_int),
            ("rest", ctypes.c_char * 48),
        )

    libc = ctypes.CDLL(None, use_errno=True)
    timer, event = ctypes.c_void_p(), Event(None, signal.SIGKILL, 0, b"")
    whole = max(int(seconds * 1e9), 1)
    when = (ctypes.c_long * 4)(0, 0, whole // 10**9, whole % 10**9)
    if libc.timer_create(1, ctypes.byref(event), ctypes.byref(timer)):
        raise OSError(ctypes.get_errno(), "timer_create")
    libc.timer_settime(timer, 0, when, None)


def kill_at_call(number: int) -> None:
    """Kills this process just before or after one of the calls that change files from here on."""
    left = [number]

    def count() -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    for name in ("fsync", "replace", "unlink", "mkdir", "open"):
        inner = getattr(os, name)

        def counted(*args: Any, inner: Any = inner, **kwargs: Any) -> Any:
            count()
            out = inner(*args, **kwargs)
            count()
            return out

        setattr(os, name, counted)


# -- processes


class End(NamedTuple):
    """How a life ended."""

    code: int  # the exit status; negative: the signal
    phase: str
    said: str

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


def live(
    work: Callable[[], object],
    watch: Watch,
    order: Order | None = None,
    meanwhile: Callable[[int], object] | None = None,
    limit: float = 120.0,
) -> End:
    """Does ``work`` in a process of its own, and ``meanwhile(pid)`` in this one."""
    watch.reset()
    reader, writer = os.pipe()
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        code = 1
        try:
            die_with(parent)
            os.close(reader)
            os.dup2(writer, 1)
            os.dup2(writer, 2)
            sys.stdout, sys.stderr = open(1, "w", buffering=1), open(2, "w", buffering=1)  # noqa: SIM115
            watch.install(order)
            work()
            code = 0
        except LPOError as error:
            print(f"lpo: {error}", flush=True)
            code = 2
        except KeyboardInterrupt:
            code = 130
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writer)
    if meanwhile is not None:
        meanwhile(pid)
    said, deadline = b"", time.monotonic() + limit
    while select.select([reader], [], [], max(deadline - time.monotonic(), 0))[0]:
        data = os.read(reader, 65536)
        if not data:
            break
        said += data
    else:
        os.kill(pid, signal.SIGKILL)
        said += b"\nTIME: it did not end by itself"
    os.close(reader)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    hung = said.endswith(b"by itself")
    return End(124 if hung else status, watch.phase, said.decode(errors="replace"))


# -- comparison


def contents(root: Path) -> dict[str, Any]:
    """Returns what must be equal in two directories, by file name."""
    found: dict[str, Any] = {}
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        name = str(path.relative_to(root))
        if path.name in ("timing.jsonl", ".lock") or "tensorboard/" in name:
            continue
        data = path.read_bytes()
        if path.suffix == ".json" and path.with_suffix(".safetensors").exists():
            record = json.loads(data)
            found[name] = {k: v for k, v in record.items() if k not in VOLATILE}
        else:
            found[name] = data
    return found


def differences(whole: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Returns the names of files that differ, or that only one of both has."""
    names = sorted(whole.keys() | other.keys())
    return [name for name in names if whole.get(name) != other.get(name)]
