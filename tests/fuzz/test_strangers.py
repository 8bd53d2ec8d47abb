"""Strangers' files: a round of the fuzzer, properties, and no way from a file to code."""

import ast
import json
import os
import random
import resource
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings

from lpo import Agent, cli, config
from lpo.config import configure
from lpo.envs.spaces import from_dict
from lpo.errors import LPOError
from lpo.files import check_folder, limited_memory, parse_json, read_bytes
from lpo.policy import Policy
from lpo.report.runs import RunData
from lpo.runs import checkpoint, store
from lpo.runs.directory import RunDirectory
from lpo.runs.record import Record, find_directories, read_directory
from lpo.runs.run import Continued
from lpo.runs.visits import from_json
from lpo.sweep.grid import Grid, Item, read_grid
from lpo.sweep.plan import held, read_item, read_plan, write_plan
from tests.test_config import JSON, configurations

sys.path.insert(0, str(Path(__file__).parent))
import fuzz

SOURCE = Path(__file__).parents[2] / "src" / "lpo"

# -- the fuzzer, for a moment

QUICK = {"configuration": 100, "plan": 60, "grid": 60}


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        *QUICK.items(),
        *(pytest.param(name, 200, marks=pytest.mark.slow) for name in fuzz.READERS),
    ],
)
def test_a_reader_refuses_or_reads(name, inputs, tmp_path):
    reader, rng = fuzz.READERS[name], random.Random(name)
    seeds = reader.seeds()
    fuzz.warm_up(reader, seeds, tmp_path, report=name not in QUICK)
    for seed in seeds:
        outcome = fuzz.tried(reader, seed, tmp_path)
        assert outcome.kind == "read", outcome.words
    for _ in range(inputs):
        data = fuzz.changed(reader, rng, rng.choice(seeds))
        if rng.random() < 0.2:
            at = rng.randrange(len(data))
            data = data[:at] + rng.randbytes(4) + data[at + rng.randrange(8) :]
        outcome = fuzz.tried(reader, data, tmp_path)
        assert outcome.kind != "found", (outcome.words, data[:2000])


@pytest.mark.parametrize(
    "act",
    [
        lambda folder: __import__("this"),
        lambda folder: eval("1 + 1"),
        lambda folder: (folder.parent.parent / "out").write_text(""),
        lambda folder: os.system("true"),
        lambda folder: {}["missing"],
        lambda folder: os.open("/etc/hosts", os.O_RDONLY),
    ],
)
def test_the_fuzzer_sees_what_no_reader_may_do(act, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    reader = fuzz.READERS["plan"]._replace(read=lambda folder, data: act(folder))
    assert fuzz.tried(reader, b"", home).kind == "found"


# -- properties: sound files come back as they were, and damaged ones are refused or come back

NAMES = st.text("abcdefgh-_0123456789", min_size=1, max_size=9)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
STEPS = st.lists(st.integers(1, 2**40), min_size=1, max_size=5, unique=True).map(sorted)


def keeps_a_grid(data: st.DataObject, folder: Path) -> None:
    """Every combination is one run, with a name of its own and the options that the grid sets."""
    algos = data.draw(st.lists(st.sampled_from(["ppo", "lpo", "rnd"]), min_size=1, unique=True))
    sizes = data.draw(st.lists(st.sampled_from([4, 8, 16]), max_size=3, unique=True))
    values = {
        "name": data.draw(NAMES.filter(lambda name: name[0].isalnum())),
        "algos": algos,
        "envs": data.draw(
            st.lists(st.sampled_from(["lpo/DeepSea-v0", "CartPole-v1"]), min_size=1, unique=True)
        ),
        "seeds": data.draw(
            st.integers(1, 3) | st.lists(st.integers(0, 99), min_size=1, max_size=3, unique=True)
        ),
        "steps": data.draw(st.integers(1, 10**9)),
    }
    options = {
        "gamma_ext": data.draw(st.floats(0.01, 0.999)),
        "eval_every": data.draw(st.integers(0, 9)),
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    lines += ["[overrides]", *(f"{key} = {json.dumps(value)}" for key, value in options.items())]
    lines += [line for n in sizes for line in (f"[variants.b{n}]", f"batch_size = {n}")]
    (folder / "g.toml").write_text("\n".join(lines))
    grid = read_grid(folder / "g.toml")
    seeds = range(values["seeds"]) if isinstance(values["seeds"], int) else values["seeds"]
    number = len(algos) * len(values["envs"]) * len(seeds) * max(1, len(sizes))
    assert grid.name == values["name"] and len({item.name for item in grid.items}) == number
    for item in grid.items:
        chosen = config.flat(item.config)
        assert chosen["steps"] == values["steps"] and chosen["seed"] in seeds
        assert all(chosen[key] == value for key, value in options.items())
        assert not sizes or f"b{chosen['batch_size']}" in item.label
    text = damaged((folder / "g.toml").read_bytes(), data)
    (folder / "g.toml").write_bytes(text)
    with suppress(LPOError):
        read_grid(folder / "g.toml")


def keeps_a_plan(data: st.DataObject, folder: Path) -> None:
    names = data.draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    items = [
        Item(name, data.draw(st.text(max_size=5)), data.draw(configurations())) for name in names
    ]
    grid = Grid(data.draw(st.text(max_size=5)), items)
    write_plan(folder, grid)
    assert read_plan(folder) == grid
    assert read_item(folder, names[-1]) == items[-1]
    plan = json.loads((folder / "sweep.json").read_text())
    table, key = data.draw(st.sampled_from(list(fuzz.places(plan))))
    table[key] = data.draw(JSON)
    (folder / "sweep.json").write_text(json.dumps(plan))
    with suppress(LPOError):
        assert all(isinstance(item.config, config.Config) for item in read_plan(folder).items)


def keeps_a_checkpoint(data: st.DataObject, folder: Path) -> None:
    shape = data.draw(st.lists(st.integers(0, 3), max_size=3))
    kind = data.draw(st.sampled_from([np.float32, np.float64, np.int64, np.uint32, np.bool_]))
    arrays = {"a/b": np.arange(np.prod(shape)).reshape(shape).astype(kind), "": np.zeros(2)}
    finite = data.draw(JSON.filter(lambda value: value == value and fits(value)))
    record = {"until": data.draw(st.integers(0, 2**40)), "best": finite}
    path = checkpoint.save(folder, "000000000001", arrays, record)
    whole = checkpoint.load(path)
    assert all(same_array(whole.arrays[name], array) for name, array in arrays.items())
    assert {key: whole.record[key] for key in record} == record
    file = data.draw(st.sampled_from([path, path.with_suffix(".json")]))
    file.write_bytes(damaged(file.read_bytes(), data))
    with suppress(LPOError):  # a blank more or less in a record changes nothing
        again = checkpoint.load(path)
        assert again.record == whole.record
        assert all(same_array(again.arrays[name], array) for name, array in arrays.items())


def keeps_a_packed_file(data: st.DataObject, folder: Path) -> None:
    pytest.importorskip("pyarrow")
    path, names = folder / "a.parquet", data.draw(st.lists(NAMES, min_size=1, unique=True))
    records = []
    for name in names[:3]:
        rows = [{"env_steps": step, "eval/return": data.draw(NUMBERS)} for step in data.draw(STEPS)]
        c, label = data.draw(configurations()), data.draw(st.text(max_size=5))
        task = json.dumps({"id": c.task.env})
        records.append(Record(path / name, label, config.to_json(c), task, rows, [], packed=True))
    about = store.About(data.draw(st.text(max_size=5)), None, {"lpo": "0.2"}, None)
    store.write(path, records, about)
    assert store.read(path) == (records, about)
    path.write_bytes(damaged(path.read_bytes(), data))
    with suppress(LPOError):  # some bytes of the format mean nothing
        assert store.read(path) == (records, about)


def fits(value: Any) -> bool:
    """Whether a value of a record comes back from JSON as it is, and is not refused as huge."""
    with suppress(ValueError):
        return parse_json(json.dumps(value)) == value
    return False


def same_array(a: np.ndarray, b: np.ndarray) -> bool:
    return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def damaged(data: bytes, draw: st.DataObject) -> bytes:
    """Returns bytes of which some are replaced or cut off."""
    at = draw.draw(st.integers(0, len(data) - 1))
    end = draw.draw(st.sampled_from([at, at + 1, at + 4, len(data)]))
    return data[:at] + draw.draw(st.binary(max_size=4)) + data[end:]


@pytest.mark.parametrize("examples", [6, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "holds", [keeps_a_grid, keeps_a_plan, keeps_a_checkpoint, keeps_a_packed_file]
)
def test_sound_files_come_back_and_damaged_ones_are_refused(
    holds: Callable[[st.DataObject, Path], None], examples: int, tmp_path: Path
):
    """Configurations have theirs in test_config.py."""
    settings(max_examples=examples, deadline=None)(
        given(st.data())(lambda data: holds(data, tmp_path))
    )()


# -- no way from a file to code

READERS = """config.files.read config.files.from_json config.files.from_dict config.files.for_acting
    sweep.grid.read_grid sweep.plan.read_plan
    sweep.plan.read_item sweep.tune.read_search runs.checkpoint.load runs.checkpoint.load_latest
    runs.store.load runs.store.read runs.record.read_directory runs.record.find_directories
    runs.directory.RunDirectory.open runs.directory.RunDirectory.task runs.visits.from_json
    runs.run.Continued.of policy.Policy.load policy.Policy.from_bytes envs.spaces.from_dict
    report.runs.Runs.__init__ report.main.make_report sweep.theory_worker.Ledger.rows"""
SINKS = {"eval", "exec", "compile", "__import__", "import_module", "find_class", "system", "popen"}
MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "runpy", "code"}
DOORS = {
    "options.Kinds.load": "a part that an installed package has registered with lpo",
    "envs.registry.register_foreign": "environments that an installed package has registered",
    "envs.device.physics.stepper": "a module of our own table",
    "network.own.of_equinox": "Equinox, by its own name, for a module that the user passed",
    "envs.device._maker": "a module of our own table",
}


class Graph:
    """Which function of the package names which, read from the source. It errs on the wide side:
    a method of an unknown object is any method of that name."""

    def __init__(self, sources: dict[str, str]):
        self.trees = {name: ast.parse(text) for name, text in sources.items()}
        self.functions: dict[str, tuple[str, ast.AST]] = {}
        self.methods: dict[str, list[str]] = {}
        self.below: dict[str, list[str]] = {}  # functions by their name and those they are part of
        self.imports = {module: self.imported(module) for module in self.trees}
        self.stored = {
            (module, part.attr)
            for module, tree in self.trees.items()
            for part in ast.walk(tree)
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)
        }
        self.classes = {
            module: {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
            for module, tree in self.trees.items()
        }
        self.outside = {module: others(tree) for module, tree in self.trees.items()}
        for module, tree in self.trees.items():
            for node in tree.body:
                self.add(module, module, node)

    def add(self, module: str, path: str, node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef):
            whole = f"{path}.{node.name}"
            self.functions[whole] = module, node
            self.below.setdefault(whole, []).append(whole)
            if path != module:
                self.below.setdefault(path, []).append(whole)
                self.methods.setdefault(node.name, []).append(f"{path}.{node.name}")
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                self.add(module, f"{path}.{node.name}", inner)

    def imported(self, module: str) -> dict[str, str]:
        """Returns the names of a module that stand for parts of the package."""
        found = {}
        for node in ast.walk(self.trees[module]):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lpo":
                home = (node.module or "").removeprefix("lpo").removeprefix(".")
                for a in node.names:
                    found[a.asname or a.name] = f"{home}.{a.name}".removeprefix(".")
        return found

    def targets(self, module: str, name: str) -> list[str]:
        """Returns the functions that a dotted name stands for; of a class, all its methods."""
        return self.below.get(f"{module}.{name}", [])

    def named(self, function: str) -> tuple[set[str], set[str]]:
        """Returns the functions that a function names, and the sinks."""
        module, node = self.functions[function]
        names, found, sinks = self.imports[module], set(), set()
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                home, _, last = names.get(part.id, f"{module}.{part.id}").rpartition(".")
                found |= set(self.targets(home, last))
                sinks |= {part.id} & SINKS
            elif isinstance(part, ast.Attribute):
                base = root(part)
                if base in names:
                    found |= set(self.targets(names[base], part.attr))
                elif part.attr == "load" and base == "entry":
                    sinks.add("entry.load")
                elif isinstance(part.value, ast.Name) and base in self.classes[module]:
                    pass  # a class of this module: its name has all its methods found
                elif base in ("self", "cls") and (own := self.own(function, part.attr)):
                    found |= own
                elif part.attr == "__new__" and direct(part, "cls"):
                    pass  # of a class that has none of its own: object's
                elif (module, part.attr) in self.stored and direct(part, "self"):
                    pass  # a value that a method has stored; there its name was found
                elif base not in self.outside[module] and base != "super":
                    found |= set(self.methods.get(part.attr, []))
                sinks |= {part.attr} & (SINKS - {"eval", "compile"})
            elif isinstance(part, ast.Import | ast.ImportFrom):
                words = [a.name for a in part.names] + [getattr(part, "module", None) or ""]
                sinks |= {w for w in words if w.split(".")[0] in MODULES}
        return found, sinks

    def own(self, function: str, name: str) -> set[str]:
        """Returns the method of that name in the class of a method, if there is one."""
        return {f"{function.rpartition('.')[0]}.{name}"} & set(self.functions)

    def reached(self, roots: Iterable[str]) -> dict[str, set[str]]:
        """Returns every function that can be reached from ``roots``, with the sinks in it."""
        seen: dict[str, set[str]] = {}
        todo = list(roots)
        while todo:
            function = todo.pop()
            if function not in seen and function in self.functions:
                found, seen[function] = self.named(function)
                todo += found
        return seen


def direct(part: ast.Attribute, name: str) -> bool:
    return isinstance(part.value, ast.Name) and part.value.id == name


def root(node: ast.AST) -> str | None:
    """Returns the first name of ``a.b.c`` or ``a(…).b``, if there is one."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else None


def others(tree: ast.AST) -> set[str]:
    """Returns the names of a module that stand for other packages."""
    plain = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    far = [n for n in plain if not (getattr(n, "module", None) or "").startswith("lpo")]
    return {(a.asname or a.name).split(".")[0] for n in far for a in n.names} - {"lpo"}


def sources() -> dict[str, str]:
    paths = {p: p.relative_to(SOURCE).with_suffix("").parts for p in SOURCE.rglob("*.py")}
    return {
        ".".join(part for part in parts if part != "__init__"): path.read_text()
        for path, parts in paths.items()
    }


def test_no_reader_reaches_code():
    graph = Graph(sources())
    assert all(root in graph.functions for root in READERS.split())
    reached = graph.reached(READERS.split())
    assert {f for f, sinks in reached.items() if sinks} <= set(DOORS)
    assert "options.Kinds.load" in reached  # the graph is not empty
    assert "envs.registry.import_package" not in reached


@pytest.mark.parametrize(
    "line",
    [
        "eval(x)", "exec(x)", "importlib.import_module(x)", "import pickle", "g(x)", "C().m(x)",
        "os.system(x)", "list(map(eval, x))",
    ],
)  # fmt: skip
def test_the_graph_finds_a_way(line):
    b = "def g(x):\n    return __import__(x)\n"
    a = "from lpo.b import g\nclass C:\n    def m(self, x):\n        g(x)\n"
    reached = Graph({"a": f"{a}def read(x):\n    {line}\n", "b": b}).reached(["a.read"])
    assert any(reached.values())


# -- what was found and mended


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """A package on the path that leaves a trace when it is imported."""
    (tmp_path / "evil.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'trace')!r}).touch()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "trace"
    sys.modules.pop("evil", None)


def run_files(folder, env="evil:Name-v0", **record):
    """A run directory with a checkpoint, of an environment that does not exist."""
    c = configure("ppo", env=env, hidden=[4])
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(config.to_json(c))
    (folder / "task.json").write_text("{}")
    (folder / "metrics.jsonl").write_text("")
    policy = next(fuzz.other_policies(np))
    values = {**policy.record(), "env_steps": 1, "env": {}, "config": config.to_dict(c), **record}
    checkpoint.save(folder / "checkpoints", "000000000001", policy.arrays(), values)
    return folder


def lpo(*arguments) -> int:
    try:
        cli.main([str(a) for a in arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.mark.parametrize("command", ["eval", "render", "resume", "sweep", "train --config"])
def test_a_file_imports_nothing_unless_the_user_says_so(command, evil, tmp_path, capsys):
    logs = {"metrics.jsonl": 0, "timing.jsonl": 0}
    more = {"until": 9, "best": None, "logs": logs, "seconds": dict.fromkeys(PARTS, 0.0)}
    given = run_files(tmp_path / "run", **more)
    if command == "sweep":
        given = tmp_path / "g.toml"
        text = 'name = "g"\nalgos = ["ppo"]\nenvs = ["evil:Name-v0"]\nseeds = 1\nsteps = 9\n'
        given.write_text(text)
    given = given / "config.json" if "--config" in command else given
    assert lpo(*command.split(), given) == 2
    assert "if you trust the package, add `--import evil`." in capsys.readouterr().err
    assert not evil.exists()
    assert lpo(*command.split(), given, "--import", "evil") == 2  # now the name is looked for
    assert "Unknown environment 'evil:Name-v0'" in capsys.readouterr().err
    assert evil.exists()


PARTS = ("rollout", "switch", "learn", "eval")


def test_python_says_so_by_an_import_or_by_the_name(evil, tmp_path):
    run_files(tmp_path / "run")
    with pytest.raises(LPOError, match="`import evil` first"):
        Agent.load(tmp_path / "run")
    assert not evil.exists()
    with pytest.raises(LPOError, match="Unknown environment"):
        Agent("evil:Name-v0").learn(1)
    assert evil.exists()


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "..", ".", "", "a/b", "a\\b", "c:", "\n", 3])
def test_a_plan_names_no_run_outside_its_folder(name, tmp_path):
    row = {"name": name, "label": "ppo", "config": config.to_dict(configure("ppo"))}
    (tmp_path / "sweep.json").write_text(json.dumps({"name": "g", "runs": [row]}))
    for read in (read_plan, lambda root: read_item(root, name)):
        with pytest.raises(LPOError, match="cannot be the name of a run"):
            read(tmp_path)


def test_links_out_of_a_run_are_refused(tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("precious")
    for name in (
        "metrics.jsonl",
        "timing.jsonl",
        "task.json",
        "curve.png",
        "checkpoints/best.json",
    ):
        run = run_files(tmp_path / name.replace("/", "-"))
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(mine)
        for read in (RunDirectory.open, read_directory, Policy.load):
            with pytest.raises(LPOError, match="a link that leads out"):
                read(run)
    assert mine.read_text() == "precious"
    inside = run_files(tmp_path / "inside", env="CartPole-v1")
    (inside / "timing.jsonl").symlink_to(inside / "metrics.jsonl")
    assert RunDirectory.open(inside).timing() == []


def test_links_out_of_a_sweep_are_refused(tmp_path):
    """A linked .compiled would have been run: JAX trusts the code that it finds in it."""
    run_files(tmp_path / "other")
    for name in ("a", ".compiled", "b.log"):
        sweep = tmp_path / f"sweep-{name}"
        sweep.mkdir()
        (sweep / "sweep.json").write_text('{"name": "g", "runs": []}')
        (sweep / name).symlink_to(tmp_path / "other")
        with pytest.raises(LPOError, match="a link that leads out"), held(sweep):
            pass
    with pytest.raises(LPOError, match="a link that leads out"):
        find_directories([tmp_path / "sweep-a"])


@pytest.mark.parametrize("name", ["report", "curve.png"])
def test_results_are_not_written_through_a_link(name, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    fuzz.read_run(tmp_path / "sweep", fuzz.sound_runs()[0])
    (tmp_path / "sweep" / name).symlink_to(tmp_path / "mine")
    assert lpo("report" if name == "report" else "plot", tmp_path / "sweep") == 2
    assert "a link that leads out" in capsys.readouterr().err
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_pipe_is_not_waited_for(tmp_path):
    run = run_files(tmp_path / "run")
    (run / "task.json").unlink()
    os.mkfifo(run / "task.json")
    with pytest.raises(LPOError, match="not an ordinary file; delete it"):
        RunDirectory.open(run)


def test_writing_follows_no_link(tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    (tmp_path / ".a.tmp").symlink_to(tmp_path / "mine.txt")
    checkpoint.write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "mine.txt").read_text() == "precious"
    assert (tmp_path / "a").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b"[" * 50 + b"]" * 50, "nested too deeply"),
        (b'{"a": 1, "a": 2}', "'a' stands twice"),
        (b"9" * 5000, "4300 digits"),
        (b"[9223372036854775808]", "whole number that is too large"),
        (b'"\xff"', "utf-8"),
        (b'"\\uD800"', "lone surrogate"),
        (b'{"\\udfff": 1}', "lone surrogate"),
        (b'"\xed\xa0\x80"', "utf-8"),
    ],
)
def test_json_that_is_no_data_is_refused(text, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        parse_json(text)
    with pytest.raises(LPOError, match=words):
        config.from_json(text, "config.json")
    (tmp_path / "sweep.json").write_bytes(text)
    with pytest.raises(LPOError, match=words):
        read_plan(tmp_path)


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    with open(tmp_path / "config.json", "wb") as file:
        file.truncate(2**40)  # it takes no space on the disk
    with pytest.raises(ValueError, match=r"1,099,511,627,776 bytes"):
        read_bytes(tmp_path / "config.json")
    with pytest.raises(LPOError, match="bytes"):
        config.read(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("seeds = 4611686018427387904", "at most 20,000"),
        ("seeds = 15000", "has 30,000 runs"),
        ("thresholds = []", "thresholds, or it is empty"),
        ("steps = [[1]]", "see experiments"),
        ("preset = " + "[" * 5000, "Cannot read|not TOML"),
        ("steps = " + "9" * 5000, "Cannot read|not TOML"),
    ],
)
def test_a_grid_without_end_is_refused(line, words, tmp_path):
    lines = ['name = "g"', 'algos = ["ppo", "lpo"]', 'envs = ["lpo/DeepSea-v0"]', "seeds = 1"]
    lines = [x for x in [*lines, "steps = 9"] if x.split()[0] != line.split()[0]]
    (tmp_path / "g.toml").write_text("\n".join([*lines, line]))
    with pytest.raises(LPOError, match=words):
        read_grid(tmp_path / "g.toml")


BOX = {"kind": "box", "low": 0, "high": 1, "shape": [9_000_000], "dtype": "float32"}


@pytest.mark.parametrize(
    "space",
    [
        {"kind": "discrete", "n": 10**12, "start": 0},
        {"kind": "multi-binary", "shape": [10**5, 10**5]},
        {"kind": "multi-discrete", "nvec": [10**9] * 3, "start": [0] * 3},
        {"kind": "dict", "spaces": {str(i): BOX for i in range(1000)}},
        {"kind": []}, {"kind": "tuple", "spaces": 3}, {"kind": "dict", "spaces": [1]}, None,
    ],
)  # fmt: skip
def test_a_huge_or_strange_space_is_refused_before_it_is_made(space):
    with pytest.raises(LPOError, match="train again"):
        from_dict(space)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("task.json", '{"threshold": []}', "declares threshold as"),
        ("task.json", '{"env_kwargs": "a"}', "declares env_kwargs"),
        ("task.json", '{"max_return": true}', "declares max_return"),
        ("metrics.jsonl", '{"env_steps": 1, "eval/return": "x"}', "eval/return 'x', which is not"),
        ("metrics.jsonl", '{"eval/return": 1.0}', "env_steps None"),
        ("timing.jsonl", '{"env_steps": 1, "time/a_s": {}}', "time/a_s {}"),
    ],
)
def test_wrong_values_of_a_run_are_named(name, text, words, tmp_path):
    run = run_files(tmp_path / "run", env="CartPole-v1")
    (run / name).write_text(text)
    with pytest.raises(LPOError, match=words):
        RunData.of(read_directory(run))


def test_halves_of_characters_are_left_out(tmp_path):
    """They came as far as the tables of a report, and no file can hold them."""
    run = run_files(tmp_path / "run", env="CartPole-v1")
    lines = ['{"env_steps": 1, "\\ud800": 1}', '{"env_steps": 2, "\\ud83d\\ude00": 2}']
    (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    assert read_directory(run).rows == [{"env_steps": 2, "😀": 2}]
    odd = run.rename(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff"))
    with pytest.raises(LPOError, match="not UTF-8; rename the folder"):
        read_directory(odd)


def test_what_is_not_finite_was_not_logged(tmp_path):
    run = run_files(tmp_path / "run", env="CartPole-v1")
    (run / "metrics.jsonl").write_text('{"env_steps": 1, "a": NaN, "b": 1e999, "c": 2}\n')
    assert read_directory(run).rows == [{"env_steps": 1, "c": 2}]


AXES = [{"name": "x", "low": 0.0, "high": 1.0}, {"name": "y", "low": 0.0, "high": 1.0}]


@pytest.mark.parametrize(
    ("axes", "counts"),
    [(AXES, [1]), (AXES[:1], [[[1]]]), ([AXES[0], AXES[0] | {"low": 2.0}], [[[1]]]), (AXES, [])],
)
def test_visits_that_are_none_are_refused(axes, counts):
    with pytest.raises(ValueError, match="does not hold the visits"):
        from_json(json.dumps({"axes": axes, "counts": counts}))


@pytest.mark.parametrize(
    "change",
    [{"until": "9"}, {"best": []}, {"seconds": {}}, {"logs": {"metrics.jsonl": -1}}, {"logs": 3}],
)
def test_a_record_that_cannot_be_continued_is_refused(change):
    logs = {"metrics.jsonl": 0, "timing.jsonl": 0}
    sound = {"until": 9, "best": 1.0, "logs": logs, "seconds": dict.fromkeys(PARTS, 0.0)}
    assert Continued.of(checkpoint.Checkpoint({}, sound), "x").until == 9
    with pytest.raises(LPOError, match="has no resume information"):
        Continued.of(checkpoint.Checkpoint({}, sound | change), "x")


@pytest.mark.parametrize("record", ["3", "[]", "null", "{", '{"config": 3}', '"a"'])
def test_a_policy_whose_record_is_none_is_refused(record):
    data = safetensors.numpy.save({"a": np.zeros(1)}, {"lpo": record})
    with pytest.raises(LPOError):
        Policy.from_bytes(data, "x")


@pytest.mark.parametrize(("old", "new"), [(b'"U8"', b'"F8"'), (b"1" * 19, b"9" * 19)])
def test_tensors_of_an_unknown_type_or_shape_are_refused(old, new, tmp_path):
    data = safetensors.numpy.save({"a": np.zeros((0, int("1" * 19)), np.uint8)}).replace(old, new)
    (tmp_path / "a.safetensors").write_bytes(data)
    record = {"format": checkpoint.FORMAT, "sha256": fuzz.hashlib.sha256(data).hexdigest()}
    record["record_sha256"] = checkpoint.digest(record)
    (tmp_path / "a.json").write_text(json.dumps(record))
    with pytest.raises(LPOError, match="not a safetensors file"):
        checkpoint.load(tmp_path / "a.safetensors")


@pytest.mark.slow
def test_a_small_packed_file_that_unpacks_to_a_lot_is_refused(tmp_path):
    """A few hundred bytes that say "0.0, sixty million times"."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    steps = pa.array([np.zeros(store.VALUES + 1, np.int64)], pa.list_(pa.int64()))
    table = pa.table({"name": ["a"], "env_steps": steps})
    table = table.replace_schema_metadata({"lpo": json.dumps({"format": store.FORMAT})})
    parquet.write_table(table, tmp_path / "a.parquet", compression="zstd")
    assert (tmp_path / "a.parquet").stat().st_size < 2000
    with pytest.raises(LPOError, match="numbers, and 20,000,000 are the most"):
        store.read(tmp_path / "a.parquet")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")
def test_memory_is_limited_and_then_free_again():
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryError), limited_memory(2**28):
        np.ones(2**30, np.uint8)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_a_message_is_one_short_line_whatever_it_quotes(tmp_path):
    values = config.to_dict(configure("ppo")) | {"algo": "\x1b[2J\n" + "x" * 10**6}
    with pytest.raises(LPOError) as raised:
        config.from_dict(values, "config.json")
    assert str(raised.value).isprintable() and len(str(raised.value)) < 1500


def test_a_folder_is_checked_through_its_own_link(tmp_path):
    run_files(tmp_path / "run", env="CartPole-v1")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    check_folder(tmp_path / "link")
    assert RunDirectory.open(tmp_path / "link").metrics() == []


@pytest.mark.slow
def test_the_licences_of_all_dependencies_are_listed():
    import runpy

    script = runpy.run_path(str(SOURCE.parents[1] / "scripts" / "licences.py"))
    listed = script["listed"]()
    assert len(listed) > 40 and "jax" in listed
    for name, (kind, _) in script["collect"]().items():
        assert name in listed, f"{name} is not listed; run python scripts/licences.py"
        assert kind, name
