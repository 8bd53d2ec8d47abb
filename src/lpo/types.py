"""Types that the packages share. This module imports nothing else of lpo.

A batch of environments is a ``BatchEnv`` and returns a ``Step``. ``Rollout`` is the interface
between simulation and learning: the code after it is the same, wherever the environments ran.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from gymnasium import spaces
from jaxtyping import Bool, Float, Shaped

# np.ndarray on the host, jax.Array in the learner. The variable has no bound, because importing
# JAX here would make ``import lpo`` slow. jaxtyping still checks the shape and kind of any array.
ArrayT = TypeVar("ArrayT")


FlatActions: TypeAlias = spaces.Box | spaces.Discrete | spaces.MultiDiscrete  # from 0 on


class Step(NamedTuple):
    """One step of ``N`` environments; ``next_obs`` is the true s′, never a reset observation."""

    obs: Float[np.ndarray, "N O"]  # what the policy sees next: s′, or s_0 of a new episode
    reward: Float[np.ndarray, " N"]  # as the environment gave it
    terminated: Bool[np.ndarray, " N"]  # the MDP ended
    truncated: Bool[np.ndarray, " N"]  # a time limit cut the episode
    next_obs: Float[np.ndarray, "N O"]  # the last observation of an ended episode, else ``obs``
    valid: Bool[np.ndarray, " N"]  # False: the environment only reset itself; no transition
    # Whether the episodes that ended here succeeded, by ``info["is_success"]``; it has a meaning
    # where terminated | truncated. None: no environment of the batch reported it on this step.
    success: Bool[np.ndarray, " N"] | None = None


class SpaceCodec(Protocol):
    """Translates between a user's spaces and the flat ones that the engine sees."""

    raw_observation_space: spaces.Space[Any]  # as the user's environment declares it
    raw_action_space: spaces.Space[Any]
    observation_space: Any  # flat
    action_space: Any  # flat
    angles: tuple[int, ...]  # places of a flat observation that the policy sees as (cos, sin)

    def observation(self, obs: Any) -> np.ndarray:
        """Returns one observation of ``raw_observation_space`` as a flat array [O]."""
        ...

    def action(self, flat: np.ndarray) -> Any:
        """Returns one flat action, or a batch of them, in the form that the environment takes."""
        ...


class BatchEnv(Protocol):
    """``N`` environments that reset themselves within the step that ends an episode."""

    num_envs: int
    description: dict[str, Any]  # id, threshold, horizon, …: JSON that every run and figure prints

    @property
    def observation_space(self) -> spaces.Box:
        """The observations [O] of one environment, flat."""
        ...

    @property
    def action_space(self) -> FlatActions:
        """The actions of one environment, flat."""
        ...

    @property
    def codec(self) -> SpaceCodec:
        """The translation between the spaces of the user's environment and the flat ones."""
        ...

    @property
    def resumable(self) -> bool:
        """Whether ``get_state`` works."""
        ...

    def reset(self, seed: int) -> Float[np.ndarray, "N O"]:
        """Starts every environment anew and returns the first observations."""
        ...

    def step(self, action: Shaped[np.ndarray, " N *A"]) -> Step:
        """Takes one step in every environment."""
        ...

    def get_state(self) -> dict[str, np.ndarray]:
        """Returns the full state: simulators, steps of the episodes, random streams."""
        ...

    def set_state(self, state: dict[str, np.ndarray]) -> Float[np.ndarray, "N O"]:
        """Restores a state from ``get_state``. Returns the current observations."""
        ...

    def close(self) -> None: ...


class Rollout(NamedTuple, Generic[ArrayT]):
    """``T`` steps of ``N`` environments, padded to a fixed ``T``; ``valid`` marks the real ones."""

    obs: Float[ArrayT, "T N O"]
    action: Float[ArrayT, "T N A"]  # as sampled, before clipping for the environment
    reward: Float[ArrayT, "T N"]
    terminated: Bool[ArrayT, "T N"]
    truncated: Bool[ArrayT, "T N"]
    next_obs: Float[ArrayT, "T N O"]
    valid: Bool[ArrayT, "T N"]
    start: Bool[ArrayT, "T N"]  # an episode begins with this row
    taken: Bool[ArrayT, "T N"]  # a step of the environment, also where it is not learned from
    last_obs: Float[ArrayT, "N O"]  # after the last step, where the next rollout begins
