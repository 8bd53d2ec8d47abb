"""Bodies: host and device agree, memory begins anew with an episode, stretches are rollouts."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from lpo import Agent, Policy
from lpo.config import configure, from_json, to_json
from lpo.engine.host import Trainer
from lpo.engine.learner import prepare
from lpo.envs.codec import Codec
from lpo.envs.make import make_batch
from lpo.errors import LPOError
from lpo.network import CNN, GRU, LSTM, MLP, Auto
from lpo.network.base import BLOCK, in_blocks
from lpo.network.cnn import convolution, encoded, encoded_host, init_encoder
from lpo.network.stretches import in_stretches, through_stretches
from lpo.runs.run import make_trainer
from lpo.types import Leaf, ObsSpec, vector

from .guests import Cue, Dot

KEY = jax.random.key(0)
FRAME = Leaf((84, 84, 4), "uint8", "image")
GRID = Leaf((7, 7, 3), "uint8", "grid", (11, 6, 4))
SMALL: dict[str, Any] = {
    "num_envs": 2, "rollout": 64, "batch_size": 32, "epochs": 2, "hidden": (16,), "eval_every": 0,
    "image_features": 16,
}  # fmt: skip


def drawn(leaf: Leaf, *lead: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    if leaf.kind == "grid":
        return rng.integers(0, leaf.sizes, (*lead, *leaf.shape)).astype(np.uint8)
    return rng.integers(0, 256, (*lead, *leaf.shape)).astype(np.uint8)


@pytest.mark.parametrize(
    "leaf",
    [
        FRAME,
        GRID,
        pytest.param(Leaf((16, 16, 3), "uint8", "image"), marks=pytest.mark.slow),
        Leaf((3, 2, 3), "uint8", "image"),
    ],
    ids=lambda leaf: leaf.words,
)
def test_convolutions_on_the_host_are_those_of_the_learner(leaf):
    net, x = init_encoder(KEY, leaf, 32), drawn(leaf, 3)
    found = encoded_host(jax.tree.map(np.asarray, net), leaf, x)
    assert found.shape == (3, 32)
    np.testing.assert_allclose(found, encoded(net, leaf, jnp.asarray(x)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("side", "stride"),
    [(8, 4), (2, 1), *(pytest.param(*x, marks=pytest.mark.slow) for x in ((4, 2), (3, 1), (3, 2)))],
)
def test_windows_are_those_of_a_convolution(side, stride):
    """As XLA's convolution has them, and its gradients."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((2, 21, 18, 3)).astype(np.float32))
    w = jnp.asarray(rng.standard_normal((side * side * 3, 5)).astype(np.float32))

    def theirs(x, w):
        return jax.lax.conv_general_dilated(
            x, w.reshape(side, side, 3, 5), (stride, stride), "VALID",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip

    ours = partial(convolution, side=side, stride=stride)
    np.testing.assert_allclose(ours(x, w), theirs(x, w), rtol=1e-4, atol=1e-4)
    slopes = [
        jax.jit(jax.grad(lambda x, w, f=f: (f(x, w) ** 2).sum(), (0, 1)))(x, w)
        for f in (ours, theirs)
    ]
    for mine, other in zip(*slopes, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-2)


def test_channels_may_be_first_and_frames_stacked():
    """One picture in three forms has the same features."""
    last = Leaf((40, 40, 6), "uint8", "image")
    first = Leaf((6, 40, 40), "uint8", "image")
    stack = Leaf((2, 40, 40, 3), "uint8", "image")
    net, x = init_encoder(KEY, last, 8), jnp.asarray(drawn(last, 2))
    stacked = jnp.moveaxis(x.reshape(2, 40, 40, 2, 3), 3, 1)
    expected = encoded(net, last, x)
    np.testing.assert_array_equal(encoded(net, first, jnp.moveaxis(x, -1, 1)), expected)
    np.testing.assert_array_equal(encoded(net, stack, stacked), expected)


def test_a_frame_has_the_layers_of_mnih():
    shapes = [layer.w.shape for layer in init_encoder(KEY, FRAME, 512)]
    assert shapes == [(8 * 8 * 4, 32), (4 * 4 * 32, 64), (3 * 3 * 64, 64), (7 * 7 * 64, 512)]


def test_a_grid_of_codes_is_read_one_hot():
    """The first layer sees 2 × 2 cells of 11 + 6 + 4 names; another code is another input."""
    net, x = init_encoder(KEY, GRID, 8), drawn(GRID, 2)
    assert net[0].w.shape == (2 * 2 * 21, 16)
    x[1] = x[0]
    x[1, 3, 3, 0] = (x[0, 3, 3, 0] + 1) % 11
    one, other = encoded(net, GRID, jnp.asarray(x))
    assert not np.array_equal(one, other)


def test_blocks_are_what_one_call_gives():
    x = jnp.arange(2.0 * (2 * BLOCK + 7)).reshape(-1, 2)
    found = in_blocks(lambda rows: rows["x"] * 2 + 1, {"x": x})
    np.testing.assert_array_equal(found, x * 2 + 1)


@pytest.mark.parametrize("part", [GRU(memory=5), LSTM(memory=5)], ids=lambda part: part.kind)
def test_a_memory_by_hand(part):
    """Steps in NumPy, one after another, are the unrolled ones; an episode begins with nothing."""
    body = part.make(vector(3))
    params = body.init(KEY)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((7, 2, 3)).astype(np.float32)
    begins = np.zeros((7, 2), bool)
    begins[0], begins[4, 1] = True, True
    taken = np.ones((7, 2), bool)
    taken[2, 0] = False  # a row on which the environment only reset itself
    act, memory = body.host(params), body.memory(2)
    expected = []
    for t in range(7):
        after, features = act(memory, x[t], begins[t])
        memory = tuple(
            np.where(taken[t][:, None], new, old) for new, old in zip(after, memory, strict=True)
        )
        expected.append(features)
    memories, found = body.unroll(params, body.memory(2), *map(jnp.asarray, (x, begins, taken)))
    assert found.shape == (7, 2, body.size) and body.size == 5 + 3
    ok = taken[..., None]  # features of a row that was not taken are never read
    np.testing.assert_allclose(found * ok, np.stack(expected) * ok, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(memories[0][-1], memory[0], rtol=1e-5, atol=1e-6)
    alone, _ = body.unroll(
        params, body.memory(1), *(jnp.asarray(a[4:, 1:]) for a in (x, begins, taken))
    )
    np.testing.assert_allclose(alone[0][:, 0], memories[0][4:, 1], rtol=1e-5, atol=1e-6)


def test_gru_is_that_of_cho():
    """h′ = (1 − z) n + z h, with z and r by σ and n = tanh(W x + r U h), written anew."""
    body = GRU(memory=4).make(vector(3))
    _, into, back = params = body.init(KEY)
    x, h = np.ones((1, 3), np.float32), np.full((1, 4), 0.5, np.float32)
    w, u = np.asarray(into.w), np.asarray(back.w)
    sigma = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    r, z = (sigma(x @ w[:, i : i + 4] + h @ u[:, i : i + 4]) for i in (0, 4))
    n = np.tanh(x @ w[:, 8:] + r * (h @ u[:, 8:]))
    (found,), _ = body.step(params, (h,), jnp.asarray(x), jnp.zeros(1, bool))
    np.testing.assert_allclose(found, (1 - z) * n + z * h, rtol=1e-5)


def trainer(env: Any, **options: Any) -> Trainer:
    return make_trainer(configure("default", **(SMALL | options)), env)


def same(one: Any, other: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.parametrize("network", ["gru", pytest.param("lstm", marks=pytest.mark.slow)])
def test_stretches_have_the_features_of_the_rollout(network):
    """Before an update nothing has changed: rows of a minibatch are rows of the rollout."""
    made = trainer(Cue, network=network, stretch=5)
    for _ in range(2):
        made.iterate(1000)
    rollout, _, _ = made.collect(made.env_steps + 64)
    p, state = made.parts, made.state
    ready = prepare(p, state, jax.tree.map(jnp.asarray, rollout))
    rows = through_stretches(p.sight.body, state.params.body, ready.batch)
    assert rows.weight is not None and rows.weight.sum() == rollout.valid.sum() == 64
    ratio = p.dist.log_prob(
        p.compute.apply(state.params.policy, rows.features), state.params.log_std, rows.batch.action
    )
    # the statistics of the observations have moved a little since the policy acted
    gap = np.abs(np.asarray(ratio - rows.batch.log_prob[:, 0])[np.asarray(rows.weight) > 0])
    assert gap.max() < 0.05


def test_what_acted_is_what_learns():
    """The probabilities of the learner are those of the actions that the host drew."""
    made = trainer(Cue, network="gru", normalize_obs=False, bonus="none")
    for _ in range(2):
        made.iterate(1000)
    policy, p = made.policy(), made.parts
    before = made.memory[0].copy()
    obs, begins = made.obs, made.episodes.length == 0
    policy.forget(begins)
    outputs = policy.outputs(obs)
    memory, features = p.sight.body.step(
        made.state.params.body, (before,), jnp.asarray(obs), jnp.asarray(begins)
    )
    np.testing.assert_allclose(memory[0], policy.memory[0], rtol=1e-5, atol=1e-6)
    learned = p.compute.apply(made.state.params.policy, features)
    np.testing.assert_allclose(outputs, learned, rtol=1e-4, atol=1e-5)
    ready = prepare(p, made.state, jax.tree.map(jnp.asarray, made.collect(made.env_steps + 64)[0]))
    rows = through_stretches(p.sight.body, made.state.params.body, ready.batch)
    found = p.dist.log_prob(
        p.compute.apply(made.state.params.policy, rows.features),
        made.state.params.log_std,
        rows.batch.action,
    )
    on = np.asarray(rows.weight) > 0
    np.testing.assert_allclose(found[on], rows.batch.log_prob[:, 0][on], rtol=1e-4, atol=1e-5)


RUNS = {
    "image": (Dot, {"episode": "first-visit"}),
    "dict": (partial(Dot, "dict"), {}),
    "stack": (partial(Dot, "stack"), {"bonus": "none"}),
    "gru": (Cue, {"network": "gru", "stretch": 5}),  # as in other tests: it is compiled once
    "gru of images": (partial(Dot, "dict"), {"network": "gru", "stretch": 8, "bonus": "visits"}),
    "lstm": (Cue, {"network": "lstm", "bonus": "elliptic", "switch": "sensitivity"}),
}


OFTEN = ("gru",)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in OFTEN else pytest.mark.slow) for n in RUNS]
)
def test_a_run_goes_on_bit_for_bit(name):
    """Saved in the middle of an episode, with images, trees and memories."""
    env, options = RUNS[name]
    whole = trainer(env, **options)
    metrics: dict[str, float] = {}
    for _ in range(3):
        metrics = whole.iterate(1000)
    arrays = whole.arrays()
    whole.iterate(1000)
    again = trainer(env, **options)
    again.restore(arrays)
    again.iterate(1000)
    same(whole.state, again.state)
    same(whole.memory, again.memory)
    assert metrics["policy/kl"] < 0.5
    if name == "image":
        assert arrays["train['obs']"].dtype == np.uint8 == whole.buffer.obs.dtype


def test_a_policy_remembers_what_it_is_given(tmp_path):
    """As sb3-contrib's: the state that ``predict`` returned is given back to it."""
    agent = Agent(Cue, network="gru", stretch=5, **SMALL)
    agent.learn(200, progress_bar=False)
    path = agent.save(tmp_path / "cue")
    policy = Policy.load(path) if path else Policy.load(tmp_path / "cue.safetensors")
    env = Cue()
    obs = [env.reset(seed=0)[0], *(env.step(2)[0] for _ in range(3))]
    together = np.stack(obs)[:, None]
    state: Any = None
    for x in together:
        _, state = policy.predict(x, state=state, episode_start=np.array([False]))
    _, fresh = policy.predict(together[-1])
    assert not np.array_equal(state[0], fresh[0])
    _, begun = policy.predict(together[-1], state=state, episode_start=np.array([True]))
    np.testing.assert_array_equal(begun[0], fresh[0])
    with pytest.raises(LPOError, match="pass the state that the last call returned"):
        policy.predict(np.stack(obs), state=state)


def test_what_is_observed_decides_the_network():
    image = ObsSpec((("", FRAME),))
    both = ObsSpec((("camera", FRAME), ("body", Leaf((4,)))))
    assert Auto().make(vector(5)).plain and not Auto().make(image).plain
    assert Auto(features=100).make(both).size == 104
    with pytest.raises(LPOError, match="reads one vector, and the task observes image 84 × 84 × 4"):
        MLP().make(image)
    c = configure("default", network="cnn", image_features=32)
    assert from_json(to_json(c), "x").network == c.network
    assert isinstance(c.network, CNN) and c.network.features == 32


def test_a_small_grid_is_a_vector_or_an_image():
    """MiniGrid's codes are one-hot for the MLP, and an image for convolutions."""
    pytest.importorskip("minigrid")
    one = make_batch("MiniGrid-Empty-5x5-v0", 1)
    two = make_batch("MiniGrid-Empty-5x5-v0", 1, flat=False)
    assert one.codec.spec.size == 7 * 7 * 21 + 4
    kinds = {path: leaf.kind for path, leaf in two.codec.spec.leaves}
    assert kinds == {"direction": "vector", "image": "grid"}
    flat, tree = one.reset(3), two.reset(3)
    names = np.concatenate(
        [np.eye(n)[tree["image"][0, ..., i]] for i, n in enumerate((11, 6, 4))], -1
    )
    np.testing.assert_array_equal(flat[0, 4:].reshape(7, 7, 21), names)
    np.testing.assert_array_equal(flat[0, :4], tree["direction"][0])
    made = trainer("MiniGrid-Empty-5x5-v0", network="cnn", bonus="none")
    made.iterate(1000)
    assert made.parts.sight.body.size == 4 + 16


def test_a_row_of_a_tree_has_a_field_for_each_leaf():
    here = make_batch(Dot, 2, env_workers=0)
    other = Codec("dot", Dot("dict").observation_space, spaces.Discrete(4))
    assert here.codec.spec.empty(1).dtype == np.uint8
    row = other.observation(Dot("dict").reset(seed=0)[0])
    assert row["camera"].shape == (40, 40, 3) and row["body/clock"] == 0
    views = other.views(row[None])
    assert set(views) == {"camera", "body/clock"}
    here.close()


class Wrong(Dot):
    def see(self):
        return super().see()[:20]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "options", "words"),
    [
        (Wrong, {}, r"observation has shape \(20, 40, 3\)"),
        (Dot, {"network": "mlp"}, "reads one vector"),
        (Dot, {"start": "cover"}, "reads one vector|reads it by problem.plain"),
        (Dot, {"network": "cmn"}, "did you mean 'cnn'"),
    ],
)
def test_what_does_not_fit_is_told(env, options, words):
    with pytest.raises(LPOError, match=words):
        made = Agent(env, num_envs=2, rollout=64, batch_size=32, eval_every=0, **options)
        made.learn(100, progress_bar=False)


def test_stretches_pad_and_weigh():
    """Seven rows in stretches of three: nine places, of which the valid ones count."""
    body = GRU(memory=2, stretch=3).make(vector(1))
    made = trainer(Cue, network="gru", stretch=5)
    made.iterate(1000)
    rollout = jax.tree.map(
        lambda x: jnp.asarray(x[:7]), made.buffer._replace(last_obs=(), memory=())
    )
    rollout = rollout._replace(memory=body.memory(2), valid=rollout.valid.at[6].set(False))
    memories = (jnp.arange(7.0)[:, None, None] * jnp.ones((7, 2, 2)),)
    from lpo.math.ppo import Batch

    ones = jnp.ones((7, 2, 1))
    rows, counts = in_stretches(body, rollout, memories, Batch(ones, ones, ones, ones, ones))
    assert rows.obs.shape == (6, 3, 1) and rows.stretch.weight.sum() == 12
    assert counts.tolist() == [True] * 4 + [False] * 2
    np.testing.assert_array_equal(rows.stretch.memory[0][:, 0], [0, 0, 2, 2, 5, 5])
