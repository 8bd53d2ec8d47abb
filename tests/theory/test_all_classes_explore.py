"""Algorithm 1 end to end with each family of functions, not only the box and the ball."""

import numpy as np
import pytest

from lpo.theory import zoo
from lpo.theory.algorithms import Options, lpo
from lpo.theory.classes import Box, Finite, Glm, Neural, gaussian, kernel_ball
from lpo.theory.constants import Constants
from lpo.theory.mdp import q_from_v, value
from lpo.theory.runner import value_bound


def positions(m):
    """Pairs as points: the state on a line, the action across it."""
    z = np.arange(m.num_pairs)
    return np.stack([z // 2 / m.num_states, z % 2.0], axis=1)


def test_lpo_with_a_kernel_class_solves_the_chain():
    m = zoo.chain(5)
    F = kernel_ball(positions(m), gaussian(0.15), 10 * value_bound(m))
    c = Constants.practical(m, 1500, M=300)
    trace = lpo(m, F, c, np.random.default_rng(0), Options(roll_in="law"))
    assert trace.gap_last[-1] < 0.02 * m.optimal_value


def test_lpo_with_a_finite_class_that_holds_the_right_values_solves_the_chain():
    """The list holds Q_b − b for bonus levels and policies around those that occur, and zero."""
    m = zoo.chain(3)
    rng = np.random.default_rng(0)
    table = [np.zeros(6)]
    for bonus in (0.0, 0.01, 0.1, 3 / (1 - m.gamma)):
        for _ in range(40):
            pi = rng.dirichlet(np.full(2, 0.3), size=3)
            spread = bonus * (rng.random(6) < 0.5)
            table.append(q_from_v(m, value(m, pi, spread)))
        table.append(q_from_v(m, value(m, m.optimal[1])))
    c = Constants.practical(m, 400)
    options = Options(critic="exact", roll_in="law")
    trace = lpo(m, Finite(np.array(table)), c, np.random.default_rng(0), options)
    assert min(trace.gap_last) < 0.05 * m.optimal_value
    assert trace.switches < 100


@pytest.mark.parametrize("family", ["glm", "neural"])
def test_lpo_with_a_nonlinear_class_explores_every_pair(family):
    m = zoo.chain(3)
    features = np.eye(m.num_pairs)
    top = value_bound(m)
    if family == "glm":  # a nearly linear link, so that m/M stays near one
        F = Glm(features, top, lambda x: x + 0.1 * np.sin(x), lambda x: 1 + 0.1 * np.cos(x))
    else:
        F = Neural(features, hidden=8, radius=2 * top)  # its tangent class must hold values to W
    c = Constants.practical(m, 600, M=200)
    trace = lpo(m, F, c, np.random.default_rng(0), Options(roll_in="law"))
    assert trace.distinct == m.num_pairs
    assert trace.switches < 300
    assert np.isfinite(trace.gap_last).all() and trace.gap_last[-1] < 0.2 * m.optimal_value


@pytest.mark.learning
@pytest.mark.parametrize("seed", range(3))
def test_sampled_lpo_solves_deepsea_and_the_box_stays_small(seed):
    m = zoo.deepsea(8)
    c = Constants.practical(m, 10_000)
    F = Box(m.num_pairs, value_bound(m))
    trace = lpo(m, F, c, np.random.default_rng(seed))
    assert trace.gap_last[-1] < 0.01 * m.optimal_value
    assert trace.additions < 500 and trace.distinct == 74  # 36 reachable cells, and the end
