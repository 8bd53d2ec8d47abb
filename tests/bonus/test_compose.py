"""Bonuses compose, and what is new in an episode is worked out by hand."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo.bonus import Bonus, difference, plus, scaled, times
from lpo.bonus.base import one
from lpo.bonus.episode import episode_visits
from lpo.bonus.scale import by_size
from lpo.bonus.sensitivity import sensitivity
from lpo.bonus.visits import visits
from lpo.config import configure
from lpo.engine.learner import Space, assemble, init_state, learn, problem_of
from lpo.engine.rollout import empty_rollout
from lpo.errors import LPOError
from lpo.math.distributions import ActionSpec
from lpo.math.features import reader
from lpo.math.hashing import hash_keys, hashed
from lpo.math.images import Plain, coarse, known, overlaps
from lpo.types import Rollout, vector

KEY = jax.random.key(0)
READ = reader("next", Plain(1, lambda x: x), 1, lambda action: action)


def told(*columns: str) -> Rollout:
    """A rollout from texts, one for each environment: a letter is a state, | begins an episode.

    The first letter after | is s_0. A letter in brackets is not learned from (a roll-in).
    """
    steps = [steps_of(column) for column in columns]
    length = max(map(len, steps))
    data = empty_rollout(length, len(columns), vector(1), 1)
    for i, column in enumerate(steps):
        for t, (s, after, start, valid) in enumerate(column):
            data.obs[t, i], data.next_obs[t, i] = s, after
            data.start[t, i], data.taken[t, i], data.valid[t, i] = start, True, valid
    return jax.tree.map(jnp.asarray, data)


def steps_of(column: str) -> list[tuple[int, int, bool, bool]]:
    found = []
    for k, episode in enumerate(column.split("|")):
        states = [(c.lower(), c.islower()) for c in episode]  # capitals: a roll-in
        for t in range(1, len(states)):
            begins = t == 1 and k > 0
            found.append((ord(states[t - 1][0]), ord(states[t][0]), begins, states[t][1]))
    return found


def score(bonus: Bonus, *rollouts: Rollout) -> list[np.ndarray]:
    state, found, scored = bonus.init(KEY), [], jax.jit(bonus.score)
    for rollout in rollouts:
        b, state, _ = scored(state, rollout)
        found.append(np.asarray(b[0]))
    return found


@pytest.mark.parametrize(
    ("fall", "expected"),
    [
        ("first", [1, 0, 0, 1, 0]),
        ("root", [1, 2**-0.5, 2**-0.5, 1, 3**-0.5]),
        ("inverse", [1, 1 / 2, 1 / 2, 1, 1 / 3]),
    ],
)
def test_visits_within_an_episode(fall, expected):
    """a → b, a again (s_0 was a visit), b again, c, a for the third time."""
    (b,) = score(episode_visits(1, 1, 9, fall), told("|ababca"))
    np.testing.assert_allclose(b[:, 0], expected, rtol=1e-6)


def test_an_episode_forgets_the_one_before_and_environments_share_nothing():
    (b,) = score(episode_visits(1, 2, 9, "first"), told("|abb|bab", "|aab|cca"))
    np.testing.assert_array_equal(b[:, 0], [1, 0, 1, 0])
    np.testing.assert_array_equal(b[:, 1], [0, 1, 0, 1])


def test_an_episode_goes_on_in_the_next_rollout():
    first, second = score(episode_visits(1, 1, 9, "first"), told("|abc"), told("cbd"))
    np.testing.assert_array_equal(first[:, 0], [1, 1])
    np.testing.assert_array_equal(second[:, 0], [0, 1])


def test_the_steps_of_a_roll_in_count_but_earn_nothing():
    (b,) = score(episode_visits(1, 1, 9, "first"), told("|aBCbd"))
    np.testing.assert_array_equal(b[:, 0], [0, 0, 0, 1])


def test_padding_and_resets_change_nothing():
    bonus, data = episode_visits(1, 1, 9, "first"), told("|abc")
    padded = jax.tree.map(lambda x: jnp.concatenate([x, x]) if x.shape[0] == 2 else x, data)
    real = jnp.arange(4)[:, None] < 2
    padded = padded._replace(valid=padded.valid & real, taken=padded.taken & real)
    first, second = score(bonus, padded, told("cbd"))
    np.testing.assert_array_equal(first[:, 0], [1, 1, 0, 0])
    np.testing.assert_array_equal(second[:, 0], [0, 1])


def test_a_long_episode_forgets_its_oldest_observations():
    """Two are remembered: at the third b, a and c have been written over it."""
    (b,) = score(episode_visits(1, 1, 2, "first"), told("|abbacb"))
    np.testing.assert_array_equal(b[:, 0], [1, 0, 1, 1, 1])


def test_visits_over_the_life_are_counted_before_the_rollout():
    bonus, data = visits(READ, 16), told("|abab")
    state = bonus.init(KEY)
    b, state, _ = bonus.score(state, data)
    np.testing.assert_allclose(b[0, :, 0], [1, 1, 1])
    state, metrics = bonus.update(state, data, KEY)
    b, state, _ = bonus.score(state, told("|cbad"))
    np.testing.assert_allclose(b[0, :, 0], [3**-0.5, 2**-0.5, 1], rtol=1e-6)  # b twice, a once
    assert int(metrics["bonus/cells"]) == 2


def test_a_product_is_the_paper_s_width_times_its_sensitivity():
    """For all functions over distinct states: width 1/√(1+N), sensitivity 1/n in the episode."""
    life, episode = visits(READ, 16), episode_visits(1, 1, 9, "inverse")
    both, data = times(life, episode), told("|abab")
    state = both.init(KEY)
    state, _ = both.update(state, data, KEY)
    b, _, _ = both.score(state, data)
    np.testing.assert_allclose(b[0, :, 0], [3**-0.5, 2**-0.5 / 2, 3**-0.5 / 2], rtol=1e-6)


def test_plus_adds_and_one_changes_nothing():
    life, data = visits(READ, 16), told("|abab")
    for bonus, expected in ((plus(life, one()), 2.0), (times(life, one()), 1.0)):
        np.testing.assert_allclose(score(bonus, data)[0][:, 0], expected)


def test_novelds_difference():
    """max{nov(s′) − ½ nov(s), 0} where a was met three times and b never: 1/√4 = ½ and 1."""
    bonus = difference(visits(READ, 16), 0.5)
    state, _ = bonus.update(bonus.init(KEY), told("|baaa"), KEY)
    b, _, _ = bonus.score(state, told("|aba"))
    np.testing.assert_allclose(b[0, :, 0], [1 - 0.5 * 0.5, 0.5 - 0.5 * 1], rtol=1e-6)


def test_a_scale_divides_and_the_novelty_knows_nothing_of_it():
    """Root mean square of 1, 1, 1 over 1 − γ with γ = ½ is 2."""
    bonus = scaled(one(), by_size(0.5, 100.0), 1)
    b, _, metrics = bonus.score(bonus.init(KEY), told("|abab"))
    np.testing.assert_allclose(b[0, :, 0], 0.5)
    assert float(metrics["bonus/scale"]) == pytest.approx(2.0)


def test_hashes_tell_codes_apart():
    """10,000 one-hot views of 49 cells with 11 kinds: no two have the same name."""
    rng = np.random.default_rng(0)
    kinds = np.unique(rng.integers(0, 11, (10_000, 49)), axis=0)
    x = np.eye(11, dtype=np.float32)[kinds].reshape(len(kinds), -1)
    names = np.asarray(hashed(hash_keys(KEY, x.shape[1]), jnp.asarray(x)))
    assert len(np.unique(names)) == len(names)  # by chance in 85 of 86 such draws
    whole = hashed(hash_keys(KEY, 1), jnp.arange(5000.0)[:, None])
    assert len(np.unique(np.asarray(whole))) == 5000
    assert int(hashed(hash_keys(KEY, 1), jnp.array([-0.0]))) == int(
        hashed(hash_keys(KEY, 1), jnp.array([0.0]))
    )


def test_a_coarse_image_has_the_means_of_its_cells():
    """Four pixels to a cell: means 10, 100, 200 and 255 in eight shades of 32 greys each."""
    image = np.array(
        [[0, 20, 100, 100], [10, 10, 90, 110], [255, 145, 255, 255], [200, 200, 255, 255]]
    )
    image = np.stack([image, image, image], -1).astype(np.uint8)
    np.testing.assert_array_equal(coarse(jnp.asarray(image), (2, 2), 8), [0, 3, 6, 7])
    both = coarse(jnp.stack([image, image[::-1]])[:, None], (2, 2), 8)
    np.testing.assert_array_equal(both[:, 0], [[0, 3, 6, 7], [6, 7, 0, 3]])


def test_a_pixel_may_lie_in_two_cells():
    """Three pixels in two cells: the middle one is half in each, and an even image stays even."""
    np.testing.assert_array_equal(overlaps(3, 2), [[2, 1, 0], [0, 1, 2]])
    np.testing.assert_array_equal(overlaps(2, 4), [[2, 0], [2, 0], [0, 2], [0, 2]])
    row = jnp.array([[[0], [90], [240]]], jnp.uint8)  # (2·0 + 90)/3 = 30, (90 + 2·240)/3 = 190
    np.testing.assert_array_equal(coarse(row, (1, 2), 256), [30, 190])
    even = jnp.full((7, 5, 3), 77, jnp.uint8)
    np.testing.assert_array_equal(coarse(even, (3, 2), 256), [77] * 6)


@pytest.mark.parametrize(("side", "alike"), [(7, False), (32, False), (33, True)])
def test_a_small_image_is_known_by_its_bytes(side, alike):
    """A code that differs by 1 is another thing; in a picture it is the same shade."""
    image = np.full((2, side, side, 3), 4, np.uint8)
    image[1, 0, 0, 0] = 5
    one, other = np.asarray(known(jnp.asarray(image)))
    assert np.array_equal(one, other) == alike


def test_visits_of_images_are_those_of_their_coarse_form():
    """A pixel that flickers by 1 is the same place; another half of the image is not."""
    bright = np.zeros((4, 4, 3), np.uint8)
    bright[:2] = 200
    flickers, turned = bright.copy(), bright[::-1].copy()
    flickers[0, 0] += 1
    frames = np.stack([bright, turned, flickers, turned]).reshape(4, 1, -1)
    frames = jnp.asarray(frames, jnp.float32)
    data = told("|abab")._replace(obs=frames[:-1], next_obs=frames[1:], last_obs=frames[-1])
    image = lambda x: x.reshape(*x.shape[:-1], 4, 4, 3).astype(jnp.uint8)  # noqa: E731
    alike = episode_visits(4, 1, 9, "first", lambda x: coarse(image(x), (2, 2), 8))
    same = episode_visits(48, 1, 9, "first")
    np.testing.assert_array_equal(score(alike, data)[0][:, 0], [1, 0, 0])
    np.testing.assert_array_equal(score(same, data)[0][:, 0], [1, 1, 0])


def of_letters(size: int) -> Bonus:
    """Features that a test knows: e_0 for a, e_1 for b, (e_0 + e_1)/√2 for m."""
    table = jnp.zeros((256, size)).at[97, 0].set(1).at[98, 1].set(1)
    table = table.at[109, :2].set(2**-0.5)
    look = lambda x: table[x[..., 0].astype(int)]  # noqa: E731
    both = lambda r: jnp.stack([look(r.obs), look(r.next_obs)])  # noqa: E731
    return Bonus(0, lambda key: (), lambda s, r: (both(r), s, {}), lambda s, r, k: (s, {}))


def test_sensitivity_of_an_episode_by_hand():
    """λ = ½. After a: e_1 is new, 1/λ = 2. Then m: ½·(1/1.5 + 1/1.5) = 2/3. A new episode: 2."""
    bonus = sensitivity(of_letters(2), 2, 1, 0.5)
    (b,) = score(bonus, told("|abm|ab"))
    np.testing.assert_allclose(b[:, 0], [2.0, 2 / 3, 2.0], rtol=1e-5)


def test_the_sensitivity_is_e3bs():
    """b = φᵀ(Σ_{i<t} φ_i φ_iᵀ + λI)⁻¹φ with an inverse that is computed anew at each step."""
    rng, ridge = np.random.default_rng(0), 0.1
    phi = rng.standard_normal((30, 5)).astype(np.float32)
    table = jnp.asarray(phi)
    look = lambda x: table[x[..., 0].astype(int)]  # noqa: E731
    both = lambda r: jnp.stack([look(r.obs), look(r.next_obs)])  # noqa: E731
    features = Bonus(0, lambda key: (), lambda s, r: (both(r), s, {}), lambda s, r, k: (s, {}))
    data = empty_rollout(29, 1, vector(1), 1)
    data.obs[:, 0, 0], data.next_obs[:, 0, 0] = np.arange(29), np.arange(1, 30)
    data.valid[:] = data.taken[:] = True
    data.start[[0, 12]] = True
    (b,) = score(sensitivity(features, 5, 1, ridge), jax.tree.map(jnp.asarray, data))
    for t in range(29):
        first = 0 if t < 12 else 12
        gram = phi[first : t + 1].T @ phi[first : t + 1] + ridge * np.eye(5)
        expected = phi[t + 1] @ np.linalg.solve(gram, phi[t + 1])
        assert b[t, 0] == pytest.approx(expected, rel=2e-3)


def test_the_sensitivity_is_the_theorys():
    """Algorithm 2's sensitivity of the linear class over the samples of the episode, below 1."""
    classes = pytest.importorskip("lpo.theory.classes")
    rng, radius = np.random.default_rng(1), 0.5
    phi = rng.standard_normal((16, 4)).astype(np.float32)
    phi *= 0.5 / np.linalg.norm(phi, axis=1, keepdims=True)
    exact = classes.LinearBall(phi, radius=radius)  # differences of norm at most 2·radius
    sensed = exact.empty()
    for z in range(15):
        exact.add(sensed, z, 1.0)
    theirs = exact.sensitivity(sensed, np.array([15]), cap=10_000)
    table = jnp.asarray(phi)
    look = lambda x: table[x[..., 0].astype(int)]  # noqa: E731
    both = lambda r: jnp.stack([look(r.obs), look(r.next_obs)])  # noqa: E731
    features = Bonus(0, lambda key: (), lambda s, r: (both(r), s, {}), lambda s, r, k: (s, {}))
    data = empty_rollout(15, 1, vector(1), 1)
    data.obs[:, 0, 0], data.next_obs[:, 0, 0] = np.arange(15), np.arange(1, 16)
    data.valid[:] = data.taken[:] = True
    data.start[0] = True
    (b,) = score(
        sensitivity(features, 4, 1, 1 / (2 * radius) ** 2), jax.tree.map(jnp.asarray, data)
    )
    assert 0 < b[-1, 0] < 1
    assert b[-1, 0] == pytest.approx(float(theirs[0]), rel=1e-3)


def encoded_by(encoder):
    options = {"num_envs": 1, "rollout": 32, "batch_size": 8, "epochs": 1, "hidden": (8,)}
    return configure(
        "rnd", episode="sensitivity", episode_encoder=encoder, episode_features=8, **options
    )


@pytest.mark.parametrize("encoder", ["fourier", "inverse"])
def test_a_vector_that_comes_back_is_less_new(encoder):
    c = encoded_by(encoder)
    factor = c.bonus.episode.make(p_of(c))  # type: ignore[attr-defined]
    (b,) = score(factor, told("|abzbaz"))
    assert b[2, 0] < b[0, 0] and b[4, 0] < b[1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["fourier", "inverse"])
def test_an_encoder_is_learned_with_the_rest(encoder):
    c = encoded_by(encoder)
    p = assemble(c, problem_of(c, Space(vector(1), ActionSpec(low=(-1.0,), high=(1.0,)), 20)))
    data = told("|" + "abz" * 10 + "ab")
    state, metrics = jax.jit(partial(learn, p))(init_state(p, 0), data)
    assert np.isfinite(float(metrics["bonus/episode"])) and state.iteration == 1


def p_of(c):
    return problem_of(c, Space(vector(1), ActionSpec(low=(-1.0,), high=(1.0,)), 20))


def test_icm_is_the_error_of_its_forward_model():
    """½‖f(e(s), a) − e(s′)‖², computed anew in NumPy from the weights in its state."""
    c = configure("rnd", bonus="icm", num_envs=1)
    bonus = c.bonus.novelty(p_of(c))  # type: ignore[attr-defined]
    data = told("|abzbaz")
    state = bonus.init(KEY)
    b, state, _ = bonus.score(state, data)
    mean, var = np.asarray(state.inputs.mean), np.asarray(state.inputs.var)
    seen = lambda x: np.clip((np.asarray(x) - mean) / np.sqrt(var + 1e-8), -5, 5)  # noqa: E731

    def net(layers, x):
        (w0, b0), (w1, b1) = [(np.asarray(w), np.asarray(b)) for w, b in layers]
        return np.maximum(x @ w0 + b0, 0) @ w1 + b1

    here, there = (net(state.encoder, seen(x)) for x in (data.obs, data.next_obs))
    guess = net(state.forward, np.concatenate([here, np.asarray(data.action)], -1))
    np.testing.assert_allclose(b[0], 0.5 * ((guess - there) ** 2).sum(-1), rtol=1e-4)
    after, metrics = bonus.update(state, data, KEY)
    assert float(metrics["bonus/inverse_loss"]) > 0
    assert not np.array_equal(after.encoder[0].w, state.encoder[0].w)


@pytest.mark.parametrize(
    "algo",
    [
        "rnd",
        *(
            pytest.param(x, marks=pytest.mark.slow)
            for x in ("lpo-w", "lpo", "pcpg", "eniac-original")
        ),
    ],
)
def test_any_row_takes_an_episode(algo):
    """One rollout is learned from, and the state of the episode is in the checkpoint."""
    options = {"num_envs": 2, "rollout": 32, "batch_size": 8, "epochs": 1, "hidden": (8,)}
    c = configure(algo, episode="first-visit", intrinsic_ends="neutral", **options)
    p = assemble(c, problem_of(c, Space(vector(1), ActionSpec(nvec=(2,), scalar=True), 20)))
    data = told("|abab" + "c" * 12, "|aabbc" + "d" * 11)
    state, metrics = jax.jit(partial(learn, p))(init_state(p, 0), data)
    assert 0 < float(metrics["bonus/episode"]) < 1
    assert state.bonus.novelty.episode.book.pages.shape == (2, 21)


def test_a_difference_needs_a_bonus_on_the_next_state():
    with pytest.raises(LPOError, match="bonus_inputs next"):
        configure("lpo", novelty_difference=0.5)
    assert configure("rnd", novelty_difference=0.5).bonus.novelty(PROBLEM)  # type: ignore[attr-defined]


PROBLEM = problem_of(configure("rnd"), Space(vector(1), ActionSpec(nvec=(2,), scalar=True), 20))
