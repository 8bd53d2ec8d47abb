"""Diagnoses: one hand-made run for each rule, and recorded runs whose story is known."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import lpo.cli
from lpo.config import configure, flat
from lpo.report.doctor import bonus_share, diagnose, examine
from lpo.report.runs import Runs

RESULTS = Path(__file__).parents[2] / "experiments"
TASK: dict[str, Any] = {"id": "Toy-v0", "horizon": 200, "max_return": 1.0}


def run(rate, score=0.0, ext=1.0, int_=0.1, **more) -> list[dict[str, Any]]:
    """Twenty rollouts with these shares of rewarded steps, evaluated on every second one."""
    rates = rate if isinstance(rate, list) else [rate] * 20
    return [
        {
            "env_steps": 1000 * (k + 1),
            "rollout/reward_rate": rates[k],
            "advantage/ext_rms": ext,
            "advantage/int_rms": int_,
            **({"eval/success": score} if k % 2 else {}),
            **more,
        }
        for k in range(20)
    ]


LPO = flat(configure("lpo", alpha=2.0, beta=1.0))
LOST = [0.0] * 5 + [0.4] * 10 + [0.1] * 5


@pytest.mark.parametrize(
    ("name", "rows", "facts", "remedy"),
    [
        (
            "no reward yet",
            run(0.0),
            "no positive reward in 20,000 steps",
            "weighing sized value_gain 0",
        ),
        ("no reward yet", run(0.0, int_=9.0), "the bonus is 82%", "bonus_inputs next"),
        ("settled for less", run(0.9, 0.2), "90% of the steps earn", "beta 4"),
        ("the bonus drowns it", run(0.3, int_=6.0), "the bonus is 75%", "beta 0.33"),
        ("met by chance", run(0.01), "1.00% of the steps", "weighing sized-fading"),
        ("found and lost", run(LOST), "40.00% of the steps earned reward", "larger rollout"),
        (
            "found and lost",
            run(LOST, **{"policy/clip_fraction": 0.5}),
            "50% of the updates are clipped",
            "learning_rate 3e-05",
        ),
        (
            "found and lost",
            run(0.3, 0.9)[:-10] + run(0.3, 0.1)[-10:],
            "the best score was 0.9 and is 0.1 now",
            "larger rollout",
        ),
        (  # a score that wavers about ½ is not lost
            "still learning",
            run(0.3, 0.52)[:-2] + run(0.3, 0.2)[-2:],
            "30.00% at the end",
            "--steps 40000",
        ),
        ("still learning", run(0.3, 0.3), "first reward by step 1,000", "--steps 40000"),
    ],
)
def test_one_run_for_each_rule(name, rows, facts, remedy):
    found = diagnose(rows, TASK, LPO)
    assert found is not None and found.name == name
    assert facts in found.facts and remedy in found.remedy
    assert found.lines()[0].startswith(f"why    {name}: ") and len(found.lines()) == 2


COSTS = {"rollout/return": -200.0}


def test_a_task_of_costs_is_judged_by_its_score():
    """No reward is ever above 0. Three of ten episodes succeeded at first, and then none."""
    rows = run(0.0, 0.3, int_=0.3, **COSTS)
    found = diagnose(rows, TASK, LPO)
    assert found is not None and found.name == "still learning"
    assert "no reward is above 0, and the best score was 0.3" in found.facts
    found = diagnose(run(0.0, 0.8, **COSTS)[:-10] + run(0.0, 0.1, **COSTS)[-10:], TASK, LPO)
    assert found is not None and found.name == "found and lost"
    found = diagnose(run(0.0, **COSTS), TASK, LPO)
    assert found is not None and found.name == "no reward yet"
    assert "critic's error and costs" in found.facts


def test_of_a_bonus_that_is_all_there_is_no_rest():
    found = diagnose(run(0.0, int_=1e4), TASK, DEFAULT)
    assert found is not None and found.facts.endswith("the bonus is 100% of the advantage")
    assert found.remedy == "more steps: `lpo resume` with --steps 40000."
    third = diagnose(run(0.0, int_=1.0), TASK, LPO)  # 1·1 of 2·1 + 1·1
    assert third is not None
    assert third.facts.endswith("33% of the advantage, the rest is the critic's error")


def test_costs_without_a_score_may_be_all_there_is():
    rows = [{k: v for k, v in row.items() if "eval" not in k} for row in run(0.0, **COSTS)]
    found = diagnose(rows, TASK, LPO)
    assert found is not None and "where all rewards are costs this says nothing" in found.facts
    found = diagnose([row | {"rollout/return": 0.0} for row in rows], TASK, LPO)
    assert found is not None and "costs" not in found.facts


DEFAULT = flat(configure("lpo-w"))  # rewards count from .5 on


@pytest.mark.parametrize(
    ("largest", "task", "name"),
    [
        (0.05, {"max_return": None}, "small reward"),
        (0.5, {"max_return": None}, "still learning"),
        (0.05, {}, "still learning"),  # a return of 1 is known to be there
    ],
)
def test_a_reward_too_small_to_count(largest, task, name):
    found = diagnose(run(0.3, 0.3, **{"rollout/reward_max": largest}), TASK | task, DEFAULT)
    assert found is not None and found.name == name


def test_a_small_reward_is_told_its_unit():
    rows = run(0.3, **{"rollout/reward_max": 0.05})
    found = diagnose(rows, TASK | {"max_return": None}, DEFAULT)
    assert found is not None
    assert "largest reward is 0.05; none below 0.5 counts" in found.facts
    assert found.remedy.startswith("alpha 20 earned_reward 0.05")
    fixed = diagnose(rows, TASK | {"max_return": None}, LPO)  # whose bonus does not fade
    assert fixed is not None and fixed.name != "small reward"


def test_advice_is_not_what_the_run_has():
    found = diagnose(run(0.0, int_=0.3), TASK, DEFAULT)
    assert found is not None and "beta 1: a stronger bonus" in found.remedy
    weights = {"advantage/ext_weight": 1.0, "advantage/int_weight": 1.0}
    found = diagnose(run(0.3, int_=9.0, **weights), TASK, DEFAULT)
    assert found is not None and found.remedy == "beta 0.028."  # .25·(1 − .9)/.9
    slow = run(0.3, int_=9.0, **weights, **{"rollout/earned": 0.004})
    found = diagnose(slow, TASK, DEFAULT)
    assert found is not None and found.remedy.startswith("earned_share 0.004: ")


def test_a_run_that_succeeds_has_nothing():
    assert diagnose(run(0.01, 0.5), TASK, LPO) is None
    assert diagnose([], TASK, LPO) is None


@pytest.mark.parametrize(
    "task",
    [
        {"max_return": 200.0},  # the best episode earns on every step: a low score is a short one
        {"max_return": None},  # Hopper-v5, whose success is Gymnasium's threshold
        {"max_return": 280.0, "min_return": -200.0},  # LunarLander-v3
    ],
)
def test_rewarded_steps_say_little_where_the_reward_is_dense(task):
    found = diagnose(run(0.9, 0.2), TASK | task, LPO)
    assert found is not None and found.name == "still learning"


def test_without_a_bonus_one_is_proposed():
    rows = [{k: v for k, v in row.items() if "int" not in k} for row in run(0.0)]
    found = diagnose(rows, TASK, flat(configure("ppo")))
    assert found is not None and "algo lpo" in found.remedy and "bonus is" not in found.facts


@pytest.mark.parametrize(
    ("rate", "score", "remedy"),
    [(0.0, 0.0, "bonus_inputs next"), (0.9, 0.2, "beta 4"), (0.01, 0.0, "weighing sized-fading")],
)
def test_a_file_without_advantages_is_not_a_run_without_a_bonus(rate, score, remedy):
    rows = [
        {k: v for k, v in row.items() if "advantage" not in k and "int" not in k}
        for row in run(rate, score)
    ]
    found = diagnose(rows, TASK, LPO)
    assert found is not None and remedy in found.remedy
    assert "algo" not in found.remedy and "bonus is" not in found.facts


def test_the_score_is_that_of_the_tables():
    """A return of .66 where two of five episodes succeed: not failed."""
    assert diagnose(run(0.9, 0.4, **{"eval/normalized_return": 0.66}), TASK, LPO) is None
    assert diagnose(run(0.9, 0.4), TASK, LPO) is not None


def test_the_share_of_the_bonus_by_hand():
    """β·3/(α·1 + β·3) = 3/5; with logged weights 4·3/(1·1 + 4·3) = 12/13; unrewarded rows do not
    count where there are rewarded ones."""
    assert bonus_share(run(0.1, int_=3.0), LPO) == pytest.approx(3 / 5)
    weights = {"advantage/ext_weight": 1.0, "advantage/int_weight": 4.0}
    assert bonus_share(run(0.1, int_=3.0, **weights), LPO) == pytest.approx(12 / 13)
    both = run(0.0, int_=99.0) + run(0.1, int_=3.0)
    assert bonus_share(both, LPO) == pytest.approx(3 / 5)


def names(file: str, row: str, task: str) -> Counter:
    runs = Runs([RESULTS / file]).runs
    found = [
        diagnose(r.rows, r.description, r.options)
        for r in runs
        if r.label == row and task in r.task
    ]
    return Counter(sick.name if sick else "fine" for sick in found)


def test_recorded_runs_are_told_as_the_results_tell_them():
    """At `hard` PPO never meets HalfCheetah's reward, and the bonus meets it and learns nothing.
    On the lock of ten levels PPO opens the worse lock in all seeds."""
    hard = "figure1/results/hard.parquet"
    assert names(hard, "ppo", "HalfCheetah") == {"no reward yet": 5}
    assert names(hard, "eniac", "HalfCheetah") == {"met by chance": 5}
    lock = "components/results/lock10.parquet"
    assert names(lock, "ppo", "Lock") == {"settled for less": 64}
    assert names(lock, "pcpg", "Lock") == {"fine": 64}
    assert names(lock, "rnd", "Lock") == {"fine": 52, "still learning": 10, "found and lost": 2}


def test_many_runs_are_counted_and_a_few_told(capsys):
    old = Path(__file__).parents[1] / "data" / "run-0.2"
    words = examine([old])
    assert words[0] == f"run    {old}" and words[1].startswith("why    ")
    lpo.cli.main(["doctor", str(RESULTS / "components/results/lock10.parquet")])
    said = capsys.readouterr().out
    assert "ppo                  settled for less        64" in said
