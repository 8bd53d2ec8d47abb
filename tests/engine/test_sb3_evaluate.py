"""Our agents in SB3's tools, unchanged. Needs the bench extra: pip install 'lpo-rl[bench]'.

pytest -m slow tests/engine/test_sb3_evaluate.py
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import lpo

pytestmark = pytest.mark.slow
evaluation = pytest.importorskip(
    "stable_baselines3.common.evaluation",
    reason="needs stable-baselines3: pip install 'lpo-rl[bench]'",
)
SMALL: dict[str, Any] = {"rollout": 256, "eval_every": 0}
HOPPER = "lpo/SparseHopper-v0"


def by_hand(agent, env_id: str, episodes: int, seed: int) -> tuple[list[float], list[int]]:
    """Returns and lengths of the deterministic policy, by Gymnasium's own loop."""
    env = gymnasium.make(env_id)
    returns, lengths = [], []
    for episode in range(episodes):
        obs, _ = env.reset(seed=seed if episode == 0 else None)
        total, length, done = 0.0, 0, False
        while not done:
            action, _ = agent.predict(obs, deterministic=True)
            obs, reward, terminated, truncated, _ = env.step(action)
            total, length, done = total + float(reward), length + 1, terminated or truncated
        returns.append(total)
        lengths.append(length)
    return returns, lengths


@pytest.mark.parametrize("env_id", [HOPPER, "CartPole-v1"])
def test_evaluate_policy_gives_what_the_policy_earns(env_id):
    """Box and Discrete actions, after learning; rewards and lengths equal a loop by hand."""
    from stable_baselines3.common.monitor import Monitor  # pyright: ignore[reportMissingImports]

    agent = lpo.LPO(env_id, **SMALL).learn(1024)
    env = Monitor(gymnasium.make(env_id))
    vec = wrapped(env, seed=5)
    returns, lengths = evaluation.evaluate_policy(
        agent, vec, n_eval_episodes=3, deterministic=True, return_episode_rewards=True
    )
    assert (returns, lengths) == by_hand(agent, env_id, episodes=3, seed=5)


def wrapped(env, seed: int):
    from stable_baselines3.common.vec_env import DummyVecEnv  # pyright: ignore[reportMissingImports]

    vec = DummyVecEnv([lambda: env])
    vec.seed(seed)
    return vec


def test_evaluate_policy_takes_a_batch_and_samples():
    """Several environments at once, a sampled policy, an agent that has not learned yet."""
    from stable_baselines3.common.env_util import make_vec_env  # pyright: ignore[reportMissingImports]

    vec = make_vec_env(HOPPER, n_envs=3, seed=1)
    agent = lpo.LPO(HOPPER, **SMALL)
    returns, lengths = evaluation.evaluate_policy(
        agent, vec, n_eval_episodes=6, deterministic=False, return_episode_rewards=True
    )
    assert len(returns) == len(lengths) == 6
    assert len(set(lengths)) > 1 and min(lengths) > 1
    assert np.all(np.asarray(returns) <= np.asarray(lengths))


def test_evaluate_policy_takes_a_plain_environment():
    agent = lpo.LPO(HOPPER, **SMALL)
    mean, std = evaluation.evaluate_policy(
        agent, gymnasium.make(HOPPER), n_eval_episodes=2, warn=False
    )
    assert np.isfinite(mean) and np.isfinite(std)
