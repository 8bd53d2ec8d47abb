"""Exact values against hand-worked numbers, value iteration and power series."""

import numpy as np
import pytest

from lpo.errors import LPOError
from lpo.theory import zoo
from lpo.theory.mdp import MDP, gap, q_from_v, value, values, visitation


def two_state() -> MDP:
    """State 0: action 0 stays for 0, action 1 goes to 1 for .5; state 1 pays 1 forever."""
    P = np.array([[1.0, 0], [0, 1], [0, 1], [0, 1]])
    return MDP("two", P, np.array([0.0, 0.5, 1.0, 1.0]), 0.5, 2)


def test_values_by_hand():
    m = two_state()
    half = np.full((2, 2), 0.5)
    # V(1) = 1/(1−.5) = 2; V(0) = ½(.5V(0)) + ½(.5 + .5·2) → V(0) = .75/.75 = 1
    np.testing.assert_allclose(value(m, half), [1.0, 2.0])
    np.testing.assert_allclose(q_from_v(m, value(m, half)), [0.5, 1.5, 2.0, 2.0])
    assert m.optimal_value == pytest.approx(1.5)
    assert gap(m, half) == pytest.approx(0.5)
    # a mixture of the two deterministic policies in state 0: values 0 and 1.5
    stack = np.array([[[1.0, 0], [1, 0]], [[0, 1.0], [1, 0]]])
    assert gap(m, stack) == pytest.approx(0.75)
    # d: Pr(s_t = 0) = 2^-t under `half`, so d(0) = ½ Σ (¼)^t = 2/3
    np.testing.assert_allclose(visitation(m, half), [1 / 3, 1 / 3, 1 / 6, 1 / 6])
    np.testing.assert_array_equal(m.terminal, [False, True])


@pytest.mark.parametrize("name", sorted(zoo.MAKERS))
def test_optimum_equals_value_iteration(name):
    m = zoo.make(name)
    v = np.zeros(m.num_states)
    for _ in range(2000):
        v = q_from_v(m, v).reshape(m.num_states, -1).max(axis=1)
    np.testing.assert_allclose(m.optimal[0], v, atol=1e-9)


def test_visitation_is_the_discounted_power_series():
    m = zoo.random_mdp(5, 3, seed=3)
    pi = np.random.default_rng(0).dirichlet(np.ones(3), size=5)
    law, total = np.eye(5)[0], np.zeros(15)
    for t in range(400):
        pairs = (law[:, None] * pi).ravel()
        total += (1 - m.gamma) * m.gamma**t * pairs
        law = pairs @ m.P
    np.testing.assert_allclose(visitation(m, pi), total, atol=1e-12)
    np.testing.assert_allclose(
        visitation(m, pi) @ m.r / (1 - m.gamma), value(m, pi)[m.start], atol=1e-12
    )


def test_stacks_and_shared_factorisations_agree_with_single_solves():
    m = zoo.random_mdp(4, 2, seed=1)
    rng = np.random.default_rng(0)
    stack, b = rng.dirichlet(np.ones(2), size=(3, 4)), rng.random(8)
    plain, with_b = values(m, stack, b)
    for k in range(3):
        np.testing.assert_allclose(plain[k], value(m, stack[k]))
        np.testing.assert_allclose(with_b[k], value(m, stack[k], b))
        np.testing.assert_allclose(visitation(m, stack)[k], visitation(m, stack[k]))


def test_closed_forms_of_the_zoo():
    # DeepSea: size−1 free rights, then reward 1
    assert zoo.deepsea(6, gamma=0.9).optimal_value == pytest.approx(0.9**5)
    # chain: length−1 moves, then 1 forever
    assert zoo.chain(4, gamma=0.8).optimal_value == pytest.approx(0.8**3 / 0.2)
    # lock(1): choose side 0, then the key pays 5 − 1 → (5 − 1 + 1)/5 = 1; shift 1/5 elsewhere
    m = zoo.lock(1, num_actions=4, gamma=0.5)
    assert m.optimal_value == pytest.approx(0.2 + 0.5 * 1.0 + 0.25 * 0.2 / 0.5)


def test_linear_mdp_is_linear_and_its_bias_is_as_stated():
    m = zoo.linear_mdp(6, 20, 3, seed=2)
    assert m.features is not None
    assert np.sqrt((m.features**2).sum(1)).max() <= 1 + 1e-12
    for target in (m.r, *m.P.T):
        fit = m.features @ np.linalg.lstsq(m.features, target, rcond=None)[0]
        np.testing.assert_allclose(fit, target, atol=1e-9)
    bent = zoo.linear_mdp(6, 20, 3, seed=2, bias=0.1)
    assert np.abs(bent.r - m.r).max() <= 0.1 + 1e-12
    assert 0.5 * np.abs(bent.P - m.P).sum(axis=1).max() <= 0.1 + 1e-12


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"gamma": 1.0}, "discount"),
        ({"gamma": -0.1}, "discount"),
        ({"num_actions": 0}, "at least one action"),
        ({"P": np.full((4, 2), 0.6)}, "normalise"),
        ({"P": np.array([[1.5, -0.5]] * 4)}, "normalise"),
        ({"P": np.ones((3, 2)) / 2}, "lay the rows out"),
        ({"r": np.array([0, 0, 0, 2.0])}, "rescale"),
        ({"r": np.array([0, 0, 0, np.nan])}, "rescale"),
        ({"start": 7}, "choose one below"),
        ({"features": np.ones((3, 1))}, "one row per pair"),
    ],
)
def test_bad_mdps_are_refused_in_one_sentence(change, word):
    good = {
        "name": "m",
        "P": np.full((4, 2), 0.5),
        "r": np.zeros(4),
        "gamma": 0.9,
        "num_actions": 2,
    }
    with pytest.raises(LPOError, match=word) as caught:
        MDP(**{**good, **change})
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_unknown_names_and_sizes_are_refused():
    with pytest.raises(LPOError, match="choose one of"):
        zoo.make("nowhere")
    with pytest.raises(LPOError, match="at least"):
        zoo.deepsea(1)
    with pytest.raises(LPOError, match="num_actions is 1; pass a whole number of at least 2"):
        zoo.lock(3, num_actions=1)
    with pytest.raises(LPOError, match="small fraction"):
        zoo.linear_mdp(bias=1.5)
    with pytest.raises(LPOError, match="num_states ≥ dim"):
        zoo.linear_mdp(dim=30, num_states=10)
