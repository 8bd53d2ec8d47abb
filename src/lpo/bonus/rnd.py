"""Random network distillation as a width: b = ‖f(x) − f′(x)‖² (section 5; Burda et al. 2018).

f′ is random and fixed, and f is trained to predict it on the data of the agent. So the error is
large where the agent has rarely been. It takes the place of the width of the function class.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple

import jax
from jax import Array

from lpo.bonus.base import Bonus, BonusPart
from lpo.bonus.compose import ScaledOptions
from lpo.bonus.eye import Eye, eye
from lpo.math.descent import PLAIN, Adam, Compute
from lpo.math.features import Inputs
from lpo.math.minibatch import sweep
from lpo.options import Axis, Count, Layers, Positive, PositiveInt, Rare, Short, options
from lpo.problem import Problem
from lpo.types import Rollout


@BonusPart.kinds.add
@options
class RND(ScaledOptions):
    """Random network distillation: b = ‖f(x) − f′(x)‖²."""

    kind: ClassVar[str] = "rnd"
    inputs: Annotated[Inputs, Short("bonus_inputs")] = "sa"
    """What the bonus reads: (s,a), s′ or s."""
    learning_rate: Annotated[Axis[Positive], Short("predictor_learning_rate")] = 1e-4
    """Adam's step size for the predictor f."""
    passes: Annotated[Count, Short("predictor_passes")] = 1
    """Passes over each rollout when the predictor is trained."""
    batch_size: Annotated[PositiveInt, Short("predictor_batch_size")] = 64
    """Minibatch size of the predictor."""
    hidden: Annotated[Rare[Layers], Short("predictor_hidden")] = (64, 64)
    """Hidden layers of f and f′ (relu)."""
    features: Annotated[Rare[PositiveInt], Short("predictor_features")] = 64
    """Number of outputs of f and f′."""

    def novelty(self, problem: Problem) -> Bonus:
        return rnd(
            eye(problem, self.inputs, problem.compute.apply),
            learning_rate=self.learning_rate,
            passes=self.passes,
            batch_size=self.batch_size,
            hidden=self.hidden,
            num_features=self.features,
            compute=problem.compute,
        )


class RNDState(NamedTuple):
    target: Any  # f′
    predictor: Any  # f
    opt: Any
    inputs: Any  # moments of x


def rnd(
    eye: Eye,
    *,
    learning_rate: float,
    passes: int,
    batch_size: int,
    hidden: tuple[int, ...],
    num_features: int,
    compute: Compute = PLAIN,
) -> Bonus[RNDState]:
    """Returns the bonus on the inputs that ``eye`` reads."""
    adam = Adam(learning_rate, eps=1e-5)

    def residual(predictor: Any, target: Any, x: Any) -> Array:
        return ((eye.apply(predictor, x) - eye.apply(target, x)) ** 2).sum(-1)

    def init(key: Array) -> RNDState:
        key_target, key_predictor = jax.random.split(key)
        sizes = (*hidden, num_features)
        predictor = eye.init(key_predictor, sizes)
        return RNDState(
            target=eye.init(key_target, sizes),
            predictor=predictor,
            opt=adam.optim().init(predictor),
            inputs=eye.moments(),
        )

    def score(state: RNDState, rollout: Rollout):
        x, valid = eye.rows(rollout), rollout.valid
        moments = eye.observe(state.inputs, x, valid.reshape(-1))
        b = residual(state.predictor, state.target, eye.seen(moments, x)).reshape(valid.shape)
        return (b * valid)[None], state._replace(inputs=moments), {}

    def update(state: RNDState, rollout: Rollout, key: Array):
        """Line 10 of Algorithm 7: fits f to f′ on D_k."""
        x = eye.rows(rollout)

        def step(carry, minibatch):
            predictor, opt = carry
            seen = eye.seen(state.inputs, minibatch)
            fit = lambda p: residual(p, state.target, seen).mean()  # noqa: E731
            error, grads = jax.value_and_grad(fit)(predictor)
            return compute.descend(adam, predictor, opt, grads), error

        start = (state.predictor, state.opt)
        valid = rollout.valid.reshape(-1)
        (predictor, opt), error = sweep(step, start, x, valid, key, passes, batch_size)
        return state._replace(predictor=predictor, opt=opt), {"bonus/predictor_loss": error}

    return Bonus(1, init, score, update)
