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


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_training_on_a_vec_env_equals_training_on_gymnasiums(env_id):
    """SB3's and Gymnasium's own vector environment seed and step alike, so learning is bit-equal.

    CartPole terminates, Pendulum is cut by its time limit, from which values must be bootstrapped.
    SB3 rounds rewards to float32, which the sums of the returns show.
    """
    from gymnasium.vector import AutoresetMode, SyncVectorEnv
    from stable_baselines3.common.vec_env import DummyVecEnv  # pyright: ignore[reportMissingImports]

    makers = [lambda: gymnasium.make(env_id)] * 3
    theirs = DummyVecEnv(makers)
    ours = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    agents = [lpo.PPO(env, rollout=630, hidden=[8], eval_every=0) for env in (theirs, ours)]
    for row, wanted in zip(*(agent.learn(1260).metrics for agent in agents), strict=True):
        assert row.pop("rollout/return") == pytest.approx(wanted.pop("rollout/return"))
        for known in ("success", "normalized_return"):  # SB3's tells its task, Gymnasium's does not
            row.pop(f"rollout/{known}", None)
        assert row == wanted and row["rollout/episodes"] > 0
    assert agents[0].run.trainer.env.description["id"] == env_id


def test_a_wrapped_vec_env_and_its_dictionaries_are_taken():
    """Dict observations, the success of infos, and no figures of the bare task under a wrapper."""
    from stable_baselines3.common.vec_env import (  # pyright: ignore[reportMissingImports]
        DummyVecEnv,
        VecNormalize,
    )

    class Goal(gymnasium.Env):
        observation_space = gymnasium.spaces.Dict(
            {"a": gymnasium.spaces.Box(-1, 1, (2,)), "b": gymnasium.spaces.Discrete(3)}
        )
        action_space = gymnasium.spaces.MultiDiscrete([2, 2])

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return {"a": np.zeros(2, np.float32), "b": 1}, {}

        def step(self, action):
            self.t += 1
            obs = {"a": np.full(2, self.t / 5, np.float32), "b": 2}
            return obs, 1.0, self.t == 5, False, {"is_success": bool(action[0])}

    agent = lpo.PPO(DummyVecEnv([Goal, Goal]), **SMALL).learn(256)
    assert agent.metrics[-1]["rollout/length"] == 5 and 0 < agent.metrics[-1]["rollout/success"] < 1
    cart = VecNormalize(DummyVecEnv([lambda: gymnasium.make("CartPole-v1")] * 2))
    agent = lpo.PPO(cart, **SMALL).learn(256)
    assert "success_return" not in agent.run.trainer.env.description


def test_our_tasks_as_a_vec_env():
    """The batch step by step, with SB3's words for the end of an episode."""
    from lpo.envs.make import make_batch
    from lpo.envs.sb3 import make_vec_env

    vec, batch = make_vec_env(HOPPER, 4, seed=3, threads=1), make_batch(HOPPER, 4, threads=1)
    np.testing.assert_array_equal(vec.reset(), batch.reset(3))
    rng, ended = np.random.default_rng(0), 0
    for _ in range(120):
        action = rng.uniform(-1, 1, (4, 3)).astype(np.float32)
        obs, reward, done, infos = vec.step(action)
        step = batch.step(action)
        np.testing.assert_array_equal(obs, step.obs)
        np.testing.assert_array_equal(reward, step.reward)
        np.testing.assert_array_equal(done, step.terminated | step.truncated)
        for i in done.nonzero()[0]:
            np.testing.assert_array_equal(infos[i]["terminal_observation"], step.next_obs[i])
            assert infos[i]["TimeLimit.truncated"] == step.truncated[i]
            ended += 1
    assert ended > 0


def test_sb3_learns_on_our_tasks():
    """SB3's PPO and its monitor, on a time limit that it must see as one."""
    from stable_baselines3 import PPO  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.vec_env import VecMonitor  # pyright: ignore[reportMissingImports]

    from lpo.envs.sb3 import make_vec_env

    vec = VecMonitor(make_vec_env("lpo/SparseMountainCarContinuous-v0", 4))
    model = PPO("MlpPolicy", vec, n_steps=64, seed=0).learn(512)
    mean, _ = evaluation.evaluate_policy(model, vec, n_eval_episodes=4)
    assert mean == 0.0 and model.num_timesteps == 512
