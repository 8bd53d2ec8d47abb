"""Diagnoses: stored runs with the right answer, runs made on purpose, and the numbers by hand."""

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import lpo.cli
from lpo import configure
from lpo.config import flat
from lpo.errors import SPEAKS_FLAGS
from lpo.report.doctor import FINE, diagnose, examine
from lpo.report.runs import Runs
from lpo.report.signs import bonus_share, rising
from lpo.runs.written import Options

RESULTS = Path(__file__).parents[2] / "experiments"
STORED = Path(__file__).parents[1] / "data" / "doctor.json.gz"
TASK: dict[str, Any] = {"id": "Toy-v0", "horizon": 200, "max_return": 1.0}
DENSE = {"max_return": None}
LPO, DEFAULT = flat(configure("lpo")), flat(configure("lpo-w"))
ALONE = flat(configure("lpo-w", bonus="none"))
SHARE = 0.95  # of right answers, among the runs that failed as among all


def run(
    score, rate: Any = 0.01, ext: Any = 1.0, int_: Any = 0.1, n: Any = 20, **more: Any
) -> list[dict[str, Any]]:
    """Rollouts of 1,000 steps, each with an evaluation; a number stands for all of them."""
    n = next((len(x) for x in (score, rate) if isinstance(x, list)), n)
    at = lambda x, k: x[k] if isinstance(x, list) else x  # noqa: E731
    return [
        {
            "env_steps": 1000 * (k + 1),
            "rollout/reward_rate": at(rate, k),
            "advantage/ext_rms": ext,
            "advantage/int_rms": int_,
            **({} if score is None else {"eval/success": at(score, k)}),
            **{name: at(value, k) for name, value in more.items()},
        }
        for k in range(n)
    ]


def said(rows, task: dict[str, Any] | None = None, o: Options = DEFAULT) -> str:
    found = diagnose(rows, TASK | (task or {}), o)
    return FINE if found is None else f"{found.name}: {found.facts} | {found.remedy}"


def stored_runs() -> list[dict[str, Any]]:
    """The stored runs; the file says `nothing found` for a run that has not failed."""
    text = gzip.decompress(STORED.read_bytes()).decode()
    return json.loads(text.replace('"nothing found"', json.dumps(FINE)))


def test_stored_runs_get_the_right_answer():
    """109 runs of the packed results, one by chance of every file and task. The answers were given
    before these rules were written, from the scores, the rewarded steps and the task."""
    total, right = Counter(), Counter()
    for stored in stored_runs():
        found = diagnose(rows_of(stored), stored["task"], stored["options"])
        kind = "fine" if stored["right"][0] == FINE else "failed"
        total[kind] += 1
        right[kind] += (found.name if found else FINE) in stored["right"]
    assert total == {"fine": 64, "failed": 45}
    assert right["fine"] == 64  # a run that has not failed is never said to have
    assert right["failed"] / total["failed"] >= SHARE


def rows_of(stored: dict[str, Any]) -> list[dict[str, Any]]:
    columns = stored["metrics"]
    return [
        {name: values[k] for name, values in columns.items() if values[k] is not None}
        for k in range(len(columns["env_steps"]))
    ]


def test_advice_exists_fits_the_run_and_is_not_what_it_has():
    """Every flag that is proposed for a stored run is an option of its row, with another value."""
    proposed = set()
    for stored in stored_runs():
        speaks = SPEAKS_FLAGS.set(True)
        found = diagnose(rows_of(stored), stored["task"], stored["options"])
        SPEAKS_FLAGS.reset(speaks)
        for name, value in re.findall(r"--([a-z-]+) (\S+)", found.remedy if found else ""):
            short, value = name.replace("-", "_"), value.strip(":,.")
            proposed.add(short)
            if short in ("seed", "steps", "preset"):
                continue
            own = stored["options"]
            assert str(own.get(short)) != value, (stored["run"], found)
            row = {k: own[k] for k in ("bonus", "weighing") if own.get(k)}
            if short == "algo":
                configure(value)
            else:  # refused if the row does not have it
                typed = [value] if short == "angles" and value != "auto" else value
                number: Any = typed if short in ("angles", "bonus_inputs") else float(value)
                number = int(value) if short == "rollout" else number
                configure(own["algo"], **row, **{short: number})
    assert {"algo", "steps", "preset"} <= proposed


OFTEN = {"rollout/length": 30.0, "rollout/reward_rate": 0.0165}
DEAR = {"rollout/return": -150.0, "rollout/length": 150.0, "eval/return": -150.0}


@pytest.mark.parametrize(
    ("rows", "task", "options", "begins"),
    [
        # what a new user met
        (run([0.0, 0.0, 0.0, 1.0, 1.0]), {}, DEFAULT, FINE),  # it has just solved it
        (run([0.0] * 10 + [1.0] * 8 + [0.0] * 2), {}, DEFAULT, "found and lost"),
        (run([0.0] * 10 + [1.0] * 9 + [0.0]), {}, DEFAULT, FINE),  # one evaluation is no fall
        (run(0.3, **OFTEN), {}, DEFAULT, "stands still"),  # .0165·30: half of its episodes
        (run(None, 0.0, **(DEAR | {"eval/return": [-150.0] * 10 + [-29.0] * 10,
             "rollout/length": [150.0] * 10 + [29.0] * 10})), {"horizon": 150} | DENSE, DEFAULT,
         FINE),  # an optimal run of costs without a score
        (run(None, 0.0, **DEAR), {"horizon": 150} | DENSE, DEFAULT, "no reward yet"),
        (run(0.0, 0.0, **DEAR), DENSE, DEFAULT, "no reward yet: every reward in 20,000 steps is a"),
        (run(0.0, 0.0), {}, ALONE, "no reward yet: no positive reward in 20,000 steps | default"),
        (run(0.0, **{"eval/sampled_success": 0.96}), {}, DEFAULT, "stuck by its mode: the score"),
        (run(0.9, **{"eval/sampled_success": 0.1}), {}, DEFAULT, FINE),
        # the other rules
        (run(0.0, 0.0), {}, LPO, "no reward yet"),
        (run(0.2, 0.9), {}, DEFAULT, "settled for less: 90% of the steps earn reward"),
        (run(0.2, 0.9), {"max_return": 200.0}, DEFAULT, "stands still"),  # a low score is short
        (run(0.2, 0.9), {"max_return": 280.0, "min_return": -200.0}, DEFAULT, "stands still"),
        (run(0.3, int_=6.0), {}, LPO, "the bonus drowns it"),
        (run(0.0, [0.0] * 5 + [0.0005] + [0.0] * 14), {}, DEFAULT, "met by chance: first reward"),
        (run([k / 50 for k in range(20)]), {}, DEFAULT, "still learning"),
        (run(0.3, **{"rollout/reward_max": 0.05}), DENSE, DEFAULT, "small reward: the largest"),
        (run(0.3, **{"rollout/reward_max": 0.05}), {}, DEFAULT, "stands still"),  # 1 is known of
        (run(0.9), {}, DEFAULT, FINE),
        ([], {}, DEFAULT, FINE),
    ],
)  # fmt: skip
def test_a_run_made_for_each_rule(rows, task, options, begins):
    assert said(rows, task, options).startswith(begins)


def test_rates_are_told_by_episodes_where_an_episode_has_one_reward():
    assert "50% of the episodes earn reward at the end" in said(run(0.3, **OFTEN))
    often = run(0.3, 0.5, **{"rollout/length": 100.0})
    assert "50.00% of the steps earn reward" in said(often, {"max_return": 200.0})


def test_the_remedies_by_hand():
    weights = {"advantage/ext_weight": 1.0, "advantage/int_weight": 1.0}
    assert said(run(0.3, int_=9.0, **weights)).endswith("| beta 0.028.")  # .25·(1 − .9)/.9
    slow = run(0.3, int_=9.0, **weights, **{"rollout/earned": 0.004})
    assert "| earned_share 0.004: the bonus fades sooner" in said(slow)
    assert "| beta 1: a stronger bonus" in said(run(0.0, 0.0, int_=0.3))  # 4·.25
    assert "steps; the bonus is 100% of the advantage |" in said(run(0.0, 0.0, int_=1e4))
    assert "| more steps: `lpo resume` with --steps 40000" in said(run(0.0, 0.0, int_=1e4))
    small = said(run(0.3, **{"rollout/reward_max": 0.05}), DENSE)
    assert "| alpha 20 earned_reward 0.05," in small
    fall = [0.9] * 15 + [0.0] * 5
    assert said(run(fall)).endswith("| the best policy, which is kept; or rollout 8192: less noise "
                                    "in each step.")  # fmt: skip
    clipped = said(run(fall, **{"policy/clip_fraction": 0.5}))
    assert "50% of the updates are clipped" in clipped and "learning_rate 0.0001" in clipped
    lock = {"id": "lpo/CombinationLock-v0"}
    assert "| preset finite, for tables of few states, or" in said(run(0.2, 0.9), lock)
    assert "algo default" in said(run(0.0, 0.0), {}, flat(configure("ppo")))


def test_a_score_rises_where_its_last_quarter_is_higher():
    import numpy as np

    assert rising(np.array([0.0, 0, 0, 0, 0.1, 0.1, 0.2, 0.2]))
    assert not rising(np.array([0.0, 0, 0, 0, 0.2, 0.2, 0.2, 0.2]))
    assert rising(np.array([0.5]))  # too short to say


def test_the_share_of_the_bonus_by_hand():
    """β·3/(α·1 + β·3) = 3/5 with α = 2 and β = 1; with logged weights 4·3/(1·1 + 4·3) = 12/13;
    unrewarded rows do not count where there are rewarded ones."""
    assert bonus_share(run(0.1, int_=3.0), LPO) == pytest.approx(3 / 5)
    weights = {"advantage/ext_weight": 1.0, "advantage/int_weight": 4.0}
    assert bonus_share(run(0.1, int_=3.0, **weights), LPO) == pytest.approx(12 / 13)
    both = run(0.0, 0.0, int_=99.0) + run(0.1, int_=3.0)
    assert bonus_share(both, LPO) == pytest.approx(3 / 5)


def names(file: str, row: str, task: str) -> Counter:
    runs = Runs([RESULTS / file]).runs
    found = [
        diagnose(r.rows, r.description, r.options)
        for r in runs
        if r.label == row and task in r.task
    ]
    return Counter(sick.name if sick else FINE for sick in found)


def test_recorded_runs_are_told_as_the_results_tell_them():
    """On the lock of ten levels PPO opens the worse lock in all seeds, `pcpg` the better one."""
    lock = "components/results/lock10.parquet"
    assert names(lock, "ppo", "Lock") == {"settled for less": 64}
    assert names(lock, "pcpg", "Lock") == {FINE: 64}


def test_a_sweep_is_told_by_groups_with_names_and_advice(capsys):
    old = Path(__file__).parents[1] / "data" / "run-0.2"
    words = examine([old])
    assert words[0] == f"run    {old}" and words[1].startswith("why    ")
    lpo.cli.main(["doctor", str(RESULTS / "components/results/lock10.parquet")])
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("ppo on lpo/CombinationLock-v0: 64 runs")
    assert lines[at + 1] == "    64 settled for less"
    assert lines[at + 2].startswith("       run  ppo-") and lines[at + 2].endswith(" and 63 more")
    assert "try  --preset finite" in lines[at + 3]


def test_the_page_has_the_table_of_right_answers():
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    total, right = Counter(), Counter()
    rising = "still learning, or stands still"
    for stored in stored_runs():
        found = diagnose(rows_of(stored), stored["task"], stored["options"])
        first = stored["right"][0]
        kind = rising if first in ("still learning", "stands still") else first
        total[kind] += 1
        right[kind] += (found.name if found else FINE) in stored["right"]
    for kind, number in total.items():
        assert f"| {kind} | {number} | {right[kind]} |" in page, kind


def test_a_rate_that_is_the_same_at_its_peak_and_at_the_end_is_said_once():
    constant, fallen = said(run([0.0] * 9 + [0.1])), said(run(0.0, rate=[0.6] * 5 + [0.2] * 5))
    assert "earn reward at the end" in constant and "earned reward at step" not in constant
    assert "earned reward at step" in fallen and "at the end" in fallen


def test_a_task_that_only_costs_is_told_apart():
    o = flat(configure("default"))
    row = {"rollout/return": -150.0, "rollout/length": 150.0, "rollout/reward_max": -1.0}
    rows = [{"env_steps": 4096 * i, "eval/return": -150.0, **row} for i in (1, 2, 3)]
    found = diagnose(rows, {"id": "Door-v0", "horizon": 150}, o)
    assert found is not None and found.name == "no reward yet"
    assert "every step in 12,288 costs 1" in found.facts and "plus_one" in found.remedy
    plain = diagnose(rows, {"id": "Door-v0", "horizon": 150}, flat(configure("ppo")))
    assert plain is not None and "plus_one" not in plain.remedy
