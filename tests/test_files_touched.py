"""How many files does a new thing take? Each is added from outside, and no file of ours changes.

A second package lies in tests/outside, with entry points as pip writes them: a network that reads
images, a memory and a novelty of the episode are one file each. A network of one's own and an
encoder for one part of an observation are an argument, and no file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo import Agent, Policy
from lpo.bonus.episode import EpisodePart
from lpo.engine.rollout import empty_rollout
from lpo.export import compare, onnx_model
from lpo.math import distributions
from lpo.math.distributions import ActionSpec
from lpo.network import NetworkPart
from lpo.problem import Problem
from lpo.types import vector
from tests.network.guests import Cue, Dot

OUTSIDE = Path(__file__).parent / "outside"
POINTS = """
[lpo.networks]
patches = lpo_patches:Patches
mingru = lpo_mingru:MinGRU
[lpo.episodes]
ellipse = lpo_ellipse:Ellipse
"""
SMALL: dict[str, Any] = {
    "num_envs": 2, "rollout": 64, "batch_size": 32, "epochs": 2, "hidden": (16,), "eval_every": 0
}  # fmt: skip


@pytest.fixture(autouse=True)
def _installed(tmp_path, monkeypatch):
    """The second package, where the interpreter finds it."""
    about = tmp_path / "lpo_outside-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lpo-outside\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(POINTS)
    for folder in (OUTSIDE, tmp_path):
        monkeypatch.syspath_prepend(str(folder))
    for kinds in (NetworkPart.kinds, EpisodePart.kinds):
        for table in ("ours", "defined"):
            monkeypatch.setattr(kinds, table, dict(getattr(kinds, table)))


def learned(env: Any, **options: Any) -> Agent:
    agent = Agent(env, **SMALL, **options).learn(128, progress_bar=False)
    assert all(np.isfinite(x) for row in agent.metrics for x in row.values())
    return agent


def comes_back(agent: Agent, path: Path, obs: Any) -> None:
    agent.policy.save(path)
    again = Policy.load(path)
    assert type(again.config.network) is type(agent.config.network)
    was, now = (one.predict(obs, deterministic=True)[0] for one in (agent.policy, again))
    np.testing.assert_array_equal(now, was)


@pytest.mark.slow
def test_a_network_that_reads_images_is_one_file(tmp_path):
    agent = learned(Dot, network="patches")
    assert agent.policy.actor.sight.body.size == 12
    comes_back(agent, tmp_path / "policy", Dot().reset(seed=0)[0])


@pytest.mark.slow
def test_a_memory_is_one_file(tmp_path):
    """It is exported, too: its cell is a function of NumPy's names."""
    agent = learned(Cue, network="mingru", memory_size=6, stretch=8)
    obs = Cue().reset(seed=0)[0]
    comes_back(agent, tmp_path / "policy", obs)
    _, state = agent.predict(obs)
    _, after = agent.predict(obs, state=state, episode_start=[False])
    assert state[0].shape == (1, 6) and not np.array_equal(state[0], after[0])
    compare(agent.policy, onnx_model(agent.policy), rows=8)


@pytest.mark.slow
def test_a_novelty_of_the_episode_is_one_file():
    agent = learned(Cue, episode="ellipse")
    assert "bonus/ellipse" in agent.metrics[-1]


def test_that_novelty_is_e3b_by_hand():
    import lpo_ellipse  # pyright: ignore[reportMissingImports]

    dist = distributions.make(ActionSpec(nvec=(2,), scalar=True))
    problem = Problem(vector(3), dist, 1, None, 100, 8, 0.9, 10.0)
    bonus = lpo_ellipse.Ellipse(size=1, ridge=0.5).make(problem)
    rollout = jax.tree.map(jnp.asarray, empty_rollout(4, 1, vector(3), 1))
    yes = jnp.ones((4, 1), bool)
    rollout = rollout._replace(next_obs=rollout.next_obs + 9.0, valid=yes, taken=yes)
    rollout = rollout._replace(start=rollout.start.at[3].set(True))
    state = bonus.init(jax.random.key(0))
    phi = np.tanh(9.0 * np.asarray(state.weights).sum())
    b, *_ = bonus.score(state, rollout)
    expected = [phi**2 / (0.5 + n * phi**2) for n in (0, 1, 2, 0)]  # an episode begins with row 3
    np.testing.assert_allclose(b[0, :, 0], expected, rtol=1e-5)


@pytest.mark.slow
def test_an_encoder_of_one_part_and_an_own_network_are_no_file():
    """The camera is read by a function of the user's; the rest goes on as it is."""

    def init(key: Any, spec: Any) -> Any:
        return jax.random.normal(key, (np.prod(dict(spec.leaves)["camera"].shape), 6)) / 50

    def apply(weights: Any, obs: Any) -> Any:
        camera = obs["camera"].reshape(len(obs["camera"]), -1) / 255.0
        return jnp.concatenate([jnp.tanh(camera @ weights), obs["body/clock"]], -1)

    agent = learned(lambda: Dot("dict"), network=(init, apply))
    assert agent.policy.actor.sight.body.size == 7


def test_each_is_one_short_file():
    for name in ("patches", "mingru", "ellipse"):
        assert len((OUTSIDE / f"lpo_{name}.py").read_text().splitlines()) <= 60
