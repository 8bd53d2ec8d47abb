"""Pieces of the update: running statistics, networks, the pace, minibatches, distributions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from gymnasium import spaces

from lpo.errors import LPOError
from lpo.math import distributions
from lpo.math.minibatch import shuffled, sweep
from lpo.math.nets import init_actor_critic, values
from lpo.math.normalize import init_moments, normalize, normalizer_host, update_moments
from lpo.math.ppo import next_pace


def test_batches_merge_to_the_statistics_of_all_rows():
    rng = np.random.default_rng(0)
    batches = [rng.normal(3, 2, (n, 4)).astype(np.float32) for n in (7, 1, 50)]
    moments = init_moments(4)
    for x in batches:
        moments = update_moments(moments, jnp.asarray(x), jnp.ones(len(x)))
    everything = np.concatenate(batches)
    np.testing.assert_allclose(moments.mean, everything.mean(0), rtol=1e-4)
    np.testing.assert_allclose(moments.var, everything.var(0), rtol=1e-3)


def test_rows_of_no_weight_do_not_count():
    x = jnp.array([[1.0], [1e6], [3.0]])
    moments = update_moments(init_moments(1), x, jnp.array([True, False, True]))
    np.testing.assert_allclose(moments.mean, [2.0], rtol=1e-4)
    np.testing.assert_allclose(moments.var, [1.0], rtol=1e-3)
    same = update_moments(moments, x, jnp.zeros(3))
    np.testing.assert_allclose(same.mean, moments.mean)
    np.testing.assert_allclose(same.var, moments.var)


def test_host_and_device_normalise_alike_and_clip():
    moments = update_moments(init_moments(2), jnp.array([[0.0, 1.0], [2.0, 5.0]]), jnp.ones(2))
    x = np.array([[1.0, 3.0], [1e9, -1e9]], np.float32)
    device = np.asarray(normalize(moments, jnp.asarray(x), 10.0))
    np.testing.assert_allclose(normalizer_host(moments, 10.0)(x), device, atol=1e-5)
    np.testing.assert_allclose(device[1], [10.0, -10.0])
    np.testing.assert_allclose(device[0], [0.0, 0.0], atol=1e-3)


# -- Initial networks: critics that start at zero, and a second critic beside the first


def critics(gain: float, streams: int = 2):
    return init_actor_critic(jax.random.key(0), 3, 2, jnp.zeros(2), (8,), streams, gain).critics


OBS = jnp.array([[0.0, 0.0, 0.0], [1.0, -2.0, 3.0]])


def test_values_begin_at_zero_where_the_gain_is_zero():
    np.testing.assert_array_equal(values(critics(0.0), OBS), 0.0)


def test_the_gain_multiplies_the_values():
    whole, half = values(critics(1.0), OBS), values(critics(0.5), OBS)
    assert np.abs(whole[:, 1]).min() > 0.01  # [streams, rows]
    np.testing.assert_allclose(half, whole / 2, rtol=1e-6)


def test_a_second_critic_leaves_the_first_as_it_was():
    one, two = values(critics(1.0, 1), OBS), values(critics(1.0, 2), OBS)
    np.testing.assert_array_equal(one[0], two[0])
    assert np.abs(two[0, 1] - two[1, 1]) > 0.01


# -- The learning rate that follows the KL of the updates, on numbers worked out by hand


@pytest.mark.parametrize(
    ("pace", "kl", "target", "then"),
    [
        (1.0, 0.02, 0.01, 0.5**0.5),  # half the KL with √½ of the step
        (0.5, 0.005, 0.01, 0.5 * 2**0.5),  # and back
        (1.0, 1.0, 0.01, 1 / 1.5),  # no more at a time
        (0.5, 0.0, 0.01, 0.75),
        (0.9, 0.001, 0.01, 1.0),  # never above the learning rate
        (0.012, 1.0, 0.01, 0.01),  # nor below a hundredth of it
        (1.0, 1.0, 0.0, 1.0),  # no target
    ],
)
def test_the_pace_follows_the_kl(pace, kl, target, then):
    assert float(next_pace(jnp.float32(pace), jnp.float32(kl), target)) == pytest.approx(then)


# -- Every valid row is drawn once an epoch, whatever the length; no other row ever is


def drawn(valid, epochs, batch_size, seed=0):
    """How often each row was in a minibatch."""
    rows = jnp.arange(len(valid), dtype=jnp.float32)[:, None]

    def step(counts, batch):
        return counts.at[batch[:, 0].astype(jnp.int32)].add(1), jnp.float32(1)

    counts, mean = jax.jit(
        lambda v: sweep(
            step, jnp.zeros(len(valid)), rows, v, jax.random.key(seed), epochs, batch_size
        )
    )(jnp.asarray(valid))
    assert mean == 1.0
    return np.asarray(counts)


@pytest.mark.parametrize("count", [4, 9, 12, 30])
def test_valid_rows_are_drawn_once_an_epoch_and_the_rest_tops_up(count):
    valid = np.zeros(30, bool)
    valid[np.random.default_rng(count).permutation(30)[:count]] = True
    counts = drawn(valid, epochs=3, batch_size=4)
    assert (counts[~valid] == 0).all()
    assert (counts[valid] >= 3).all()
    assert counts.sum() == 3 * 4 * -(-count // 4)


def test_a_rollout_smaller_than_a_minibatch_is_repeated():
    valid = np.arange(8) < 3
    assert drawn(valid, epochs=1, batch_size=4)[:3].sum() == 4


@pytest.mark.parametrize("size", [100, 20_000])  # both ways to sort
def test_every_epoch_has_another_order(size):
    order = np.asarray(shuffled(jax.random.key(0), jnp.arange(size) < 60, 4))
    assert (np.sort(order) == np.arange(size)).all()
    assert (np.sort(order[:, :60]) == np.arange(60)).all()
    assert len({tuple(row) for row in order[:, :60]}) == 4


def test_orders_are_uniform():
    """Each of 8 rows is as often first as any other (χ² over 8,000 orders)."""
    order = np.asarray(shuffled(jax.random.key(1), jnp.ones(8, bool), 8000))
    for place in (0, 7):
        assert scipy.stats.chisquare(np.bincount(order[:, place], minlength=8)).pvalue > 1e-3


# -- Action distributions against SciPy and counting

BOX = spaces.Box(np.array([-1, -2], np.float32), np.array([1, 2], np.float32))


def test_gaussian_log_prob_and_entropy():
    dist = distributions.for_space(BOX)
    mean, log_std, action = np.array([[0.3, -1.0]]), np.array([0.2, -0.5]), np.array([[1.5, 0.0]])
    expected = scipy.stats.norm.logpdf(action, mean, np.exp(log_std)).sum(-1)
    np.testing.assert_allclose(
        dist.log_prob(jnp.array(mean), jnp.array(log_std), jnp.array(action)), expected, rtol=1e-5
    )
    entropy = scipy.stats.norm.entropy(mean, np.exp(log_std)).sum(-1)
    np.testing.assert_allclose(
        dist.entropy(jnp.array(mean), jnp.array(log_std)), entropy, rtol=1e-5
    )


def test_gaussian_is_clipped_for_the_environment_and_the_bonus_only():
    dist = distributions.for_space(BOX)
    mean, noise = np.zeros((1, 2), np.float32), np.array([[5.0, -5.0]], np.float32)
    action = dist.sample(mean, np.ones(2, np.float32), noise)
    np.testing.assert_array_equal(action, [[5.0, -5.0]])
    np.testing.assert_array_equal(dist.to_env(action), [[1.0, -2.0]])
    np.testing.assert_array_equal(dist.features(jnp.asarray(action)), [[1.0, -2.0]])


def test_categorical_log_prob_entropy_and_one_hot():
    dist = distributions.for_space(spaces.MultiDiscrete([2, 3]))
    logits = np.log(np.array([[0.25, 0.75, 0.5, 0.3, 0.2]], np.float32))
    none = jnp.zeros(0)
    action = jnp.array([[1.0, 2.0]])
    assert dist.log_prob(jnp.asarray(logits), none, action)[0] == pytest.approx(np.log(0.75 * 0.2))
    entropy = -sum(p * np.log(p) for p in (0.25, 0.75)) - sum(
        p * np.log(p) for p in (0.5, 0.3, 0.2)
    )
    assert dist.entropy(jnp.asarray(logits), none)[0] == pytest.approx(entropy, rel=1e-5)
    np.testing.assert_array_equal(dist.features(action), [[0, 1, 0, 0, 1]])


def test_categorical_samples_have_the_right_frequencies():
    dist = distributions.for_space(spaces.Discrete(3))
    p = np.array([0.6, 0.3, 0.1], np.float32)
    n = 20_000
    noise = dist.draw(np.random.default_rng(0), (n, 3))
    picked = dist.to_env(dist.sample(np.tile(np.log(p), (n, 1)), np.zeros(0, np.float32), noise))
    assert picked.dtype == np.int64
    chi2 = scipy.stats.chisquare(np.bincount(picked, minlength=3), p * n)
    assert chi2.pvalue > 1e-3
    assert dist.to_env(dist.mode(np.log(p)[None]))[0] == 0


def test_the_unit_of_noise_is_half_a_small_range_and_never_more_than_one():
    low, high = np.array([-0.1, 0, -1, -2, -np.inf]), np.array([0.1, 1, 1, 2, np.inf])
    dist = distributions.for_space(spaces.Box(low.astype(np.float32), high.astype(np.float32)))
    np.testing.assert_allclose(np.exp(dist.log_unit), [0.1, 0.5, 1, 1, 1], rtol=1e-6)
    assert distributions.for_space(spaces.Discrete(3)).log_unit.shape == (0,)


def test_other_spaces_are_refused_with_a_remedy():
    with pytest.raises(LPOError, match="ActionWrapper"):
        distributions.for_space(spaces.Text(5))
