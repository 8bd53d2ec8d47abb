"""The weights of the two advantages, on numbers worked out by hand."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo.bonus.weigh import (
    Fading,
    Fixed,
    Sized,
    SizedFading,
    Streams,
    Weigh,
    Weighing,
    Weights,
    earned,
    fixed,
)
from lpo.engine.rollout import empty_rollout
from lpo.errors import LPOError
from lpo.math.advantage import ACROSS, ENDS
from lpo.options import options
from lpo.types import vector

STREAMS = Streams(
    gammas=jnp.array([0.5, 0.9]),
    lambdas=jnp.array([0.95, 0.95]),
    value_lambdas=jnp.array([0.95, 0.95]),
    weights=jnp.array([2.0, 1.0]),
    ends=jnp.array([ENDS, ACROSS]),
)


def rollout(reward, terminated=None, valid=None):
    reward = np.array(reward, np.float32)
    steps, num_envs = reward.shape
    data = empty_rollout(steps, num_envs, vector(1), 1)
    data.reward[:] = reward
    data.terminated[:] = False if terminated is None else terminated
    data.valid[:] = True if valid is None else valid
    return jax.tree.map(jnp.asarray, data)


FOUND = rollout(
    [[0, 0], [0, 0], [1, 0], [0, 1]],
    terminated=[[False] * 2, [False, True], [False] * 2, [False] * 2],
)
NOTHING = rollout(np.zeros((4, 2)))


def test_a_step_counts_by_its_distance_to_the_next_reward_of_its_episode():
    """γ = ½. Environment 0: ¼, ½, 1, 0. Environment 1 resets after two steps: 0, 0, ½, 1."""
    np.testing.assert_allclose(earned(FOUND, 0.5, 1.0).T, [[0.25, 0.5, 1, 0], [0, 0, 0.5, 1]])


def test_steps_that_are_not_real_neither_count_nor_take_time():
    data = rollout([[0], [5], [2]], valid=[[True], [False], [True]])
    np.testing.assert_allclose(earned(data, 0.5, 1.0)[:, 0], [0.5, 0.0, 1.0])


def test_small_rewards_count_little():
    """R = 4, γ = ½, r = (.4, 0, 2, 8): .125 = ½³·1, ¼, ½ = max{2/4, ½·1}, 1; alone .4 counts .1."""
    data = rollout([[0.4], [0.0], [2.0], [8.0]])
    np.testing.assert_allclose(earned(data, 0.5, 4.0)[:, 0], [0.125, 0.25, 0.5, 1.0])
    assert float(earned(rollout([[0.4]]), 0.5, 4.0)[0, 0]) == pytest.approx(0.1)


def test_a_small_reward_does_not_count():
    """Half of R is the least that counts, so that 1 of 4 is passed over and 2 is not."""
    data = rollout([[1.0], [2.0], [1.0]])
    np.testing.assert_allclose(earned(data, 0.5, 4.0, 0.5)[:, 0], [0.25, 0.5, 0.0])


def test_fading_passes_over_what_does_not_count():
    """m is (.25 + .5 + 0)/3 with the least, and (.25 + .5 + .25)/3 without."""
    data = rollout([[1.0], [2.0], [1.0]])
    found = []
    for least in (0.5, 0.0):
        rule = Fading(memory=8.0, earned_reward=4.0, earned_least=least).make()
        _, _, metrics = rule.update(rule.init(), STREAMS, jnp.ones((2, 3, 1)), data)
        found.append(float(metrics["rollout/earned"]))
    assert found == pytest.approx([0.25, 1 / 3])


def test_punishment_is_not_earned():
    assert float(earned(rollout(-np.ones((4, 2))), 0.5, 1.0).sum()) == 0


def test_fixed_weights_are_alpha_and_beta():
    rule = Fixed().make()
    weights, state, metrics = rule.update(rule.init(), STREAMS, jnp.ones((2, 4, 2)), FOUND)
    np.testing.assert_array_equal(weights, [2, 1])
    assert jax.tree.leaves(state) == [] and metrics == {}


def test_the_bonus_fades_with_the_share_that_earns_and_comes_back_when_it_is_lost():
    """β = 1, β′ = .2, m′ = .5, half-life 8 steps.

    m = (1.75 + 1.5)/8 = .40625, so β becomes 1 − .8·.8125 = .35. After 8 steps without reward
    m = 4·.40625/12 = .13542, and β = 1 − .8·.27083 = .78333.
    """
    rule = Fading(memory=8.0, beta_earned=0.2, earned_share=0.5).make()
    a = jnp.ones((2, 4, 2))
    weights, state, metrics = rule.update(rule.init(), STREAMS, a, NOTHING)
    np.testing.assert_allclose(weights, [2, 1])
    weights, state, metrics = rule.update(rule.init(), STREAMS, a, FOUND)
    np.testing.assert_allclose(weights, [2, 0.35], rtol=1e-6)
    assert float(metrics["rollout/earned"]) == pytest.approx(0.40625)
    weights, state, metrics = rule.update(state, STREAMS, a, NOTHING)
    np.testing.assert_allclose(weights, [2, 0.783333], rtol=1e-5)
    assert float(metrics["advantage/int_weight"]) == pytest.approx(0.783333, rel=1e-5)


def test_the_bonus_advantage_has_the_size_beta_and_the_reward_keeps_its_units():
    """α = 2, β = 1; |Â_int| = .5, then .1, with a half-life of 8 steps.

    First β/.5 = 2. Then the mean square is (4·.25 + 8·.01)/12 = .09, and β/.3 = 3.333. Nothing
    but critic error is in Â_ext until a reward has come; then its weight is α, whatever its size.
    """
    rule = Sized(memory=8.0).make()
    a = jnp.stack([jnp.full((4, 2), 4.0), jnp.full((4, 2), -0.5)])
    weights, state, _ = rule.update(rule.init(), STREAMS, a, NOTHING)
    np.testing.assert_allclose(weights, [0.0, 2.0], rtol=1e-6)
    weights, state, _ = rule.update(state, STREAMS, a / 5, FOUND)
    np.testing.assert_allclose(weights, [2.0, 10 / 3], rtol=1e-5)
    weights, _, _ = rule.update(state, STREAMS, a, NOTHING)
    assert float(weights[0]) == 2.0


def test_sized_weights_fade_too():
    """Fading gives β = .35, as above; it is then over the size .5."""
    rule = SizedFading(memory=8.0, beta_earned=0.2, earned_share=0.5).make()
    a = jnp.stack([jnp.full((4, 2), 4.0), jnp.full((4, 2), -0.5)])
    weights, _, metrics = rule.update(rule.init(), STREAMS, a, FOUND)
    np.testing.assert_allclose(weights, [2.0, 0.7], rtol=1e-6)
    assert set(metrics) == {"advantage/ext_weight", "advantage/int_weight", "rollout/earned"}


def test_a_rule_of_ones_own_states_its_weights(monkeypatch):
    monkeypatch.setattr(Weighing.kinds, "defined", {})

    @options
    class Bare(Weighing):
        kind: ClassVar[str] = "bare"

        def make(self) -> Weigh:
            return fixed()

    with pytest.raises(LPOError, match=r"Bare has no weights; extend lpo\.bonus\.Weights"):
        _ = Bare().weights

    @options
    class Own(Weights):
        kind: ClassVar[str] = "own"

    assert Own(beta=3.0).weights == (2.0, 3.0)
