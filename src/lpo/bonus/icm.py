"""ICM: what cannot be predicted is new, b = ½‖f(e(s), a) − e(s′)‖² (Pathak et al. 2017)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from jax import Array

from lpo.bonus.base import Bonus, BonusPart
from lpo.bonus.compose import ScaledOptions
from lpo.bonus.inverse import InverseModel, inverse_model
from lpo.options import Axis, Positive, PositiveInt, Rare, Short, options
from lpo.problem import Problem
from lpo.types import Rollout


@BonusPart.kinds.add
@options
class ICM(ScaledOptions):
    """Curiosity: the error of a forward model over features of an inverse model."""

    kind: ClassVar[str] = "icm"
    learning_rate: Annotated[Axis[Positive], Short("predictor_learning_rate")] = 3e-4
    """Adam's step size for the models."""
    features: Annotated[Rare[PositiveInt], Short("predictor_features")] = 32
    """Numbers that the encoder keeps of an observation."""

    def novelty(self, problem: Problem) -> Bonus:
        return icm(inverse_model(problem, self.features, self.learning_rate))


def icm(model: InverseModel) -> Bonus:
    """Returns the bonus of a model."""

    def score(state: Any, rollout: Rollout) -> tuple[Array, Any, dict[str, Array]]:
        state = model.observe(state, rollout)
        return (model.error(state, rollout) * rollout.valid)[None], state, {}

    return Bonus(1, model.init, score, model.update)
