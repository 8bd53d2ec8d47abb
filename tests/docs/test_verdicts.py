"""The page on verdicts says what the packed runs say."""

import runpy
from functools import cache
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
VERDICTS = ROOT / "experiments" / "verdicts"
pytestmark = pytest.mark.skipif(
    not VERDICTS.is_dir(), reason="packed results are in the repository, not in the sdist"
)


@cache
def script() -> dict:
    return runpy.run_path(str(VERDICTS / "tables.py"))


def page() -> str:
    return (ROOT / "docs" / "results" / "verdicts.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["claims", "bias", "ways", "scales", "rules"])
def test_the_tables_of_the_page_are_those_of_the_packed_runs(name):
    text = script()["TABLES"][name]()
    assert len(text) > 100 and text in page()


def test_a_claim_is_judged_by_the_chance_of_both_evaluations():
    """A spread of 2 over 16 and 16 episodes: 2·√(1/16 + 1/16) = 1/√2; two such runs have 1/2."""
    again = {"return": 3.0, "sd": 2.0, "episodes": 16}
    line = {"claim": {"return": 4.0, "episodes": 16}, "again": again}
    assert script()["error"](line) == pytest.approx(0.5**0.5)
    assert script()["mean_difference"]([line, line]) == pytest.approx((1.0, 0.5))


def test_a_way_is_far_ahead_by_a_fifth_of_the_larger_return():
    """-70 is more than a fifth above -100, and -90 is not."""
    pairs = [(-70.0, -100.0), (-90.0, -100.0), (0.0, 0.0), (1.0, 10.0)]
    assert script()["count"](pairs) == ["1 of 4", "1 of 4"]


def test_a_run_is_solved_by_the_better_of_its_two_ways():
    runs = [{"success": {"mode": m, "sampled": s}} for m, s in ((0.8, 0.0), (0.7, 0.79), (0, 1))]
    assert script()["solved"](runs) == "2 of 3"


def test_advice_is_read_as_it_is_printed(monkeypatch):
    from lpo.config import configure
    from lpo.runs.costs import Costs
    from lpo.runs.unit import SmallRewards

    monkeypatch.syspath_prepend(VERDICTS)
    found = runpy.run_path(str(VERDICTS / "scales.py"))
    told, task = found["told"], found["Task"](1, "")
    (small,) = SmallRewards(configure("default"), {"id": "Toy-v0"}).look(0.01, 100)
    assert told(small, task) == ("", {"alpha": 100.0, "earned_reward": 0.01})
    more = task._replace(pays=0.5)
    assert told(small, more) == ("", {"alpha": 2.0, "earned_reward": 0.5})
    assert told(small, more, literally=True) == told(small, task)
    costs = {"rollout/return": -50.0, "rollout/length": 50.0, "rollout/reward_max": -1.0}
    (cost,) = Costs(configure("default"), {"id": "Toy-v0"}).look(costs, 100)
    assert told(cost, task._replace(free=True)) == ("+1", {})
    assert told(cost, task) == ("", {"beta": 1.0})
    assert told("", task) is None


def test_the_key_opens_the_door(monkeypatch):
    """Eight steps up reach the key, eight to the right the other room, and eight down the goal."""
    monkeypatch.syspath_prepend(VERDICTS)
    env = runpy.run_path(str(VERDICTS / "tasks.py"))["KeyDoor"]()
    start, _ = env.reset(None, {})
    rewards = {}
    for name, moves in {"key": [0] * 8 + [1] * 8 + [2] * 8, "none": [1] * 8 + [2] * 8}.items():
        state, reward = start, 0.0
        for move in moves:
            step = env.step(state, np.array([move], np.float32), None, {})
            state, reward = step.state, float(step.reward)
        rewards[name] = reward
    assert rewards == {"key": 1.0, "none": 0.0}


def test_tried_rules_keep_the_numbers_of_the_default(monkeypatch):
    from lpo.config import flat

    monkeypatch.syspath_prepend(VERDICTS)
    configured = runpy.run_path(str(VERDICTS / "scales.py"))["configured"]
    today = flat(configured("key-cost", "untold"))
    for row in ("costs", "unit"):
        tried = flat(configured("key-cost", row))
        assert {name for name in today if today[name] != tried[name]} == {"weighing"}


def test_what_the_page_says_of_the_small_sure_reward():
    lines = script()["lines_of"]("scales")
    literal = script()["solved"]([x for x in lines if x["row"] == "literal"])
    assert f"If 1e-5 is passed as R, {literal} runs" in page()
    ever = {}
    for task in ("car-0.01", "sea-0.01"):
        runs = [x for x in lines if (x["task"], x["row"]) == (task, "untold")]
        ever[task] = sum(x["ever"] >= script()["SOLVED"] for x in runs)
    assert ever == {"car-0.01": 16, "sea-0.01": 12}
    assert "All runs of the car and twelve of DeepSea solve some evaluation" in page()


def test_half_of_the_bias_is_one_run():
    lines = script()["lines_of"]("ways")
    shares = {}
    for runs in script()["by_task"](lines).values():
        for x in runs:
            share = script()["difference"](x) / script()["scale"](x) / len(runs)
            shares[x["task"], x["run"]] = share
    (task, _), most = max(shares.items(), key=lambda item: item[1])
    assert task.startswith("SparseHopper")
    assert 0.45 < most / sum(shares.values()) < 0.55
    assert "Half of it comes from one run on SparseHopper" in page()
