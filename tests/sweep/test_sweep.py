"""Sweeps: grids, where runs stand, one writer per run, failures that stop nothing, kills."""

import importlib.util
import os
import runpy
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import gymnasium
import pytest

from lpo import cli
from lpo.config import flat
from lpo.errors import LPOError
from lpo.runs import run
from lpo.runs.directory import RunDirectory, clear
from lpo.sweep.board import Board, clock
from lpo.sweep.grid import Grid, Item, expand, read_grid
from lpo.sweep.jobs import TrainingJob
from lpo.sweep.plan import held, last_words, standing, write_plan

CACHE = ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS")
GRID = """
name = "test"
algos = ["ppo", "lpo"]
envs = ["lpo/SparseHopper-v0"]
seeds = 1
steps = 1200
thresholds = ["half"]

[overrides]
num_envs = 4
rollout = 160
batch_size = 16
epochs = 2
hidden = [8]
eval_every = 400
eval_episodes = 2
eval_max_steps = 50
checkpoint_every = 300
"""


def values(**changes):
    base = {"name": "g", "algos": ["ppo", "lpo"], "envs": ["lpo/SparseHopper-v0"], "seeds": 2}
    return {key: v for key, v in {**base, "steps": 5000, **changes}.items() if v is not None}


def lpo(*arguments) -> int:
    try:
        cli.main([str(a) for a in arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


# --- grids


def test_a_grid_is_a_product_with_seeds_outermost():
    envs = ["lpo/SparseHopper-v0", "lpo/SparseWalker2d-v0"]
    grid = expand(values(envs=envs, thresholds=["half", 1.5], overrides={"epochs": 3}))
    assert len(grid.items) == 2 * 2 * 2 * 2
    assert grid.items[0].name == "ppo-SparseHopper-v0-half-s0"
    assert grid.items[3].name == "lpo-SparseHopper-v0-1.5-s0"
    assert [item.config.seed for item in grid.items] == [0] * 8 + [1] * 8
    assert {item.config.task.threshold for item in grid.items} == {"half", 1.5}
    assert {item.config.ppo.epochs for item in grid.items} == {3}
    sizes = {item.config.task.env: item.config.ppo.batch_size for item in grid.items}
    assert list(sizes.values()) == [32, 16]  # the paper's table, by environment


def test_variants_are_crossed_or_stand_alone():
    variants = {"paper": {}, "flat": {"algo": "eniac"}, "wide": {"rollout": 4096}}
    grid = expand(values(algos=["lpo"], seeds=[7], variants=variants))
    assert [(i.label, i.config.algo, i.config.switch.rollout) for i in grid.items] == [
        ("paper", "lpo", 2048), ("flat", "eniac", 2048), ("wide", "lpo", 4096),
    ]  # fmt: skip
    crossed = expand(values(seeds=1, variants={"a": {}, "b": {"epochs": 2}}))
    assert [i.label for i in crossed.items] == ["ppo-a", "lpo-a", "ppo-b", "lpo-b"]


def test_a_variant_may_start_from_a_preset_of_its_own():
    variants = {"ppo": {"algo": "ppo"}, "sb3": {"algo": "ppo", "preset": "sb3"}}
    grid = expand(values(algos=None, seeds=1, variants=variants, overrides={"epochs": 3}))
    found = [(i.label, i.config.task.num_envs, i.config.network.normalize_obs) for i in grid.items]
    assert found == [("ppo", 8, True), ("sb3", 1, False)]
    assert {i.config.ppo.epochs for i in grid.items} == {3}  # an override counts more
    assert {i.config.algo for i in grid.items} == {"ppo"}


def test_an_override_reaches_the_rows_that_read_it():
    grid = expand(values(seeds=1, overrides={"beta": 2.0, "hidden": [32, 32]}))
    betas = {i.config.algo: flat(i.config).get("beta") for i in grid.items}
    assert betas == {"ppo": None, "lpo": 2.0}
    assert {i.config.network.hidden for i in grid.items} == {(32, 32)}


def test_only_native_tasks_are_given_a_thread_count():
    assert {i.config.task.threads for i in expand(values()).items} == {1}
    other = expand(values(envs=["MountainCarContinuous-v0"]))
    assert {i.config.task.threads for i in other.items} == {None}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"algos": ["dqn"]}, "choose one of"),
        ({"algos": None}, "add `algos"),
        ({"envs": []}, "add `envs"),
        ({"envs": ["lpo/SparseHoper-v0"]}, "SparseHopper"),
        ({"seeds": -1}, "1 or more"),
        ({"seeds": [0, 0]}, "twice"),
        ({"seeds": "five"}, "seeds is 'five'"),
        ({"steps": 0}, "add `steps"),
        ({"step": 5}, "did you mean 'steps'"),
        ({"thresholds": ["harder"]}, "choose one of half"),
        ({"thresholds": ["half"], "envs": ["MountainCarContinuous-v0"]}, "has no threshold; leave"),
        ({"overrides": {"epoch": 2}}, "did you mean 'epochs'"),
        ({"overrides": {"epochs": "two"}}, "must be a whole number"),
        ({"overrides": {"bonus_inputs": "a"}}, "one of sa, next, s"),
        ({"overrides": {"beta": 2.0}, "algos": ["ppo"]}, "no run of the grid reads"),
        ({"variants": {"a": {"algo": "ppo", "beta": 2.0}}, "algos": None}, "no effect on ppo"),
        ({"overrides": {"seed": 2}}, "set seeds at the top"),
        ({"variants": {"a/b": {}}}, "name of a folder"),
        ({"variants": {"a": {"algo": "lpo"}}}, "remove it"),
        ({"variants": {"a": 3}}, "[variants.NAME]"),
        ({"variants": {"a": {"preset": "best"}}}, "No preset is called 'best'"),
        ({"name": "../up"}, "name of a folder"),
    ],
)
def test_a_bad_grid_is_refused_with_its_remedy(changes, words):
    with pytest.raises(LPOError) as error:
        expand(values(**changes))
    assert words in str(error.value) and "\n" not in str(error.value)


def test_what_is_no_grid_is_refused(tmp_path, capsys):
    (tmp_path / "bad.toml").write_text("name = ")
    assert lpo("sweep", tmp_path / "bad.toml") == 2
    assert "is not TOML" in capsys.readouterr().err
    assert lpo("sweep", tmp_path / "none.toml") == 2
    assert "pass the TOML file" in capsys.readouterr().err


# --- where runs stand, and who may write


@pytest.fixture
def planned(tmp_path, tiny) -> tuple[Path, Item]:
    item = Item("a", "lpo", tiny())
    write_plan(tmp_path, Grid("g", [item]))
    return tmp_path, item


@pytest.mark.slow
def test_where_a_run_stands_is_read_from_its_directory(planned, tiny):
    root, item = planned
    assert standing(root, item) == ("new", 0)
    with run.start(item.config, root / "a") as begun:
        assert standing(root, item) == ("new", 0)  # no checkpoint yet
        begun.advance(1200, lambda step, metrics: False)
    assert standing(root, item) == ("started", begun.env_steps)
    found = run.resume(root / "a")
    with found.run as resumed:
        resumed.advance(found.until)
    assert standing(root, item).state == "done"
    assert RunDirectory(root / "a").latest_metrics()["env_steps"] == resumed.env_steps
    with pytest.raises(LPOError, match=r"made with epochs 2, and the grid says 3"):
        standing(root, Item("a", "lpo", tiny(epochs=3)))


def test_a_run_without_a_checkpoint_is_cleared_but_nothing_else(planned):
    root, item = planned
    run.start(item.config, root / "a").close()
    clear(RunDirectory(root / "a"))
    assert not (root / "a").exists()
    (root / "a").mkdir()
    (root / "a" / "thesis.tex").write_text("all my work")
    with pytest.raises(LPOError, match=r"thesis\.tex"):
        clear(RunDirectory(root / "a"))


@pytest.mark.slow
def test_a_run_has_one_writer(planned):
    root, item = planned
    with run.start(item.config, root / "a") as begun:
        begun.advance(1200, lambda step, metrics: False)
        written = (root / "a" / "metrics.jsonl").read_bytes()
        for second in (run.resume, lambda path: clear(RunDirectory(path))):
            with pytest.raises(LPOError, match="being written by another process"):
                second(root / "a")
        assert (root / "a" / "metrics.jsonl").read_bytes() == written != b""
    run.resume(root / "a").run.close()  # it has ended, so it may go on


def test_a_sweep_has_one_owner_and_a_directory_of_its_own(tmp_path):
    with held(tmp_path), pytest.raises(LPOError, match="Another sweep"), held(tmp_path, 0.1):
        pass
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("all my work")
    with pytest.raises(LPOError, match="not a sweep"), held(tmp_path / "mine"):
        pass


def test_time_left(tmp_path, tiny):
    items = [Item(name, "lpo", tiny(steps=1000)) for name in "abc"]
    board = Board("g", [TrainingJob(tmp_path, item) for item in items], workers=2)
    a, b, c = board.tracks.values()
    assert board.seconds_left([a, b, c]) is None
    a.state, a.steps = "done", 1000
    a.pace, b.pace, b.rate = 30.0, 10.0, 10.0
    b.state, b.steps = "running", 600
    # 400 + 1000 steps over two places at a mean of 20 steps/s
    assert board.seconds_left([a, b, c]) == 35.0
    assert "1/3 done, 1 running, 10 steps/s, 0 min 35 s left" in board.summary()
    assert board.row([a, b])[0] == "1/2"
    assert clock(3 * 3600 + 61) == "3 h 01 min"


# --- whole sweeps


@pytest.mark.slow
def test_a_failed_run_is_reported_and_stops_nothing(tmp_path, capsys, monkeypatch):
    outside = str(Path(__file__).parents[1] / "outside")
    monkeypatch.setenv("PYTHONPATH", outside, prepend=os.pathsep)
    monkeypatch.syspath_prepend(outside)
    grid, root = tmp_path / "g.toml", tmp_path / "out"
    text = GRID.replace('thresholds = ["half"]', "").replace('["ppo", "lpo"]', '["ppo"]')
    grid.write_text(text.replace("envs = [", 'envs = ["faulty:Raises-v0", '))
    monkeypatch.delitem(sys.modules, "faulty", raising=False)
    for name, spec in list(gymnasium.registry.items()):  # another test may have imported it
        if str(spec.entry_point).startswith("faulty:"):
            monkeypatch.delitem(gymnasium.registry, name)
    assert lpo("sweep", grid, "--out", root, "--workers", "1") == 2
    assert "if you trust the package, add `--import faulty`." in capsys.readouterr().err
    assert lpo("sweep", grid, "--out", root, "--workers", "1", "--import", "faulty") == 1
    said = capsys.readouterr().out
    failed, good = "ppo-Raises-v0-s0", "ppo-SparseHopper-v0-s0"
    assert f"FAILED {failed}" in said and f"{failed}.log" in said and "on fire" in said
    assert "on fire" in last_words(root, failed)
    assert f"done   {good}" in said and "1/2 done" in said and "1 failed" in said
    assert RunDirectory(root / good).metrics()[-1]["env_steps"] == 1200
    before = {p: p.stat().st_mtime_ns for p in (root / good).rglob("*")}
    assert lpo("sweep", grid, "--out", root, "--plan") == 0
    said = capsys.readouterr().out
    assert "done          1,200 / 1,200" in said and "started" in said
    assert (
        lpo("sweep", grid, "--out", root, "--workers", "1", "--import=faulty") == 1
    )  # it is tried again
    assert "2 runs" in (said := capsys.readouterr().out) and "1 to do" in said
    assert {p: p.stat().st_mtime_ns for p in (root / good).rglob("*")} == before


def test_workers_beyond_the_cores_are_refused(tmp_path, capsys):
    (tmp_path / "g.toml").write_text(GRID)
    assert lpo("sweep", tmp_path / "g.toml", "--out", tmp_path / "o", "--workers", "1000") == 2
    assert "cores; pass 1 to" in capsys.readouterr().err


def start_sweep(grid: Path, root: Path, **env: str) -> subprocess.Popen:
    """As a user starts it, whom no cache of the test suite serves."""
    command = [sys.executable, "-m", "lpo.cli", "sweep", str(grid), "--out", str(root)]
    plain = {k: v for k, v in os.environ.items() if k not in CACHE}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=plain | env)


def workers_of(root: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"lpo.sweep.worker" in words and str(root).encode() in words:
            found.append(int(entry.name))
    return found


def wait_for(condition, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def long_grid(tmp_path: Path, steps: int = 24_000) -> Path:
    grid = tmp_path / "g.toml"
    text = GRID.replace("steps = 1200", f"steps = {steps}").replace("seeds = 1", "seeds = 2")
    grid.write_text(text)
    return grid


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_killed_sweep_goes_on_to_the_same_bytes(tmp_path):
    """And compiled code that runs share makes the same bytes as code that each compiles."""
    grid = long_grid(tmp_path)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert start_sweep(grid, whole, JAX_ENABLE_COMPILATION_CACHE="false").wait(300) == 0
    names = [item.name for item in read_grid(grid).items]
    kills = 0
    for pattern in ("*/metrics.jsonl", *["*/checkpoints/0*.json"] * 3):
        before = set(cut.glob(pattern))  # the first kill comes before any checkpoint
        process = start_sweep(grid, cut)
        wait_for(lambda p=pattern, b=before, q=process: set(cut.glob(p)) - b or q.poll() == 0)
        if process.poll() is not None:
            break
        pids = workers_of(cut)
        cores = [os.sched_getaffinity(pid) for pid in pids]
        assert all(len(core) == 1 for core in cores) and len(set(map(tuple, cores))) == len(cores)
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_for(lambda: not workers_of(cut), 10)  # children die with their parent
        assert list((cut / ".compiled").iterdir())  # what its runs have shared
        kills += 1
    assert kills >= 2
    assert start_sweep(grid, cut).wait(300) == 0
    assert not (cut / ".compiled").exists()
    for name in names:
        for file in ("metrics.jsonl", "config.json", "checkpoints/000000024000.safetensors"):
            assert (cut / name / file).read_bytes() == (whole / name / file).read_bytes(), name


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_stopped_sweep_checkpoints_its_runs(tmp_path):
    grid, root = long_grid(tmp_path, 120_000), tmp_path / "out"  # not done before it is stopped
    process = start_sweep(grid, root)
    wait_for(lambda: list(root.glob("*/checkpoints/0*.json")))
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert workers_of(root) == []
    states = [standing(root, item) for item in read_grid(grid).items]
    reached = [s.env_steps for s in states if s.state == "started"]
    assert reached
    rows = [RunDirectory(root / i.name).latest_metrics() for i in read_grid(grid).items]
    assert all(s.env_steps == r["env_steps"] for s, r in zip(states, rows, strict=True) if r)


def test_the_grids_of_the_experiments_are_sound():
    folder = Path(__file__).parents[2] / "experiments"
    foreign = {"others-dm": 1, "pointmaze": 3}  # environments of packages that no test needs
    grids = {p.stem: read_grid(p) for p in folder.rglob("*.toml") if p.stem not in foreign}
    for path in folder.rglob("*.toml"):
        if path.stem in foreign:
            values = tomllib.loads(path.read_text())
            assert len(values["envs"]) == foreign[path.stem]
            assert all(":" in env for env in values["envs"])
            grids[path.stem] = expand(values | {"envs": ["MountainCar-v0"]})
    assert {"smoke", "device10k", "lock10", "first"} <= set(grids)
    labels = {item.label for item in grids["device10k"].items}
    algos = ("ppo", "eniac", "rnd", "lpo", "lpo-s", "pcpg", "eniac-original")
    crossed = {f"{a}-{n}" for a in algos for n in ("norm", "raw")}
    assert labels == crossed | {f"{a}-{n}-reset" for a in algos[-2:] for n in ("norm", "raw")}
    counts = {"lander": 48, "others": 160, "others-dm": 80, "lock10": 448, "device10k": 4608}
    assert {name: len(grids[name].items) for name in counts} == counts


def test_the_grids_of_the_confirmation_are_grids(monkeypatch):
    """The default is the same everywhere, and its seeds chose nothing."""
    folder = Path(__file__).parents[2] / "experiments" / "default"
    monkeypatch.syspath_prepend(str(folder))
    confirm = runpy.run_path(str(folder / "confirm.py"))
    lander = tomllib.loads((folder / "lander.toml").read_text())
    assert lander["variants"]["default"] == confirm["DEFAULT"]["default"]
    optional = () if importlib.util.find_spec("minigrid") else ("door", "corridor")
    for name, (_, steps, rows, _) in confirm["TASKS"].items():
        if name in optional:
            continue
        found = tomllib.loads(confirm["grid"](name))
        assert min(found["seeds"]) >= 100 and len(found["seeds"]) >= 32
        items = expand(found | {"seeds": [100]}).items
        assert {item.label for item in items} == set(rows)
        assert len(items) == len(rows) * len(found.get("thresholds", [None]))
        assert {item.config.steps for item in items} == {steps}
        assert rows.get("default", confirm["DEFAULT"]["default"]) == {"algo": "lpo-w"}
