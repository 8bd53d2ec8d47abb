"""A trace's arithmetic by hand: mixtures weighted by iterations served, first and lasting times."""

import numpy as np
import pytest

from lpo.theory.mdp import MDP
from lpo.theory.trace import Trace


def bandit() -> MDP:
    """One state, γ = 0: the value of a policy is the probability of the second action."""
    return MDP("bandit", np.ones((2, 1)), np.array([0.0, 1.0]), 0.0, 2)


def stack(*chances: float) -> np.ndarray:
    return np.array([[[1 - p, p]] for p in chances])


def test_gaps_and_mixtures():
    t = Trace(bandit())
    t.policy(stack(0.5), steps=0)
    t.policy(stack(0.2, 0.6), steps=10, inner=2)
    t.served(3, 7)
    t.policy(stack(1.0), steps=5, inner=1)
    t.served(1, 2)
    np.testing.assert_allclose(t.gap_last, [0.5, 0.4, 0.0])
    np.testing.assert_allclose(t.gap_policy, [0.5, 0.6, 0.0])
    # three iterations at value .4 and one at 1: mean .55
    assert t.final_gap_mixture == pytest.approx(0.45)
    assert (t.steps, t.iteration) == ([0, 10, 22], [0, 0, 3])
    assert (t.switches, t.total_steps, t.iterations, t.inner) == (2, 24, 4, 3)
    # the last quarter is the last of four iterations; the last half has one of each policy
    assert t.late_gap() == pytest.approx(0.0) and t.late_gap(0.5) == pytest.approx(0.2)
    assert [t.switches_before(n) for n in (0, 1, 3, 4)] == [0, 1, 1, 2]
    assert [t.gap_before(n) for n in (0, 9, 10, 30)] == pytest.approx([0.5, 0.5, 0.4, 0.0])
    # Algorithm 1's output if it stopped at the third policy: (3·.4 + 1·1)/4
    assert t.gap_mixture[-1] == pytest.approx(1 - 2.2 / 4)


def test_first_and_lasting_times():
    t = Trace(bandit())
    for p in (0.5, 0.95, 0.3, 0.9, 1.0):
        t.policy(stack(p), steps=10)
    assert t.steps_until(0.1 + 1e-9) == 20 and t.steps_to(0.1 + 1e-9) == 40
    assert t.steps_until(0.01) == t.steps_to(0.01) == 50
    t.policy(stack(0.0), steps=10)
    assert t.steps_until(0.01) == 50 and t.steps_to(0.01) is None
