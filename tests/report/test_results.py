"""The numbers on the pages of the docs are those of the packed runs, to the last printed digit."""

import re
import runpy
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lpo.errors import LPOError
from lpo.report.runs import Runs
from lpo.report.stats import iqm
from lpo.report.tables import cell_rows, stream_rows, write_markdown

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "experiments"
pytestmark = pytest.mark.skipif(
    not EXPERIMENTS.is_dir(), reason="packed results are in the repository, not in the sdist"
)
RESULTS = EXPERIMENTS / "default" / "results"
FOUND = sorted(
    str(p.relative_to(EXPERIMENTS))
    for p in EXPERIMENTS.glob("*/results/*.parquet")
    if p.parts[-3] != "theory"  # whose files have a format and tests of their own
)
RUNS = {
    "figure1/results/seeds64": 1600, "figure1/results/turned": 640,
    "figure1/results/switch": 1152, "figure1/results/readings": 448,
    "default/results/locomotion": 640, "components/results/lock5": 448,
    "components/results/lock10": 448, "components/results/lock15": 448,
    "figure2/results/device10k": 4608, "device/results/agreement-host": 40,
    "device/results/agreement-gpu": 40, "device/results/agreement-planar": 40,
    "default/results/first": 32, "components/results/lock5-controls": 320,
    "components/results/lock10-controls": 320, "components/results/lock15-controls": 320,
    "default/results/confirm": 2880, "default/results/dense": 496, "default/results/ablate": 3232,
    "default/results/again": 1052, "default/results/pairs": 576, "default/results/lock10": 512,
    "default/results/long": 232, "default/results/units": 32, "default/results/others": 240,
    "frontier/results/ablate-corridor3": 128, "frontier/results/ablate-doorkey8": 160,
    "frontier/results/ablate-lava": 160, "frontier/results/ablate-rooms6": 160,
    "frontier/results/corridor3": 64, "frontier/results/corridor5": 64,
    "frontier/results/corridor6": 64, "frontier/results/doorkey8": 64,
    "frontier/results/lava": 64, "frontier/results/maze1q": 64, "frontier/results/maze2": 64,
    "frontier/results/rooms7": 64,
}  # fmt: skip
CUT_OFF = {  # runs that ended before their budget, as the pages say
    "default/results/long": 32, "frontier/results/ablate-corridor3": 96,
    "frontier/results/ablate-rooms6": 48, "frontier/results/corridor3": 64,
    "frontier/results/corridor6": 64, "frontier/results/maze1q": 64,
    "frontier/results/maze2": 64,
}  # fmt: skip
UNTIMED = {name for name in RUNS if name.startswith("frontier/")}  # packed without their timing
CELLS = [  # sweeps whose table of cells a page prints; the others are printed by their scripts
    "figure2/results/device10k", "figure1/results/seeds64", "figure1/results/turned",
    "figure1/results/switch", "figure1/results/readings",
]  # fmt: skip
HEADS = ("| task | label |", "| task | algorithm |")


@cache
def packed(name: str) -> Runs:
    return Runs([EXPERIMENTS / f"{name}.parquet"])


@cache
def pages() -> str:
    return "\n".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "docs").rglob("*.md")))


def script(name: str) -> dict:
    return runpy.run_path(str(EXPERIMENTS / name))


def test_every_packed_sweep_is_known_here():
    assert sorted(name.removesuffix(".parquet") for name in FOUND) == sorted(RUNS)


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=[pytest.mark.slow] * (n > 1000)) for x, n in RUNS.items()],
)
def test_a_packed_sweep_is_whole(name):
    found = packed(name)
    assert len(found.runs) == RUNS[name] and not found.empty
    timed = name not in UNTIMED
    assert all(run.packed and (run.timing or not timed) for run in found.runs)
    assert sum(not run.finished for run in found.runs) == CUT_OFF.get(name, 0)


@pytest.mark.parametrize("name", CELLS)
def test_the_tables_of_the_pages_are_those_of_the_runs(name, tmp_path):
    found = packed(name)
    write_markdown(cell_rows(found), stream_rows(found), tmp_path)
    assert (tmp_path / "cells.md").read_text(encoding="utf-8") in pages()


@pytest.mark.slow
def test_host_and_gpu_differ_by_chance():
    table = script("device/agreement.py")["table"]()
    assert table in pages()
    for line in table.splitlines()[2:]:
        low, high = line.split("|")[6].split("–")
        assert float(low) < 0.5 < float(high)


@pytest.mark.parametrize(("which", "rows"), [("lock", 21), ("controls", 15)])
def test_the_tables_of_the_components_are_those_of_their_script(which, rows):
    text = script("components/table.py")["TABLES"][which]()
    assert text.count("\n") == rows + 1 and text in pages()


def test_the_table_of_the_default():
    """A dead row of lock(10) earns .22 of 1.02. All runs of pcpg open it, and none of ppo."""
    default = script("default/table.py")
    names = ["components/results/lock10.parquet", "components/results/lock5.parquet"]
    runs = default["read"]([EXPERIMENTS / name for name in names])
    lines = default["table"](runs, "ppo").splitlines()
    lock = "| CombinationLock (length=10) |"
    own = f"{lock} `ppo` | 64 | 0.22 [0.22, 0.22] | 0% | 0.22 [0.22, 0.22] |"
    assert lines[2] == f"{own} `pcpg`: 0.00 [0.00, 0.00], below |"
    assert [line.count("against") + line.count("below") for line in lines[:9]] == [1, 0, 1] + [
        0
    ] * 6
    assert f"{lock} `pcpg` | 64 | 1.00 [1.00, 1.00] | 100% |" in lines[3]
    assert lines[-7].startswith("| `ppo` | 2 |") and lines[-6].startswith("| `pcpg` | 2 |")


def test_returns_that_differ_in_late_digits_are_a_tie():
    """A tie and a win: ¾. With all digits it would be a loss and a win."""
    runs = lambda *ends: [SimpleNamespace(final=end) for end in ends]  # noqa: E731
    found = script("default/table.py")["chance"](runs(1.013333, 2.0), runs(1.0133333206))
    assert found.startswith("0.75 [")
    beats = script("pairs.py")["beats"]
    assert beats([runs(991.8, 992.0)], [runs(991.80001)], "final").value == 0.75


def test_the_first_command_finds_and_keeps_the_reward():
    runs = packed("default/results/first")
    assert all(run.final > 500 for run in runs.runs)
    path = EXPERIMENTS / "default" / "results" / "first.parquet"
    table = script("default/table.py")["table"](Runs([path]), "lpo-w")
    assert table.split("\n\n")[0] in pages()


CONFIRMED = ["default/results/confirm", "default/results/locomotion", "figure1/results/seeds64"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "names", [CONFIRMED, ["default/results/dense"], ["default/results/others"]]
)
def test_the_default_is_confirmed_as_the_page_says(names):
    paths = [EXPERIMENTS / f"{name}.parquet" for name in names]
    table = script("default/table.py")["table"](Runs(paths))
    assert table.split("\n\n")[0] in pages()
    assert len(names) == 1 or table in pages()
    assert "below" not in table  # on no task is the best other row ahead by more than chance


@pytest.mark.slow
def test_the_default_is_below_no_row_by_more_than_chance():
    runs = Runs([EXPERIMENTS / f"{name}.parquet" for name in CONFIRMED])
    chance = script("default/table.py")["chance"]
    others = [(t, x, cell) for t, x, cell in runs.cells() if x != "default"]
    assert len(others) > 60
    for task, label, cell in others:
        assert "below" not in chance(runs.cell(task, "default"), cell), (task, label)


@pytest.mark.slow
def test_on_tasks_by_others_the_default_is_above_every_row_by_more_than_chance():
    chance, runs = script("default/table.py")["chance"], packed("default/results/others")
    others = [(task, cell) for task, label, cell in runs.cells() if label != "default"]
    assert len(others) == 12
    for task, cell in others:
        low = re.search(r"\[([\d.]+),", chance(runs.cell(task, "default"), cell))
        assert low is not None and float(low[1]) > 0.5


@pytest.mark.slow
def test_the_default_on_other_seeds_is_what_the_page_says():
    """The same score. Below the best other row on one task of fourteen, which no row solves."""
    default = script("default/table.py")
    names = ("confirm", "locomotion", "again")
    paths = [EXPERIMENTS / f"default/results/{name}.parquet" for name in names]
    assert default["beside"](Runs(paths), "again", "default") in pages()
    paths.append(EXPERIMENTS / "figure1/results/seeds64.parquet")
    table = default["table"](default["read"](paths, without=["default"]), "again")
    assert "`default`" not in table and "| `lpo` | 14 | 0.55 [0.53, 0.58] | 0.93 [0.92" in table
    below = [line for line in table.splitlines() if "below" in line]
    assert len(below) == 1 and below[0].startswith("| MiniGrid-KeyCorridorS3R3 | `again` |")
    both = default["read"]([*paths, RESULTS / "dense.parquet"], "default", same=["again"])
    below = [line for line in default["table"](both).splitlines() if "below" in line]
    assert len(below) == 1 and below[0].startswith("| CartPole | `default` | 128 |")


@pytest.mark.slow
def test_ingredients_are_compared_with_the_default_as_the_page_says():
    default = script("default/table.py")
    assert default["chances"](Runs([RESULTS / "ablate.parquet"])) in pages()


def test_rows_that_are_not_there_are_named():
    with pytest.raises(LPOError, match=r"No row is called 'defualt'; choose one of .*lpo-w"):
        script("default/table.py")["read"]([RESULTS / "first.parquet"], without=["defualt"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["seeds64", "turned", "switch", "angles", "readings", "lpo-s", "figure2", "others"]
)
def test_pairs_of_rows_are_what_the_page_says(name):
    assert script("pairs.py")["table"](name) in pages()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ablate", "lock10", "long", "units"])
def test_ingredients_and_rows_are_compared_as_the_page_says(name):
    path = EXPERIMENTS / "default" / "results" / f"{name}.parquet"
    assert script("default/table.py")["across"](Runs([path])) in pages()


def test_costs_are_what_the_page_for_practitioners_shows():
    assert script("default/costs.py")["table"]() in pages()


def test_every_task_has_the_same_weight():
    """Two runs at 0 and four at 1: half of the middle half is 0, and not a quarter."""
    weighed = script("default/table.py")["iqm_of_tasks"]
    assert weighed([np.zeros(2), np.ones(4)]) == 0.5
    assert weighed([np.array([0.0, 1.0]), np.ones(4)]) == 1.0
    scores = [np.random.default_rng(0).random((5, 16)) for _ in range(3)]
    np.testing.assert_allclose(weighed(scores), iqm(scores))


def test_no_table_of_numbers_is_left_unchecked():
    """Tables with the heads of reports and scripts: as many as the tests above compare."""
    heads = [line for line in pages().splitlines() if line.startswith(HEADS)]
    assert len(heads) == len(CELLS) + 2  # two of components/table.py


def test_figures_of_the_docs_are_those_that_pages_show():
    build = runpy.run_path(str(ROOT / "scripts" / "build_results.py"))
    folder = ROOT / "docs" / "figures"
    kept = {p.relative_to(folder).as_posix() for p in folder.rglob("*.svg")}
    reports = {report.name for report in build["ALL"]}
    assert {name for name in kept if name.split("/")[0] in reports} == build["shown"]()
    assert all(path.exists() for report in build["ALL"] for path in report.files())
    used = {source for report in build["ALL"] for source in report.sources}
    reported = {name.replace("/results", "") for name in RUNS if not name.startswith("frontier/")}
    assert used == reported


def test_pages_show_figures_that_are_there():
    shown = 0
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"!\[[^]]*\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
                shown += 1
    assert shown > 15
