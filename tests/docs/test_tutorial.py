"""The code of the tutorial runs as it stands on the page, with fewer steps."""

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from lpo.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
FEWER = {"150_000": "2_048", "150000": "2048", "10_000": "2_048", "5_000": "2_000"}
FILE = re.compile(r"# (\w+\.py)\n")


def blocks(language: str) -> list[str]:
    text = PAGE.read_text()
    for many, few in FEWER.items():
        text = text.replace(many, few)
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that the page tells the reader to save; modules in it import."""
    path = tmp_path_factory.mktemp("tutorial")
    for block in blocks("python"):
        if named := FILE.match(block):
            (path / named[1]).write_text(block)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        patch.syspath_prepend(str(path))
        yield path
    sys.modules.pop("my_maze", None)


@pytest.mark.slow
def test_the_python_of_the_page(folder):
    assert (folder / "my_maze.py").exists()
    names: dict = {}
    for block in blocks("python"):
        if not FILE.match(block):
            exec(compile(block, str(PAGE), "exec"), names)
    scores = names["scores"]
    assert 0 <= scores["success"] <= 1 and scores["length"] <= 200
    assert scores["success"] == scores["return"]  # an episode pays 1 if it succeeds, else 0
    assert names["rows"], "no evaluation in the curve"
    assert (folder / "maze.png").stat().st_size > 1000
    np.testing.assert_array_equal(names["action"], names["same_action"])
    assert names["agent"].env_steps >= 2 * 2_048


def test_the_wall_stops_and_the_goal_pays(folder):
    """The maze by hand: straight to the right ends at the wall; over its top to the goal."""
    import my_maze  # pyright: ignore[reportMissingImports]

    env = my_maze.Maze()
    obs, _ = env.reset(seed=0)
    env.point = np.array([0.1, 0.1])
    for _ in range(10):
        obs, reward, ended, _, info = env.step(np.array([1.0, 0.0]))
        assert (reward, ended, info["is_success"]) == (0.0, False, False)
    assert 0.39 < obs[0] < 0.5 and obs[1] == pytest.approx(0.1)
    way = [(0.0, 1.0)] * 8 + [(1.0, 0.0)] * 5 + [(0.0, -1.0)] * 8
    steps = [env.step(np.array(action)) for action in way]
    assert [reward for _, reward, *_ in steps].count(1.0) >= 1
    _, reward, ended, _, info = next(step for step in steps if step[1] > 0)
    assert (reward, ended, info["is_success"]) == (1.0, True, True)


@pytest.mark.slow
def test_the_commands_of_the_page(folder, capsys):
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert [line.split()[2] for line in lines] == ["train", "eval", "plot"]
    for line in lines:
        prefix, *arguments = shlex.split(line)
        assert prefix == "PYTHONPATH=." and arguments.pop(0) == "lpo"
        main(arguments)
    assert re.search(r"success \d+%", capsys.readouterr().out)
    assert (folder / "runs" / "maze" / "curve.png").exists()
