"""The Python face: learn, evaluate, predict, save, load, callbacks, loggers."""

import dataclasses
from typing import Any

import gymnasium
import numpy as np
import pytest

import lpo
from lpo import LPO, PPO, Agent, LPOError, Policy
from lpo.bonus import RND

SMALL: dict[str, Any] = dict(
    num_envs=4, rollout=160, batch_size=16, epochs=2, hidden=[8], eval_every=0
)
ALONE: dict[str, Any] = SMALL | {"num_envs": 1}


@pytest.fixture(scope="module")
def agent():
    return LPO("lpo/SparseHopper-v0", **SMALL, threads=1).learn(500)


def test_learn_predict_and_go_on(agent):
    obs = gymnasium.make("lpo/SparseHopper-v0").reset(seed=0)[0]
    action, state = agent.predict(obs, deterministic=True)
    assert action.shape == (3,) and state is None
    batch, _ = agent.predict(np.stack([obs] * 5), deterministic=True)
    assert batch.shape == (5, 3)
    np.testing.assert_allclose(batch[0], action, rtol=1e-5)
    draws = {tuple(agent.predict(obs)[0]) for _ in range(5)}
    assert len(draws) == 5
    assert all(np.abs(a).max() <= 1 for a in draws)


def test_save_and_load_continue_to_the_bit(agent, tmp_path):
    agent.save(tmp_path / "agent")
    twin = LPO.load(tmp_path / "agent")
    assert type(twin) is LPO and twin.env_steps == agent.env_steps
    obs = np.random.default_rng(0).standard_normal((4, 11))

    def acts(player):
        return player.predict(obs, deterministic=True)[0]

    np.testing.assert_array_equal(acts(agent), acts(twin))
    agent.learn(400)
    twin.learn(total_timesteps=400)
    np.testing.assert_array_equal(acts(agent), acts(twin))


def test_a_policy_loads_without_trainer_or_environment(agent, tmp_path, monkeypatch):
    obs = np.random.default_rng(0).standard_normal((4, 11))
    expected = agent.predict(obs, deterministic=True)[0]
    agent.save(tmp_path / "agent")
    agent.policy.save(tmp_path / "policy")

    def refuse(*args, **kwargs):
        raise AssertionError("made an environment or a trainer")

    monkeypatch.setattr("lpo.envs.task.make_batch", refuse)
    monkeypatch.setattr("lpo.engine.host.Trainer.__init__", refuse)
    for name in ("agent", "policy"):
        policy = Policy.load(tmp_path / name)
        np.testing.assert_array_equal(policy.predict(obs, deterministic=True)[0], expected)
        assert policy.env_steps == agent.env_steps and policy.task["id"] == "lpo/SparseHopper-v0"
    small = (tmp_path / "policy.safetensors").stat().st_size
    assert small < (tmp_path / "agent.safetensors").stat().st_size / 4


def test_lpo_and_ppo_are_rows_as_classes():
    assert LPO("lpo/SparseHopper-v0").config == Agent("lpo/SparseHopper-v0", algo="lpo").config
    assert PPO("lpo/SparseHopper-v0").algo == "ppo"
    with pytest.raises(LPOError, match=r"use Agent\(env, algo='ppo'\)"):
        LPO("lpo/SparseHopper-v0", algo="ppo")


def test_a_bonus_and_an_agent_have_different_names():
    assert not set(lpo.__all__) & set(lpo.bonus.__all__)


def test_another_rows_class_does_not_load_it(agent, tmp_path):
    agent.save(tmp_path / "agent")
    with pytest.raises(LPOError, match=r"run of 'lpo' and PPO is the row 'ppo'; .*Agent\.load"):
        PPO.load(tmp_path / "agent")
    assert Agent.load(tmp_path / "agent").algo == "lpo"


def test_parts_as_objects_and_plain_values():
    made = Agent(
        "lpo/DeepSea-v0", bonus=RND(inputs="next"), hidden=[16], env_kwargs={"size": 4}, beta=2.0
    )
    of_the_row: Any = Agent("lpo/DeepSea-v0").config
    assert made.config.bonus == of_the_row.bonus
    assert made.config.weighing == dataclasses.replace(of_the_row.weighing, beta=2.0)
    assert made.config.network.hidden == (16,)
    assert made.run.trainer.env.description["env_kwargs"] == {"size": 4}
    made.close()


def test_a_callback_function_sees_metrics_and_stops():
    seen = []

    def callback(step, metrics):
        seen.append((step, metrics["switch/count"]))
        return len(seen) < 2

    agent = LPO("lpo/SparseHopper-v0", **SMALL, threads=1).learn(500, callback)
    assert [count for _, count in seen] == [1, 2]
    assert agent.env_steps == seen[-1][0] < 500
    assert len(agent.metrics) == 2


@pytest.mark.slow
def test_a_callback_object_and_a_logger():
    class Watcher:
        calls: list = []  # noqa: RUF012

        def on_start(self, agent):
            self.calls.append("start")

        def on_step(self, env_steps, metrics):
            self.calls.append(env_steps)

        def on_end(self, agent):
            self.calls.append(agent.env_steps)

    class Sink:
        def __init__(self):
            self.rows, self.closed = [], False

        def write(self, step, metrics, timing):
            self.rows.append((step, metrics["switch/count"], timing["time/env_steps_per_s"] > 0))

        def close(self):
            self.closed = True

    sink = Sink()
    options: dict[str, Any] = SMALL | {"growth_iterations": 100}
    with LPO("lpo/SparseHopper-v0", **options, threads=1, loggers=[sink]) as agent:
        agent.learn(320, Watcher())
    assert Watcher.calls == ["start", 160, 320, 320]
    assert sink.rows == [(160, 1, True), (320, 2, True)] and sink.closed
    assert agent.predict(np.zeros(11))[0].shape == (3,)  # a closed agent still acts


def test_evaluate_counts_fresh_episodes(countdown):
    agent = PPO(countdown, **SMALL).learn(160)
    scores = agent.evaluate(episodes=5)
    assert scores == {
        "return": 6.0,
        "length": 3.0,
        "episodes": 5,
        "sampled_return": 6.0,
    }  # 1 + 2 + 3, no definition
    before = agent.env_steps
    assert agent.learn(160).env_steps == before + 160


def test_evaluate_knows_success_where_the_task_defines_it(countdown):
    class Told(countdown):
        def step(self, action):
            obs, reward, terminated, truncated, _ = super().step(action)
            return obs, reward, terminated, truncated, {"is_success": terminated}

    assert PPO(Told, **SMALL).learn(160).evaluate(4)["success"] == 1.0
    sea = PPO("lpo/DeepSea-v0", **SMALL, env_kwargs={"size": 4}).learn(160)
    scores = sea.evaluate(8)
    assert {"success", "normalized_return"} <= scores.keys()
    assert scores["success"] <= scores["normalized_return"] + 1e-9


def test_evaluate_will_not_disturb_the_environment_it_learns_on(countdown):
    agent = PPO(countdown(), **ALONE)
    with pytest.raises(LPOError, match="pass eval_env="):
        agent.evaluate()
    agent = PPO(countdown(), eval_env=countdown(), **ALONE).learn(160)
    assert agent.evaluate(3)["return"] == 6.0


def test_environment_objects(countdown, tmp_path):
    agent = PPO(countdown(), **ALONE).learn(320)
    agent.save(tmp_path / "agent")
    with pytest.raises(LPOError, match="pass it as env="):
        PPO.load(tmp_path / "agent")
    loaded = PPO.load(tmp_path / "agent", env=countdown())
    assert loaded.env_steps == 320
    assert Policy.load(tmp_path / "agent").predict(np.zeros(1))[0].shape == (1,)
    factory = PPO(countdown, **SMALL).learn(320)
    assert factory.run.trainer.env.num_envs == 4


def test_dict_observations_and_discrete_actions_with_a_start(tmp_path):
    class Two(gymnasium.Env):
        observation_space = gymnasium.spaces.Dict(
            a=gymnasium.spaces.Box(-1, 1, (2,)), b=gymnasium.spaces.Discrete(3)
        )
        action_space = gymnasium.spaces.Discrete(2, start=5)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return {"a": np.zeros(2, np.float32), "b": 1}, {}

        def step(self, action):
            assert action in (5, 6)
            return self.reset()[0], 0.0, True, False, {}

    agent = PPO(Two, **SMALL).learn(160)
    agent.save(tmp_path / "two")
    one = {"a": np.zeros(2, np.float32), "b": 1}
    many = {"a": np.zeros((3, 2), np.float32), "b": np.array([0, 1, 2])}
    for player in (agent, Policy.load(tmp_path / "two")):
        assert player.predict(one)[0] in (5, 6)
        assert player.predict(many)[0].shape == (3,)


@pytest.mark.parametrize("steps", [0, -1, 2.5, "many", None, True])
def test_learn_takes_a_whole_number(agent, steps):
    with pytest.raises(LPOError, match=r"total_timesteps is .* 1 or more"):
        agent.learn(steps)


def test_wrong_use_is_answered_with_a_remedy(agent):
    with pytest.raises(LPOError, match="does not fit"):
        agent.predict(np.zeros(7))
    with pytest.raises(LPOError, match="on_start, on_step or on_end"):
        agent.learn(10, callback="often")
    with pytest.raises(LPOError, match="num_envs"):
        LPO(gymnasium.make("CartPole-v1"), **SMALL).learn(160)
    with pytest.raises(LPOError, match="pass one of them"):
        Agent(config=agent.config, beta=2.0)
    with pytest.raises(LPOError, match="choose best or last"):
        Policy.load("nowhere", checkpoint="first")


def test_a_vector_environment_goes_on_with_new_episodes_after_load(countdown, tmp_path):
    def vector():
        return gymnasium.vector.SyncVectorEnv([countdown] * 2)

    options: dict[str, Any] = SMALL | {"num_envs": 2}
    agent = PPO(vector(), **options).learn(320)
    agent.save(tmp_path / "agent")
    loaded = PPO.load(tmp_path / "agent", env=vector())
    assert loaded.run.trainer.obs.tolist() == [[0.0], [0.0]]
    loaded.learn(320)
    assert loaded.env_steps == 640
