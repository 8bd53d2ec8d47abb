"""The default on one page has the numbers of the library, and imports nothing of it."""

import importlib.util
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from lpo.config import configure
from lpo.engine.host import Trainer
from lpo.envs.make import make_batch

PAGE = Path(__file__).parents[2] / "docs" / "default_on_one_page.py"
SEED = 3  # the goal is reached within three rollouts: an episode ends, and reward is earned


@pytest.fixture(scope="module")
def page() -> Any:
    spec = importlib.util.spec_from_file_location("default_on_one_page", PAGE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_one_page_without_the_library():
    text = PAGE.read_text()
    assert len([line for line in text.splitlines() if line.strip()]) <= 240
    assert "import lpo" not in text and "from lpo" not in text


@pytest.mark.slow
@jax.numpy_rank_promotion("allow")  # the page broadcasts as NumPy does
def test_three_policy_changes_have_the_numbers_of_the_library(page):
    c = configure("default", env=page.ENV, seed=SEED, steps=100_000)
    ours = Trainer(c, make_batch(page.ENV, page.ENVS))
    ended = earned = 0
    for state, weights, returns in page.train(3, SEED):
        metrics, found = ours.iterate(100_000), ours.state
        np.testing.assert_allclose(
            weights, [metrics[f"advantage/{x}_weight"] for x in ("ext", "int")], rtol=2e-5
        )
        assert returns == [] or np.isclose(np.mean(returns), metrics["rollout/return"], rtol=1e-6)
        ended, earned = ended + len(returns), metrics["rollout/earned"]
        near = lambda x, y: np.testing.assert_allclose(x, y, rtol=0, atol=5e-6)  # noqa: E731
        nets, rnd = state["nets"], state["rnd"]
        near(found.params.log_std, nets["log_std"])
        for layer, mine in zip(found.params.policy, nets["policy"], strict=True):
            near(layer.w, mine[0])
        for i, critic in enumerate(nets["critics"]):
            for layer, mine in zip(found.params.critics, critic, strict=True):
                near(layer.w[i], mine[0])
        for layer, mine in zip(found.bonus.novelty.life.predictor, rnd["predictor"], strict=True):
            near(layer.w, mine[0])
        assert np.isclose(found.pace, state["pace"], rtol=1e-5)
    assert ended > 0 and earned > 0
