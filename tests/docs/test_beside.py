"""The examples of the page on other trainers work, and show what it says."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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


def test_both_are_short():
    for path in FOLDER.glob("*.py"):
        assert len(path.read_text().splitlines()) <= 100, path
