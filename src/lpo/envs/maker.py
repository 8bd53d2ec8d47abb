"""Environments: what makes the environments of a batch one by one, in any process.

A process that steps environments is told in words how to make them: the entry point and the
arguments of an id, or the name of a function in a module. The words are a Python literal.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
from collections.abc import Callable
from functools import reduce
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, WrapperSpec
from gymnasium.vector import VectorEnv

from lpo.envs import minigrid
from lpo.envs.masks import with_masks
from lpo.envs.registry import find_wrapper, import_package, name_of
from lpo.envs.specs import LOCOMOTION
from lpo.errors import LPOError, named


@dataclasses.dataclass(frozen=True)
class Maker:
    """Makes an environment of a specification, or by a function."""

    source: EnvSpec | Callable[[], gymnasium.Env]
    preset: str | None = None
    threshold: float | None = None
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    wrapper: str | None = None  # module:function

    def __call__(self) -> gymnasium.Env:
        """Returns a new environment; an error of Gymnasium's own maker becomes ours."""
        if isinstance(self.source, EnvSpec):
            made = from_spec(self.source, self.preset, self.threshold, self.kwargs)
        else:
            made = from_factory(self.source)
        made = made if self.wrapper is None else wrapped(made, self.wrapper)
        coded = minigrid.with_codes(made)
        return with_masks(made) if coded is made else coded

    def in_words(self) -> str | None:
        """Returns what ``read_maker`` reads in another process; None where words do not do."""
        source = self.source
        fields: dict[str, Any] = {
            name: getattr(self, name) for name in ("preset", "threshold", "kwargs", "wrapper")
        }
        if isinstance(source, EnvSpec):
            told = {f.name: getattr(source, f.name) for f in dataclasses.fields(source) if f.init}
            entry, added = source.entry_point, source.additional_wrappers
            told["entry_point"] = name = name_of(entry) if callable(entry) else entry
            told["additional_wrappers"] = [(w.name, w.entry_point, w.kwargs) for w in added]
            fields["spec"] = told
        else:
            fields["function"] = name = name_of(source)
        text = repr(fields)
        try:
            return text if name and ast.literal_eval(text) == fields else None
        except Exception:  # of values that are no literals, and of their comparison
            return None


def read_maker(text: str) -> Maker:
    """Returns the maker that ``in_words`` told of. It imports the module of a function."""
    fields = ast.literal_eval(text)
    if fields["wrapper"] is not None:
        import_package(fields["wrapper"])
    told, function = fields.pop("spec", None), fields.pop("function", None)
    if told is None:
        module, _, path = function.partition(":")
        return Maker(reduce(getattr, path.split("."), importlib.import_module(module)), **fields)
    told["additional_wrappers"] = tuple(WrapperSpec(*w) for w in told["additional_wrappers"])
    return Maker(EnvSpec(**told), **fields)


def from_spec(
    spec: EnvSpec, preset: str | None, threshold: float | None, kwargs: dict[str, Any]
) -> gymnasium.Env:
    """Returns an environment of Gymnasium's registry; any error of its maker becomes ours."""
    if spec.id in LOCOMOTION:
        LOCOMOTION[spec.id].threshold(preset, threshold)  # refuses before any model is loaded
        kwargs = {**kwargs, "preset": preset, "threshold": threshold}
    else:
        refuse_options(spec, preset, threshold, None)
    try:
        return gymnasium.make(spec, disable_env_checker=True, **kwargs)
    except LPOError:
        raise
    except Exception as error:
        raise LPOError(
            f"{spec.id} could not be made, {type(error).__name__}: {error}; install what it "
            f"needs and check env_kwargs {kwargs}."
        ) from error


def from_factory(factory: Any) -> gymnasium.Env:
    """Returns the environment of a function, or ``factory`` itself where it is one."""
    made = factory() if callable(factory) else factory
    if not isinstance(made, gymnasium.Env):
        raise LPOError(
            f"{made!r} is not an environment; pass an id, a gymnasium.Env, a function that "
            "returns one, or a gymnasium.vector.VectorEnv."
        )
    return made


def wrapped(env: gymnasium.Env, wrapper: str) -> gymnasium.Env:
    """Returns ``env`` in the wrapper of the user."""
    try:
        made = find_wrapper(wrapper)(env)
    except LPOError:
        raise
    except Exception as error:
        raise LPOError(
            f"{named('wrapper')} {wrapper} failed with {id_of(env)} ({type(error).__name__}: "
            f"{error}); correct the function."
        ) from error
    if not isinstance(made, gymnasium.Env):
        raise LPOError(
            f"{named('wrapper')} {wrapper} returned {made!r}; return an environment from it."
        )
    return made


def distinct(envs: list[gymnasium.Env]) -> list[gymnasium.Env]:
    """Returns ``envs``. Raises LPOError where one of them stands there twice."""
    if len({id(made) for made in envs}) != len(envs):
        raise LPOError(
            "The environment function returned the same environment twice; make a new one in "
            "each call."
        )
    return envs


def id_of(env: Any) -> str:
    """Returns the name that errors and figures use."""
    if isinstance(env, str):
        return env
    if isinstance(env, EnvSpec):
        return env.id
    spec = getattr(env, "spec", None)
    if spec is not None:
        return spec.id
    if isinstance(env, gymnasium.Env | VectorEnv):
        return type(env.unwrapped).__name__
    return getattr(env, "__name__", repr(env))


def refuse_options(
    env: Any, preset: str | None, threshold: float | None, env_kwargs: dict[str, Any] | None
) -> None:
    """Raises LPOError for an option that ``env`` does not have."""
    for option, value in (("preset", preset), ("threshold", threshold)):
        if value is not None:
            raise LPOError(
                f"{option}={value!r} does not apply to {id_of(env)}; leave it out, or choose one "
                f"of {', '.join(LOCOMOTION)}."
            )
    if env_kwargs:
        raise LPOError(
            f"env_kwargs {sorted(env_kwargs)} do not apply to {id_of(env)}, which exists "
            "already; pass them where it is made."
        )
