"""Masks: forbidden actions are never taken, and nothing else changes."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from lpo import Agent
from lpo.config import configure
from lpo.envs.make import make_batch
from lpo.envs.masks import joined, with_mask
from lpo.errors import LPOError
from lpo.math import distributions
from lpo.math.distributions import ActionSpec, masked
from lpo.runs.run import make_trainer
from lpo.types import MASK

SMALL: dict[str, Any] = {
    "num_envs": 2, "rollout": 64, "batch_size": 32, "epochs": 2, "hidden": (16,), "eval_every": 0
}  # fmt: skip


class Doors(gymnasium.Env):
    """Of two factors (3 and 2 choices) some are shut; a shut one raises. ``how`` tells of them."""

    def __init__(self, how: str = "info", inner: Any = None):
        self.how = how
        self.action_space = spaces.MultiDiscrete([3, 2])
        self.inner = inner or spaces.Box(-1.0, 1.0, (2,), np.float32)
        mask = spaces.MultiBinary(5)
        self.observation_space = joined(self.inner, mask) if how == "leaf" else self.inner

    def draw(self) -> Any:
        self.open = np.zeros(5, np.int8)
        self.open[self.np_random.integers(3)] = 1
        self.open[self.np_random.integers(3)] = 1
        self.open[3 + self.np_random.integers(2)] = 1
        if self.how == "none":
            self.open[3:] = 0
        obs = self.open[:2].astype(np.float32)
        obs = {"x": obs} if isinstance(self.inner, spaces.Dict) else obs
        return with_mask(self.observation_space, obs, self.open) if self.how == "leaf" else obs

    def info(self) -> dict[str, Any]:
        return {"info": {MASK: self.open}, "none": {MASK: self.open}}.get(self.how, {})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.draw(), self.info()

    def step(self, action):
        a, b = (int(x) for x in action)
        assert self.open[a] and self.open[3 + b], "a shut door"
        self.t += 1
        obs = self.draw()
        return obs, float(a == 0), False, self.t == 9, self.info()


class Method(Doors):
    def __init__(self):
        super().__init__("method")

    def action_masks(self):
        return [self.open[:3], self.open[3:]]


class Short(Doors):
    def info(self):
        return {MASK: self.open[:4]}


class Gone(Doors):
    def step(self, action):
        return (*super().step(action)[:4], {})


KINDS = {
    "info": Doors,
    "leaf": lambda: Doors("leaf"),
    "method": Method,
    "dict": lambda: Doors("info", spaces.Dict({"x": spaces.Box(-1.0, 1.0, (2,), np.float32)})),
}


@pytest.mark.parametrize("how", KINDS)
def test_what_is_shut_is_never_taken(how):
    """The environment raises otherwise: in rollouts, in evaluations, by the mode and sampled."""
    options: dict[str, Any] = SMALL | {"eval_every": 100}
    agent = Agent(KINDS[how], **options)
    agent.learn(300, progress_bar=False)
    env = KINDS[how]()
    obs, _ = env.reset(seed=0)
    for deterministic in (True, False) * 5:
        given = None if how == "leaf" else env.open
        action, _ = agent.predict(obs, deterministic=deterministic, action_masks=given)
        obs, *_ = env.step(action)
    assert env.t == 10  # none of the actions was shut


def test_probabilities_are_those_of_the_open_choices():
    dist = distributions.make(ActionSpec(nvec=(3, 2)))
    logits = jnp.array([[0.0, 1.0, 2.0, 0.5, 0.1]])
    open_ = jnp.array([[1, 0, 1, 0, 1]])
    out = masked(logits, open_, jnp.where)
    log_std = jnp.zeros(0)
    p = np.exp([0.0, 2.0]) / np.exp([0.0, 2.0]).sum()
    for a, expected in ((0, p[0]), (2, p[1])):
        found = jnp.exp(dist.log_prob(out, log_std, jnp.array([[a, 1.0]])))
        assert float(found[0]) == pytest.approx(expected, rel=1e-5)
    assert float(jnp.exp(dist.log_prob(out, log_std, jnp.array([[1.0, 1.0]])))[0]) == 0
    entropy = -(p * np.log(p)).sum()
    assert float(dist.entropy(out, log_std)[0]) == pytest.approx(entropy, rel=1e-5)
    slope = jax.grad(lambda x: dist.entropy(masked(x, open_, jnp.where), log_std).sum())(logits)
    assert np.isfinite(slope).all() and slope[0, 1] == 0 and slope[0, 3] == 0


@pytest.mark.slow
def test_with_everything_open_nothing_changes():
    """A run whose marks are all ones is the run without marks, bit for bit."""

    class Plain(gymnasium.Env):
        observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        action_space = spaces.Discrete(3)
        told = False

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return self.np_random.uniform(-1, 1, 2).astype(np.float32), self.info()

        def info(self):
            return {MASK: np.ones(3, np.int8)} if self.told else {}

        def step(self, action):
            self.t += 1
            obs = self.np_random.uniform(-1, 1, 2).astype(np.float32)
            return obs, float(action == 1), False, self.t == 7, self.info()

    class Told(Plain):
        told = True

    c = configure("default", bonus="none", **SMALL)
    runs = [make_trainer(c, env) for env in (Plain, Told)]
    for run in runs:
        run.iterate(1000)
        run.iterate(1000)
    assert runs[1].parts.sight.masked and not runs[0].parts.sight.masked
    jax.tree.map(np.testing.assert_array_equal, runs[0].state.params, runs[1].state.params)
    again = make_trainer(c, Told)
    again.restore(runs[1].arrays())
    jax.tree.map(np.testing.assert_array_equal, again.obs, runs[1].obs)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (lambda: Doors("none"), "allows no action in its action_mask"),
        (Short, "its action_mask has 4 marks for 5 choices"),
        (Gone, "its information has no action_mask, which it had at first"),
    ],
)
def test_masks_that_do_not_fit(env, words):
    with pytest.raises(LPOError, match=words):
        Agent(env, **SMALL).learn(100, progress_bar=False)


def test_a_box_has_no_masks():
    class Odd(Doors):
        def __init__(self):
            super().__init__("leaf")
            self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    with pytest.raises(LPOError, match="5 marks in its action_mask and 0 choices"):
        make_batch(Odd, 1)


def test_masks_for_a_policy_without_any():
    agent = Agent("CartPole-v1", **SMALL)
    with pytest.raises(LPOError, match="trained without any"):
        agent.predict(np.zeros(4, np.float32), action_masks=[1, 1])
