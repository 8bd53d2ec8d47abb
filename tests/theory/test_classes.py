"""Sensitivity, width and fit of every class against brute force, closed forms and solvers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear, minimize

from lpo.errors import LPOError
from lpo.theory.classes import Box, Finite, Glm, LinearBall, Neural, gaussian, kernel_ball
from lpo.theory.classes.linear import REFRESH

CAP = 1e6
seeds = st.integers(0, 2**32 - 1)


def filled(F, rng, additions=4, most=5):
    sensed = F.empty()
    for _ in range(additions):
        F.add(sensed, int(rng.integers(F.num_pairs)), float(rng.integers(1, most)))
    return sensed


def ball_points(rng, n, d, radius=1.0):
    x = rng.normal(size=(n, d))
    length = np.sqrt((x**2).sum(1, keepdims=True))
    return x / length * rng.random((n, 1)) * radius


def supremum(differences, sensed, z, cap, epsilon):
    """(sensitivity, width) at z by listing differences Δ as rows over the pool."""
    mass = (differences**2) @ sensed.counts
    ratio = differences[:, z] ** 2 / (np.minimum(mass, cap) + 1)
    inside = mass <= epsilon + 1e-12
    return ratio.max(), np.abs(differences[inside, z]).max(initial=0.0)


# --- the box -------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(seeds, st.sampled_from([0.5, 1.0, 3.0]), st.sampled_from([2.0, 20.0, CAP]))
def test_box_equals_brute_force_over_a_grid(seed, W, cap):
    rng = np.random.default_rng(seed)
    F = Box(3, W)
    sensed = filled(F, rng)
    # the grid holds 0 and ±W on the other pairs, and is fine at z
    fine = np.linspace(-W, W, 2001)
    epsilon = float(rng.random() * 3)
    for z in range(3):
        grid = np.zeros((3 * 2001, 3))
        for block, other in enumerate((0.0, W, -W)):
            rows = grid[block * 2001 : (block + 1) * 2001]
            rows[:] = other
            rows[:, z] = fine
        s, w = supremum(grid, sensed, z, cap, epsilon)
        assert F.sensitivity(sensed, np.array([z]), cap)[0] == pytest.approx(s, rel=1e-12)
        assert w <= F.width(sensed, epsilon)[z] + 1e-12
        assert F.width(sensed, epsilon)[z] <= w + W / 1000 + 1e-12


def test_box_by_hand():
    F = Box(2, 2.0)
    sensed = F.empty()
    F.add(sensed, 0, 3)
    np.testing.assert_allclose(F.sensitivity(sensed, np.array([0, 1]), 100.0), [4 / 13, 4.0])
    np.testing.assert_allclose(F.sensitivity(sensed, np.array([0]), 5.0), [4 / 6])
    np.testing.assert_allclose(F.width(sensed, 0.75), [0.5, 2.0])
    np.testing.assert_allclose(F.fit(np.array([2.0, 0]), np.array([5.0, 1.0])), [2.0, 0.0])
    assert F.log_covering(0.1) == pytest.approx(2 * np.log(10))
    assert (sensed.copies, sensed.distinct, sensed.additions) == (3.0, 1, 1)


# --- linear --------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(seeds, st.sampled_from([1.5, 30.0, CAP]), st.sampled_from([0.2, 1.0, 5.0]))
def test_linear_equals_brute_force_in_the_plane(seed, cap, radius):
    rng = np.random.default_rng(seed)
    F = LinearBall(ball_points(rng, 5, 2), radius)
    sensed = filled(F, rng)
    epsilon = float(rng.random() * 2)
    angle = np.linspace(0, np.pi, 2000, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    # directions even on the circle, and even on the ellipse of the data, which can be thin
    lam, U = np.linalg.eigh((F.features.T * sensed.counts) @ F.features)
    thin = (circle / np.sqrt(np.maximum(lam, 0) + epsilon / F.rho**2)) @ U.T
    regular = (circle / np.sqrt(np.maximum(lam, 0) + 1 / F.rho**2)) @ U.T
    sphere = np.concatenate([circle, thin, regular])
    sphere *= 2 * radius / np.sqrt((sphere**2).sum(1, keepdims=True))
    on_sphere = sphere @ F.features.T
    # for the width each direction is scaled as far as ε allows
    mass = (on_sphere**2) @ sensed.counts
    reach = np.minimum(1.0, np.sqrt(epsilon / np.maximum(mass, 1e-300)))
    for z in range(5):
        s, _ = supremum(on_sphere, sensed, z, cap, epsilon)
        got = F.sensitivity(sensed, np.array([z]), cap)[0]
        assert s <= got * (1 + 1e-9) and got == pytest.approx(s, rel=5e-3, abs=1e-9)
        w = np.abs(on_sphere[:, z] * reach).max()
        got = F.width(sensed, epsilon)[z]
        assert w <= got * (1 + 1e-6) + 1e-9 and got == pytest.approx(w, rel=5e-3, abs=1e-6)


def solver_width(F, sensed, z, epsilon):
    """sup φᵀΔ over the two ellipsoids by SLSQP, a general solver that knows none of our algebra."""
    gram = (F.features.T * sensed.counts) @ F.features
    constraints = [
        {"type": "ineq", "fun": lambda x: epsilon - x @ gram @ x, "jac": lambda x: -2 * gram @ x},
        {"type": "ineq", "fun": lambda x: F.rho**2 - x @ x, "jac": lambda x: -2 * x},
    ]
    phi = F.features[z]
    x0 = 1e-3 * phi
    out = minimize(lambda x: -phi @ x, x0, jac=lambda x: -phi, constraints=constraints,
                   method="SLSQP", options={"maxiter": 500, "ftol": 1e-12})  # fmt: skip
    return -out.fun


@settings(max_examples=100, deadline=None)
@given(seeds, st.integers(3, 6))
def test_linear_width_equals_a_general_convex_solver(seed, d):
    rng = np.random.default_rng(seed)
    F = LinearBall(ball_points(rng, 8, d), 1.0)
    sensed = filled(F, rng, additions=int(rng.integers(1, 9)))
    epsilon = float(0.05 + rng.random())
    z = int(rng.integers(8))
    assert F.width(sensed, epsilon)[z] == pytest.approx(
        solver_width(F, sensed, z, epsilon), rel=1e-4, abs=1e-6
    )


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(2, 5))
def test_linear_sensitivity_equals_a_general_convex_solver(seed, d):
    """For each value t of φᵀΔ the least mass is a convex program; the ratio is t²/(mass + 1)."""
    rng = np.random.default_rng(seed)
    F = LinearBall(ball_points(rng, 6, d), 1.0)
    sensed = filled(F, rng)
    z = int(rng.integers(6))
    phi, gram = F.features[z], (F.features.T * sensed.counts) @ F.features

    def negative_ratio(x):  # quasi-concave along rays: the supremum is on the sphere of radius ρ
        y = F.rho * x / np.sqrt(x @ x)
        return -((phi @ y) ** 2) / (y @ gram @ y + 1)

    best = max(-minimize(negative_ratio, rng.normal(size=d), tol=1e-9).fun for _ in range(4))
    got = F.sensitivity(sensed, np.array([z]), CAP)[0]
    assert best <= got * (1 + 1e-9)  # the solver stops short of the supremum, never beyond it
    assert got == pytest.approx(best, rel=5e-3, abs=1e-8)


def test_disciplined_convex_solver_agrees_on_a_hundred_instances():
    cp = pytest.importorskip("cvxpy", reason="pip install 'lpo-rl[dev]' brings cvxpy")
    rng = np.random.default_rng(0)
    for _ in range(100):
        d = int(rng.integers(2, 6))
        F = LinearBall(ball_points(rng, 6, d), 1.0)
        sensed = filled(F, rng, additions=int(rng.integers(1, 7)))
        z, epsilon = int(rng.integers(6)), float(0.05 + rng.random())
        root = np.sqrt(sensed.counts)[:, None] * F.features
        x = cp.Variable(d)
        inside = [cp.norm(root @ x) <= np.sqrt(epsilon), cp.norm(x) <= F.rho]
        width = cp.Problem(cp.Maximize(F.features[z] @ x), inside).solve()
        assert F.width(sensed, epsilon)[z] == pytest.approx(width, rel=1e-4, abs=1e-6)
        # sensitivity: 1/min{‖root·x‖² + ‖x‖²/ρ² : φᵀx = 1}, a quadratic program
        mass = cp.sum_squares(root @ x) + cp.sum_squares(x) / F.rho**2
        least = cp.Problem(cp.Minimize(mass), [F.features[z] @ x == 1]).solve()
        got = F.sensitivity(sensed, np.array([z]), CAP)[0]
        assert got == pytest.approx(1 / least, rel=1e-4)


def test_linear_upper_bound_of_the_width():
    rng = np.random.default_rng(4)
    F = LinearBall(ball_points(rng, 30, 4), 2.0)
    sensed = filled(F, rng, 20)
    eps = 0.7
    bound = np.sqrt((eps + 1) * F.sensitivity(sensed, np.arange(30), np.inf))
    assert (F.width(sensed, eps) <= bound + 1e-9).all()


def test_one_hot_features_give_the_box_up_to_the_ball():
    """With a huge ball the linear class is tabular: width sqrt(ε/n), sensitivity 1/(n + 1/ρ²)."""
    F = LinearBall(np.eye(3), 50.0)
    sensed = F.empty()
    F.add(sensed, 0, 4)
    F.add(sensed, 1, 9)
    np.testing.assert_allclose(F.width(sensed, 0.36)[:2], [0.3, 0.2], rtol=1e-6)
    np.testing.assert_allclose(F.width(sensed, 0.36)[2], 100.0)
    np.testing.assert_allclose(F.sensitivity(sensed, np.array([0]), CAP), 1 / (4 + 1e-4))


@pytest.mark.parametrize("copies", [1.0, 1e6])
def test_rank_one_updates_do_not_drift(copies):
    rng = np.random.default_rng(0)
    F = LinearBall(ball_points(rng, 400, 10), 100.0)
    sensed = F.empty()
    for i in range(3 * REFRESH - 1):
        F.add(sensed, int(rng.integers(400)), copies if i % 7 == 0 else 1.0)
    exact = np.linalg.inv((F.features.T * sensed.counts) @ F.features + np.eye(10) / F.rho**2)
    got = F.sensitivity(sensed, np.arange(400), np.inf)
    np.testing.assert_allclose(
        got, np.einsum("ni,ij,nj->n", F.features, exact, F.features), rtol=1e-6
    )


@settings(max_examples=60, deadline=None)
@given(seeds, st.sampled_from([0.1, 1.0, 10.0]))
def test_linear_fit_is_least_squares_on_the_ball(seed, radius):
    rng = np.random.default_rng(seed)
    F = LinearBall(ball_points(rng, 12, 3), radius)
    counts, y = rng.integers(0, 4, 12).astype(float), rng.normal(size=12)
    theta = F.fit_parameter(counts, y)
    assert np.sqrt(theta @ theta) <= radius * (1 + 1e-6)

    def loss(t):
        return counts @ (F.features @ t - y) ** 2

    other = minimize(loss, np.zeros(3), method="SLSQP", options={"ftol": 1e-13, "maxiter": 300},
                     constraints={"type": "ineq", "fun": lambda t: radius**2 - t @ t})  # fmt: skip
    assert loss(theta) <= other.fun + 1e-5 * (1 + other.fun)
    np.testing.assert_allclose(F.fit(counts, y), F.features @ theta)


# --- kernels -------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_kernel_ball_equals_the_gram_formula(seed):
    """ρ²(k(z,z) − k_zᵀ(K + diag(1/(nρ²)))⁻¹k_z): the posterior variance, by another route."""
    rng = np.random.default_rng(seed)
    points = rng.random((9, 2))
    kernel = gaussian(0.5)
    F = kernel_ball(points, kernel, 1.5)
    sensed = filled(F, rng)
    seen = np.flatnonzero(sensed.counts)
    K = kernel(points, points)
    middle = K[np.ix_(seen, seen)] + np.diag(1 / (sensed.counts[seen] * F.rho**2))
    cross = K[:, seen]
    expect = F.rho**2 * (np.diag(K) - (cross * np.linalg.solve(middle, cross.T).T).sum(1))
    np.testing.assert_allclose(
        F.sensitivity(sensed, np.arange(9), np.inf), expect, rtol=1e-4, atol=1e-5
    )


def test_kernel_ball_refuses_what_is_not_a_kernel():
    points = np.random.default_rng(0).random((4, 2))
    with pytest.raises(LPOError, match="positive-definite"):
        kernel_ball(points, lambda x, y: x @ np.array([[0.0, 1], [0, 0]]) @ y.T, 1.0)
    with pytest.raises(LPOError, match="positive-definite"):
        kernel_ball(points, lambda x, y: -(x @ y.T), 1.0)


# --- finite --------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(seeds, st.integers(1, 12), st.sampled_from([1.0, CAP]))
def test_finite_equals_the_double_loop(seed, m, cap):
    rng = np.random.default_rng(seed)
    F = Finite(rng.normal(size=(m, 5)))
    sensed = filled(F, rng)
    every = np.array([f - g for f in F.table for g in F.table])
    epsilon = float(rng.random() * 20)
    for z in range(5):
        s, w = supremum(every, sensed, z, cap, epsilon)
        assert F.sensitivity(sensed, np.array([z, z]), cap)[1] == pytest.approx(s)
        assert F.width(sensed, epsilon)[z] == pytest.approx(w)
    counts, y = rng.integers(0, 3, 5).astype(float), rng.normal(size=5)
    loss = [sum(counts * (f - y) ** 2) for f in F.table]
    np.testing.assert_array_equal(F.fit(counts, y), F.table[int(np.argmin(loss))])


# --- generalised linear and neural ---------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(seeds, st.sampled_from([0.3, 1.0]))
def test_glm_bounds_hold_on_both_sides(seed, radius):
    rng = np.random.default_rng(seed)
    F = Glm(ball_points(rng, 4, 1), radius)
    sensed = filled(F, rng)
    theta = np.linspace(-radius, radius, 201)
    values = np.tanh(theta[:, None] * F.ball.features[:, 0])
    every = (values[:, None] - values[None]).reshape(-1, 4)
    epsilon = float(rng.random() * 0.5)
    for z in range(4):
        s, w = supremum(every, sensed, z, CAP, epsilon)
        got_s = F.sensitivity(sensed, np.array([z]), CAP)[0]
        got_w = F.width(sensed, epsilon)[z]
        slack = 0.05 * radius * np.abs(F.ball.features[z, 0])  # the grid misses the true edge of ε
        assert F.tightness**2 * got_s * 0.999 <= s <= got_s * (1 + 1e-9) + 1e-12
        assert F.tightness * got_w - slack <= w <= got_w * (1 + 1e-9) + 1e-9
    assert sensed.copies == pytest.approx(sensed.counts.sum())


def test_glm_with_the_identity_link_is_the_linear_ball():
    rng = np.random.default_rng(1)
    features = ball_points(rng, 6, 3)
    G = Glm(features, 1.0, link=lambda x: x, slope=np.ones_like)
    L = LinearBall(features, 1.0)
    one, two = G.empty(), L.empty()
    for z, n in ((0, 2.0), (3, 1.0)):
        G.add(one, z, n)
        L.add(two, z, n)
    pool = np.arange(6)
    np.testing.assert_allclose(G.sensitivity(one, pool, CAP), L.sensitivity(two, pool, CAP))
    np.testing.assert_allclose(G.width(one, 0.5), L.width(two, 0.5))
    y = rng.normal(size=6)
    np.testing.assert_allclose(G.fit(np.ones(6), y), L.fit(np.ones(6), y), atol=1e-8)


def test_glm_fit_reaches_a_general_solver():
    rng = np.random.default_rng(2)
    for _ in range(20):
        F = Glm(ball_points(rng, 15, 3), 1.0)
        counts, y = rng.integers(1, 4, 15).astype(float), rng.normal(size=15) * 0.5

        def loss(t, F=F, counts=counts, y=y):
            return counts @ (np.tanh(F.ball.features @ t) - y) ** 2

        other = minimize(loss, np.zeros(3), method="SLSQP",
                         constraints={"type": "ineq", "fun": lambda t: 1 - t @ t})  # fmt: skip
        assert loss(F.fit_parameter(counts, y)) <= other.fun + 1e-5


def test_glm_refuses_a_flat_link():
    with pytest.raises(LPOError, match="strictly increasing"):
        Glm(np.eye(2), 1.0, link=np.square, slope=lambda x: 2 * x)


def test_neural_jacobian_is_the_derivative():
    rng = np.random.default_rng(0)
    F = Neural(ball_points(rng, 4, 2), hidden=3)
    J, h = F.jacobian(F.theta0), 1e-6
    for i in range(len(F.theta0)):
        e = np.zeros(len(F.theta0))
        e[i] = h
        numeric = (F.values(F.theta0 + e) - F.values(F.theta0 - e)) / (2 * h)
        np.testing.assert_allclose(J[:, i], numeric, atol=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_neural_linearisation_is_within_ten_percent_of_gradient_ascent(seed):
    rng = np.random.default_rng(seed)
    F = Neural(ball_points(rng, 10, 3), hidden=6, radius=0.1, seed=seed)
    sensed = filled(F, rng, 5, 400)
    for z in (0, 5):
        linear = F.sensitivity(sensed, np.array([z]), CAP)[0]
        assert F.ascend(sensed, z, CAP) == pytest.approx(linear, rel=0.1)


# --- the interface -------------------------------------------------------------------------------


def six_classes():
    rng = np.random.default_rng(7)
    x = ball_points(rng, 12, 3)
    return {
        "box": Box(12, 2.0),
        "linear": LinearBall(x, 2.0),
        "kernel": kernel_ball(x, gaussian(0.7), 2.0),
        "glm": Glm(x, 1.0),
        "finite": Finite(rng.normal(size=(15, 12))),
        "neural": Neural(x, hidden=4),
    }


@pytest.mark.parametrize("name", list(six_classes()))
def test_streams_equal_one_by_one(name):
    """`absorb` is Alg. 2 applied to each sample in turn: same uniforms, same Ẑ."""
    F = six_classes()[name]
    rng = np.random.default_rng(3)
    z, u = rng.integers(0, 12, 600), rng.random(600)
    stream, single = F.empty(), F.empty()
    used, added = F.absorb(stream, z, u, 1.3, 50.0, False)
    for i in range(600):
        score = 1.3 * F.sensitivity(single, z[i : i + 1], 50.0)[0]
        copies = 1.0 if score >= 1 else np.floor(1 / score) if score > 0 else np.inf
        if u[i] < 1 / copies:
            F.add(single, int(z[i]), copies)
    assert used == 600 and added == stream.additions == single.additions
    np.testing.assert_allclose(stream.counts, single.counts)
    first = F.empty()
    used, added = F.absorb(first, z, np.zeros(600), 1.3, 50.0, True)
    assert (used, added, first.additions) == (1, 1, 1)


@pytest.mark.parametrize("name", list(six_classes()))
def test_widths_shrink_as_data_arrive_and_cover_numbers_grow(name):
    F = six_classes()[name]
    rng = np.random.default_rng(0)
    sensed, before = F.empty(), None
    for _ in range(6):
        now = F.width(sensed, 0.3)
        assert now.shape == (12,) and (now >= 0).all() and (now <= 2 * F.W + 1e-9).all()
        assert before is None or (now <= before + 1e-7).all()
        before = now
        F.add(sensed, int(rng.integers(12)), 2.0)
    assert F.log_covering(0.01) >= F.log_covering(0.1) >= 0


@pytest.mark.parametrize("name", list(six_classes()))
def test_rounding_lands_within_its_radius(name):
    F = six_classes()[name]
    for radius in (1e-6, 0.5, 100.0):
        near = F.rounding(radius)
        assert all(F.distance(int(near[z]))[z] <= radius for z in range(12))
        if radius == 1e-6:
            np.testing.assert_array_equal(near, np.arange(12))
        if radius == 100.0:
            np.testing.assert_array_equal(near, 0)


def test_box_and_ball_covers_are_covers():
    """In one dimension count the cover that the bound promises: ⌈W/2r⌉ intervals hold [0, W]."""
    count = np.exp(Box(1, 1.0).log_covering(0.07))
    centres = 0.07 + 0.14 * np.arange(round(count))
    assert np.abs(np.linspace(0, 1, 500)[:, None] - centres).min(axis=1).max() <= 0.07 + 1e-12
    assert np.exp(LinearBall(np.ones((1, 1)), 1.0).log_covering(0.1)) == pytest.approx(21)


def test_bad_classes_are_refused():
    for make, word in [
        (lambda: LinearBall(np.full((2, 2), 0.9), 1.0), "divide the features"),
        (lambda: LinearBall(np.eye(2), 0.0), "number > 0"),
        (lambda: LinearBall(np.array([[np.nan]]), 1.0), "feature map"),
        (lambda: Box(0, 1.0), "fix W"),
        (lambda: Box(2, np.inf), "fix W"),
        (lambda: Finite(np.empty((0, 3))), "non-empty"),
        (lambda: Neural(np.ones(3)), "fix its shape"),
        (lambda: Box(2, 1.0).width(Box(2, 1.0).empty(), -1.0), "number ≥ 0"),
    ]:
        with pytest.raises(LPOError, match=word):
            make()


def test_lsq_linear_agrees_with_the_box_fit():
    rng = np.random.default_rng(0)
    counts, y = rng.integers(1, 5, 6).astype(float), rng.normal(size=6)
    other = lsq_linear(np.diag(np.sqrt(counts)), np.sqrt(counts) * y, bounds=(0, 1.0)).x
    np.testing.assert_allclose(Box(6, 1.0).fit(counts, y), other, atol=1e-6)
