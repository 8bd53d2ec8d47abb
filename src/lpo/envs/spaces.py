"""Environments: spaces as JSON, so that a saved policy knows what it observes and how it acts."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from lpo.errors import LPOError

DTYPES = frozenset(
    ["bool", "float16", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
WRONG = (ArithmeticError, AssertionError, LookupError, RecursionError, TypeError, ValueError)
LARGEST = 10_000_000  # entries of a space that a file may ask for


def to_dict(space: spaces.Space) -> dict[str, Any]:
    """Returns a space of the kinds that the codec takes as JSON."""
    if isinstance(space, spaces.Dict):
        return {"kind": "dict", "spaces": {str(k): to_dict(s) for k, s in space.spaces.items()}}
    if isinstance(space, spaces.Tuple):
        return {"kind": "tuple", "spaces": [to_dict(s) for s in space.spaces]}
    if isinstance(space, spaces.Discrete):
        return {"kind": "discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return {
            "kind": "multi-discrete",
            "nvec": space.nvec.tolist(),
            "start": space.start.tolist(),
        }
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "multi-binary", "shape": list(space.shape)}
    if isinstance(space, spaces.Box):
        return {
            "kind": "box",
            "low": _bounds(space.low),
            "high": _bounds(space.high),
            "shape": list(space.shape),
            "dtype": str(space.dtype),
        }
    raise LPOError(f"{space} cannot be saved; wrap it in a space of numbers.")


def _bounds(values: np.ndarray) -> Any:
    """Returns one number where all are equal; infinity as a text, which JSON has no number for."""
    flat = [x if np.isfinite(x) else str(x) for x in values.reshape(-1).tolist()]
    return flat[0] if flat and all(x == flat[0] for x in flat) else flat


def from_dict(values: Any) -> spaces.Space:
    """Returns the space that ``to_dict`` wrote. Raises LPOError where it is none."""
    try:
        if _size(values) > LARGEST:
            raise ValueError("it is larger than any space that can be learned on")
        return _made(values)
    except (*WRONG, AttributeError) as error:
        raise LPOError(
            f"A saved space cannot be read ({type(error).__name__}: {error}); train again."
        ) from error


def _made(values: Any) -> spaces.Space:
    return _KINDS[values["kind"]](values)


def _size(values: Any) -> float:
    """Returns the entries of a space as a vector, before anything of that size is made."""
    match values["kind"]:
        case "dict":
            return sum(map(_size, values["spaces"].values()))
        case "tuple":
            return sum(map(_size, values["spaces"]))
        case "discrete":
            return float(values["n"])
        case "multi-discrete":
            return float(np.sum(np.abs(np.array(values["nvec"], float))))
        case _:
            return float(np.prod([abs(float(n)) for n in values["shape"]]))


def _box(values: dict[str, Any]) -> spaces.Box:
    shape = tuple(int(n) for n in values["shape"])
    if values["dtype"] not in DTYPES:
        raise ValueError("its type is not that of a space")
    dtype = np.dtype(values["dtype"])

    def bounds(saved: Any) -> np.ndarray:
        return np.broadcast_to(np.array(saved, float), (int(np.prod(shape)),))

    low, high = (bounds(values[name]).reshape(shape).astype(dtype) for name in ("low", "high"))
    return spaces.Box(low, high, shape, dtype.type)


_KINDS: dict[str, Any] = {
    "box": _box,
    "discrete": lambda v: spaces.Discrete(int(v["n"]), start=int(v["start"])),
    "multi-discrete": lambda v: spaces.MultiDiscrete(
        np.array(v["nvec"]), start=np.array(v["start"])
    ),
    "multi-binary": lambda v: spaces.MultiBinary([int(n) for n in v["shape"]]),
    "dict": lambda v: spaces.Dict({k: _made(s) for k, s in v["spaces"].items()}),
    "tuple": lambda v: spaces.Tuple([_made(s) for s in v["spaces"]]),
}
