"""Many agents in one program: a grid of seeds and options, its tables, its best, save and load."""

import json
from typing import Any

import numpy as np
import pytest

import lpo.cli
from lpo import PPO, Agent, Agents, LPOError, Policy
from lpo.runs.directory import RunDirectory

SMALL: dict[str, Any] = dict(
    env_kwargs={"size": 5}, num_envs=4, rollout=64, batch_size=16, epochs=2, hidden=[8],
    eval_every=128,
)  # fmt: skip
ENV = "lpo/DeepSea-v0"


def test_lists_of_values_and_seeds_are_a_grid():
    agents = Agent(ENV, device="cpu", seeds=[3, 5], beta=[0.1, 0.25], algo="eniac", **SMALL)
    assert isinstance(agents, Agents) and len(agents) == 4
    assert agents.labels == [
        {"seed": 3, "beta": 0.1}, {"seed": 5, "beta": 0.1},
        {"seed": 3, "beta": 0.25}, {"seed": 5, "beta": 0.25},
    ]  # fmt: skip
    assert agents.config.network.hidden == (8,)  # a list of its own
    assert "runs=4, env_steps=0" in repr(agents)
    assert [c.seed for c in PPO(ENV, device="cpu", seeds=2, seed=7, **SMALL).configs] == [7, 8]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seeds": 3}, "seeds is for a device; pass device="),
        ({"device": "tpu"}, "device is 'tpu'; pass device="),
        ({"device": "cpu", "seeds": 0}, "seeds is 0; pass a whole number"),
        ({"device": "cpu", "seeds": [1, 1]}, "pass different numbers"),
        ({"device": "cpu", "loggers": ["wandb"]}, "loggers is for an agent on the host"),
        ({"device": "cpu", "eval_env": ENV}, "eval_env is for an agent on the host"),
        ({"device": "cpu", "threads": 2}, "threads 2 is for runs on the host"),
        ({"device": "cpu", "num_envs": [4, 8]}, "num_envs is the same for all runs of a program"),
        ({"device": "cpu", "beta": []}, "beta is an empty list"),
        ({"device": "cpu", "betaa": [1, 2]}, "did you mean 'beta'"),
    ],
)
def test_what_many_agents_cannot_have_is_refused(options, words):
    with pytest.raises(LPOError, match=words):
        Agent(ENV, **options)


def test_an_object_and_a_task_of_the_host_are_refused():
    with pytest.raises(LPOError, match="On a device env is an id"):
        Agent(lambda: None, device="cpu")
    with pytest.raises(LPOError, match="Pendulum-v1 runs on the host only"):
        Agent("Pendulum-v1", device="cpu")
    with pytest.raises(LPOError, match="PPO is the row 'ppo'"):
        PPO(ENV, device="cpu", algo="lpo")


@pytest.fixture(scope="module")
def trained():
    return Agent(ENV, device="cpu", seeds=2, algo="eniac", **SMALL).learn(512)


def test_its_tables_say_which_run_a_row_is_of(trained):
    assert trained.env_steps == 512 and {row["seed"] for row in trained.metrics} == {0, 1}
    assert [row["env_steps"] for row in trained.metrics] == [64 * k for k in range(1, 9)] * 2
    assert [row["seed"] for row in trained.table] == [0, 1]
    assert all(row["best/episodes"] >= 20 for row in trained.table)
    assert trained.evaluate()["return"].shape == (2,)


def test_its_policies_act(trained):
    assert len(trained.policies) == 2
    ours = [policy.actor.net[0].w for policy in trained.policies]
    assert not np.array_equal(*ours)
    best = trained.best
    assert best.predict(np.zeros(26))[0] in (0, 1)
    won = max(trained.table, key=lambda row: row["best/return"])
    assert best.env_steps == won["best/env_steps"] and best.config.seed == won["seed"]


def test_loaded_agents_go_on_with_the_same_numbers(trained, tmp_path):
    file = trained.save(tmp_path / "many")
    with pytest.raises(LPOError, match=r"load them with lpo\.Agents\.load"):
        Agent.load(file)
    with pytest.raises(LPOError, match="does not hold agents"):
        Agents.load(trained.best.save(tmp_path / "best"))
    again = Agents.load(file)
    assert repr(again) == repr(trained)
    seen: list[Any] = []
    again.learn(128, lambda steps, metrics: seen.append((steps, metrics)))
    trained.learn(128)
    new = [row for row in trained.metrics if row["env_steps"] > 512]
    assert json.dumps(again.metrics) == json.dumps(new) and len(new) == 4
    assert seen[-1][0] == 640 and seen[-1][1]["eval/return"].shape == (2,)


@pytest.mark.slow
def test_they_are_the_runs_of_the_command(tmp_path):
    """The same numbers and policies as `lpo train --device cpu --seeds 2` writes."""
    flags = "--algo eniac --num-envs 4 --rollout 64 --batch-size 16 --epochs 2 --hidden 8"
    flags += " --eval-every 128 --steps 512 --device cpu --seeds 2 --quiet"
    task = ["--env", ENV, "--env-kwargs", '{"size":5}', "--out", str(tmp_path / "runs")]
    with pytest.raises(SystemExit):
        lpo.cli.main(["train", *task, *flags.split()])
    agents = Agent(ENV, device="cpu", seeds=2, algo="eniac", **SMALL).learn(512)
    for seed, policy in enumerate(agents.policies):
        run = tmp_path / "runs" / f"eniac-DeepSea-s{seed}"
        own = [{k: v for k, v in row.items()} for row in agents.life.memory.rows[seed]]
        assert own == RunDirectory(run).metrics()
        kept = Policy.load(run, "last")
        for a, b in zip(policy.actor.net, kept.actor.net, strict=True):
            np.testing.assert_array_equal(a.w, b.w)
        assert policy.acts == kept.acts
