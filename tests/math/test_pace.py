"""The learning rate that follows the KL of the updates, on numbers worked out by hand."""

import jax.numpy as jnp
import pytest

from lpo.math.ppo import next_pace


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
