"""Every valid row is drawn once an epoch, whatever the length; no other row ever is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from lpo.math.minibatch import shuffled, sweep


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
