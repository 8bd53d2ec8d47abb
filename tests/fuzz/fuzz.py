"""Readers of files under a coverage-guided fuzzer: a clear error or a sound result, and no code.

    pip install -e '.[dev,fuzz]' -c constraints.txt
    python tests/fuzz/fuzz.py --inputs 1e6        # all readers; goes on where it was stopped
    python tests/fuzz/fuzz.py --inputs 1e5 --reader grid

Atheris mutates sound files of every kind, by bytes and by their structure, and keeps what reaches
new code. For every input the reader must return a sound object or raise LPOError. An audit hook
watches that nothing is imported, executed, started, connected to, or opened outside the folder.
The state is in build/fuzz: counts, the corpus of each reader, and what was found.
"""

from __future__ import annotations

import argparse
import copy
import functools
import hashlib
import importlib
import json
import math
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
STATE = ROOT / "build" / "fuzz"
SEP = b"\n=====\n"  # between the files of one input
SLOW = 10.0  # seconds of the processor for one input
MEMORY = 3000  # MB of the whole process

# Values that files have been broken with. A text in angle quotes stands for raw JSON.
JUNK: list[Any] = [
    None, True, False, 0, -1, 1, 2, 2**31, 2**53 + 1, 2**63, -(2**64), 10**30, 0.5, 1e308, -1e308,
    5e-324, math.nan, math.inf, -math.inf, "", "a", "0", "1e5", "nan", "..", "../../x",
    "/etc/hosts", "a/b", "a\\b", "a:b", "this:Name-v0", "os:Name-v0", "lpo/DeepSea-v0",
    "CartPole-v1", "custom", "lpo", "ppo", "rnd", "fourier", "<script>alert(1)</script>",
    "$\\frac{", "\x00", "\x1b[2J", "é", "\u202e", "x" * 5000, [], {}, [[]], [{}], {"": ""},
    [1, 2, 3], [0.5] * 50, ["a"] * 50, {"kind": "rnd"}, {"kind": []}, {"a": {"a": {"a": {}}}},
    "«deep»", "«huge»", "«twice»", "«bad»", "«surrogate»", "«exponent»",
]  # fmt: skip
RAW = {
    "«deep»": b"[" * 3000 + b"]" * 3000, "«huge»": b"9" * 5000, "«twice»": b'{"a": 1, "a": 2}',
    "«bad»": b'"\xff\xfe"', "«surrogate»": b'"\\ud800"', "«exponent»": b"1e999",
}  # fmt: skip


def dumped(values: Any) -> bytes:
    """Returns JSON in which the words of ``RAW`` are replaced."""
    text = json.dumps(values).encode()
    for word, raw in RAW.items():
        text = text.replace(json.dumps(word).encode(), raw)
    return text


def places(values: Any) -> Iterator[tuple[Any, Any]]:
    """Yields every table or list with a key or an index in it."""
    todo = [values]
    while todo:
        table = todo.pop()
        if isinstance(table, dict | list):
            for key in list(table) if isinstance(table, dict) else range(len(table)):
                yield table, key
                todo.append(table[key])


def changed_json(rng: random.Random, data: bytes) -> bytes:
    """Returns JSON with one to three values replaced, removed, added or exchanged."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return data
    for _ in range(rng.randint(1, 3)):
        found = list(places(values))
        if not found:
            return dumped(rng.choice(JUNK))
        junk = copy.deepcopy(rng.choice(JUNK))
        table, key = rng.choice(found)
        match rng.randrange(6):
            case 0 | 1 | 2:
                table[key] = junk
            case 3 if len(found) < 500:
                other, where = rng.choice(found)
                table[key] = copy.deepcopy(other[where])
            case 4:
                del table[key]
            case _ if isinstance(table, dict):
                table[str(junk)[:50]] = junk
            case _:
                table.append(junk)
    return dumped(values)


def changed_lines(rng: random.Random, data: bytes) -> bytes:
    """Returns a log in which one line is changed, repeated or removed."""
    lines = data.split(b"\n")
    i = rng.randrange(len(lines))
    lines[i : i + 1] = rng.choice([[changed_json(rng, lines[i])], [lines[i]] * 2, []])
    return b"\n".join(lines)


def changed_toml(rng: random.Random, data: bytes) -> bytes:
    """Returns TOML with another value in one line, or a line more."""
    lines = data.decode(errors="replace").split("\n")
    i = rng.randrange(len(lines))
    junk = rng.choice([*JUNK, "1979-05-27", "0x7f", "[1, 2,", '"""'])
    value = "nan" if junk is None else dumped(junk).decode(errors="replace")
    name, equals, _ = lines[i].partition("=")
    if equals:
        lines[i] = f"{name}= {value}"
    else:
        lines.insert(i, rng.choice([f"new = {value}", "[variants.x]", "[overrides]", value]))
    return "\n".join(lines).encode()


def changed_tensors(rng: random.Random, data: bytes) -> bytes:
    """Returns safetensors with another header; its length is stated correctly."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 + size or size > 10**6:
        return data
    header = changed_json(rng, data[8 : 8 + size])
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


CHANGES: dict[str, Callable[[random.Random, bytes], bytes]] = {
    "json": changed_json, "lines": changed_lines, "toml": changed_toml, "tensors": changed_tensors,
    "bytes": lambda rng, data: data,
}  # fmt: skip


class Reader(NamedTuple):
    """A reader under test."""

    share: float  # of all inputs
    parts: tuple[str, ...]  # kinds of the files of an input
    seeds: Callable[[], list[bytes]]
    read: Callable[[Path, bytes], None]  # raises LPOError or returns


def changed(reader: Reader, rng: random.Random, data: bytes) -> bytes:
    """Returns an input with one of its files changed by its structure."""
    parts = data.split(SEP)
    i = rng.randrange(min(len(parts), len(reader.parts)))
    parts[i] = CHANGES[reader.parts[i]](rng, parts[i])
    return SEP.join(parts)


# -- sound inputs


def sound_configs() -> list[bytes]:
    from lpo import algorithms, config

    found = [config.to_json(config.configure(name)) for name in algorithms.ALGORITHMS]
    found.append(config.to_json(config.configure("lpo", env="this:Name-v0", env_kwargs={"a": 1})))
    found.append((ROOT / "tests" / "data" / "run-0.2" / "config.json").read_text())
    return [text.encode() for text in found]


def sound_plans() -> list[bytes]:
    from lpo import config

    c = config.to_dict(config.configure("ppo", env="lpo/DeepSea-v0"))
    rows = [{"name": f"ppo-s{s}", "label": "ppo", "config": c | {"seed": s}} for s in (0, 1)]
    return [json.dumps({"name": "g", "runs": rows}).encode()]


def sound_grids() -> list[bytes]:
    head = 'name = "g"\nalgos = ["ppo", "lpo"]\nenvs = ["lpo/DeepSea-v0"]\nseeds = 2\nsteps = 900\n'
    more = "[overrides]\neval_every = 100\nhidden = [8]\nenv_kwargs = {size = 5}\nbatch_size = 16\n"
    variants = '[variants.wide]\nrollout = 4096\n[variants.flat]\nalgo = "eniac"\nbeta = 2.0\n'
    speeds = 'name = "h"\nalgos = ["lpo"]\nenvs = ["lpo/SparseHopper-v0"]\nseeds = [3, 4]\n'
    speeds += 'steps = 900\nthresholds = ["half", 0.5]\npreset = "sb3"\n'
    return [text.encode() for text in (head, head + more, head + more + variants, speeds)]


def tiny_policy() -> Any:
    from lpo import Agent

    small: Any = dict(num_envs=2, rollout=64, batch_size=8, epochs=1, hidden=[4], eval_every=0)
    agent = Agent("lpo/DeepSea-v0", algo="ppo", env_kwargs={"size": 3}, steps=64, **small)
    return agent


def sound_policies() -> list[bytes]:
    import numpy as np

    return [tiny_policy().policy.to_bytes(), *(p.to_bytes() for p in other_policies(np))]


def other_policies(np: Any) -> Iterator[Any]:
    """Policies of other spaces, with weights of zero."""
    from gymnasium import spaces

    from lpo import config
    from lpo.envs.codec import Codec
    from lpo.math import distributions
    from lpo.policy import Policy, actor_of

    box = spaces.Box(-1.0, 1.0, (2,), np.float32)
    many = spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Tuple((box, spaces.MultiBinary(2)))})
    c = config.configure("ppo", env="lpo/DeepSea-v0", hidden=[4])
    for seen, acts in ((box, box), (many, spaces.MultiDiscrete([2, 3]))):
        codec = Codec("x", seen, acts)
        dist = distributions.for_space(codec.action_space)
        size = int(np.prod(codec.observation_space.shape or ()))
        shapes = {
            "['state'].params.policy[0].w": (size, 4), "['state'].params.policy[0].b": (4,),
            "['state'].params.policy[1].w": (4, dist.num_outputs),
            "['state'].params.policy[1].b": (dist.num_outputs,),
            "['state'].params.log_std": (dist.num_log_std,), "['state'].moments.count": (),
            "['state'].moments.mean": (size,), "['state'].moments.var": (size,),
        }  # fmt: skip
        arrays = {f"train{name}": np.ones(shape, np.float32) for name, shape in shapes.items()}
        yield Policy(actor_of(arrays, c, codec), codec, c, {"id": "x"}, 64)


def sound_checkpoints() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = tiny_policy().save(Path(folder) / "a")
        return [path.with_suffix(".json").read_bytes() + SEP + path.read_bytes()]


ROWS = [
    {"env_steps": 100 * i, "eval/return": 1.0 / i, "switch/count": i, "rollout/reward_rate": 0.1,
     "rollout/return": 0.5, "bonus/mean": 1.0, "advantage/ext_rms": 0.1, "advantage/int_rms": 1.0,
     "policy/log_std": -1.0}
    for i in (1, 2, 3)
]  # fmt: skip
TASK = {
    "id": "lpo/SparseHopper-v0", "preset": "half", "quantity": "x_velocity", "threshold": 0.7402,
    "max_return": 1000.0, "horizon": 1000,
}  # fmt: skip
TIMING = [{"env_steps": 100 * i, "time/learn_s": float(i), "time/eval_s": 0.1} for i in (1, 2, 3)]
AXES = [{"name": "x_velocity", "low": -2.0, "high": 4.0}, {"name": "y", "low": 0.0, "high": 1.0}]
VISITS = {"axes": AXES, "counts": [[[1, 0], [0, 2]], [[0, 0], [3, 4]]]}


def sound_runs() -> list[bytes]:
    config = sound_configs()[0]
    lines = [b"\n".join(json.dumps(row).encode() for row in rows) for rows in (ROWS, TIMING)]
    plan = {"name": "g", "runs": [{"name": "a", "label": "lpo"}]}
    parts = [config, json.dumps(TASK).encode(), *lines, json.dumps(VISITS).encode(),
             json.dumps(plan).encode()]  # fmt: skip
    plain = [*parts[:1], b'{"id": "MountainCarContinuous-v0"}', *parts[2:4], b"", b""]
    old = [
        sound_configs()[-1],
        json.dumps({"id": "x", "env_kwargs": {"a": 1}}).encode(),
        *parts[2:],
    ]
    return [SEP.join(parts), SEP.join(plain), SEP.join(old)]


def sound_contents() -> list[bytes]:
    """The content of packed files as JSON: the columns of each run, texts of them as their JSON."""
    row = {
        "name": "a", "label": "lpo", "task": TASK, "config": json.loads(sound_configs()[0]),
        "visits": {"axes": AXES, "shape": [2, 2, 2]}, "visits/counts": [1] * 8,
        "time/env_steps": [100, 300], "time/learn_s": [1.0, 3.0],
        **{key: [row[key] for row in ROWS] for key in ROWS[0]},
    }  # fmt: skip
    about = {"name": "g", "commit": None, "versions": {"lpo": "0.2"}, "note": None}
    plain = {key: row[key] for key in ("name", "label", "task", "config", *ROWS[0])}
    return [
        json.dumps({"about": about, "rows": rows}).encode()
        for rows in ([row, plain | {"name": "b"}], [plain])
    ]


def sound_packed() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        for content in sound_contents():
            write_content(Path(folder) / "a.parquet", json.loads(content))
        return [(Path(folder) / "a.parquet").read_bytes()]


def sound_ledgers() -> list[bytes]:
    row = {"key": "a", "relative_gap_last": 0.5, "mdp": "deepsea", "iterations": 3}
    return [b"\n".join([json.dumps(row).encode()] * 2) + b"\n"]


# -- the readers


def read_config(folder: Path, data: bytes) -> None:
    from lpo import config

    c = config.from_json(data, "config.json")
    assert config.from_json(config.to_json(c), "again") == c
    config.flat(c)


def read_plan(folder: Path, data: bytes) -> None:
    from lpo.runs.record import planned
    from lpo.sweep.plan import read_item, read_plan

    (folder / "sweep.json").write_bytes(data)
    planned(folder)
    for item in read_plan(folder).items:
        assert (folder / item.name).parent == folder
        assert read_item(folder, item.name).name == item.name


def read_grid(folder: Path, data: bytes) -> None:
    from lpo.sweep.grid import read_grid

    (folder / "g.toml").write_bytes(data)
    grid = read_grid(folder / "g.toml")
    names = [item.name for item in grid.items]
    assert len(set(names)) == len(names) > 0
    assert all((folder / name).parent == folder for name in (*names, grid.name))


def act(policy: Any) -> None:
    """The policy acts on an observation of its space, in its space."""
    seen, acts = policy.codec.raw_observation_space, policy.codec.raw_action_space
    if policy.codec.observation_space.shape[0] < 1000:
        action, _ = policy.predict(seen.sample(), deterministic=True)
        assert acts.contains(action) or not finite(policy)


def finite(policy: Any) -> bool:
    import numpy as np

    return all(np.isfinite(x).all() for x in policy.arrays().values())


def read_policy(folder: Path, data: bytes) -> None:
    from lpo.policy import Policy

    act(Policy.from_bytes(data, "policy"))


def write_checkpoint(folder: Path, data: bytes) -> None:
    """Writes the pair of an input; the checksum in it is correct, unless there is none."""
    record, _, tensors = data.partition(SEP)
    folder.mkdir(exist_ok=True)
    try:
        values = json.loads(record)
        values["sha256"] = hashlib.sha256(tensors).hexdigest()
        record = json.dumps(values).encode()
    except (ValueError, TypeError, RecursionError):
        pass
    (folder / "000000000064.json").write_bytes(record)
    (folder / "000000000064.safetensors").write_bytes(tensors)


def read_checkpoint(folder: Path, data: bytes) -> None:
    from lpo.errors import LPOError
    from lpo.policy import Policy

    write_checkpoint(folder / "checkpoints", data)
    try:
        act(Policy.load(folder, "last"))
    finally:
        with suppress(LPOError):
            continue_with(folder)


def continue_with(folder: Path) -> None:
    """Restores a trainer from the checkpoint, as `lpo resume` does."""
    from lpo.runs.checkpoint import load
    from lpo.runs.run import Continued

    agent = AGENT.get("agent") or AGENT.setdefault("agent", tiny_policy())
    saved = load(folder / "checkpoints" / "000000000064.safetensors")
    state = Continued.of(saved, str(folder))
    agent.run.trainer.restore(saved.arrays, state.seconds)


AGENT: dict[str, Any] = {}


def read_run(folder: Path, data: bytes) -> None:
    parts = data.split(SEP)
    names = ("config.json", "task.json", "metrics.jsonl", "timing.jsonl", "visits.json")
    (folder / "a").mkdir(parents=True)
    for name, part in zip(names, parts, strict=False):
        if part or name != "visits.json":
            (folder / "a" / name).write_bytes(part)
    if len(parts) > len(names):
        (folder / "sweep.json").write_bytes(parts[-1])
    look(folder, data)


def look(path: Path, data: bytes) -> None:
    """Makes the tables of a report, and for one input in a thousand the report itself."""
    from lpo.report import main, stats, tables
    from lpo.report.runs import Runs

    stats.REPS = 10
    runs = Runs([path])
    if int.from_bytes(hashlib.sha256(data).digest()[:2]) < 64:  # of 65,536; it takes seconds
        out = (path if path.is_dir() else path.parent) / "report"
        main.make_report(runs, out, "t", "lpo report", None, main.Clips({}))
        return
    rows = [*tables.cell_rows(runs), *tables.stream_rows(runs), *tables.run_rows(runs)]
    assert rows and all(isinstance(row["label"], str) for row in rows)
    tables.option_rows(runs)
    tables.task_rows(runs)
    tables.score_rows(runs)


def write_content(path: Path, content: dict[str, Any]) -> None:
    """Writes any columns as a packed file whose checksums are correct."""
    import pyarrow as pa

    from lpo.runs import store

    rows = []
    for row in content["rows"]:
        fitted = {name: column(name, value) for name, value in row.items()}
        columns = {name: value for name, value in fitted.items() if value is not None}
        rows.append(columns | {"sha256": store.digest(columns)})
    try:
        path.write_bytes(store.encoded(rows, store.About(**content["about"])))
    except pa.ArrowException as error:
        raise ValueError(str(error)) from error


def column(name: str, value: Any) -> Any:
    """Returns what a column of that name can hold of a value; None where it is nothing."""
    import numpy as np

    from lpo.runs import store

    if name in store.TEXTS:
        return value if isinstance(value, str | None) else json.dumps(value)
    if not isinstance(value, list):
        return None
    numbers = [x for x in value if isinstance(x, int | float)]
    if name in store.INTEGERS:
        return np.array([int(x) for x in numbers if abs(x) < 2**63], np.int64)
    return np.array([float(x) for x in numbers if abs(x) < 2**63 or math.isinf(x)], np.float64)


def read_content(folder: Path, data: bytes) -> None:
    path = folder / "a.parquet"
    try:
        write_content(path, json.loads(data))
    except Exception as error:
        raise Unfit from error
    look(path, data)


def read_packed(folder: Path, data: bytes) -> None:
    (folder / "a.parquet").write_bytes(data)
    look(folder / "a.parquet", data)


def read_ledger(folder: Path, data: bytes) -> None:
    from lpo.sweep.theory_worker import Ledger

    (folder / "runs.jsonl").write_bytes(data)
    assert all(isinstance(key, str) for key in Ledger(folder).rows())


READERS = {
    "configuration": Reader(0.45, ("json",), sound_configs, read_config),
    "plan": Reader(0.14, ("json",), sound_plans, read_plan),
    "grid": Reader(0.14, ("toml",), sound_grids, read_grid),
    "run": Reader(0.015, ("json", "json", "lines", "lines", "json", "json"), sound_runs, read_run),
    "checkpoint": Reader(0.015, ("json", "tensors"), sound_checkpoints, read_checkpoint),
    "policy": Reader(0.06, ("tensors",), sound_policies, read_policy),
    "packed file": Reader(0.06, ("bytes",), sound_packed, read_packed),
    "packed content": Reader(0.01, ("json",), sound_contents, read_content),
    "theory's runs": Reader(0.11, ("lines",), sound_ledgers, read_ledger),
}  # fmt: skip


# -- what must not happen


class Forbidden(Exception):
    """A reader did what no reader may do."""


WATCH: dict[str, Any] = {"folder": None}
NEVER = (
    "pickle.find_class", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork",
    "socket.connect", "socket.bind", "ctypes.dlopen", "urllib.Request", "os.chmod", "os.symlink",
    "code.__new__",
)  # fmt: skip
TYPES = ("/typing.py", "/jaxtyping/", "/beartype/")  # look up the types of our own functions
OURS = tuple(str(Path(p).resolve()) for p in (sys.prefix, sys.base_prefix, ROOT / "src", *sys.path))


def audit(event: str, args: tuple[Any, ...]) -> None:
    """Raises where a reader imports, runs or starts something, or leaves its folder."""
    folder = WATCH["folder"]
    if folder is None:
        return
    if event in NEVER:
        raise Forbidden(f"{event} {args!r:.200}")
    if event == "import" and args[0].split(".")[0] in ("this", "antigravity", "pickle"):
        raise Forbidden(f"import {args[0]}")
    if event == "exec" and not str(getattr(args[0], "co_filename", "")).startswith(OURS):
        caller = sys._getframe(1).f_code.co_filename
        if not any(word in caller for word in TYPES):
            raise Forbidden(f"exec {args[0]!r} by {caller}")
    if event == "open" and isinstance(args[0], str | bytes):
        path, writes = os.path.realpath(os.fsdecode(args[0])), str(args[1] or "r")
        inside = path.startswith(folder) or path in ("/dev/null", f"/proc/{os.getpid()}/statm")
        if not inside and (not path.startswith(OURS) or any(c in writes for c in "wax+")):
            raise Forbidden(f"open {path} ({writes})")


@contextmanager
def watched(folder: Path) -> Iterator[None]:
    if not WATCH.get("hook"):
        sys.addaudithook(audit)
        WATCH["hook"] = True
    WATCH["folder"] = os.path.realpath(folder)
    try:
        yield
    finally:
        WATCH["folder"] = None


class Unfit(Exception):
    """No file can hold the input."""


class Outcome(NamedTuple):
    kind: str  # read, refused or found; unfit inputs are not counted
    words: str
    seconds: float


def tried(reader: Reader, data: bytes, home: Path) -> Outcome:
    """Gives one input to a reader, in an empty folder below ``home``."""
    from lpo.errors import LPOError

    folder = home / "input"
    folder.mkdir()
    began = time.process_time()
    try:
        with watched(home):
            reader.read(folder, data)
        kind, words = "read", ""
    except LPOError as error:
        words = str(error)
        good = "\n" not in words and words.endswith((".", "?", "`", ")", "…"))
        kind = "refused" if good else "found"
    except Unfit:
        kind, words = "unfit", ""
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)
        ours = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in at if "lpo" in f.filename]
        kind, words = "found", f"{type(error).__name__}: {error!s:.200} at {' < '.join(ours[-3:])}"
    finally:
        shutil.rmtree(folder)
    seconds = time.process_time() - began
    if seconds > SLOW:
        return Outcome("found", f"{seconds:.0f} seconds", seconds)
    return Outcome(kind, words, seconds)


def warm_up(reader: Reader, seeds: list[bytes], home: Path, report: bool = True) -> None:
    """Reads sound inputs unwatched: what is imported and compiled once, by our own code, is so."""
    importlib.import_module("lpo.envs.host.native")  # a checkpoint of 0.1 makes its environment
    read_config(home, sound_configs()[-1])  # the types of all options are looked up once
    if report:
        from lpo.report import main
        from lpo.report.runs import Runs

        read_run(home / "run", sound_runs()[0])
        main.make_report(Runs([home / "run"]), home / "report", "t", "", None, main.Clips({}))
        for folder in ("run", "report"):
            shutil.rmtree(home / folder)
    for i, seed in enumerate(seeds):
        folder = home / f"warm-{i}"
        folder.mkdir()
        reader.read(folder, seed)
        shutil.rmtree(folder)


# -- the command


class Tally:
    """What was tried with one reader, in a file that the next call goes on from."""

    def __init__(self, name: str):
        self.folder = STATE / name.replace(" ", "-").replace("'", "")
        for part in ("corpus", "seeds", "found"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self.file = self.folder / "tally.json"
        self.values = {"inputs": 0, "read": 0, "refused": 0, "found": 0, "seconds": 0.0,
                       "slowest": 0.0, "memory": 0}  # fmt: skip
        if self.file.exists():
            self.values = json.loads(self.file.read_text())

    def add(self, outcome: Outcome, data: bytes) -> None:
        v = self.values
        if outcome.kind == "unfit":
            return
        v["inputs"] += 1
        v[outcome.kind] += 1
        v["seconds"] += outcome.seconds
        v["slowest"] = max(v["slowest"], outcome.seconds)
        v["memory"] = max(v["memory"], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
        if outcome.kind == "found":
            key = hashlib.sha256(outcome.words.split(" at ")[-1].encode()).hexdigest()[:12]
            (self.folder / "found" / f"{key}.txt").write_text(outcome.words + "\n")
            (self.folder / "found" / f"{key}.bin").write_bytes(data)

    def write(self) -> None:
        self.file.write_text(json.dumps(self.values))


def fuzz(name: str, inputs: int, home: Path) -> None:
    """Fuzzes one reader in this process, which libFuzzer ends; ``home`` is an empty folder."""
    atheris: Any = importlib.import_module("atheris")

    with atheris.instrument_imports(include=["lpo", "tomllib"]):
        import tomllib

        import lpo.options
        import lpo.report.clips
        import lpo.report.main
        import lpo.sweep.plan
        import lpo.sweep.theory_worker

        _ = tomllib, lpo.sweep.plan, lpo.sweep.theory_worker
    resource.setrlimit(resource.RLIMIT_AS, (2 * MEMORY * 2**20, resource.RLIM_INFINITY))
    reader, tally = READERS[name], Tally(name)
    lpo.options.entry_points = functools.cache(lpo.options.entry_points)  # slow, and never other
    seeds = reader.seeds()
    warm_up(reader, seeds, home)
    for i, seed in enumerate(seeds):
        (tally.folder / "seeds" / str(i)).write_bytes(seed)
        tally.add(tried(reader, seed, home), seed)
    until = tally.values["inputs"] + inputs

    def one(data: bytes) -> None:
        tally.add(tried(reader, data, home), data)
        if tally.values["inputs"] % 500 == 0 or tally.values["inputs"] >= until:
            tally.write()

    def mutator(data: bytes, longest: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.4:
            return atheris.Mutate(data, len(data) + 64)[:longest]
        return changed(reader, rng, data)[:longest]

    flags = [f"-runs={inputs}", "-max_len=60000", f"-rss_limit_mb={MEMORY}", "-timeout=600",
             "-verbosity=0", f"-artifact_prefix={tally.folder}/found/", "-len_control=0",
             str(tally.folder / "corpus"), str(tally.folder / "seeds")]  # fmt: skip
    atheris.Setup([sys.argv[0], *flags], one, custom_mutator=mutator)
    atheris.Fuzz()


def table() -> str:
    """Returns inputs per reader, and what became of them."""
    lines = ["| reader | inputs | read | refused | found | slowest, s | memory, MB |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    total = 0
    for name in READERS:
        v = Tally(name).values
        total += v["inputs"]
        lines.append(
            f"| {name} | {v['inputs']:,} | {v['read']:,} | {v['refused']:,} | {v['found']:,} | "
            f"{v['slowest']:.2f} | {v['memory']:,} |"
        )
    return "\n".join([*lines, f"| all | {total:,} | | | | | |"])


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the readers of files")
    parser.add_argument(
        "--inputs", type=float, default=1e6, help="inputs in all, old ones included"
    )
    parser.add_argument("--reader", choices=READERS, help="only this one, which gets all inputs")
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)  # of a process that fuzzes
    options = parser.parse_args()
    if options.home is not None:
        fuzz(options.reader, int(options.inputs), options.home)
        return 0
    os.nice(10)
    failed, quick = False, "/dev/shm" if os.path.isdir("/dev/shm") else None
    for name in [options.reader] if options.reader else READERS:
        share = 1.0 if options.reader else READERS[name].share
        left = math.ceil(share * options.inputs) - Tally(name).values["inputs"]
        if left <= 0:
            continue
        with tempfile.TemporaryDirectory(prefix="lpo-fuzz-", dir=quick) as home:
            words = ["--reader", name, "--inputs", str(left), "--home", home]
            ended = subprocess.run([sys.executable, __file__, *words], cwd=ROOT)
        failed |= ended.returncode != 0
    print(table())
    found = [p for name in READERS for p in (Tally(name).folder / "found").iterdir()]
    for path in found:
        print(path.read_text().strip() if path.suffix == ".txt" else path)
    return int(failed or bool(found))


if __name__ == "__main__":
    sys.exit(main())
