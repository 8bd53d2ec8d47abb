"""DeepSea and the lock as environments, worked by hand."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from lpo.envs import make_batch
from lpo.errors import LPOError
from lpo.finite import deep_sea


def play(env, choose):
    obs, _ = env.reset(seed=0)
    total, steps, done = 0.0, 0, False
    while not done:
        state = int(obs.argmax())
        assert obs.sum() == 1
        obs, reward, done, truncated, _ = env.step(choose(state))
        assert not truncated
        total, steps = total + reward, steps + 1
    return total, steps


def test_deep_sea_by_hand():
    """Rights alone earn exactly 1 in ``size`` steps; lefts alone .01; one left on the way .01/size
    and no treasure."""
    table = deep_sea(6, layout=1)
    env = gymnasium.make("lpo/DeepSea-v0", size=6, layout=1)
    right = np.random.default_rng(1).integers(0, 2, size=(6, 6)).ravel()
    assert play(env, lambda s: right[s]) == (1.0, 6)
    total, steps = play(env, lambda s: 1 - right[s])
    assert steps == 6 and total == pytest.approx(0.01)
    total, _ = play(env, lambda s: 1 - right[s] if s == 0 else right[s])
    assert total == pytest.approx(0.01 / 6)
    assert table.max_return == 1.0 and table.horizon == 6


def test_the_lock_by_hand():
    """Length 3: first lock opened .2/3 + 1, second .2/3 + .4, dead at once 4·(.2/3)."""
    env = gymnasium.make("lpo/CombinationLock-v0", length=3, num_actions=4)
    code = np.random.default_rng(0).integers(0, 4, size=(2, 3, 2))

    def opener(first):
        def choose(s):
            side, rest = divmod(s - 1, 9)
            return first if s == 0 else code[side, rest // 3, rest % 3]

        return choose

    assert play(env, opener(0)) == pytest.approx((0.2 / 3 + 1.0, 4))
    assert play(env, opener(3)) == pytest.approx((0.2 / 3 + 0.4, 4))
    wrong = opener(0)
    fallen, steps = play(env, lambda s: 0 if s == 0 else (wrong(s) + 1) % 4 if s % 3 else 0)
    assert steps == 4 and fallen == pytest.approx(4 * 0.2 / 3)


def test_a_batch_knows_horizon_and_largest_return():
    batch = make_batch("lpo/DeepSea-v0", 2, env_kwargs={"size": 4})
    assert batch.description["horizon"] == 4 and batch.description["max_return"] == 1.0
    assert batch.observation_space.shape == (17,) and batch.resumable
    lock = make_batch("lpo/CombinationLock-v0", 1, env_kwargs={"length": 5})
    assert lock.description["max_return"] == pytest.approx(1.04)


@pytest.mark.parametrize("kwargs", [{"size": 1}, {"size": 2.5}, {"slip": 1.0}, {"layout": -1}])
def test_sizes_that_make_no_sea_are_refused(kwargs):
    with pytest.raises(LPOError, match="pass a"):
        make_batch("lpo/DeepSea-v0", 1, env_kwargs=kwargs)
