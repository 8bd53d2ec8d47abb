"""The proof audit (docs/proofs.md): counterexamples, repaired forms, and that the page is whole."""

import re
from pathlib import Path

import numpy as np
import pytest

from lpo.errors import LPOError
from lpo.theory import zoo
from lpo.theory.algorithms import Options, behaviour_policy_sampling, policy_evaluation_oracle
from lpo.theory.classes import Box, Finite, FunctionClass, Glm, LinearBall
from lpo.theory.constants import READINGS, Constants, bill
from lpo.theory.mdp import MDP, q_from_v, value, visitation
from lpo.theory.policy import Cover, softmax, uniform
from lpo.theory.runner import value_bound

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "proofs.md"
STATEMENTS = [
    "A1", "A2", "A3", "A4", "A5", "A6", "E1", "E2", "E3", "E5",
    "4.1", "4.2", "4.3", "4.4", "4.5",
    "B.1", "B.2", "B.3", "B.4", "B.5", "B.6", "B.7", "B.8", "B.9", "B.10", "M-thm",
    "C.1", "C.2", "C.3", "C.4", "C.5", "C.6", "C.7",
    "D.1", "D.2", "D.3", "E.1", "E.2", "E.3", "E.4", "E.5", "E.6",
]  # fmt: skip
VERDICTS = ("sound", "misprint", "gap", "error")


@pytest.mark.skipif(not PAGE.exists(), reason="the pages are in the repository, not in the sdist")
class TestPage:
    def rows(self) -> dict[str, list[str]]:
        lines = PAGE.read_text(encoding="utf-8").splitlines()
        cells = [[c.strip() for c in line.split("|")[1:-1]] for line in lines if line[:3] == "| *"]
        return {row[0].split("**")[1]: row for row in cells}

    def test_it_names_every_statement_with_a_verdict(self):
        rows = self.rows()
        assert list(rows) == STATEMENTS
        for name, row in rows.items():
            assert len(row) == 5 and all(row), name
            assert row[4].split(":")[0].strip("*") in VERDICTS, row[4]

    def test_its_bills_are_those_of_the_code(self):
        text = PAGE.read_text(encoding="utf-8")
        for reading in READINGS:
            asked = (bill(gamma, 10, reading=reading) for gamma in (0.9, 0.99, 0.999))
            assert f"| {reading} | {' | '.join(f'{b.trajectories:.1e}' for b in asked)} |" in text

    def test_the_tests_it_names_are_there(self):
        named = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))
        code = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "tests").rglob("test_*.py"))
        assert len(named) > 15
        assert not {name for name in named if f"def {name}(" not in code}


def stream(F: FunctionClass, z: np.ndarray, cap: float) -> np.ndarray:
    """The sensitivity of each sample to all samples before it."""
    sensed, out = F.empty(), []
    for pair in z:
        out.append(float(F.sensitivity(sensed, np.array([pair]), cap)[0]))
        F.add(sensed, int(pair), 1.0)
    return np.array(out)


def c5_bound(P: int, W: float, N: int) -> float:
    """9(⌊log₂ 4W²N⌋ + 1)·dim·ln N, with the box's eluder dimension P."""
    return 9 * (np.floor(np.log2(4 * W**2 * N)) + 1) * P * np.log(N)


def test_c5_fails_at_deepsea_and_holds_with_the_minimum():
    """74 first visits of sensitivity W² = 1220² exceed the bound; Σ min{1, ·} does not."""
    m, N = zoo.deepsea(8), 10_000
    F = Box(m.num_pairs, value_bound(m))
    assert pytest.approx(1220.0) == F.W
    law = visitation(m, np.full((m.num_states, 2), 0.5))
    reachable = np.flatnonzero(law)
    assert len(reachable) == 74
    rng = np.random.default_rng(0)
    z = np.r_[reachable, rng.choice(len(law), size=N - 74, p=law)]
    found, bound = stream(F, z, 4 * N * F.W**2), c5_bound(F.num_pairs, F.W, N)
    assert found[:74].sum() == pytest.approx(74 * 1220.0**2)  # 1.1·10⁸
    assert found.sum() > 280 * bound
    assert np.minimum(found, 1.0).sum() < bound / 100


@pytest.mark.parametrize("W", [1.0, 10.0, 1220.0])
def test_c5_with_the_radius_in_place_of_one(W):
    """(E1) with + ε, ε = 4W², in its denominator: no score exceeds one, and C.5 holds as stated."""
    P, N = 74, 5000
    rng = np.random.default_rng(1)
    n, total = np.zeros(P), 0.0
    for z in rng.integers(0, P, N):
        score = W**2 / (n[z] * W**2 + 4 * W**2)
        assert score <= 1
        total, n[z] = total + score, n[z] + 1
    assert total <= c5_bound(P, W, N)


def test_the_dyadic_level_of_c5_lacks_a_square_root():
    """At level ℓ = 2W² ≥ W all pairs are ℓ-dependent on ∅, which bounds no norm; not at √ℓ."""
    F = Box(3, 10.0)
    level = 2 * F.W**2
    assert (F.width(F.empty(), level**2) <= level).all()  # dependent, and yet ‖Δ‖²_∅ = 0 < ℓ
    half = 0.5 * F.W**2  # a level that scores do reach: L(z) = W² lies above it
    assert (F.width(F.empty(), half) > np.sqrt(half)).all()  # independent, as it must be


def test_the_constant_of_c7_is_not_absolute():
    """Ẑ = ∅ against n copies of z: 𝓔ⁿ holds, and the sensitivities are apart by nW² + 1."""
    F, epsilon = Box(2, 5.0), 30.0
    full = F.empty()
    copies = int(100 * epsilon / F.W**2) - 1  # ‖Δ‖²_Z stays below 100ε
    F.add(full, 0, copies)
    for delta in np.linspace(-F.W, F.W, 41):
        x, y = copies * delta**2, 0.0
        for alpha in (epsilon * 100.0**j for j in range(4)):  # B̲ ⊆ B ⊆ B̄ at every level
            assert not (x <= alpha / 100 and y > alpha) and not (y <= alpha and x > 100 * alpha)
    z, cap = np.array([0]), 1e12
    apart = F.sensitivity(F.empty(), z, cap) / F.sensitivity(full, z, cap)
    assert apart[0] == pytest.approx(copies * F.W**2 + 1) and apart[0] > 0.9 * 100 * epsilon
    # with + ε instead of + 1 the factor is at most 101
    assert (F.W**2 / epsilon) / (F.W**2 / (copies * F.W**2 + epsilon)) <= 101


def test_c2_a_sample_adds_one_copy_on_average():
    """E|Ẑ| = n, so Markov's inequality gives C.2."""
    rng = np.random.default_rng(3)
    sizes = []
    for _ in range(100):
        F = Box(4, 3.0)
        sensed = F.empty()
        F.absorb(sensed, rng.integers(0, 4, 300), rng.random(300), 1.0, 1e12, False)
        sizes.append(sensed.copies)
    assert abs(np.mean(sizes) - 300) < 4 * np.std(sizes) / np.sqrt(100)


def test_c4_needs_a_radius_above_5600():
    """(sqrt(.03α) + 2)² ≤ .04α, the step from covers to F in part 1, holds from α = 5,572 on."""

    def ok(alpha: float) -> bool:
        return (np.sqrt(0.03 * alpha) + 2) ** 2 <= 0.04 * alpha

    assert not ok(5571) and ok(5572)
    m = zoo.chain(2, gamma=0.5)
    assert Constants.theory(m, Box(4, 1.0), 100).epsilon > 5572


def test_d2_sums_of_widths():
    """Σ ω ≤ 1 + 2WP + 20·sqrt(PNε): the proof's line, without the statement's second factor P."""
    rng = np.random.default_rng(0)
    for P, W, epsilon in ((10, 2.0, 1.0), (50, 20.0, 9.0)):
        F, N = Box(P, W), 4000
        sensed, total = F.empty(), 0.0
        for z in rng.integers(0, P, N):
            total += F.width(sensed, 100 * epsilon)[z]
            F.add(sensed, int(z), 1.0)
        proved = 1 + 2 * W * P + 20 * np.sqrt(P * N * epsilon)
        assert 0.3 * proved < total <= proved < 25 * np.sqrt(P**2 * N * epsilon)


def test_e4_needs_a_hundredth_of_the_radius_not_a_hundredfold():
    """With Ẑ = Z, which is 𝓔ⁿ at its best, ‖Δ‖²_Z = 100ε is far outside ‖Δ‖²_Ẑ ≤ ε."""
    F, epsilon = Box(1, 10.0), 1.0
    sensed = F.empty()
    F.add(sensed, 0, 1.0)
    wide, narrow = F.width(sensed, 100 * epsilon)[0], F.width(sensed, epsilon / 100)[0]
    assert wide**2 == pytest.approx(100 * epsilon) and wide**2 > epsilon
    assert narrow**2 <= epsilon


def test_e3_weights_stay_below_two():
    """k − k̲ ≤ κ and t ≤ α: the product of ratios is at most 2; at 3κ it is not."""
    gamma, W, B, eta, delta1 = 0.9, 50.0, 30.0, 1e-4, 1e-3
    kappa = (1 - gamma) * np.log(2) / (2 * np.log(1 / delta1) * eta * (B + W))
    alpha = np.log(delta1) / np.log(gamma)
    q = np.array([0.0, B + W])  # the farthest that two actions can be apart
    for times, small in ((1, True), (6, False)):
        ratio = softmax(eta * times * kappa * q) / 0.5
        assert (ratio.max() ** (alpha - 1) <= 2) == small


def test_e5_cutting_long_trajectories_costs_little():
    """The part of the estimate from t > α is exactly γ^α times a value: at most δ₁·G_max."""
    m = zoo.random_mdp(5, 2, gamma=0.8, seed=1)
    rng = np.random.default_rng(1)
    pi, bonus = rng.dirichlet(np.ones(2), size=5), rng.uniform(0, 15, 10)
    P_pi = np.einsum("sa,zs->zsa", pi, m.P).reshape(10, 10)
    alpha, law, tail = 12, np.eye(10), np.zeros(10)
    for t in range(1, 400):  # the estimator's terms: γ^{t−1}·E[r_t + b_t]
        if t > alpha:
            tail += m.gamma ** (t - 1) * (law @ (m.r + bonus))
        law = law @ P_pi
    G_max = (2 + 15.0) / (1 - m.gamma)
    assert (tail > 0).all() and (tail <= m.gamma**alpha * G_max).all()
    late = np.linalg.matrix_power(P_pi, alpha) @ q_from_v(m, value(m, pi, bonus), bonus)
    np.testing.assert_allclose(tail, m.gamma**alpha * late, rtol=1e-8)


def test_e5_has_the_square_of_w():
    """((f−y)² − (f*−y)²)² ≤ 16W²(f−f*)² for |f|, |f*|, |y| ≤ W; the lemma has 36W⁴."""
    W = 7.0
    f, star, y = np.random.default_rng(0).uniform(-W, W, (3, 100_000))
    ratio = ((f - y) ** 2 - (star - y) ** 2) ** 2 / (f - star) ** 2
    assert 0.9 * 16 * W**2 < ratio.max() <= 16 * W**2 * (1 + 1e-9)


def test_reused_data_flatter_the_policy_they_made():
    """A policy improved on D looks better on D than it is; on fresh data it does not (E.5)."""
    m = zoo.random_mdp(3, 2, gamma=0.5, seed=2)
    F, none = Box(6, 50.0), np.zeros(6)
    cover = Cover(m, laws=True)
    cover.append(uniform(m))
    pi0 = np.full((3, 2), 0.5)
    options = Options(estimator="sum", reuse="kappa", roll_in="law")
    c, rng = Constants.practical(m, 100), np.random.default_rng(0)
    errors = []
    for _ in range(900):
        data, fresh = (behaviour_policy_sampling(m, pi0, cover, 40, rng, "law")[0] for _ in "ab")
        f = policy_evaluation_oracle(m, F, pi0, data, pi0, none, c, options)
        pi = softmax(6 * f.reshape(3, 2))
        truth = (pi * q_from_v(m, value(m, pi)).reshape(3, 2)).sum(1).mean()
        errors.append([
            (pi * policy_evaluation_oracle(m, F, pi, d, pi0, none, c, options).reshape(3, 2))
            .sum(1).mean() - truth for d in (data, fresh)
        ])  # fmt: skip
    reused, new = np.array(errors).T
    assert reused.mean() - new.mean() > 5 * (reused - new).std() / 30


def test_b3_holds_with_one_for_convex_classes_and_fails_for_a_list():
    """Projection onto a ball: ‖f − f*‖² ≤ L(f) − L(f*). Two functions of equal loss: no C helps."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 3))
    F = LinearBall(x / np.sqrt((x**2).sum(1)).max(), 2.0)
    for _ in range(50):
        law, target = rng.dirichlet(np.ones(12)), rng.normal(size=12)
        star = F.fit(law, target)
        theta = rng.normal(size=3)
        f = F.features @ (theta * 2.0 / np.sqrt(theta @ theta))
        excess = law @ (f - target) ** 2 - law @ (star - target) ** 2
        assert law @ (f - star) ** 2 <= excess + 1e-9
    table = np.array([[0.0, 0.0], [1.0, 1.0]])
    law, target = np.full(2, 0.5), np.full(2, 0.5)
    star = Finite(table).fit(law, target)
    other = table[1] if (star == table[0]).all() else table[0]
    assert law @ (star - target) ** 2 == law @ (other - target) ** 2
    assert law @ (star - other) ** 2 == 1.0


@pytest.mark.parametrize("name", ["chain", "deepsea", "random", "linear", "comb"])
def test_closedness_holds_a_linear_class_of_the_rank_of_p(name):
    """r + γPv ∈ F for every v ∈ [0, W]^S: rank(P) pairs, each independent of those before it."""
    m = zoo.make(name)
    rank, chosen = int(np.linalg.matrix_rank(m.P, tol=1e-9)), []
    for z in range(m.num_pairs):
        if np.linalg.matrix_rank(m.P[[*chosen, z]], tol=1e-9) > len(chosen):
            chosen.append(z)
    assert len(chosen) == rank
    for j, z in enumerate(chosen):
        before = m.P[chosen[:j]]
        v = m.P[z] - np.linalg.pinv(before) @ (before @ m.P[z]) if j else m.P[z]
        v = v / np.abs(v).max()  # v = W·(v⁺ − v⁻), both in [0, 1]^S
        assert np.abs(before @ v).max(initial=0.0) < 1e-9 < m.P[z] @ v


def test_glm_dimensions_carry_the_square_of_the_slopes():
    """The width of g(θᵀφ) is that of the linear class times up to M/m: what dim_E hides."""
    z = zoo.dial()
    assert z.features is not None
    F = Glm(z.features, 5.0, zoo.link, zoo.slope)
    assert F.high / F.low == pytest.approx(5.0, rel=0.01)
    np.testing.assert_allclose(F.tightness, (F.low / F.high) ** 2)


def test_dominance_needs_a_sign():
    """d̃ ≤ d bounds E_d̃[g] by E_d[g] for g ≥ 0 only, which term 2 of B.10 is not."""
    small, large, g = np.array([0.2, 0.0]), np.array([0.5, 0.5]), np.array([-1.0, -1.0])
    assert (small <= large).all() and small @ g > large @ g


@pytest.mark.parametrize(
    ("reading", "horizon", "dimension"),
    [("claimed", 8, 3), ("written", 16, 5), ("repaired", 12, 4)],
)
def test_the_powers_of_the_theorem(reading, horizon, dimension):
    def power(a, b, factor):
        return np.log(b.trajectories / a.trajectories) / np.log(factor)

    far, near = (bill(1 - 10.0**-k, 10, reading=reading) for k in (8, 12))
    assert power(far, near, 1e4) == pytest.approx(horizon, abs=0.3)
    wide = tuple(bill(0.9, d, reading=reading) for d in (10**4, 10**8))
    assert power(wide[0], wide[1], 1e4) == pytest.approx(dimension, abs=0.3)
    fine = [bill(0.9, 10, target=e, reading=reading) for e in (1e-6, 1e-10)]
    assert power(fine[0], fine[1], 1e4) == pytest.approx(3, abs=0.3)
    assert fine[0].steps == pytest.approx(20 * fine[0].trajectories)


def test_an_unknown_reading_is_refused():
    assert READINGS == ("claimed", "written", "repaired")
    with pytest.raises(LPOError, match="choose claimed or written or repaired"):
        bill(0.9, 3, reading="hopeful")


def test_d_sampler_with_another_first_action_has_another_law():
    """Alg. 6 draws a_0 from ν; d^π needs a_0 ~ π: one step of a two-state MDP shows it."""
    P = np.array([[1.0, 0], [0, 1], [0, 1], [0, 1]])
    m = MDP("two", P, np.zeros(4), 0.5, 2)
    stay = np.array([[1.0, 0.0], [1.0, 0.0]])
    law = visitation(m, stay)
    assert law[:2].sum() == pytest.approx(1.0)
    # ν plays action 1 in s_0: from t = 1 on the walk is in state 1, half of d's weight
    moved = 0.5 * np.eye(4)[1] + 0.5 * np.eye(4)[2]
    assert np.abs(moved - law).sum() > 0.9
