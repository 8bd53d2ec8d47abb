"""The examples of the page on other trainers work, and show what it says."""

import importlib.util
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

from lpo.explorer import Explorer

FOLDER = Path(__file__).parents[2] / "docs" / "beside"


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_corridor_is_learned_with_the_bonus_and_not_without():
    loop = example("loop_jax")
    best = loop.ENVS * loop.STEPS // (loop.LENGTH - 1)
    assert list(loop.train(60, bonus="rnd"))[-1] > best / 2
    assert sum(loop.train(60, bonus="none")) == 0


@pytest.mark.slow
def test_ppo_in_torch_takes_its_advantages_from_the_bonus():
    pytest.importorskip("torch", reason="needs torch")
    ppo = example("ppo_torch")
    seen = list(ppo.train("CartPole-v1", changes=3))
    for returns, metrics in seen:
        assert len(returns) > 8 and np.isfinite(returns).all()
        assert metrics["bonus/raw_mean"] > 0 and metrics["advantage/int_rms"] > 0
    # the reward is 1 a step from the start, and an episode's return is its length
    assert seen[0][1]["rollout/reward_rate"] == 1.0
    assert all(r >= 8 and r == int(r) for r in seen[0][0])
    last = seen[-1][1]  # so the bonus has faded: its part of Â has the size .002
    assert last["advantage/int_weight"] * last["advantage/int_rms"] < 0.01


def test_the_lines_for_a_file_like_cleanrl_s(countdown):
    """Run as they stand, in a loop with such names. The bonus is 1 − γ = 1/2, critics are 0, and
    λ = 1: the bonus's advantage is 1 − 2⁻ᵐ, m steps before the episode of 3 steps ends; the row
    that only resets has none. The trainer's advantage, here 1, is added."""
    torch = pytest.importorskip("torch", reason="needs torch")
    page = (FOLDER.parent / "explorer.md").read_text()
    block = re.search(r"```python\n(# once, .*?)```", page, re.DOTALL)
    assert block is not None
    once, each, after = re.split(r"\n\n# after .*\n", block.group(1))
    count = sum(not line.startswith((" ", ")", "#")) for line in block.group(1).split("\n") if line)
    assert count == 7 and "Seven statements" in page
    constant = {
        "bonus": "constant", "scale": "size", "gamma_int": 0.5, "lambda_int": 1.0,
        "value_gain": 0.0, "intrinsic_ends": "ends", "weighing": "fixed", "alpha": 1.0, "beta": 1.0,
    }  # fmt: skip
    envs = gymnasium.vector.SyncVectorEnv([countdown, countdown])
    shape = (8, 2)
    names: dict[str, Any] = {
        "Explorer": partial(Explorer, **constant), "torch": torch, "envs": envs, "device": "cpu",
        "args": SimpleNamespace(num_envs=2, gamma=0.99, gae_lambda=0.95),
        "obs": torch.zeros((*shape, 1)), "actions": torch.zeros((*shape, 1)),
        "rewards": torch.zeros(shape), "dones": torch.zeros(shape),
        "advantages": torch.ones(shape, requires_grad=True),
    }  # fmt: skip
    exec(once, names)
    next_obs, next_done = torch.tensor(envs.reset(seed=0)[0]), torch.zeros(2)
    for step in range(8):
        names["obs"][step], names["dones"][step], names["step"] = next_obs, next_done, step
        found = envs.step(np.zeros((2, 1), np.float32))
        names["rewards"][step] = torch.tensor(found[1])
        names["terminations"], names["truncations"] = found[2], found[3]
        exec(each, names)
        next_obs, next_done = torch.tensor(found[0]), torch.tensor(found[2] | found[3]).float()
    names["next_obs"] = next_obs
    exec(after, names)
    expected = [1.875, 1.75, 1.5, 0, 1.875, 1.75, 1.5, 0]
    np.testing.assert_allclose(names["advantages"], np.stack([expected] * 2, 1), atol=1e-6)
    assert int(names["explorer"].memory.iteration) == 1


def test_both_are_short():
    for path in FOLDER.glob("*.py"):
        assert len(path.read_text().splitlines()) <= 100, path
