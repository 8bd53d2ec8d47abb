"""The transfer error: zero where the MDP is linear, grows with the known bias, and bounds B.6."""

import numpy as np
import pytest

from lpo.theory import zoo
from lpo.theory.mdp import MDP, visitation
from lpo.theory.runner import linear_class
from lpo.theory.transfer import best_fit, transfer_error


def problem(bias: float, seed: int):
    m = zoo.linear_mdp(5, 15, 3, gamma=0.8, seed=seed, bias=bias)
    rng = np.random.default_rng(seed)
    pi, comparator = (rng.dirichlet(np.ones(3), size=15) for _ in range(2))
    law = visitation(m, np.full((15, 3), 1 / 3))
    return m, linear_class(m), law, pi, comparator, rng


def test_by_hand():
    """One state, two actions, one constant feature: f* is the law-weighted mean of Q."""
    m = MDP("hand", np.ones((2, 1)), np.array([0.0, 1.0]), 0.0, 2, features=np.ones((2, 1)))
    law, none = np.array([0.25, 0.75]), np.zeros(2)
    pi = np.array([[0.5, 0.5]])
    f, target = best_fit(m, linear_class(m), law, pi, none)
    np.testing.assert_allclose(f, 0.75)
    np.testing.assert_allclose(target, [0, 1])
    # ½·.75² + ½·.25²
    assert transfer_error(m, linear_class(m), law, pi, none, pi) == pytest.approx(0.3125)


@pytest.mark.parametrize("seed", range(5))
def test_zero_without_bias_and_growing_with_it(seed):
    errors = []
    for bias in (0.0, 0.01, 0.1):
        m, F, law, pi, comparator, _ = problem(bias, seed)
        errors.append(transfer_error(m, F, law, pi, np.zeros(45), comparator))
    assert errors[0] < 1e-12 < errors[1] < errors[2]
    # the best linear guess in sup norm is off by bias·(1 + γ·span V) at most, V ≤ 1/(1−γ) = 5
    m, F, law, pi, _, _ = problem(0.1, seed)
    f, target = best_fit(m, F, law, pi, np.zeros(45))
    assert float(law @ (f - target) ** 2) <= (0.1 * (1 + 0.8 * 5)) ** 2


@pytest.mark.parametrize("seed", range(20))
def test_b6_advantage_transfer(seed):
    """E_{d̃_ℳ}[(A_b − A_b*)1{𝒦}] ≤ 4 sqrt(A·ε_bias), with all states known: d̃_ℳ = d^π̃."""
    m, F, law, pi, comparator, rng = problem(0.05, seed)
    bonus = 0.3 * rng.random(45)
    f, target = best_fit(m, F, law, pi, bonus)
    wrong = (target - f).reshape(15, 3)
    advantage = wrong - (pi * wrong).sum(axis=1, keepdims=True)
    d = visitation(m, comparator).reshape(15, 3)
    epsilon = transfer_error(m, F, law, pi, bonus, comparator)
    assert float((d * advantage).sum()) <= 4 * np.sqrt(3 * epsilon)
