"""The Python face: learn, predict, save, load, callbacks."""

import gymnasium
import numpy as np
import pytest

from lpo import LPO, PPO, LPOError

SMALL = dict(num_envs=4, rollout=160, batch_size=16, epochs=2, hidden=(8,), eval_every=0)


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
    assert twin.env_steps == agent.env_steps
    obs = np.random.default_rng(0).standard_normal((4, 11))
    np.testing.assert_array_equal(
        agent.predict(obs, deterministic=True)[0], twin.predict(obs, deterministic=True)[0]
    )
    agent.learn(400)
    twin.learn(400)
    np.testing.assert_array_equal(
        agent.predict(obs, deterministic=True)[0], twin.predict(obs, deterministic=True)[0]
    )


def test_a_callback_sees_metrics_and_stops():
    seen = []

    def callback(step, metrics):
        seen.append((step, metrics["switch/count"]))
        return len(seen) < 2

    agent = LPO("lpo/SparseHopper-v0", **SMALL, threads=1).learn(500, callback)
    assert [count for _, count in seen] == [1, 2]
    assert agent.env_steps == seen[-1][0] < 500
    assert len(agent.metrics) == 2


def test_environment_objects(countdown, tmp_path):
    agent = PPO(countdown(), **(SMALL | {"num_envs": 1})).learn(320)
    agent.save(tmp_path / "agent")
    with pytest.raises(LPOError, match="pass it as env="):
        PPO.load(tmp_path / "agent")
    loaded = PPO.load(tmp_path / "agent", env=countdown())
    assert loaded.env_steps == 320
    factory = PPO(countdown, **SMALL).learn(320)
    assert factory.run.trainer.env.num_envs == 4


def test_dict_observations_and_discrete_actions_with_a_start():
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
    one = {"a": np.zeros(2, np.float32), "b": 1}
    assert agent.predict(one)[0] in (5, 6)
    many = {"a": np.zeros((3, 2), np.float32), "b": np.array([0, 1, 2])}
    assert agent.predict(many)[0].shape == (3,)


def test_wrong_use_is_answered_with_a_remedy(agent):
    with pytest.raises(LPOError, match="does not fit"):
        agent.predict(np.zeros(7))
    with pytest.raises(LPOError, match="1 or more"):
        agent.learn(0)
    with pytest.raises(LPOError, match="did you mean 'gamma_int'"):
        LPO("lpo/SparseHopper-v0", gama_int=0.9)
    with pytest.raises(LPOError, match="num_envs"):
        LPO(gymnasium.make("CartPole-v1"), **SMALL).learn(160)


def test_a_vector_environment_goes_on_with_new_episodes_after_load(countdown, tmp_path):
    def vector():
        return gymnasium.vector.SyncVectorEnv([countdown] * 2)

    options = SMALL | {"num_envs": 2}
    agent = PPO(vector(), **options).learn(320)
    agent.save(tmp_path / "agent")
    loaded = PPO.load(tmp_path / "agent", env=vector())
    assert loaded.run.trainer.obs.tolist() == [[0.0], [0.0]]
    loaded.learn(320)
    assert loaded.env_steps == 640
