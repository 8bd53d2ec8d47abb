"""Action distributions against SciPy and counting."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from gymnasium import spaces

from lpo.errors import LPOError
from lpo.math import distributions

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
