"""Networks from outside: functions, Flax, Equinox, and a kind of another package."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo import Agent, Policy
from lpo.errors import LPOError
from lpo.network import Network, NetworkPart, feed_forward
from lpo.network.own import _KNOWN
from lpo.options import options
from lpo.types import ObsSpec

from .guests import Dot

SMALL: dict[str, Any] = {
    "num_envs": 2, "rollout": 64, "batch_size": 32, "epochs": 2, "hidden": (16,), "eval_every": 0,
    "bonus": "none",
}  # fmt: skip


def init(key, spec: ObsSpec):
    return {"w": jax.random.normal(key, (4, 5)) * 0.5}


def apply(params, obs):
    return jnp.tanh(obs @ params["w"])


def test_a_pair_of_functions(tmp_path):
    agent = Agent("CartPole-v1", network=(init, apply), **SMALL)
    assert agent.config.network.hidden == (16,)
    agent.learn(200, progress_bar=False)
    obs = np.full(4, 0.1, np.float32)
    before, _ = agent.predict(obs, deterministic=True)
    path = tmp_path / "own"
    agent.save(path)
    _KNOWN.clear()
    with pytest.raises(LPOError, match=r"test_own:apply of your own.*pass it again as network="):
        Policy.load(path)
    policy = Policy.load(path, network=(init, apply))
    assert policy.predict(obs, deterministic=True)[0] == before
    again = Agent.load(path, network=(init, apply))
    first = jax.tree.leaves(again.learn(100, progress_bar=False).policy.actor.body)
    assert not np.array_equal(first[0], jax.tree.leaves(policy.actor.body)[0])  # it learns


def test_another_one_of_the_same_name_is_another_network():
    def make(scale):
        return lambda key, spec: {"w": jnp.ones((4, 3)) * scale}, lambda p, x: x @ p["w"]

    one, two = (Agent("CartPole-v1", network=make(s), **SMALL) for s in (1.0, 2.0))
    assert one.config.network != two.config.network


@pytest.mark.slow
def test_flax():
    nn = pytest.importorskip("flax.linen")

    class Body(nn.Module):
        @nn.compact
        def __call__(self, obs):
            x = nn.Conv(4, (5, 5), strides=3)(obs["camera"] / 255.0)
            x = nn.relu(x).reshape(len(x), -1)
            return jnp.concatenate([nn.Dense(8)(x), obs["body/clock"]], -1)

    agent = Agent(lambda: Dot("dict"), network=Body(), **SMALL)
    agent.learn(200, progress_bar=False)
    assert agent.policy.actor.sight.body.size == 9


def test_equinox():
    eqx = pytest.importorskip("equinox")

    def make(key):
        return eqx.nn.MLP(4, 6, 8, 1, key=key)

    runs = [Agent("CartPole-v1", network=make, seed=s, **SMALL) for s in (0, 1)]
    weights = [jax.tree.leaves(agent.policy.actor.body)[0] for agent in runs]
    assert weights[0].shape == (8, 4) and not np.allclose(weights[0], weights[1], atol=0.1)
    fixed = Agent("CartPole-v1", network=make(jax.random.key(3)), **SMALL)
    fixed.learn(100, progress_bar=False)


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ((init, lambda p, x: x.sum()), r"return an array \[batch, features\]"),
        ((init, lambda p, x: x @ p["v"]), "failed on observations of 4 numbers .KeyError"),
        (7, "pass a name, a pair of functions"),
        (lambda key: 3, "return a module of Equinox"),
    ],
)
def test_what_does_not_fit_is_told(network, words):
    with pytest.raises(LPOError, match=words):
        Agent("CartPole-v1", network=network, **SMALL).learn(100, progress_bar=False)


@options
class Doubled(NetworkPart):
    """Two times what is seen: a kind of another package."""

    kind: ClassVar[str] = "doubled"

    def make(self, spec: ObsSpec) -> Network:
        assert spec.size is not None
        return feed_forward(spec.size, lambda key: (), lambda params, obs: 2 * obs)


def test_a_kind_of_another_package(monkeypatch):
    """One file: the class. It is found by its entry point, as the other parts are."""
    from importlib.metadata import EntryPoint

    entry = EntryPoint("doubled", f"{__name__}:Doubled", "lpo.networks")
    monkeypatch.setattr(NetworkPart.kinds, "_foreign", lambda: [entry])
    monkeypatch.setattr(NetworkPart.kinds, "ours", dict(NetworkPart.kinds.ours))
    agent = Agent("CartPole-v1", network="doubled", **SMALL)
    agent.learn(100, progress_bar=False)
    assert type(agent.config.network).__name__ == "Doubled"
