"""Linear functions over a ball, and kernels through their Gram matrix (theory room; Section 4).

F = {z ↦ θᵀφ(z) : ‖θ‖ ≤ R} with ‖φ(z)‖ ≤ 1, so W = R and differences are Δθ in a ball of radius
ρ = 2R. Σ = Σ_z n_z φφᵀ and (Σ + I/ρ²)⁻¹ are kept up to date by rank-one updates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from lpo.errors import LPOError
from lpo.theory.classes.base import FunctionClass, Sensed

Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]  # points [n, d], [m, d] → values [n, m]
REFRESH = 256  # additions between exact recomputations of the inverse


@dataclass
class LinearSensed(Sensed):
    """Ẑ with Σ and (Σ + I/ρ²)⁻¹; the inverse is recomputed every REFRESH additions."""

    gram: np.ndarray = field(kw_only=True)
    inverse: np.ndarray = field(kw_only=True)


@njit(cache=True, fastmath=True)
def _quadratic(inverse, phi):
    """φᵀ A φ for symmetric A, each off-diagonal entry read once."""
    total = 0.0
    for i in range(len(phi)):
        row = 0.0
        for j in range(i):
            row += inverse[i, j] * phi[j]
        total += phi[i] * (2.0 * row + inverse[i, i] * phi[i])
    return total


@njit(cache=True)
def rank_one(gram, inverse, phi, copies):
    """Σ ← Σ + cφφᵀ and Sherman-Morrison on its regularised inverse."""
    v = inverse @ phi
    shrink = copies / (1.0 + copies * (phi @ v))
    for i in range(len(phi)):
        for j in range(len(phi)):
            gram[i, j] += copies * phi[i] * phi[j]
            inverse[i, j] -= shrink * v[i] * v[j]


@njit(cache=True)
def _absorb(features, counts, gram, inverse, z, u, factor, floor, stop, limit):
    added = 0
    known, since = np.empty(len(features)), np.full(len(features), -1)  # copies, and for which Ẑ
    for i in range(len(z)):
        copies = known[z[i]]
        if since[z[i]] != added:
            phi = features[z[i]]
            quad = _quadratic(inverse, phi)
            score = factor * max(quad, floor * (phi @ phi))
            copies = 1.0 if score >= 1.0 else np.floor(1.0 / max(score, 1e-300))  # φ may be 0
            known[z[i]], since[z[i]] = copies, added
        if u[i] * copies < 1.0:
            rank_one(gram, inverse, features[z[i]], copies)
            counts[z[i]] += copies
            added += 1
            if stop or added == limit:
                return i + 1, added
    return len(z), added


class LinearBall(FunctionClass[LinearSensed]):
    """θᵀφ with ‖θ‖ ≤ R; `features[z]` are the φ(z), of norm at most one."""

    def __init__(self, features: np.ndarray, radius: float) -> None:
        features = np.ascontiguousarray(features, float)
        if features.ndim != 2 or not np.isfinite(features).all():
            raise LPOError("features must be a finite (pairs, d) array; check the feature map.")
        worst = float(np.sqrt((features**2).sum(1).max()))
        if worst > 1 + 1e-9:
            raise LPOError(
                f"a feature has norm {worst:.4g} > 1; divide the features by {worst:.4g}."
            )
        if not (np.isfinite(radius) and radius > 0):
            raise LPOError(f"the ball has radius {radius}; give a finite number > 0.")
        self.features, self.radius, self.rho = features, float(radius), 2.0 * float(radius)
        self.num_pairs, self.dim = features.shape
        self.W = self.radius
        self.one_hot = self.dim == self.num_pairs and np.array_equal(features, np.eye(self.dim))

    def _spectrum(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and vectors of Σ_z counts[z] φφᵀ; one-hot features need no work."""
        if self.one_hot:
            return counts.astype(float), np.eye(self.dim)
        seen = counts > 0
        phi = self.features[seen]
        lam, U = np.linalg.eigh((phi.T * counts[seen]) @ phi)
        return np.maximum(lam, 0.0), U

    def empty(self) -> LinearSensed:
        gram, inverse = np.zeros((self.dim, self.dim)), np.eye(self.dim) * self.rho**2
        return LinearSensed(np.zeros(self.num_pairs), gram=gram, inverse=inverse)

    def add(self, sensed: LinearSensed, z: int, copies: float) -> None:
        rank_one(sensed.gram, sensed.inverse, self.features[z], float(copies))
        sensed.counts[z] += copies
        sensed.additions += 1
        self._refresh(sensed, 1)

    def _refresh(self, sensed: LinearSensed, added: int) -> None:
        if (sensed.additions - added) // REFRESH != sensed.additions // REFRESH:
            sensed.inverse[:] = np.linalg.inv(sensed.gram + np.eye(self.dim) / self.rho**2)

    def sensitivity(self, sensed: LinearSensed, z: np.ndarray, cap: float) -> np.ndarray:
        """max{φᵀ(Σ + I/ρ²)⁻¹φ, ρ²‖φ‖²/(cap + 1)}.

        min{x, cap} makes the ratio the larger of its two versions, each with its own supremum. In
        the first the ratio grows along every ray, so ‖Δθ‖ = ρ and 1 = ‖Δθ‖²/ρ² joins Σ.
        """
        phi = self.features[z]
        quad = np.einsum("ni,ij,nj->n", phi, sensed.inverse, phi, optimize=True)
        return np.maximum(quad, self.rho**2 * (phi**2).sum(1) / (cap + 1.0))

    def width(self, sensed: LinearSensed, epsilon: float) -> np.ndarray:
        """Both constraints, Δᵀ Σ Δ ≤ ε and ‖Δ‖ ≤ ρ, through the one-dimensional dual

        ω² = min_{s∈[0,1]} φᵀ(s Σ/ε + (1−s) I/ρ²)⁻¹φ, convex in s; 60 bisections on its slope.
        """
        self._check_epsilon(epsilon)
        lam, U = np.linalg.eigh(sensed.gram)
        c = (self.features @ U) ** 2
        return np.sqrt(_dual(c, np.maximum(lam, 0.0) / max(epsilon, 1e-300), 1.0 / self.rho**2))

    def fit(self, counts: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self.features @ self.fit_parameter(counts, targets)

    def fit_parameter(self, counts: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Least squares on the ball: the least-norm solution, else (A + μI)⁻¹b of norm R."""
        lam, U = self._spectrum(counts)
        b = U.T @ (self.features.T @ np.where(counts > 0, counts * targets, 0.0))
        small = lam <= 1e-12 * max(lam.max(), 1e-300)
        b[small] = 0.0
        theta = np.where(small, 0.0, b / np.where(small, 1.0, lam))
        if theta @ theta > self.radius**2:
            lo, hi = 0.0, np.sqrt(b @ b) / self.radius
            for _ in range(100):
                mu = (lo + hi) / 2
                t = b / np.maximum(lam + mu, 1e-300)
                lo, hi = (mu, hi) if t @ t > self.radius**2 else (lo, mu)
            theta = b / np.maximum(lam + hi, 1e-300)
        return U @ theta

    def log_covering(self, radius: float) -> float:
        """d ln(1 + 2R/radius), the volume bound of a ball in R^d."""
        return self.dim * float(np.log1p(2 * self.radius / radius))

    def distance(self, z: int) -> np.ndarray:
        return self.radius * np.sqrt(((self.features - self.features[z]) ** 2).sum(1))

    def absorb(
        self,
        sensed: LinearSensed,
        z: np.ndarray,
        u: np.ndarray,
        factor: float,
        cap: float,
        stop: bool,
    ) -> tuple[int, int]:
        at, total, floor = 0, 0, self.rho**2 / (cap + 1.0)
        state = (self.features, sensed.counts, sensed.gram, sensed.inverse)
        while at < len(z):
            used, added = _absorb(*state, z[at:], u[at:], factor, floor, stop, REFRESH)
            sensed.additions += added
            self._refresh(sensed, added)
            at, total = at + used, total + added
            if stop and added:
                break
        return at, total


def _dual(c: np.ndarray, fit: np.ndarray, ball: float) -> np.ndarray:
    """min_s Σ_i c_i / (s·fit_i + (1−s)·ball) for every row of c."""
    lo, hi = np.zeros(len(c)), np.full(len(c), 1.0 - 1e-13)
    for _ in range(60):
        s = (lo + hi) / 2
        slope = (c * (ball - fit) / (np.outer(s, fit) + (1 - s)[:, None] * ball) ** 2).sum(1)
        lo, hi = np.where(slope < 0, s, lo), np.where(slope < 0, hi, s)
    s = (lo + hi) / 2
    best = (c / (np.outer(s, fit) + (1 - s)[:, None] * ball)).sum(1)
    return np.minimum(best, c.sum(1) / ball)


def kernel_ball(
    points: np.ndarray,
    kernel: Kernel,
    radius: float,
    tolerance: float = 1e-10,
) -> LinearBall:
    """The ball of radius R in the RKHS of `kernel`, seen on the pool `points`.

    K = U diag(λ) Uᵀ gives features φ(z) = rows of U√λ. Among functions agreeing on the pool the
    least RKHS norm is ‖θ‖, so this is the linear ball of dimension rank(K), exactly up to the
    eigenvalues below `tolerance`·λ_max that are dropped: each value moves by ≤ R·sqrt(that mass).
    """
    K = np.asarray(kernel(points, points), float)
    if np.abs(K - K.T).max() > 1e-9 * max(np.abs(K).max(), 1.0):
        raise LPOError("the kernel is not symmetric on the pool; give a positive-definite kernel.")
    lam, U = np.linalg.eigh(K)
    if lam[0] < -1e-8 * lam[-1]:
        raise LPOError("the kernel has negative eigenvalues; give a positive-definite kernel.")
    keep = lam > tolerance * lam[-1]
    return LinearBall(U[:, keep] * np.sqrt(lam[keep]), radius)


def gaussian(bandwidth: float) -> Kernel:
    """k(x, y) = exp(−‖x−y‖²/(2h²))."""

    def kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        square = (x**2).sum(1)[:, None] + (y**2).sum(1)[None] - 2 * x @ y.T
        return np.exp(-np.maximum(square, 0.0) / (2 * bandwidth**2))

    return kernel
