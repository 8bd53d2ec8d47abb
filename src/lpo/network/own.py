"""Networks: one of the user's own, as functions or as a module of Flax or Equinox.

    Agent(env, network=(init, apply))   # init(key, spec) -> parameters; apply(parameters, obs)
    Agent(env, network=module)          # of flax.linen, or of Equinox
    Agent(env, network=make)            # make(key) -> a module of Equinox

``obs`` is a batch: one array, or a dict of them by path; vectors come normalised. The result is
[batch, features]. Files keep the name alone, so the network is passed again when they are loaded.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from lpo.errors import LPOError
from lpo.network.base import Network, NetworkPart, feed_forward
from lpo.options import Short, options
from lpo.types import Obs, ObsSpec

Functions = tuple[Callable[[Array, ObsSpec], Any], Callable[[Any, Obs], Array]]
_KNOWN: dict[str, Any] = {}  # what users passed, by name


@NetworkPart.kinds.add
@options
class Own(NetworkPart):
    """A network of your own, passed from Python (Agent's argument ``network``)."""

    kind: ClassVar[str] = "own"
    flat: ClassVar[bool] = False
    name: Annotated[str, Short("network_name")] = ""
    """Name of the network; files keep it, and not its code."""

    @classmethod
    def known(cls, network: Any, name: str | None = None) -> Own:
        """Returns the options of a network that a user passed; ``name`` is that of a file."""
        functions(network)  # refuses what is none
        given = name or _name_of(network)
        number, first = 2, given
        while name is None and _KNOWN.get(given, network) is not network:  # another one has it
            given, number = f"{first}-{number}", number + 1
        _KNOWN[given] = network
        return cls(name=given)

    def make(self, spec: ObsSpec) -> Network:
        if self.name not in _KNOWN:
            raise LPOError(
                f"The network is {self.name or 'one'} of your own, and files keep its name alone; "
                "pass it again as network=, to Agent, Agent.load or Policy.load."
            )
        init, apply = functions(_KNOWN[self.name])
        return feed_forward(features(self.name, init, apply, spec), of(init, spec), apply)


def of(init: Callable[..., Any], spec: ObsSpec) -> Callable[[Array], Any]:
    return lambda key: init(key, spec)


def _name_of(network: Any) -> str:
    made = network[1] if isinstance(network, tuple) else network
    made = made if hasattr(made, "__qualname__") else type(made)
    return f"{made.__module__}:{made.__qualname__}"


def features(name: str, init: Any, apply: Any, spec: ObsSpec) -> int:
    """Returns the number of features. Raises LPOError where the functions do not fit."""
    obs = spec.map(lambda leaf: jax.ShapeDtypeStruct((2, *leaf.shape), jnp.dtype(leaf.dtype)))
    try:
        params = jax.eval_shape(lambda key: init(key, spec), jax.random.key(0))
        found = jax.eval_shape(apply, params, obs)
    except LPOError:
        raise
    except Exception as error:
        raise LPOError(
            f"The network {name} failed on observations of {spec.words} ({type(error).__name__}: "
            f"{error}); correct it."
        ) from error
    shape = getattr(found, "shape", None)
    if shape is None or len(shape) != 2 or shape[0] != 2:
        raise LPOError(
            f"The network {name} made {shape} of two observations; return an array [batch, "
            "features]."
        )
    return int(shape[1])


def functions(network: Any) -> Functions:
    """Returns (init, apply) of what a user passed."""
    if isinstance(network, tuple) and len(network) == 2 and all(map(callable, network)):
        return network  # type: ignore[return-value]
    if hasattr(network, "init") and hasattr(network, "apply"):
        return of_flax(network)
    if _of_equinox(network):
        return of_equinox(lambda key: network)
    if callable(network):
        return of_equinox(network)
    raise LPOError(
        f"network is {network!r}; pass a name, a pair of functions (init, apply), a module of Flax "
        "or Equinox, or a function of a key that makes one of Equinox."
    )


def of_flax(module: Any) -> Functions:
    """Returns the functions of a module of flax.linen."""

    def init(key: Array, spec: ObsSpec) -> Any:
        return module.init(key, spec.map(lambda leaf: jnp.zeros((1, *leaf.shape), leaf.dtype)))

    return init, module.apply


def _of_equinox(network: Any) -> bool:
    return any(base.__module__.startswith("equinox") for base in type(network).__mro__)


def of_equinox(make: Callable[[Array], Any]) -> Functions:
    """Returns the functions of a module of Equinox, which reads one observation at a time.

    A module that was made already begins with its own weights, whatever the seed.
    """

    def parts(key: Array) -> tuple[Any, Any]:
        made = make(key)
        if not _of_equinox(made):
            raise LPOError(f"The network is made as {made!r}; return a module of Equinox from it.")
        equinox = importlib.import_module("equinox")
        return equinox.partition(made, equinox.is_inexact_array)

    def init(key: Array, spec: ObsSpec) -> Any:
        return jax.tree.leaves(parts(key)[0])

    def apply(params: Any, obs: Obs) -> Array:
        equinox = importlib.import_module("equinox")
        arrays, rest = parts(jax.random.key(0))
        arrays = jax.tree.unflatten(jax.tree.structure(arrays), params)
        return jax.vmap(equinox.combine(arrays, rest))(obs)

    return init, apply
