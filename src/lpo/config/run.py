"""Configuration: everything that decides a run, as one class made of the options of its parts."""

from __future__ import annotations

from typing import Annotated, Literal

import annotated_types as at
import pydantic

from lpo import algorithms
from lpo.bonus import BonusPart, EpisodePart, ScaleOptions, Weighing
from lpo.envs.task import TaskOptions
from lpo.errors import LPOError, named
from lpo.math.features import FeatureOptions
from lpo.math.ppo import PPOOptions
from lpo.network import NetworkPart
from lpo.options import Axis, Count, HostOnly, Idle, Part, PositiveInt, Rare, Short, options
from lpo.start import StartPart
from lpo.switch import SwitchPart

CHOICES: dict[str, type[Part]] = {  # parts that are chosen by name
    "bonus": BonusPart,
    "switch": SwitchPart,
    "start": StartPart,
    "features": FeatureOptions,
    "scale": ScaleOptions,
    "episode": EpisodePart,
    "weighing": Weighing,
    "network": NetworkPart,
}


@options
class EvaluationOptions:
    """Evaluations during training, on separate environments."""

    every: Annotated[Count, Short("eval_every")] = 10_000
    """Environment steps between evaluations (0: none)."""
    episodes: Annotated[PositiveInt, Short("eval_episodes")] = 5
    """Episodes of an evaluation, stepped as one batch."""
    deterministic: Annotated[bool, Short("eval_deterministic")] = True
    """Take the mode of the policy in evaluations instead of sampling actions."""
    max_steps: Annotated[Rare[PositiveInt], Short("eval_max_steps")] = 10_000
    """Largest number of steps of an episode in evaluations, if there is no shorter time limit."""


@options
class CheckpointOptions:
    """Checkpoints of the run directory."""

    every: Annotated[Idle[PositiveInt], Short("checkpoint_every")] = 20_000
    """Environment steps between checkpoints (the end always gets one). On a device, where the state
    of all runs is saved together, five times as many lie between two."""
    keep: Annotated[HostOnly[Idle[PositiveInt]], Short("keep_checkpoints")] = 3
    """Number of latest checkpoints to keep; the best by evaluation is kept too."""


LoggerNames = Annotated[
    tuple[Literal["tensorboard", "wandb", "mlflow"], ...],
    pydantic.BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
]


@options
class LogOptions:
    """Loggers of the run directory, beside its own metrics.jsonl."""

    loggers: HostOnly[Idle[LoggerNames]] = ("tensorboard",)
    """Extra loggers: tensorboard, wandb, mlflow. Pass no value for none; metrics.jsonl is always
    written."""


Seed = Annotated[int, at.Ge(0), at.Le(2**32 - 1)]


USUAL = algorithms.get(algorithms.DEFAULT)


@options
class Config:
    """Everything that decides a run. Without arguments it is what ``lpo train`` runs."""

    algo: Annotated[str, pydantic.BeforeValidator(algorithms.row_name)] = algorithms.DEFAULT
    """Algorithm (see `lpo list`). It sets the parts and the default of every option."""
    steps: PositiveInt = 300_000
    """Environment steps of the whole run, all environments together."""
    seed: Axis[Seed] = 0
    """Seed of every random stream of the run."""
    task: TaskOptions = USUAL.task
    ppo: PPOOptions = USUAL.ppo
    network: NetworkPart = USUAL.network
    evaluation: EvaluationOptions = EvaluationOptions()
    checkpoints: CheckpointOptions = CheckpointOptions()
    logs: LogOptions = LogOptions()
    weighing: Weighing = USUAL.weighing
    bonus: BonusPart = USUAL.bonus
    switch: SwitchPart = USUAL.switch
    start: StartPart = USUAL.start

    def __post_init__(self) -> None:
        algorithms.get(self.algo)
        rollout = self.switch.rollout
        if self.task.num_envs > rollout:
            raise LPOError(
                f"A rollout of {rollout} steps is too short for {self.task.num_envs} environments; "
                f"lower {named('num_envs')} or raise {named('rollout')}."
            )
        if self.ppo.batch_size > rollout:
            raise LPOError(
                f"A minibatch of {self.ppo.batch_size} is larger than a rollout of {rollout} "
                f"steps; lower {named('batch_size')} or raise {named('rollout')}."
            )
        if self.ppo.batch_size == 1 and self.ppo.normalize_advantage:
            raise LPOError(
                f"A minibatch of 1 has no spread by which advantages could be normalised; raise "
                f"{named('batch_size')} to at least 2, or switch {named('normalize_advantage')} "
                "off."
            )
        for part in (self.weighing, self.bonus, self.switch, self.start, self.network):
            part.check(self)
