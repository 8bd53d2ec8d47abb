"""A small neural class near its initialisation (theory room; the class Section 5 stands for).

F = {f_θ : ‖θ − θ_0‖ ≤ R}, f_θ(x) = vᵀ tanh(Ux + c). Answers come from the linearisation
f_θ ≈ f_θ0 + ∇f_θ0ᵀ(θ − θ_0), a linear ball; `ascend` climbs the true ratio of eq. (E1) with the
network's own gradient and shows how far off the linear answer is. Within R ≤ 0.1 on inputs of norm
at most one the two agree within 10 % (tested).
"""

from __future__ import annotations

import numpy as np

from lpo.errors import LPOError
from lpo.theory.classes.linear import LinearBall, LinearSensed


class Neural(LinearBall):
    """Two layers of tanh units; `inputs[z]` is the network's input at pair z."""

    def __init__(
        self, inputs: np.ndarray, hidden: int = 8, radius: float = 0.1, seed: int = 0
    ) -> None:
        inputs = np.asarray(inputs, float)
        if inputs.ndim != 2 or hidden < 1:
            raise LPOError(
                "a neural class needs (pairs, d) inputs and a hidden unit; fix its shape."
            )
        self.inputs, self.hidden = inputs, hidden
        rng = np.random.default_rng(seed)
        count = hidden * (inputs.shape[1] + 2)
        self.theta0 = rng.normal(size=count) / np.sqrt(hidden)
        jacobian = self.jacobian(self.theta0)
        self.scale = float(np.sqrt((jacobian**2).sum(1).max()))
        # On the pool θ acts through at most P directions, the right singular vectors.
        left, size, right = np.linalg.svd(jacobian / self.scale, full_matrices=False)
        keep = size > 1e-12 * size[0]
        self.directions = right[keep]
        super().__init__(left[:, keep] * size[keep], radius * self.scale)
        self.parameter_radius = radius
        self.W = float(np.abs(self.values(self.theta0)).max()) + self.radius

    def _split(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        h, d = self.hidden, self.inputs.shape[1]
        return theta[: h * d].reshape(h, d), theta[h * d : h * d + h], theta[h * d + h :]

    def values(self, theta: np.ndarray) -> np.ndarray:
        """f_θ at every pair."""
        U, c, v = self._split(theta)
        return np.tanh(self.inputs @ U.T + c) @ v

    def jacobian(self, theta: np.ndarray) -> np.ndarray:
        """∂f_θ(z)/∂θ, a row per pair."""
        U, c, v = self._split(theta)
        act = np.tanh(self.inputs @ U.T + c)
        inner = (1 - act**2) * v
        outer = inner[:, :, None] * self.inputs[:, None, :]
        return np.concatenate([outer.reshape(len(act), -1), inner, act], axis=1)

    def fit(self, counts: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Least squares in the linearised class."""
        base = self.values(self.theta0)
        return base + super().fit(counts, targets - base)

    def ascend(self, sensed: LinearSensed, z: int, cap: float, steps: int = 400) -> float:
        """The largest ratio of eq. (E1) at z found by projected gradient ascent on (θ_1, θ_2).

        It starts from the linear maximiser ±(Σ + I/ρ²)⁻¹φ and is a lower bound of the truth.
        """
        direction = (sensed.inverse @ self.features[z]) @ self.directions
        direction = direction / max(np.sqrt(direction @ direction), 1e-300)
        one = self.theta0 + self.parameter_radius * direction
        two = self.theta0 - self.parameter_radius * direction
        best, rate = 0.0, 0.05 * self.parameter_radius
        for _ in range(steps):
            diff = self.values(one) - self.values(two)
            mass = float(sensed.counts @ diff**2)
            ratio = diff[z] ** 2 / (min(mass, cap) + 1.0)
            best = max(best, float(ratio))
            # ∇ log ratio with respect to the differences Δ(·)
            slope = np.zeros(self.num_pairs)
            slope[z] = 2.0 / diff[z]
            if mass < cap:
                slope -= 2.0 * sensed.counts * diff / (mass + 1.0)
            one = self._project(one + rate * _unit(self.jacobian(one).T @ slope))
            two = self._project(two - rate * _unit(self.jacobian(two).T @ slope))
        return best

    def _project(self, theta: np.ndarray) -> np.ndarray:
        away = theta - self.theta0
        length = np.sqrt(away @ away)
        return self.theta0 + away * min(1.0, self.parameter_radius / max(length, 1e-300))


def _unit(x: np.ndarray) -> np.ndarray:
    return x / max(np.sqrt(x @ x), 1e-300)
