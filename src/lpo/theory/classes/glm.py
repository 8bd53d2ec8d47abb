"""Generalised linear functions g(θᵀφ), bounded from both sides (theory room; Section 4).

g is differentiable and strictly increasing with slope in [m, M] on [−R, R]. By the mean value
theorem m|φᵀΔθ| ≤ |Δf| ≤ M|φᵀΔθ|, so every answer here is an upper bound obtained from the linear
ball; with the same steps in the other direction, the truth is at least (m/M)⁴ of the sensitivity
and (m/M)² of the width given here. Tests hold both sides.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lpo.errors import LPOError
from lpo.theory.classes.base import FunctionClass
from lpo.theory.classes.linear import LinearBall, LinearSensed


class Glm(FunctionClass[LinearSensed]):
    """f(z) = g(θᵀφ(z)), ‖θ‖ ≤ R; `slope` is g′."""

    def __init__(
        self,
        features: np.ndarray,
        radius: float,
        link: Callable[[np.ndarray], np.ndarray] = np.tanh,
        slope: Callable[[np.ndarray], np.ndarray] = lambda x: 1.0 / np.cosh(x) ** 2,
    ) -> None:
        self.ball = LinearBall(features, radius)
        self.num_pairs, self.link, self.slope = self.ball.num_pairs, link, slope
        grid = np.linspace(-radius, radius, 4001)
        slopes = slope(grid)
        if slopes.min() <= 0:
            raise LPOError("the link is not strictly increasing on [−R, R]; use a smaller radius.")
        self.low, self.high = float(slopes.min()), float(slopes.max())
        self.span = float(link(grid[-1:])[0] - link(grid[:1])[0])
        self.W = float(np.abs(link(grid[[0, -1]])).max())

    @property
    def tightness(self) -> float:
        """(m/M)²: the width's upper bound is within this factor of the truth."""
        return (self.low / self.high) ** 2

    def empty(self) -> LinearSensed:
        return self.ball.empty()

    def add(self, sensed: LinearSensed, z: int, copies: float) -> None:
        """Σ is that of m·φ, the flattest the class can be, so ‖Δf‖²_Ẑ ≥ ΔᵀΣΔ."""
        self.ball.add(sensed, z, copies * self.low**2)
        sensed.counts[z] += copies * (1.0 - self.low**2)

    def sensitivity(self, sensed: LinearSensed, z: np.ndarray, cap: float) -> np.ndarray:
        """M²·sup (φᵀΔ)²/(min{m²ΔᵀΣΔ, cap} + 1), clipped to span²."""
        return np.minimum(self.high**2 * self.ball.sensitivity(sensed, z, cap), self.span**2)

    def width(self, sensed: LinearSensed, epsilon: float) -> np.ndarray:
        """M·sup{|φᵀΔ| : m²ΔᵀΣΔ ≤ ε, ‖Δ‖ ≤ 2R}, clipped to the span of g."""
        return np.minimum(self.high * self.ball.width(sensed, epsilon), self.span)

    def fit(self, counts: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self.link(self.ball.features @ self.fit_parameter(counts, targets))

    def fit_parameter(self, counts: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Gauss-Newton steps, each a least squares on the ball, halved until the loss falls."""
        seen = counts > 0
        phi, c, y = self.ball.features[seen], counts[seen], targets[seen]
        theta = np.zeros(self.ball.dim)

        def loss(t: np.ndarray) -> float:
            return float(c @ (self.link(phi @ t) - y) ** 2)

        best = loss(theta)
        for _ in range(100):
            x = phi @ theta
            g = self.slope(x)
            goal = LinearBall(phi, self.ball.radius).fit_parameter(
                c * g**2, x + (y - self.link(x)) / g
            )
            step = 1.0
            while step > 1e-10 and loss(theta + step * (goal - theta)) > best:
                step /= 2
            new = theta + step * (goal - theta)
            gain, theta, best = best - loss(new), new, loss(new)
            if gain <= 1e-14 * (1 + best):
                break
        return theta

    def log_covering(self, radius: float) -> float:
        """A cover of the parameters at radius/M."""
        return self.ball.log_covering(radius / self.high)

    def distance(self, z: int) -> np.ndarray:
        return self.high * self.ball.distance(z)
