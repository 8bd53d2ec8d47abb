"""The Python face as people type it: SB3's habits, early refusals, progress, repr."""

import sys
import types
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest

import lpo
from lpo import PPO, Agent, LPOError, elsewhere
from lpo.cli.main import main
from lpo.config import configure, flat
from lpo.envs.make import make_batch
from lpo.envs.registry import find_wrapper
from lpo.runs.costs import Costs, usual_cost
from lpo.runs.endless import PATIENCE, Endless

SMALL: dict[str, Any] = dict(num_envs=4, rollout=160, batch_size=16, epochs=2, hidden=[8])
QUIET: dict[str, Any] = SMALL | {"eval_every": 0}
ALONE: dict[str, Any] = SMALL | {"num_envs": 1}


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"gamma": 0.9}, "no option 'gamma'; lpo calls it gamma_ext"),
        ({"n_steps": 2048}, "rollout is the number of steps between updates, all environments"),
        ({"ent_coef": 0.01}, "calls it entropy_coef"),
        ({"policy_kwargs": {}}, "network chooses the network, and hidden its layers"),
        ({"num_minibatches": 4}, "batch_size is the size of a minibatch"),
        ({"int_gamma": 0.99}, "calls it gamma_int"),
        ({"anneal_lr": True}, "kl_target lowers it after a large update"),
        ({"target_kl": 0.01}, "kl_target lowers the learning rate"),
        ({"verbose": 1}, "progress_bar=False"),
        ({"batchsize": 64}, "did you mean 'batch_size'"),
    ],
)
def test_names_of_other_libraries_are_answered_with_ours(option, words):
    with pytest.raises(LPOError, match=words):
        Agent("CartPole-v1", **option)


def test_every_answer_names_options_that_exist():
    known = flat(configure("default"))
    for name in (*elsewhere.CALLED, *elsewhere.CHOSEN):
        assert name not in known and elsewhere.answer(name)
    assert set(elsewhere.CALLED.values()) <= {*known, "env"}


def test_the_command_answers_in_flags(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--gamma", "0.9"])
    assert "lpo calls it --gamma-ext." in capsys.readouterr().err


def test_a_policy_as_first_argument_and_arguments_without_names():
    with pytest.raises(
        LPOError, match=r"'MlpPolicy' is a policy .*write Agent\('CartPole-v1'\), .*network='gru'"
    ):
        Agent("MlpPolicy", "CartPole-v1")
    with pytest.raises(LPOError, match="got 'lpo' without a name"):
        Agent("CartPole-v1", "lpo")


@pytest.mark.parametrize(
    ("env", "options", "words"),
    [
        ("CartPol-v1", {}, "Unknown environment 'CartPol-v1'. Did you mean CartPole-v1"),
        ("CartPole-v1", {"threshold": 1.0}, "CartPole-v1 has no threshold"),
        ("lpo/SparseHopper-v0", {"threshold": "harder"}, "half"),
        ("CartPole-v1", {"backend": "native"}, "no native backend"),
        ("CartPole-v1", {"env_kwargs": {"colour": 1}}, "colour"),
        ("CartPole-v1", {"periodic": (9,)}, "9"),
        ("CartPole-v1", {"threads": 2}, "threads"),
        (lambda: 3, {}, "3 is not an environment"),
    ],
)
def test_an_agent_that_cannot_be_trained_is_not_made(env, options, words):
    with pytest.raises(LPOError, match=words):
        Agent(env, **options)


def test_a_million_may_be_written_1e6(countdown):
    assert Agent(countdown, steps=1e6, eval_every=2e4).config.steps == 1_000_000
    assert PPO(countdown, **QUIET).learn(160.0).env_steps == 160
    with pytest.raises(LPOError, match="steps must be a whole number"):
        Agent(countdown, steps=1.5)


def test_repr_and_dir(countdown):
    agent = Agent("CartPole-v1", algo="ppo", **QUIET)
    assert repr(agent) == "Agent('CartPole-v1', algo='ppo', env_steps=0)"
    agent = PPO(countdown, **QUIET)
    assert repr(agent) == "PPO('custom', algo='ppo', env_steps=0)"
    assert repr(agent.learn(160)) == "PPO('custom', algo='ppo', env_steps=160)"
    assert {"Agent", "Policy", "configure"} <= set(dir(lpo)) and "Any" not in dir(lpo)


def test_what_gymnasium_made_is_made_again_for_evaluations():
    env = gymnasium.make("CartPole-v1", max_episode_steps=7)
    agent = PPO(env, **ALONE, eval_every=160, eval_episodes=3).learn(160)
    assert agent.metrics[-1]["eval/episodes"] == 3 and agent.metrics[-1]["eval/length"] <= 7
    assert agent.evaluate(episodes=4)["episodes"] == 4


def test_another_object_is_said_to_have_no_evaluations(countdown):
    with pytest.warns(UserWarning, match="so it has no evaluations; pass eval_env="):
        PPO(countdown(), **ALONE)
    wrapped = gymnasium.wrappers.NormalizeObservation(gymnasium.make("CartPole-v1"))
    with pytest.warns(UserWarning, match="no evaluations"):  # its statistics would be others
        PPO(wrapped, **ALONE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PPO(countdown(), eval_env=countdown(), **ALONE)
        PPO(countdown(), eval_every=0, **ALONE)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_predict_refuses_what_is_not_finite(countdown, wrong):
    agent = PPO(countdown, **QUIET).learn(160)
    with pytest.raises(LPOError, match="NaN or an infinite number"):
        agent.predict(np.array([wrong], np.float32))


class Terminal:
    def __init__(self, is_terminal: bool):
        self.text, self.is_terminal = "", is_terminal
        self.encoding = "utf-8"

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.mark.parametrize(
    ("is_terminal", "asked", "words"),
    [
        (True, None, "steps/s"),
        (True, False, None),
        (False, None, None),
        (False, True, "step       160  eval 6 sampled 6  return 6.0"),
    ],
)
def test_learn_shows_its_progress(countdown, monkeypatch, is_terminal, asked, words):
    out = Terminal(is_terminal)
    monkeypatch.setattr(sys, "stdout", out)
    PPO(countdown, **SMALL, eval_every=160).learn(320, progress_bar=asked)
    assert out.text == "" if words is None else words in out.text
    assert ("100%" in out.text) is (is_terminal and asked is None)


def test_a_notebook_has_a_line_that_is_written_over(countdown, monkeypatch, capsys):
    shell = types.SimpleNamespace(kernel=object())
    fake = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", fake)  # type: ignore[arg-type]
    PPO(countdown, **QUIET).learn(320)
    shown = capsys.readouterr().out
    assert shown.count("\r") == 2 and "\r100%  return 6.0" in shown and shown.endswith("\n")


class Forever(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}


def test_a_task_that_never_ends_is_noticed_once():
    number = PATIENCE * 4
    with pytest.warns(UserWarning, match=f"No episode has ended in {number:,} steps") as seen:
        options: dict[str, Any] = QUIET | {"rollout": number // 2}
        PPO(Forever, **options).learn(2 * number)
    assert len(seen) == 1


def test_a_task_with_ends_or_a_limit_is_not_said_to_have_none():
    assert not Endless({"horizon": 5000}, 1).look({}, 4999)
    ended = Endless({}, 1)
    assert not ended.look({"rollout/return": 1.0}, 100) and not ended.look({}, 10**6)
    assert not Endless({}, 1, begun=10**6).look({}, 10**6 + 100)  # a run that was resumed


class Goal(gymnasium.Env):
    """−1 a step and 0 at the goal, which is too far for an episode."""

    observation_space = gymnasium.spaces.Box(0, 9, (1,))
    action_space = gymnasium.spaces.Discrete(2)
    cost, goal = -1.0, 9

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.left = 0, 8
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.place = max(self.place + (1 if action else -1), 0)
        self.left -= 1
        there = self.place == self.goal
        reward = 0.0 if there else self.cost
        return np.array([self.place], np.float32), reward, there, self.left == 0, {}


class Dear(Goal):
    cost = -2.0


class Cheap(Goal):
    cost = -0.1


class Near(Goal):
    goal = 2


def test_costs_are_told_at_the_first_rewards_with_what_to_pass():
    with pytest.warns(UserWarning, match=r"Each step costs 1 .* pass wrapper lpo\.envs\.shift"):
        Agent(Goal, **QUIET).learn(320)
    with pytest.warns(UserWarning, match="Each step costs 2 .* success pays 1 and all else 0; or"):
        Agent(Dear, **QUIET).learn(320)


def test_a_row_that_does_not_fade_or_a_small_cost_hears_nothing_of_costs():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PPO(Goal, **QUIET).learn(320)
        Agent(Cheap, **QUIET).learn(320)
        Agent(Near, **QUIET).learn(320)
        Agent(Goal, **QUIET, wrapper="lpo.envs.shift:plus_one").learn(320)


def test_the_costs_of_a_task_that_declares_its_largest_return_are_a_part_of_it():
    row = {"rollout/reward_max": -1.0, "rollout/return": -150.0, "rollout/length": 150.0}
    acrobot = make_batch("Acrobot-v1", 1)
    c = configure("default")
    assert Costs(c, {}).look(row, 160) and not Costs(c, acrobot.description).look(row, 160)
    acrobot.close()


def test_our_wrapper_adds_one_and_needs_no_trust(tmp_path):
    agent = Agent(Near, **QUIET, wrapper="lpo.envs.shift:plus_one").learn(160)
    assert max(row["rollout/reward_max"] for row in agent.metrics) == 1.0
    assert 0 < agent.metrics[-1]["rollout/return"] <= 1.0
    with pytest.raises(LPOError, match="a file may not run code"):
        find_wrapper("lpo.envs.single:FlatEnv")
    with pytest.raises(LPOError, match=r"no function 'gymnasium\.make'"):  # though it is imported
        find_wrapper("lpo.envs.shift:gymnasium.make")


@pytest.mark.parametrize(
    ("best", "ret", "length", "cost"),
    [
        (-1.0, -150.0, 150.0, 1.0),
        (-0.5, -75.0, 150.0, 0.5),
        (0.0, -149.4, 149.45, 1.0),  # one of twenty episodes succeeded, by chance
        (0.0, -28.2, 29.1, None),  # nine of ten
        (1.0, -149.0, 150.0, None),
        (-0.01, -40.0, 150.0, None),  # costs that vary
        (0.0, -700.0, 200.0, None),  # as Pendulum's
    ],
)
def test_what_a_step_costs_by_hand(best, ret, length, cost):
    row = {"rollout/reward_max": best, "rollout/return": ret, "rollout/length": length}
    found = usual_cost(row)
    assert found is None if cost is None else found == pytest.approx(cost)
    assert usual_cost({"rollout/reward_max": -1.0}) is None  # no episode has ended
