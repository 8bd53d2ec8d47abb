"""The page on the frontier says what the packed runs say; the default moved where it says so."""

import re
import runpy
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from lpo.config import configure, flat
from lpo.report.stats import iqm

ROOT = Path(__file__).parents[2]
FRONTIER = ROOT / "experiments" / "frontier"
pytestmark = pytest.mark.skipif(
    not FRONTIER.is_dir(), reason="packed results are in the repository, not in the sdist"
)


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


@cache
def table() -> dict:
    return runpy.run_path(str(FRONTIER / "table.py"))


@pytest.mark.parametrize("name", ["frontier", "ablation", "fourteen"])
def test_the_tables_of_the_page_are_those_of_the_packed_runs(name):
    text = table()["TABLES"][name]()
    assert text.count("\n") > 3 and text in page("results/frontier")


def test_what_the_page_says_of_single_figures():
    runs_of, said = table()["runs_of"], " ".join(page("results/frontier").split())
    sampled = lambda run, steps: table()["until"](run, table()["SAMPLED"], steps)[-1]  # noqa: E731
    early = iqm([np.array([sampled(run, 115e3) for run in runs_of("doorkey8")])])
    assert f"{early:.2f} after 115k steps" in said
    some = [run.curve(table()["SAMPLED_SUCCESS"])[1] > 0 for run in runs_of("maze1q")]
    first, last = sum(x[0] for x in some), sum(x[-1] for x in some)
    assert f"{first} of 64 runs succeed now and then after 0.25M steps, and {last} after 4M" in said
    on_time = table()["solved"](runs_of("corridor3"), 600e3)
    assert f"{on_time} of the default" in said


def test_other_pages_have_the_score_with_these_numbers():
    of_all = table()["fourteen"]().splitlines()[-1].split("|")[3].strip()
    for name in ("README", "docs/results/default"):
        assert of_all in (ROOT / f"{name}.md").read_text(encoding="utf-8")


def test_a_run_is_solved_by_its_last_three_evaluations():
    """Successes of .8, .9, 1 have a mean of .9; the first .8 is at 20 steps; .6 at 10 is not."""

    class Run:
        @staticmethod
        def curve(metric):
            return np.array([10.0, 20.0, 30.0, 40.0]), np.array([0.6, 0.8, 0.9, 1.0])

    assert table()["solved"]([Run]) == "1 of 1" and table()["solved"]([Run], 30) == "0 of 1"
    assert table()["reached"](Run) == 20 and table()["ending"](Run, "", 30) == pytest.approx(
        2.3 / 3
    )


def test_the_page_of_the_default_lists_what_differs_on_grids():
    rows = re.findall(r"^\| `--([\w-]+)` \| ([^|]+) \| ([^|]+) \|$", page("algorithms/lpo-w"), re.M)
    said = {name.replace("-", "_"): (a, b) for name, a, b in rows}
    a, b = (flat(configure(env="CartPole-v1", grids=grid)) for grid in (False, True))
    shown = lambda x: x if isinstance(x, str) else f"{x:g}"  # noqa: E731
    differ = {name for name in a.keys() & b.keys() if a[name] != b[name]}
    assert {name: (shown(a[name]), shown(b[name])) for name in differ} == said


def test_of_the_fourteen_tasks_two_moved(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "experiments" / "default")
    tasks = runpy.run_path(str(ROOT / "experiments" / "default" / "confirm.py"))["TASKS"]
    fourteen = ("car", "sparse-car", "acrobot", "maze", "swing-up", "lock15", "sea30", "door",
                "corridor", "hopper-default", "walker-default", "cheetah-default")  # fmt: skip
    moved = set()
    for name in fourteen:
        env, more = tasks[name][0], tasks[name][3]
        kwargs = {"env_kwargs": more["env_kwargs"]} if "env_kwargs" in more else {}
        if configure(env=env, **kwargs) != configure(env=env, grids=False, **kwargs):
            moved.add(env)
    assert moved == {"MiniGrid-DoorKey-8x8-v0", "MiniGrid-KeyCorridorS3R3-v0"}


def test_the_figure_is_small():
    drawing = ROOT / "docs" / "figures" / "frontier" / "curves.svg"
    assert 5_000 < drawing.stat().st_size < 25_000
