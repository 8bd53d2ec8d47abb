"""Random observations, actions and masks: they are read as they are, learned from, or refused.

Hypothesis draws a space, an environment is made of it, and whatever comes of that must be sound:
what is read is what was observed, no forbidden action is taken, no number is NaN, a saved policy
acts as before, and a refusal is one sentence.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import gymnasium
import hypothesis.strategies as st
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array
from hypothesis import HealthCheck, given, settings

from lpo import Agent, Policy
from lpo.envs.codec import Codec, paths_of
from lpo.envs.masks import choices, joined, with_mask
from lpo.envs.spaces import from_dict, to_dict
from lpo.errors import LPOError
from lpo.types import MASK

SMALL: dict[str, Any] = {
    "num_envs": 2, "rollout": 32, "batch_size": 16, "epochs": 1, "hidden": (8,), "eval_every": 40,
    "eval_episodes": 1, "env_workers": 0,
}  # fmt: skip
NETWORKS: dict[str, dict[str, Any]] = {
    "auto": {"image_features": 8},
    "mlp": {},
    "cnn": {"image_features": 8},
    "gru": {"image_features": 8, "memory_size": 8, "stretch": 8},
    "lstm": {"image_features": 8, "memory_size": 8, "stretch": 8},
}
QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# -- what is drawn

SIDES = st.integers(1, 6)
SHAPES = st.lists(SIDES, max_size=3).map(tuple)


@st.composite
def boxes(draw: Any) -> spaces.Space:
    dtype = np.dtype(draw(st.sampled_from(["f4", "f8", "f2", "i1", "i4", "u1", "i8", "?"])))
    low, high = (0, 1) if dtype.kind == "b" else (-2, 3) if dtype.kind in "fi" else (0, 7)
    if dtype.kind == "f" and draw(st.booleans()):
        low, high = -np.inf, np.inf
    return spaces.Box(low, high, draw(SHAPES), dtype.type)


@st.composite
def images(draw: Any) -> spaces.Space:
    high, wide = draw(st.sampled_from([(3, 3), (5, 4), (12, 13), (36, 40)]))
    channels = draw(st.sampled_from([1, 3]))
    shape = draw(st.sampled_from([(high, wide, channels), (channels, high, wide)]))
    stack = draw(st.sampled_from([(), (), (2,)]))
    return spaces.Box(0, 255, (*stack, *shape), np.uint8)


def grids(sizes: list[int]) -> spaces.Space:
    return spaces.MultiDiscrete(np.tile(sizes, (4, 5, 1)))


CODES = (
    st.builds(spaces.Discrete, st.integers(1, 5), start=st.integers(-3, 3)),
    st.builds(spaces.MultiDiscrete, st.lists(st.integers(1, 4), min_size=1, max_size=3)),
    st.builds(spaces.MultiBinary, st.integers(1, 4) | st.sampled_from([(2, 3), [1, 2]])),
    st.lists(st.integers(2, 4), min_size=1, max_size=3).map(grids),
)
ODD = st.sampled_from([spaces.Text(4), spaces.Sequence(spaces.Discrete(2))])
LEAVES = st.one_of(boxes(), images(), *CODES)
KEYS = st.text(string.ascii_lowercase + " _", min_size=1, max_size=5)


def trees(leaves: st.SearchStrategy[spaces.Space]) -> st.SearchStrategy[spaces.Space]:
    def inside(parts: st.SearchStrategy[spaces.Space]) -> st.SearchStrategy[spaces.Space]:
        named = st.dictionaries(KEYS, parts, min_size=1, max_size=3).map(spaces.Dict)
        return named | st.lists(parts, min_size=1, max_size=2).map(spaces.Tuple)

    return st.recursive(leaves, inside, max_leaves=4)


CHOICES = st.one_of(
    st.builds(spaces.Discrete, st.integers(2, 5), start=st.integers(-3, 3)),
    st.builds(spaces.MultiDiscrete, st.lists(st.integers(1, 4), min_size=1, max_size=3)),
    st.just(spaces.MultiDiscrete(np.array([[2, 3], [1, 2]]), start=np.array([[0, 1], [2, -3]]))),
)
ACTIONS = st.one_of(
    CHOICES,
    st.builds(spaces.MultiBinary, st.integers(1, 3)),
    st.sampled_from([spaces.Box(-1, 1, (2,), np.float32), spaces.Box(-0.3, 0.1, (2, 2))]),
)
REFUSED = st.sampled_from([spaces.Box(0, 3, (2,), np.int32), spaces.Tuple([spaces.Discrete(2)])])


class Task(NamedTuple):
    observes: spaces.Space
    acts: spaces.Space
    masks: str  # none, info, method or leaf
    network: str

    def __call__(self) -> Random:
        kind = {"method": WithMethod, "info": WithInfo}.get(self.masks, Random)
        return kind(self)


@st.composite
def tasks(draw: Any, odd: bool = False) -> Task:
    """Draws tasks, half of them with masks; some cannot be learned if ``odd``."""
    wrong = odd and draw(st.integers(0, 3)) == 0
    masks = draw(st.sampled_from(["none", "none", "none", "info", "method", "leaf"]))
    acts = REFUSED | ACTIONS if wrong else ACTIONS if masks == "none" else CHOICES
    return Task(
        draw(trees(LEAVES | ODD if wrong else LEAVES)),
        draw(acts),
        masks,
        draw(st.sampled_from(["auto", "auto", "cnn", "gru", "lstm", *(["mlp"] if odd else [])])),
    )


class Random(gymnasium.Env):
    """Observes a sample of its space; a forbidden action is an error."""

    def __init__(self, task: Task):
        self.task, self.inner = task, task.observes
        self.action_space = task.acts
        has = isinstance(task.acts, spaces.Discrete | spaces.MultiDiscrete)
        self.masked = has and task.masks != "none"
        self.size = choices(task.acts) if has else 0
        leaf = self.masked and task.masks == "leaf"
        self.observation_space = (
            joined(self.inner, spaces.MultiBinary(self.size)) if leaf else self.inner
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.see(), self.info()

    def see(self) -> Any:
        """Draws an observation and what is allowed."""
        self.inner.seed(int(self.np_random.integers(2**31)))
        self.open = self.np_random.integers(0, 2, self.size).astype(np.int8)
        for first, last in self.factors():
            self.open[self.np_random.integers(first, last)] = 1
        obs = self.inner.sample()
        leaf = self.observation_space is not self.inner
        return with_mask(self.observation_space, obs, self.open) if leaf else obs

    def factors(self) -> list[tuple[int, int]]:
        space: Any = self.action_space
        if not self.masked:
            return []
        sizes = [space.n] if isinstance(space, spaces.Discrete) else space.nvec.reshape(-1)
        ends = np.cumsum([0, *sizes]).tolist()
        return list(itertools.pairwise(ends))

    def info(self) -> dict[str, Any]:
        return {}

    def step(self, action):
        assert action in self.action_space
        start = getattr(self.action_space, "start", 0)
        chosen = np.reshape(np.asarray(action) - start, -1)
        for (first, _), choice in zip(self.factors(), chosen, strict=self.masked):
            assert self.open[first + int(choice)], "a forbidden action"
        self.t += 1
        return self.see(), float(self.t % 3 == 0), self.t == 7, False, self.info()


class WithInfo(Random):
    def info(self):
        return {MASK: self.open} if self.masked else {}


class WithMethod(Random):
    def action_masks(self):
        return self.open if self.masked else np.ones(choices(self.action_space), np.int8)


# -- properties


def samples(space: spaces.Space, number: int = 3) -> list[Any]:
    space.seed(0)
    return [space.sample() for _ in range(number)]


def at(obs: Any, keys: tuple[Any, ...]) -> Any:
    for key in keys:
        obs = obs[key]
    return obs


@settings(QUIET, max_examples=40)
@given(trees(LEAVES), ACTIONS, st.booleans())
def test_what_is_read_is_what_was_observed(space, actions, flat):
    codec = Codec("task", space, actions, flat=flat)
    rows = samples(space)
    read = np.stack([codec.observation(obs) for obs in rows]).astype(codec.rows.dtype)
    views = codec.views(read)
    batch = concatenate(space, rows, create_empty_array(space, len(rows)))
    together = codec.observations(batch_space(space, len(rows)), batch, len(rows))
    np.testing.assert_array_equal(together, read)
    leaves = dict(codec.spec.leaves)
    if codec.spec.size is not None:
        for obs, row in zip(rows, views, strict=True):
            np.testing.assert_array_equal(np.asarray(spaces.flatten(space, obs)), row)
    else:
        for keys, part in paths_of(space):
            path = "/".join(map(str, keys))
            for i, obs in enumerate(rows):
                seen = (views if codec.spec.bare else views[path])[i]
                flat_one = leaves[path].kind == "vector"
                wanted = spaces.flatten(part, at(obs, keys)) if flat_one else at(obs, keys)
                np.testing.assert_array_equal(seen, np.asarray(wanted, leaves[path].dtype))
    again = from_dict(to_dict(space)), from_dict(to_dict(actions))
    assert all(obs in again[0] for obs in rows)
    codec.action_space.seed(0)
    acts = [codec.action_space.sample() for _ in range(3)]
    for one, both in zip(acts, codec.action(np.stack(acts)), strict=True):
        np.testing.assert_array_equal(codec.action(np.asarray(one)), both)
        assert both in actions and both in again[1]


def one_sentence(error: LPOError) -> None:
    words = str(error)
    assert "\n" not in words and words.endswith((".", "?")) and len(words) < 600, words


def refused_or(make: Callable[[], Any]) -> Any:
    """Returns what ``make`` does; None where it is refused in one sentence."""
    try:
        return make()
    except LPOError as error:
        one_sentence(error)
        return None


def same_policy(policy: Policy, task: Task) -> None:
    """A policy that was saved acts as before, and never as it may not."""
    env = task()
    with TemporaryDirectory() as folder:
        again = Policy.load(policy.save(Path(folder) / "policy"))
    obs, _ = env.reset(seed=1)
    states: list[Any] = [None, None]
    for step in range(6):
        given = (
            {"action_masks": env.open} if env.masked and env.inner is env.observation_space else {}
        )
        found = []
        for i, one in enumerate((policy, again)):
            action, states[i] = one.predict(
                obs, states[i], np.array([step == 0]), deterministic=True, **given
            )
            found.append(action)
        np.testing.assert_array_equal(*found)
        obs, *_ = env.step(found[0])


def agent_of(task: Task) -> Agent:
    return Agent(task, network=task.network, **(SMALL | NETWORKS[task.network]))


@settings(QUIET, max_examples=16)
@given(tasks(odd=True))
def test_whatever_is_observed_is_acted_on_or_refused(task):
    agent = refused_or(lambda: agent_of(task))
    if agent is not None:
        agent.run.trainer.collect(64)
        same_policy(agent.policy, task)
        agent.close()


@pytest.mark.slow
@settings(QUIET, max_examples=20)
@given(tasks())
def test_whatever_is_observed_is_learned_from(task):
    agent = agent_of(task)
    agent.learn(64, progress_bar=False)
    for row in agent.metrics:
        assert all(np.isfinite(x) for x in row.values()), row
    same_policy(agent.policy, task)
    agent.close()
