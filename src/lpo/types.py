"""Types that the packages share. This module imports nothing else of lpo.

A batch of environments is a ``BatchEnv`` and returns a ``Step``. ``Rollout`` is the interface
between simulation and learning: the code after it is the same, wherever the environments ran.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from gymnasium import spaces
from jaxtyping import Bool, Float, Shaped

# np.ndarray on the host, jax.Array in the learner. The variable has no bound, because importing
# JAX here would make ``import lpo`` slow. jaxtyping still checks the shape and kind of any array.
ArrayT = TypeVar("ArrayT")


FlatActions: TypeAlias = spaces.Box | spaces.Discrete | spaces.MultiDiscrete  # from 0 on

# One array [..., *shape], or a dict of them by their paths: {"camera": …, "arm/joints": …}.
Obs: TypeAlias = Any
MASK = "action_mask"  # the path of the choices that are allowed


@dataclass(frozen=True)
class Leaf:
    """One array of an observation."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    # grid: an image of codes, ``sizes`` of them for each channel. mask: which choices are allowed
    kind: Literal["vector", "image", "grid", "mask"] = "vector"
    sizes: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        """Returns what it is, for messages and tables."""
        if self.kind == "vector":
            return f"{self.shape[0]} numbers"
        if self.kind == "mask":
            return f"{self.shape[0]} marks of what is allowed"
        side = " × ".join(map(str, self.shape))
        return f"image {side} of {'codes' if self.kind == 'grid' else self.dtype}"


@dataclass(frozen=True)
class ObsSpec:
    """The form of an observation: its arrays by path. A bare array has the path ""."""

    leaves: tuple[tuple[str, Leaf], ...]
    parts: tuple[tuple[str, int], ...] = ()  # names and sizes of the parts of a bare vector

    @property
    def bare(self) -> bool:
        """Whether an observation is one array and no dict."""
        return len(self.leaves) == 1 and self.leaves[0][0] == ""

    @property
    def size(self) -> int | None:
        """Returns the numbers of an observation that is one vector; None for any other."""
        leaf = self.leaves[0][1]
        return leaf.shape[0] if self.bare and leaf.kind == "vector" else None

    @property
    def words(self) -> str:
        """Returns what is observed, for messages and tables."""
        if self.bare:
            return self.leaves[0][1].words
        return ", ".join(f"{path}: {leaf.words}" for path, leaf in self.leaves)

    def map(self, f: Callable[..., Any], *trees: Obs) -> Obs:
        """Returns the tree of ``f(leaf, array of each tree)``."""
        if self.bare:
            return f(self.leaves[0][1], *trees)
        return {path: f(leaf, *(tree[path] for tree in trees)) for path, leaf in self.leaves}

    @property
    def seen(self) -> tuple[ObsSpec, Callable[[Obs], Obs]]:
        """Returns the form without the mask, which networks do not read, and what takes it out."""
        return self.only([path for path, leaf in self.leaves if leaf.kind != "mask"])

    def only(self, paths: list[str]) -> tuple[ObsSpec, Callable[[Obs], Obs]]:
        """Returns the form of these leaves, and what takes them out. One alone becomes bare."""
        kept = tuple((path, leaf) for path, leaf in self.leaves if path in paths)
        if len(kept) == len(self.leaves):
            return self, lambda obs: obs
        if len(kept) == 1:
            path = kept[0][0]
            return ObsSpec((("", kept[0][1]),)), lambda obs: obs[path]
        return ObsSpec(kept), lambda obs: {path: obs[path] for path, _ in kept}

    def cast(self, obs: Obs) -> Obs:
        """Returns observations of an environment in the types of the leaves."""
        return self.map(lambda leaf, x: x.astype(leaf.dtype), obs)

    def empty(self, *lead: int) -> Obs:
        """Returns zeros for observations [*lead]."""
        return self.map(lambda leaf: np.zeros((*lead, *leaf.shape), leaf.dtype))


def vector(size: int, parts: tuple[tuple[str, int], ...] = ()) -> ObsSpec:
    """Returns the form of one vector."""
    return ObsSpec((("", Leaf((size,))),), parts)


class Step(NamedTuple):
    """One step of ``N`` environments; ``next_obs`` is the true s′, never a reset observation."""

    obs: Obs  # [N, …] what the policy sees next: s′, or s_0 of a new episode
    reward: Float[np.ndarray, " N"]  # as the environment gave it
    terminated: Bool[np.ndarray, " N"]  # the MDP ended
    truncated: Bool[np.ndarray, " N"]  # a time limit cut the episode
    next_obs: Obs  # [N, …] the last observation of an ended episode, else ``obs``
    valid: Bool[np.ndarray, " N"]  # False: the environment only reset itself; no transition
    # Whether the episodes that ended here succeeded, by ``info["is_success"]``; it has a meaning
    # where terminated | truncated. None: no environment of the batch reported it on this step.
    success: Bool[np.ndarray, " N"] | None = None


class SpaceCodec(Protocol):
    """Translates between a user's spaces and the flat ones that the engine sees."""

    raw_observation_space: spaces.Space[Any]  # as the user's environment declares it
    raw_action_space: spaces.Space[Any]
    observation_space: Any  # as the engine sees it
    action_space: Any  # flat
    spec: ObsSpec  # the form of an observation
    angles: tuple[int, ...]  # places of a flat observation that the policy sees as (cos, sin)

    def observation(self, obs: Any) -> np.ndarray:
        """Returns one observation of ``raw_observation_space`` as one row of a batch."""
        ...

    def views(self, rows: np.ndarray) -> Obs:
        """Returns rows as the tree of arrays that they hold."""
        ...

    def action(self, flat: np.ndarray) -> Any:
        """Returns one flat action, or a batch of them, in the form that the environment takes."""
        ...


class BatchEnv(Protocol):
    """``N`` environments that reset themselves within the step that ends an episode."""

    num_envs: int
    description: dict[str, Any]  # id, threshold, horizon, …: JSON that every run and figure prints

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """The observations of one environment: a flat vector, an image, or a Dict of them."""
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

    def reset(self, seed: int) -> Obs:
        """Starts every environment anew and returns the first observations."""
        ...

    def step(self, action: Shaped[np.ndarray, " N *A"]) -> Step:
        """Takes one step in every environment."""
        ...

    def get_state(self) -> dict[str, np.ndarray]:
        """Returns the full state: simulators, steps of the episodes, random streams."""
        ...

    def set_state(self, state: dict[str, np.ndarray]) -> Obs:
        """Restores a state from ``get_state``. Returns the current observations."""
        ...

    def close(self) -> None: ...


class Rollout(NamedTuple, Generic[ArrayT]):
    """``T`` steps of ``N`` environments, padded to a fixed ``T``; ``valid`` marks the real ones."""

    obs: Obs  # [T, N, …]
    action: Float[ArrayT, "T N A"]  # as sampled, before clipping for the environment
    reward: Float[ArrayT, "T N"]
    terminated: Bool[ArrayT, "T N"]
    truncated: Bool[ArrayT, "T N"]
    next_obs: Obs  # [T, N, …]
    valid: Bool[ArrayT, "T N"]
    start: Bool[ArrayT, "T N"]  # an episode begins with this row
    taken: Bool[ArrayT, "T N"]  # a step of the environment, also where it is not learned from
    last_obs: Obs  # [N, …] after the last step, where the next rollout begins
    memory: Any = ()  # of the policy before the first row; () where it has none
