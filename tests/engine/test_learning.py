"""Agents trained for real must reach a stated score; seeds and scores were fixed beforehand.

A score is the mean of the last five evaluations, as in every report.
"""

import numpy as np
import pytest

from lpo import LPO, Agent


def final(agent: Agent, metric: str) -> float:
    return float(np.mean([row[metric] for row in agent.metrics if metric in row][-5:]))


@pytest.mark.learning
def test_lpo_learns_sparse_hopper():
    """Reward on at least half of the 1000 steps of an evaluation episode, within 200k steps."""
    agent = LPO("lpo/SparseHopper-v0", seed=0).learn(200_000)
    shares = [row["eval/normalized_return"] for row in agent.metrics if "eval/return" in row]
    assert shares[0] < 0.2  # a fresh policy does not have it
    assert final(agent, "eval/normalized_return") >= 0.5
    assert agent.evaluate(20)["success"] >= 0.5


@pytest.mark.learning
@pytest.mark.parametrize("algo", ["ppo", "rnd", "eniac"])
def test_peers_learn_sparse_hopper(algo):
    agent = Agent("lpo/SparseHopper-v0", algo=algo, seed=0).learn(200_000)
    assert final(agent, "eval/normalized_return") >= 0.5


@pytest.mark.learning
def test_lpo_balances_a_pole():
    """A discrete task with dense reward, to a return of 400 of 500."""
    agent = LPO("CartPole-v1", rollout=1024, learning_rate=1e-3, batch_size=64, seed=0).learn(
        60_000
    )
    assert final(agent, "eval/return") >= 400


@pytest.mark.learning
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_lpo_finds_the_goal_of_the_sparse_mountain_car(seed):
    """No reward at all before the goal: only the bonus leads there."""
    agent = LPO("lpo/SparseMountainCarContinuous-v0", seed=seed).learn(60_000)
    assert agent.metrics[-1]["eval/success"] >= 0.9


@pytest.mark.learning
def test_the_sensitivity_switch_learns_sparse_hopper_with_fewer_changes_than_growth():
    """Within 200k steps, where `lpo` changes its policy 58 times."""
    agent = Agent("lpo/SparseHopper-v0", algo="lpo-s", seed=0).learn(200_000)
    assert final(agent, "eval/normalized_return") >= 0.5
    assert agent.metrics[-1]["switch/count"] < 58


@pytest.mark.learning
def test_a_policy_cover_opens_the_lock():
    """PC-PG on the bidirectional lock of length 5: the better of the two locks."""
    agent = Agent(
        "lpo/CombinationLock-v0", algo="pcpg", seed=0, learning_rate=1e-3, intrinsic_ends="ends",
        gamma_int=0.99, alpha=1.0, beta=5.0,
    ).learn(200_000)  # fmt: skip
    assert final(agent, "eval/return") >= 0.9
    assert final(agent, "eval/success") >= 0.8
