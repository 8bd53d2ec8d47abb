"""The shapes that travel between the rooms (leaf: imports nothing of ours).

``Step`` is what a batch of environments returns, ``BatchEnv`` what the engine asks of one, and
``Rollout`` the seam between simulation and learning: everything after it is the same code whether
the environments ran on the host or on a device.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from gymnasium import spaces
from jaxtyping import Bool, Float, Shaped

# np.ndarray on the host, jax.Array where it is learned from. Without a bound, because importing
# JAX here would make ``import lpo`` slow; jaxtyping then checks any array by shape and kind.
ArrayT = TypeVar("ArrayT")


FlatActions: TypeAlias = spaces.Box | spaces.Discrete | spaces.MultiDiscrete  # they start at 0


class Step(NamedTuple):
    """One step of ``N`` environments; ``next_obs`` is the true s′, never a reset observation."""

    obs: Float[np.ndarray, "N O"]  # what the policy sees next: s′, or s_0 of a new episode
    reward: Float[np.ndarray, " N"]  # as the environment gave it
    terminated: Bool[np.ndarray, " N"]  # the MDP ended
    truncated: Bool[np.ndarray, " N"]  # a time limit cut the episode
    next_obs: Float[np.ndarray, "N O"]  # the last observation of an ended episode, else ``obs``
    valid: Bool[np.ndarray, " N"]  # False: the environment only reset itself; no transition
    # Whether the episodes that ended here succeeded, by ``info["is_success"]``; meaningful where
    # terminated | truncated. None: no environment of the batch said so on this step.
    success: Bool[np.ndarray, " N"] | None = None


class SpaceCodec(Protocol):
    """Translates between a user's spaces and the flat ones that the engine sees."""

    raw_observation_space: spaces.Space[Any]  # as the user's environment declares it
    raw_action_space: spaces.Space[Any]
    observation_space: Any  # flat
    action_space: Any  # flat

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
        """What translates to the spaces of the user's environment and back."""
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
        """Returns everything that decides the future: simulators, episode clocks, streams."""
        ...

    def set_state(self, state: dict[str, np.ndarray]) -> Float[np.ndarray, "N O"]:
        """Returns to a state of ``get_state``; the result is the current observation."""
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
    last_obs: Float[ArrayT, "N O"]  # after the last step, where the next rollout begins
