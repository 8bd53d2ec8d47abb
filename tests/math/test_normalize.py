"""Running statistics against NumPy on all the data at once."""

import jax.numpy as jnp
import numpy as np

from lpo.math.normalize import init_moments, normalize, normalizer_host, update_moments


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
