"""The bonus beside another trainer: equal to our own engine, and by hand."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from lpo import LPOError
from lpo.bonus import BonusPart, EpisodePart, Sensitivity
from lpo.bonus.base import one
from lpo.bonus.compose import ScaledOptions
from lpo.engine.learner import init_state, learn, prepare, viewed
from lpo.explorer import Explorer, Values, starts
from lpo.options import options
from lpo.types import Rollout

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
PICTURE = spaces.Box(0, 255, (3, 40, 36), np.uint8)
SPACES: dict[str, spaces.Space] = {
    "box": BOX,
    "image": PICTURE,
    "camera": spaces.Dict({"arm": BOX, "camera": PICTURE}),
    "masked": spaces.Dict({"arm": BOX, "action_mask": spaces.MultiBinary(2)}),
}
ACTIONS = spaces.Discrete(2)
N = 2
SMALL: dict[str, Any] = {"hidden": (8,), "epochs": 2, "batch_size": 16}


def looks(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Any:
    """Observations [*shape, …] of a few numbers, so that some recur."""
    vector = rng.integers(-2, 3, (*shape, 3)).astype(np.float32)
    picture = rng.integers(0, 2, (*shape, 3, 40, 36)).astype(np.uint8) * 200
    return {
        "box": vector,
        "image": picture,
        "camera": {"arm": vector, "camera": picture},
        "masked": {"arm": vector, "action_mask": np.ones((*shape, 2), np.int8)},
    }[kind]


def rollout(seed: int, steps: int = 24, kind: str = "box") -> dict[str, Any]:
    """A rollout with ends of both kinds, also on the last row."""
    rng = np.random.default_rng(seed)
    terminated = rng.random((steps, N)) < 0.15
    terminated[-1] = [True, False]
    truncated = (rng.random((steps, N)) < 0.15) & ~terminated
    obs, elsewhere = looks(rng, kind, (steps + 1, N)), looks(rng, kind, (steps, N))

    def after(there: np.ndarray, here: np.ndarray) -> np.ndarray:
        ended = (terminated | truncated).reshape(steps, N, *(1,) * (there.ndim - 2))
        return np.where(ended, there, here[1:])

    return {
        "obs": jax.tree.map(lambda x: x[:-1], obs),
        "action": rng.integers(0, 2, (steps, N)),
        "reward": (rng.random((steps, N)) < 0.2).astype(np.float32),
        "next_obs": jax.tree.map(after, elsewhere, obs),
        "terminated": terminated,
        "truncated": truncated,
        "last_obs": jax.tree.map(lambda x: x[-1], obs),
    }


def as_ours(data: dict[str, np.ndarray], before: np.ndarray) -> Rollout:
    """The same data as our engine has them."""
    valid = np.ones(data["reward"].shape, bool)
    ended = data["terminated"] | data["truncated"]
    action = data["action"][..., None].astype(np.float32)
    start = np.vstack([before[None], ended[:-1]])
    made: Any = Rollout(**{**data, "action": action}, valid=valid, start=start, taken=valid)
    return jax.tree.map(jnp.asarray, made)


COUNTED = {"bonus": "visits", "episode": "first-visit", "intrinsic_ends": "neutral"}


@pytest.mark.parametrize(
    ("kind", "chosen"),
    [
        ("box", {}),
        pytest.param("box", COUNTED, marks=pytest.mark.slow),
        ("masked", {}),
        pytest.param("image", {}, marks=pytest.mark.slow),
        pytest.param("camera", COUNTED, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_its_advantages_are_those_of_our_engine(kind, chosen):
    explorer = Explorer(SPACES[kind], ACTIONS, N, seed=3, **SMALL, **chosen)
    parts, data = explorer.parts, rollout(0, kind=kind)
    ours, state = as_ours(data, np.ones(N, bool)), init_state(explorer.parts, 3)
    both = jax.jit(lambda s, r: (prepare(parts, s, r), learn(parts, s, r)[0]))
    ready, after = both(state, ours)
    found = explorer.advantages(**data)
    np.testing.assert_allclose(found.streams, ready.advantages, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.advantage.reshape(-1, 1), ready.batch.advantage, atol=1e-6)
    np.testing.assert_allclose(found.returns, ready.returns[0], rtol=0, atol=1e-6)
    explorer.update()
    for mine, theirs in zip(
        jax.tree.leaves((explorer.memory.bonus, explorer.memory.weigh, explorer.memory.moments)),
        jax.tree.leaves((after.bonus, after.weigh, after.moments)),
        strict=True,
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    second = rollout(1, kind=kind)  # the episode goes on where the first rollout left it
    ours = viewed(parts, as_ours(second, np.asarray(data["terminated"] | data["truncated"])[-1]))
    bonus = jax.jit(parts.bonus.score)(explorer.memory.bonus, ours)[0]
    np.testing.assert_allclose(explorer.advantages(**second).bonus, bonus[0], atol=1e-6)


CONSTANT: dict[str, Any] = {
    "bonus": "constant", "scale": "size", "gamma_int": 0.5, "lambda_int": 1.0,
    "weighing": "fixed", "alpha": 2.0, "beta": 3.0, "value_gain": 0.0,
}  # fmt: skip


def four_steps(**changed: Any) -> dict[str, Any]:
    """Four steps of one environment; the second ends an episode, a reward of 1 with it."""
    ended = np.array([[False], [True], [False], [False]])
    return {
        "obs": np.zeros((4, 1, 3)), "next_obs": np.ones((4, 1, 3)), "last_obs": np.zeros((1, 3)),
        "action": np.zeros((4, 1)), "reward": ended * 1.0, "terminated": ended,
        "truncated": np.zeros((4, 1), bool),
    } | changed  # fmt: skip


@pytest.mark.parametrize(
    ("ends", "expected"),
    [("across", [0.9375, 0.875, 0.75, 0.5]), ("ends", [0.75, 0.5, 0.75, 0.5])],
)
def test_an_episode_by_hand(ends, expected):
    # Critics are 0. The bonus is 1 − γ = 1/2 everywhere, and Â_int = Σ (γλ)^k b, γλ = 1/2.
    # The reward has γ = 1/2 and λ = 1: Â_ext = (1/2, 1, 0, 0).
    explorer = Explorer(BOX, ACTIONS, 1, gamma=0.5, gae_lambda=1.0, intrinsic_ends=ends, **CONSTANT)
    found = explorer.advantages(**four_steps())
    np.testing.assert_allclose(found.bonus, 0.5)
    np.testing.assert_allclose(found.streams[0, :, 0], [0.5, 1, 0, 0], atol=1e-7)
    np.testing.assert_allclose(found.streams[1, :, 0], expected, atol=1e-7)
    whole = 2 * np.array([0.5, 1, 0, 0]) + 3 * np.array(expected)
    np.testing.assert_allclose(found.advantage[:, 0], whole, atol=1e-6)
    np.testing.assert_allclose(found.returns[:, 0], [0.5, 1, 0, 0], atol=1e-7)


def test_the_trainer_s_values_and_its_advantages_give_the_same():
    # V = 2 everywhere, γ = 1/2, λ = 1. δ = (0 + 1 − 2, 1 − 2, 0 + 1 − 2, 0 + 1 − 2), the sums to
    # the end of the episode and of the rollout are (−1.5, −1, −1.5, −1).
    make = lambda: Explorer(  # noqa: E731
        BOX, ACTIONS, 1, gamma=0.5, gae_lambda=1.0, reward_critic=False, **CONSTANT
    )
    two = np.full((4, 1), 2.0)
    by_values = make().advantages(**four_steps(), values=Values(two, two, two[0]))
    np.testing.assert_allclose(by_values.streams[0, :, 0], [-1.5, -1, -1.5, -1], atol=1e-6)
    np.testing.assert_allclose(by_values.returns, by_values.streams[0] + 2, atol=1e-6)
    given = make().advantages(**four_steps(), advantage=by_values.streams[0])
    np.testing.assert_allclose(given.advantage, by_values.advantage, atol=1e-6)
    assert given.returns is None


def test_a_time_limit_bootstraps_from_the_true_last_observation():
    cut = np.array([[False], [True], [False], [False]])
    data = four_steps(terminated=cut & False, truncated=cut, reward=np.zeros((4, 1)))
    explorer = Explorer(BOX, ACTIONS, 1, gamma=0.5, gae_lambda=1.0, reward_critic=False, **CONSTANT)
    value, after = np.full((4, 1), 2.0), np.full((4, 1), 8.0)
    found = explorer.advantages(**data, values=Values(value, after, value[0]))
    # δ = 0 + 8/2 − 2 = 2 on each row; the sum goes from row 0 to row 1 and stops there
    np.testing.assert_allclose(found.streams[0, :, 0], [3, 2, 3, 2], atol=1e-6)


def test_rows_that_only_reset_the_environment_are_skipped():
    valid = np.array([[True], [True], [False], [True]])
    ended = np.array([[False], [True], [False], [False]])
    begins = starts(np.array([True]), ended, valid)
    assert begins[:, 0].tolist() == [True, False, True, True, False]
    explorer = Explorer(BOX, ACTIONS, 1, gamma=0.5, gae_lambda=1.0, **CONSTANT)
    found = explorer.advantages(**four_steps(reward=np.array([[0.0], [1], [9], [0]])), valid=valid)
    np.testing.assert_allclose(found.streams[0, :, 0], [0.5, 1, 0, 0], atol=1e-7)
    np.testing.assert_allclose(found.streams[1, :, 0], [0.875, 0.75, 0, 0.5], atol=1e-7)


@options
class Guest(ScaledOptions):
    """A bonus of another package."""

    kind: ClassVar[str] = "guest"

    def novelty(self, problem):
        return one()


@pytest.mark.slow
@pytest.mark.parametrize("key", ["arm", "camera"])
def test_the_bonus_reads_the_parts_that_are_named(key):
    """What lies in the other part changes no bonus; what lies in the named one does."""
    explorer = Explorer(SPACES["camera"], ACTIONS, N, bonus="visits", bonus_keys=[key], **SMALL)
    data = rollout(0, kind="camera")
    explorer.advantages(**data)
    explorer.update()
    counted, found = explorer.state(), {}
    for changed in ("none", "arm", "camera"):
        other = data.copy()
        for name in ("obs", "next_obs", "last_obs"):
            other[name] = {k: x * (k != changed) for k, x in data[name].items()}
        explorer.restore(counted)
        found[changed] = explorer.advantages(**other).bonus
    same = "camera" if key == "arm" else "arm"
    np.testing.assert_array_equal(found[same], found["none"])
    assert not np.array_equal(found[key], found["none"])


def of_every_kind() -> list[Any]:
    """Options of every kind of bonus; those of which others differ little are tried by default."""
    kinds = [{"bonus": kind} for kind in BonusPart.kinds.names()]
    episodes = [{"episode": kind} for kind in EpisodePart.kinds.names() if kind != "none"]
    guests: list[dict[str, Any]] = [
        {"bonus": Guest()}, {"episode": Sensitivity(encoder="inverse", size=8)},
        {"bonus": "icm", "episode": "first-visit"}, {"bonus": "visits", "novelty_difference": 0.5},
    ]  # fmt: skip
    often = ({"bonus": "none"}, {"bonus": "rnd"}, {"bonus": "icm", "episode": "first-visit"})
    return [
        pytest.param(
            x, id=str(x), marks=[] if x in often or "Guest" in str(x) else pytest.mark.slow
        )
        for x in (*kinds, *episodes, *guests)
    ]


@pytest.mark.parametrize("chosen", of_every_kind())
def test_every_bonus_works_and_goes_on_from_its_state(chosen):
    explorer = Explorer(BOX, spaces.Box(-1, 1, (2,)), N, reward_critic=False, **SMALL, **chosen)
    data = [rollout(seed, steps=12) for seed in range(3)]
    for x in data:
        x["action"] = np.stack([x["action"], 1 - x["action"]], -1) * 0.5
    reward = np.ones((12, N), np.float32)
    first = explorer.state()
    explorer.advantages(**data[0], advantage=reward)
    explorer.update()
    found = explorer.advantages(**data[1], advantage=reward)
    metrics = found.metrics | explorer.update()
    assert np.isfinite(list(metrics.values())).all()
    with_bonus = chosen.get("bonus") != "none"
    assert len(found.streams) == 1 + with_bonus
    assert with_bonus == (found.bonus != 0).any()
    kept = explorer.state()
    once = explorer.advantages(**data[2], advantage=reward)
    explorer.restore(first)
    other = explorer.advantages(**data[2], advantage=reward)
    explorer.restore(kept)
    again = explorer.advantages(**data[2], advantage=reward)
    np.testing.assert_array_equal(once.advantage, again.advantage)
    assert with_bonus == (once.advantage != other.advantage).any()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Explorer(BOX, ACTIONS, 1, entropy_coef=0.1), "entropy_coef is the trainer's"),
        (lambda: Explorer(BOX, ACTIONS, 1, bta=0.1), "did you mean 'beta'"),
        (lambda: Explorer(BOX, ACTIONS, 1, switch="growth"), "switch is the trainer's"),
        (lambda: Explorer(spaces.Text(3), ACTIONS, 1), "wrap it in a gymnasium"),
        (lambda: Explorer(BOX, ACTIONS, 1).update(), "call advantages"),
        (lambda: Explorer(BOX, ACTIONS, 1, network="gru"), "have no memory"),
        (
            lambda: Explorer(BOX, ACTIONS, 1).advantages(**four_steps(obs=np.zeros((4, 1, 2)))),
            r"have shape \(4, 1, 2\) and one of them has \(3,\)",
        ),
        (lambda: Explorer(BOX, ACTIONS, 2).advantages(**four_steps()), r"pass \[T, 2\]"),
        (
            lambda: Explorer(BOX, ACTIONS, 1).advantages(**four_steps(), advantage=np.ones((4, 1))),
            "leave values= and advantage= out",
        ),
        (
            lambda: Explorer(BOX, ACTIONS, 1, reward_critic=False).advantages(**four_steps()),
            "pass values= or advantage=",
        ),
        (
            lambda: Explorer(BOX, ACTIONS, 1).advantages(**four_steps(obs=np.zeros((3, 1, 3)))),
            "obs has shape",
        ),
        (
            lambda: Explorer(BOX, ACTIONS, 1).advantages(
                **four_steps(reward=np.full((4, 1), np.nan))
            ),
            "keeps its last state",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(call, words):
    with pytest.raises(LPOError, match=words):
        call()
