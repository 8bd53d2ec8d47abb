"""The numbers of Algorithms 1-5: as the proofs want them, and as one can run them (theory room).

`theory` follows the main theorem and Lemmas B.7, C.4, E.3-E.5, every unnamed absolute constant set
to the least value the written proof allows. `practical` keeps the shape and shrinks the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lpo.errors import LPOError
from lpo.theory.classes.base import FunctionClass
from lpo.theory.mdp import MDP


@dataclass(frozen=True)
class Constants:
    """Every hyperparameter of Algorithms 1-5; `kind` says which recipe made it."""

    N: int  # outer iterations (d-samples)
    delta: float  # failure probability
    beta: float  # width below which a pair is known
    epsilon: float  # squared radius of F̂
    factor: float  # C·ln(N·𝒩(F)/δ) of Alg. 2
    K: int  # inner iterations
    eta: float  # NPG step size
    kappa: float  # inner iterations a dataset is reused for
    M: int  # trajectories per dataset
    unknown_bonus: float  # b on unknown states, the paper's 3/(1−γ)
    width_bonus: float = 2.0  # the 2 of b = 2ω/β on known states
    min_ess: float = 0.8  # resample when the effective share of D falls below (reuse="ess")
    max_log_ratio: float = 3.0  # bound of |ln(π/π̲)| per step (reuse="ess")
    kind: str = "custom"

    def __post_init__(self) -> None:
        if not 0.0 < self.delta < 1.0:
            raise LPOError(f"delta is {self.delta}, outside (0, 1); choose e.g. 0.1.")
        for name in ("N", "beta", "epsilon", "factor", "K", "eta", "M"):
            if not getattr(self, name) > 0:
                raise LPOError(f"{name} is {getattr(self, name)}; give a number above zero.")

    @property
    def n0(self) -> float:
        """ε/β²: in the box class a pair is known once it has more than n0 copies in Ẑ."""
        return self.epsilon / self.beta**2

    def with_(self, **changes: float) -> Constants:
        return replace(self, **changes)

    @staticmethod
    def theory(
        mdp: MDP, F: FunctionClass, N: int, delta: float = 0.1, target: float = 0.1
    ) -> Constants:
        """The proofs' constants for suboptimality `target`; print them, do not run them."""
        if not 0.0 < delta < 1.0:
            raise LPOError(f"delta is {delta}, outside (0, 1); choose e.g. 0.1.")
        g, W, log_A = 1.0 - mdp.gamma, F.W, np.log(max(mdp.num_actions, 2))
        K = int(np.ceil(256 * W**2 * log_A / (g * target) ** 2))  # 8W/(1−γ)·sqrt(ln A/K) ≤ ε/2
        eta = float(np.sqrt(log_A / (16 * W**2 * K)))  # Lemma B.7
        M = N  # Theorem: M = N
        B = 3.0 / g
        delta1 = delta / (16 * M)  # (1 − Mδ_1)(1 − δ_3) ≥ 1 − δ/8
        kappa = float(g * np.log(2) / (2 * np.log(1 / delta1) * eta * (B + W)))  # Lemma E.3
        cover = target**3
        stat = 500 * W**4 * (F.log_covering(cover) + np.log(16 / delta)) / M + 13 * W**2 * cover
        log_delta_f = 2 * F.log_covering(cover) + np.log(N / delta)  # ln 𝒩(ΔF, 2ε_1) ≤ 2 ln 𝒩(F)
        epsilon = 100 * (1.5 * N * stat + 20 * N * W * cover + 0.5 * log_delta_f)  # eq. (34)
        freedman = 3 * 2e4 * (9e12 + 1e6)  # C of Lemma C.4: exponent ≥ ln(128 N² 𝒩² / δ)
        factor = freedman * (F.log_covering(np.sqrt(delta / (64.0 * N**3))) + np.log(N / delta))
        return Constants(
            N, delta, 0.5, float(epsilon), float(factor), K, eta, kappa, M, B, kind="theory"
        )

    @staticmethod
    def practical(
        mdp: MDP,
        N: int,
        delta: float = 0.1,
        *,
        n0: float = 1.0,
        factor: float = 1.0,
        width_bonus: float = 0.02,
        K: int = 20,
        eta: float = 30.0,
        kappa: float = 2,
        M: int = 1000,
    ) -> Constants:
        """n0 = ε/β² copies make a pair known; the rest is named after its symbol."""
        beta = 0.5
        return Constants(
            N,
            delta,
            beta,
            n0 * beta**2,
            factor,
            K,
            eta,
            kappa,
            M,
            3.0 / (1.0 - mdp.gamma),
            width_bonus=width_bonus,
            kind="practical",
        )


class Bill(NamedTuple):
    """What a reading of the main theorem asks for; every absolute constant is one."""

    W: float
    N: float
    datasets: float  # K/κ, for each policy update
    switches: float
    trajectories: float  # switches · datasets · M, with M = N
    steps: float  # a trajectory takes 2/(1−γ) steps on average: the way to its head, and the rest


READINGS = ("claimed", "written", "repaired")


def bill(
    gamma: float,
    dim: int,
    num_actions: int = 2,
    target: float = 0.1,
    delta: float = 0.1,
    reading: str = "repaired",
) -> Bill:
    """The main theorem's samples for a class with ln 𝒩(F, u) = dim·ln(1 + 2W/u).

    "claimed" counts as the theorem does: a radius ε of order ln N and the factor d² of D.2.
    "written" keeps the W⁴ that E.5 puts into ε. "repaired" has what the proofs give when they are
    mended (docs/proofs.md): W² in E.5, d instead of d² in D.2. W = 2·G_max, the least that
    App. E allows. N solves (1−γ)⁻²·sqrt(factor·ε/N) = target/2 with ε depending on ln N.
    """
    if reading not in READINGS:
        raise LPOError(f"reading {reading!r} is unknown; choose {' or '.join(READINGS)}.")
    g = 1.0 - gamma
    W, N = 2.0 * (2.0 + 3.0 / g) / g, 1.0
    weight = {"claimed": 1.0, "written": W**4, "repaired": W**2}[reading]
    factor = dim if reading == "repaired" else dim**2
    for _ in range(100):  # a contraction: N enters its own right-hand side through ln N
        cover = np.log(N + 2) if reading == "claimed" else dim * np.log1p(2 * W**3 * N)
        N = 4.0 * factor * weight * (cover + np.log((N + 1) / delta)) / (g**4 * target**2)
    K = 256.0 * W**2 * np.log(num_actions) / (g * target) ** 2
    eta = np.sqrt(np.log(num_actions) / (16.0 * W**2 * K))
    kappa = g * np.log(2) / (2.0 * np.log(16.0 * N / delta) * eta * (3.0 / g + W))
    cover = np.log(N) if reading == "claimed" else dim * np.log1p(2 * W**3 * N)
    switches = dim * cover * np.log(N) * np.log2(4 * N * W**2)
    trajectories = switches * K / kappa * N
    return Bill(*map(float, (W, N, K / kappa, switches, trajectories, 2 * trajectories / g)))
