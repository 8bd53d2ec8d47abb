"""Initial networks: critics that start at zero, and a second critic beside the first."""

import jax
import jax.numpy as jnp
import numpy as np

from lpo.math.nets import init_actor_critic, values


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
