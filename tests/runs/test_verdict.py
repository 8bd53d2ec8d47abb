"""Which policy is best, how it acts, and what is claimed: by hand, and by one that is stuck."""

import math
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from lpo import PPO, LPOError, Policy
from lpo.runs import verdict
from lpo.runs.directory import RunDirectory
from lpo.runs.run import start
from lpo.runs.verdict import Recent, recent_of


def evaluation(mode, sampled):
    return {"eval/return": mode, "eval/sampled_return": sampled}


def test_a_policy_is_ranked_by_the_mean_of_three_evaluations_of_the_better_way():
    recent = Recent()
    assert recent.add(evaluation(9.0, 0.0)).score == -math.inf  # one may be luck
    assert not recent.rank().sampled
    recent.add(evaluation(0.0, 4.0))
    rank = recent.add(evaluation(0.0, 8.0))  # modes 9, 0, 0; sampled 0, 4, 8
    assert (rank.score, rank.sampled) == (4.0, True)
    rank = recent.add(evaluation(3.0, 3.0))  # the first is forgotten: 0, 0, 3 and 4, 8, 3
    assert (rank.score, rank.sampled) == (5.0, True)
    assert recent.rank().sampled
    again = recent_of(recent.to_json())
    assert again.add(evaluation(0, 1)).score == recent.add(evaluation(0, 1)).score == 4.0


def test_runs_side_by_side_are_ranked_each_by_itself():
    recent = Recent()
    seen = evaluation(np.array([1.0, 5.0]), np.array([2.0, 3.0]))
    rank = [recent.add(seen) for _ in range(3)][-1]
    assert rank.score.tolist() == [2.0, 5.0] and rank.sampled.tolist() == [True, False]


@pytest.mark.parametrize("found", [3, [[1, 2, 3]], [["a", "b"]], {"a": 1}])
def test_evaluations_of_a_strange_record_are_refused(found):
    with pytest.raises(LPOError, match="pass a complete run"):
        recent_of(found)


def test_the_winner_is_chosen_by_some_episodes_and_claimed_by_others():
    """The best way of "best" earns 5 by luck on occasion 0 and 1 later; "last" earns 3 always."""
    lucky = {("best", "mode"): [5.0, 1, 1, 1, 1], ("best", "sampled"): [0.0] * 5,
             ("last", "mode"): [2.0] * 5, ("last", "sampled"): [3.0] * 5}  # fmt: skip
    asked = []

    def play(policy, ways, occasions):
        asked.append((policy, *ways, occasions))
        return {
            way: {"return": np.mean([lucky[policy, way][i] for i in occasions]), "episodes": 5.0}
            | {"sampled": float(way == "sampled")}
            for way in ways
        }

    choose = lambda last, new, old: new if last else old  # noqa: E731
    claim = verdict.test(play, ["best", "last"], choose, ("mode", "sampled"))
    assert (claim.last, claim.sampled, claim.last_sampled) == (False, False, True)
    assert claim.metrics == {"best/return": 1.0, "best/episodes": 20, "best/sampled": 0.0}
    tried, new = asked[:2], asked[2:]
    assert {o for *_, o in tried} == {range(1)} and new == [("best", "mode", range(1, 5))]


def test_runs_side_by_side_are_tested_each_by_itself():
    """Of the first run the last policy wins by its mode, of the second the best one by samples."""
    returns = {"best": {"mode": [1.0, 2.0], "sampled": [0.0, 7.0]},
               "last": {"mode": [3.0, 2.0], "sampled": [0.0, 4.0]},
               "winner": {"mode": [8.0, 0.0], "sampled": [0.0, 9.0]}}  # fmt: skip

    def play(policy, ways, occasions):
        both = {"episodes": np.array([5, 5])}
        return {
            way: {"return": np.array(returns[policy][way]), "sampled": np.full(2, way != "mode")}
            | both
            for way in ways
        }

    chosen = []
    choose = lambda last, new, old: chosen.append(last.tolist()) or "winner"  # noqa: E731
    claim = verdict.test(play, ["best", "last"], choose, ("mode", "sampled"))
    assert chosen == [[True, False]] and claim.last.tolist() == [True, False]
    assert claim.sampled.tolist() == [False, True] and claim.last_sampled.tolist() == [False, True]
    assert {k: v.tolist() for k, v in claim.metrics.items()} == {
        "best/return": [8.0, 9.0], "best/sampled": [0.0, 1.0], "best/episodes": [20, 20]
    }  # fmt: skip


def test_a_test_takes_its_share_of_the_steps_and_no_more_than_five_times_its_least():
    # 8 batches of 5 episodes of 50 steps are 2,000 steps; 3 % of 300,000 are 9,000
    assert verdict.factor(300_000, 5, 50.0, 4) == 4
    assert verdict.factor(300_000, 5, 1000.0, 4) == 1
    assert verdict.factor(10**8, 5, 50.0, 4) == 5


@pytest.mark.parametrize(
    ("mode", "sampled", "said"),
    [
        ((0.0, 0.0), (0.96, 0.96), "By its mode the policy has success 0%, sampled 96%: it is st"),
        ((1.0, 1.0), (0.7, 0.7), "By its mode the policy has success 100%, sampled 70%: it is hu"),
        ((1.0, 1.0), (0.9, 0.9), None),
        ((-150.0, None), (-29.0, None), "has return -150, sampled -29: it is stuck"),
        ((100.0, None), (90.0, None), None),
    ],
)
def test_it_is_said_where_mode_and_samples_differ(mode, sampled, said):
    found = {"eval/return": mode[0], "eval/sampled_return": sampled[0]}
    if mode[1] is not None:
        found |= {"eval/success": mode[1], "eval/sampled_success": sampled[1]}
    text = verdict.apart(found)
    assert (text is None) if said is None else (text is not None and said in text)


class Left(gymnasium.Env):
    """Pays 1 for ending an episode: by action 1, which is not the mode of a new policy."""

    observation_space = spaces.Box(-1.0, 1.0, (1,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        done = action == 1
        seen = np.zeros(1, np.float32)
        return seen, float(done), bool(done), self.t == 40, {"success": bool(done)}


SMALL: dict[str, Any] = dict(
    num_envs=2, rollout=32, batch_size=16, epochs=1, hidden=[4], eval_every=32
)


def biased(agent, towards_1: float) -> None:
    """Gives the policy of an agent the logits (0, ``towards_1``), whatever it observes."""
    state = agent.run.trainer.state
    layer = state.params.policy[-1]
    last = layer._replace(w=layer.w * 0, b=layer.b * 0 + np.array([0.0, towards_1], np.float32))
    params = state.params._replace(policy=(*state.params.policy[:-1], last))
    agent.run.trainer.state = state._replace(params=params)


def test_a_policy_that_is_stuck_by_its_mode_is_said_to_be_and_samples():
    agent = PPO(Left, learning_rate=1e-12, **SMALL)
    biased(agent, -1.0)  # action 1 with probability 0.27: sampled, it ends within 40 steps
    agent.learn(64)
    row = agent.metrics[-1]
    assert row["eval/success"] == row["eval/return"] == 0  # by info["success"]
    assert row["eval/sampled_success"] == row["eval/sampled_return"] == 1
    assert agent.policy.acts == "sampled" and agent.policy.way("mode") == "mode"
    drawn = [int(agent.predict(np.zeros(1))[0]) for _ in range(40)]
    assert 0 < sum(drawn) < 40  # by default as it does best
    assert agent.predict(np.zeros(1), deterministic=True)[0] == 0
    found = agent.evaluate(10)
    assert (found["success"], found["sampled_success"]) == (0, 1)


def test_without_modes_in_evaluations_the_policy_samples():
    agent = PPO(Left, eval_deterministic=False, **SMALL)
    assert agent.run.acts() is None
    assert agent.learn(32).run.acts() == "sampled"


def test_what_a_run_claims_is_kept_with_its_best_policy(tiny, tmp_path):
    """The claim is of new episodes, so its number is not that of an evaluation of training."""
    run = start(tiny(steps=2400, loggers=()), tmp_path / "run")
    with run:
        run.advance(2400)
    row = RunDirectory(tmp_path / "run").metrics()[-1]
    assert row["best/episodes"] == 4 * row["eval/episodes"] * verdict.factor(
        2400, int(row["eval/episodes"]), row["eval/length"], 4
    )
    best = Policy.load(tmp_path / "run")
    assert best.env_steps == row["best/env_steps"]
    assert best.acts == ("sampled" if row["best/sampled"] else "mode")
    lines = verdict.at_end(row)
    assert lines[0].startswith("last   mode:") and any(x.startswith("best   ") for x in lines)
    kept = best.save(tmp_path / "kept")
    assert Policy.load(kept).acts == best.acts
