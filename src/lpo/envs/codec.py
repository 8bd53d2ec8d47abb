"""Environments: any supported space as what the engine sees, and back.

The engine sees one flat vector, or a tree of arrays where there are images or marks of what is
allowed. It acts in three kinds of space: a flat Box, a Discrete that starts at 0, or a flat
MultiDiscrete that starts at 0. A space without such a form is refused at start.

A batch of observations is one NumPy array: of vectors, of images, or of rows with a field for each
leaf of the tree. So whoever copies, shares or saves rows need not know their form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import iterate

from lpo.envs.angles import Angles, turned, turned_space
from lpo.envs.faults import Misfit
from lpo.envs.masks import choices
from lpo.envs.onehot import one_hot
from lpo.errors import LPOError, named
from lpo.math.images import LARGEST_GRID
from lpo.types import MASK, FlatActions, Leaf, Obs, ObsSpec, vector

CODES = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class Rows(NamedTuple):
    """The shape and the type of one row of a batch of observations or actions."""

    shape: tuple[int, ...]
    dtype: np.dtype

    def empty(self, number: int) -> np.ndarray:
        """Returns room for ``number`` rows."""
        return np.empty((number, *self.shape), self.dtype)


class ObsPart(NamedTuple):
    """One leaf of a tree of observations, and where the environment has it."""

    path: str
    keys: tuple[Any, ...]
    space: spaces.Space
    leaf: Leaf

    def read(self, obs: Any) -> np.ndarray:
        """Returns the leaf of one observation; raises ``Misfit`` where it does not fit."""
        for key in self.keys:
            obs = obs[key]
        array = np.asarray(obs)
        if self.leaf.kind == "vector" and not isinstance(self.space, spaces.Box):
            array = np.asarray(spaces.flatten(self.space, obs))
        where = f" at {self.path}" if self.path else ""
        if array.size != int(np.prod(self.leaf.shape)) or (
            self.leaf.kind != "vector" and array.shape != self.leaf.shape
        ):
            raise Misfit(
                f"its observation{where} has shape {array.shape} and its space {self.leaf.shape}"
            )
        if array.dtype.kind not in "fiub":
            raise Misfit(
                f"its observation{where} is of type {array.dtype}, which is no real number"
            )
        return array.reshape(self.leaf.shape)


class Codec:
    """Translates one environment's observations and actions to those of the engine, and back.

    ``spec`` is the form of an observation, ``observation_space`` and ``action_space`` are the
    engine's spaces. ``angles`` are places of a flat observation that become (cos, sin). ``flat``
    is False where the network reads grids of codes as images.
    """

    def __init__(
        self,
        name: str,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        angles: Angles = (),
        flat: bool = True,
    ):
        self.angles, self.flat = angles, flat
        self.action_space: FlatActions = flat_action_space(name, action_space)
        self.action_shape = self.action_space.shape or ()
        self._name = name
        self.raw_observation_space = observation_space
        self.raw_action_space = action_space
        self._parts = tree_of(observation_space, flat)
        refuse_unreadable(name, observation_space, bool(self._parts))
        if self._parts:
            self._see_tree(name)
        else:
            self._see_vector(name)
        dtype = np.dtype(self.action_space.dtype)
        self.action_rows = Rows(self.action_shape, dtype)
        self._is_box = isinstance(observation_space, spaces.Box)
        vector = not self._parts and not self.angles
        self._one_hot = one_hot(list(paths_of(observation_space))) if vector else None
        self._obs_shape = observation_space.shape if self._is_box else None
        self._action_shape = action_space.shape or ()
        self._action_dtype = action_space.dtype
        self._start = _start_of(action_space)
        self._limits = _limits_of(action_space)

    def _see_vector(self, name: str) -> None:
        flat = flat_observation_space(name, self.raw_observation_space)
        self._size = flat.shape[0]
        self.observation_space: spaces.Space = turned_space(name, flat, self.angles)
        shape: Any = self.observation_space.shape
        self.spec = vector(shape[0], parts_of(self.raw_observation_space))
        self.rows = Rows(shape, np.dtype(self.observation_space.dtype))

    def _see_tree(self, name: str) -> None:
        if self.angles:
            raise LPOError(
                f"{named('angles')} names places of a vector, and {name} observes images; leave "
                "it out, or turn the angles in a wrapper."
            )
        self.spec = ObsSpec(tuple((part.path, part.leaf) for part in self._parts))
        self.observation_space = space_of(self.spec)
        types = [(path, leaf.dtype, leaf.shape) for path, leaf in self.spec.leaves]
        if self.spec.bare:
            self.rows = Rows(self._parts[0].leaf.shape, np.dtype(self._parts[0].leaf.dtype))
        else:
            self.rows = Rows((), np.dtype(types))
        self._check_masks(name)

    def _check_masks(self, name: str) -> None:
        marks = [leaf.shape[0] for _, leaf in self.spec.leaves if leaf.kind == "mask"]
        if not marks:
            return
        count = choices(self.action_space)
        if count != marks[0]:
            raise LPOError(
                f"{name} has {marks[0]} marks in its {MASK} and {count} choices of actions; give "
                "one mark for each choice of a Discrete or MultiDiscrete action space."
            )

    def observation(self, obs: Any) -> np.ndarray:
        """Returns one observation as one row; raises ``Misfit`` where it does not fit."""
        if self._parts:
            if self.spec.bare:
                return self._parts[0].read(obs)
            row = np.empty((), self.rows.dtype)
            for part in self._parts:
                row[part.path] = part.read(obs)
            return row
        if self._is_box:
            array = obs if type(obs) is np.ndarray else np.asarray(obs)
            if array.shape != self._obs_shape:
                raise Misfit(
                    f"its observation has shape {array.shape} and its space {self._obs_shape}"
                )
            if array.dtype.kind not in "fiub":
                raise Misfit(f"its observation is of type {array.dtype}, which is no real number")
            return turned(array if array.ndim == 1 else array.reshape(-1), self.angles)
        flat = np.asarray(spaces.flatten(self.raw_observation_space, obs))
        if flat.shape != (self._size,):
            raise Misfit(
                f"its observation flattens to {flat.size} numbers and its space to {self._size}"
            )
        return turned(flat, self.angles)

    def observations(self, space: spaces.Space, obs: Any, num_envs: int) -> np.ndarray:
        """Returns a vector environment's batched observation as new rows."""
        if self._one_hot is not None:
            return self._one_hot.rows(obs, num_envs, self.rows.dtype)
        rows = self.rows.empty(num_envs)
        if self._is_box:
            array = np.asarray(obs)
            if array.shape != (num_envs, *(self._obs_shape or ())):
                raise Misfit(
                    f"its observation has shape {array.shape} and its space "
                    f"{(num_envs, *(self._obs_shape or ()))}"
                )
            flat = array if self._parts else turned(array.reshape(num_envs, -1), self.angles)
            rows[:] = flat
            return rows
        for i, row in enumerate(iterate(space, obs)):
            rows[i] = self.observation(row)
        return rows

    def views(self, rows: np.ndarray) -> Obs:
        """Returns rows as the tree of arrays that they hold."""
        if self.spec.bare:
            return rows
        return {path: rows[path] for path, _ in self.spec.leaves}

    def row(self, obs: Any) -> np.ndarray:
        """Returns one observation as the engine's space has it, in the type of that space."""
        return self.observation(obs).astype(self.rows.dtype)

    def take(self, action: np.ndarray, num_envs: int) -> np.ndarray:
        """Returns a copy of a batch of flat actions in their own dtype; refuses a wrong shape."""
        expected = (num_envs, *self.action_shape)
        if np.shape(action) != expected:
            raise LPOError(
                f"{self._name} got actions of shape {np.shape(action)}; pass {expected}, "
                "one row per environment."
            )
        return np.array(action, dtype=self.action_space.dtype)

    def action(self, flat: np.ndarray) -> Any:
        """Returns one flat action, or a batch of them, in the form that the environment takes."""
        lead = flat.shape[: flat.ndim - len(self.action_shape)]
        shifted = flat if self._start is None else flat + self._start
        shaped = shifted.reshape(lead + self._action_shape)
        action = shaped.astype(self._action_dtype, copy=False)[()]
        return action if self._limits is None else np.clip(action, *self._limits)


def flat_observation_space(name: str, space: spaces.Space) -> spaces.Box:
    """Returns the flat Box of ``space``."""
    flat: Any = spaces.flatten_space(space)
    if flat.shape[0] == 0:
        raise LPOError(
            f"{name} observes {space}, which is empty; return at least one number from it."
        )
    dtype = np.result_type(flat.dtype, np.float32)
    return spaces.Box(flat.low.astype(dtype), flat.high.astype(dtype), dtype=dtype.type)


def refuse_unreadable(name: str, space: spaces.Space, tree: bool) -> None:
    """Raises with the name of a part that is neither an image nor numbers."""
    for part in leaves_of(space):
        if not isinstance(part, (spaces.Box, *CODES)):
            raise LPOError(
                f"{name} observes {part}, which has no vector form; wrap it in a "
                "gymnasium.ObservationWrapper that returns a Box."
            )
        if tree and part.shape is not None and 0 in part.shape:
            raise LPOError(f"{name} observes {part}, which is empty; leave it out.")


def paths_of(space: spaces.Space, keys: tuple[Any, ...] = ()) -> Iterator[tuple[tuple, Any]]:
    """Yields the leaves of nested Dict and Tuple spaces with the keys that lead to them."""
    inner = space.spaces if isinstance(space, spaces.Dict | spaces.Tuple) else None
    if inner is None:
        yield keys, space
        return
    pairs = inner.items() if isinstance(inner, dict) else enumerate(inner)
    for key, part in pairs:
        yield from paths_of(part, (*keys, key))


def path_of(keys: tuple[Any, ...]) -> str:
    return "/".join(map(str, keys))


def parts_of(space: spaces.Space) -> tuple[tuple[str, int], ...]:
    """Returns the names and sizes of the parts of a flat vector."""
    return tuple(
        (path_of(keys), int(spaces.flatdim(leaf))) for keys, leaf in paths_of(space) if keys
    )


def tree_of(space: spaces.Space, flat: bool) -> list[ObsPart]:
    """Returns the leaves of a space as the engine sees them; none where it sees one vector."""
    parts = [
        ObsPart(path_of(keys), keys, leaf, leaf_of(path_of(keys), leaf, flat))
        for keys, leaf in paths_of(space)
    ]
    return parts if any(part.leaf.kind != "vector" for part in parts) else []


def leaf_of(path: str, space: Any, flat: bool) -> Leaf:
    """Returns how the engine sees one leaf of a space."""
    shape: tuple[int, ...] = space.shape or ()
    if path == MASK:
        return Leaf((int(np.prod(shape)),), "int8", "mask")
    if is_image(space):
        return Leaf(shape, "uint8", "image")
    sizes = codes_of(space)
    if sizes and not flat:
        return Leaf(shape, "uint8", "grid", sizes)
    try:
        return Leaf((int(spaces.flatdim(space)),))
    except (NotImplementedError, ValueError):  # refused later, with a reason
        return Leaf((0,))


def is_image(space: spaces.Space) -> bool:
    """Returns whether a space holds frames of bytes: [H, W, C], [C, H, W] or a stack of them."""
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) in (3, 4)


def codes_of(space: spaces.Space) -> tuple[int, ...]:
    """Returns how many codes each channel of a small grid [H, W, C] has; () for any other space."""
    if not isinstance(space, spaces.MultiDiscrete) or space.nvec.ndim != 3:
        return ()
    first = space.nvec[0, 0]
    if (space.nvec != first).any() or np.any(space.start) or first.max() > 256:
        return ()
    return tuple(int(n) for n in first)


def space_of(spec: ObsSpec) -> spaces.Space:
    """Returns the engine's space of a tree of observations."""

    def one(leaf: Leaf) -> spaces.Space:
        if leaf.kind == "vector":
            return spaces.Box(-np.inf, np.inf, leaf.shape, np.float32)
        if leaf.kind == "mask":
            return spaces.MultiBinary(leaf.shape[0])
        if leaf.kind == "grid":
            return spaces.MultiDiscrete(np.tile(leaf.sizes, (*leaf.shape[:2], 1)))
        return spaces.Box(0, 255, leaf.shape, np.uint8)

    made = spec.map(one)
    return made if spec.bare else spaces.Dict(made)


def is_grid(space: spaces.Space) -> bool:
    """Returns whether ``space`` holds codes or whole numbers alone, a small image among them."""
    parts = list(leaves_of(space))
    codes = all(
        isinstance(part, CODES) or (isinstance(part, spaces.Box) and part.dtype.kind in "iub")
        for part in parts
    )
    if any(map(is_picture, parts)):
        return False
    images = [part.shape for part in parts if part.shape is not None and len(part.shape) > 1]
    return codes and any(np.prod(shape[:2]) <= LARGEST_GRID for shape in images)


def is_picture(space: spaces.Space) -> bool:
    """Returns whether a space holds images with more cells than a grid of codes has.

    The shortest axis of an image holds its channels.
    """
    sides = sorted((space.shape or ())[-3:])[1:]
    return is_image(space) and int(np.prod(sides)) > LARGEST_GRID


def flat_action_space(name: str, space: spaces.Space) -> FlatActions:
    """Returns the flat form of a supported action space; raises for any other."""
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        if np.prod(space.shape) > 0:
            dtype: Any = space.dtype.type
            return spaces.Box(space.low.reshape(-1), space.high.reshape(-1), dtype=dtype)
    elif isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n))
    elif isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec.reshape(-1))
    elif isinstance(space, spaces.MultiBinary):
        return spaces.MultiDiscrete(np.full(int(np.prod(space.shape)), 2))
    raise LPOError(
        f"{name} acts in {space}, which is not supported; wrap it in a gymnasium.ActionWrapper "
        "whose space is a floating-point Box, Discrete, MultiDiscrete or MultiBinary."
    )


def leaves_of(space: spaces.Space) -> Iterator[spaces.Space]:
    """Yields the leaves of nested Dict and Tuple spaces."""
    for _, leaf in paths_of(space):
        yield leaf


def _limits_of(space: spaces.Space) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the bounds of a Box that float32 cannot hold: policies clip to the nearest it can."""
    if not isinstance(space, spaces.Box) or space.dtype != np.float64:
        return None
    exact = all(np.array_equal(x, x.astype(np.float32)) for x in (space.low, space.high))
    return None if exact else (space.low, space.high)


def _start_of(space: spaces.Space) -> np.ndarray | None:
    """Returns what to add to a flat action that counts from 0."""
    if isinstance(space, spaces.Discrete) and int(space.start) != 0:
        return np.asarray(space.start)
    if isinstance(space, spaces.MultiDiscrete) and np.any(space.start):
        return np.asarray(space.start).reshape(-1)
    return None
