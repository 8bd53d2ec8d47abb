"""The shapes that travel between the rooms (leaf: imports nothing of ours).

``Step`` is what a batch of environments returns, ``BatchEnv`` what the engine asks of one, and
``Rollout`` the seam between simulation and learning: everything after it is the same code whether
the environments ran on the host or on a device.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from gymnasium import spaces


class Step(NamedTuple):
    """One step of ``N`` environments; ``next_obs`` is the true s′, never a reset observation."""

    obs: np.ndarray  # [N, O] what the policy sees next: s′, or s_0 of a new episode
    reward: np.ndarray  # [N] as the environment gave it
    terminated: np.ndarray  # [N] bool: the MDP ended
    truncated: np.ndarray  # [N] bool: a time limit cut the episode
    next_obs: np.ndarray  # [N, O] the final observation where the episode ended, else ``obs``
    valid: np.ndarray  # [N] bool: False for a reset step in disguise, which nobody may learn from
    success: np.ndarray | None = None  # [N] bool, of ended episodes, where the environment says so


class BatchEnv(Protocol):
    """``N`` environments that reset themselves within the step that ends an episode."""

    num_envs: int
    observation_space: spaces.Box  # of one environment, flat: shape (O,)
    action_space: spaces.Space  # of one environment
    description: dict[str, Any]  # id, threshold, horizon, …: printed by every run and figure
    codec: Any  # translates the user's observations and actions to these flat ones and back
    resumable: bool  # whether get_state works

    def reset(self, seed: int) -> np.ndarray: ...

    def step(self, action: np.ndarray) -> Step: ...

    def get_state(self) -> dict[str, np.ndarray]:
        """Everything that decides the future: simulator, episode clocks, random streams."""
        ...

    def set_state(self, state: dict[str, np.ndarray]) -> np.ndarray:
        """Return to a state of ``get_state``; gives the current observation."""
        ...

    def close(self) -> None: ...


class Rollout(NamedTuple):
    """``T`` steps of ``N`` environments, padded to a fixed ``T``; ``valid`` marks the real ones."""

    obs: Any  # [T, N, O]
    action: Any  # [T, N, A] as sampled, before clipping for the environment
    reward: Any  # [T, N]
    terminated: Any  # [T, N]
    truncated: Any  # [T, N]
    next_obs: Any  # [T, N, O]
    valid: Any  # [T, N]
    last_obs: Any  # [N, O] the observation after the last step, where the next rollout begins
