"""The checker of the shapes in our signatures: beartype, and the fields of NamedTuples.

``install()`` must run before ``lpo`` is imported. jaxtyping then checks every annotated call, where
a name of an axis means one length throughout the call. The fields of a NamedTuple are part of that
call when it is an argument or the result itself; a NamedTuple within another one, or in a tuple,
has names of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, wraps
from types import GenericAlias
from typing import Any, get_args, get_origin, get_type_hints

from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, install_import_hook, jaxtyped

CHECKED = ("lpo.math",)
_plain = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float


def install() -> None:
    """Checks the calls of ``CHECKED`` from their import on."""
    install_import_hook(CHECKED, f"{__name__}.checked")


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns ``function`` with its arguments and its result checked.

    jaxtyping passes an empty function with the annotations of ours, so we may change them: beartype
    is not shown NamedTuples, of which it refuses generic ones, nor Protocols of functions.
    """
    hints = {k: v for k, v in function.__annotations__.items() if _holds_tuples(v)}
    protocols = [k for k, v in function.__annotations__.items() if _is_function_protocol(v)]
    function.__annotations__.update(dict.fromkeys([*hints, *protocols], Any))
    plain = _plain(function)
    if not hints:
        return plain
    signature = inspect.signature(function)

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        result = plain(*args, **kwargs)
        values = signature.bind(*args, **kwargs).arguments
        for name, hint in hints.items():
            if name in values or name == "return":
                _check(hint, values.get(name, result), name)
        return result

    return wrapped


def _check(hint: Any, value: Any, name: str) -> None:
    """Raises TypeError where ``value`` is not a ``hint``, or one of its fields does not fit."""
    kind = get_origin(hint) or hint
    if isinstance(kind, type) and not isinstance(value, kind):
        raise TypeError(f"{name} should be a {kind.__name__} and is a {type(value).__name__}.")
    if kind is tuple:
        for part, item in _items(hint, value):
            with jaxtyped("context"):
                _check(part, item, name)
    elif _is_named_tuple(kind):
        for field, expected in _fields(kind).items():
            _check_field(expected, getattr(value, field), f"{name}.{field}")


def _check_field(expected: Any, value: Any, name: str) -> None:
    if _holds_tuples(expected):
        with jaxtyped("context"):
            _check(expected, value, name)
    elif _is_array_type(expected) and not isinstance(value, expected):
        found = f"{getattr(value, 'dtype', type(value))}{list(getattr(value, 'shape', []))}"
        raise TypeError(f"{name} should be {expected} and is {found}.")


def _is_array_type(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, AbstractArray)


def _items(hint: Any, values: Any) -> Any:
    parts = get_args(hint)
    if len(parts) == 2 and parts[1] is ...:
        return [(parts[0], value) for value in values]
    return zip(parts, values, strict=True) if parts and parts != ((),) else []


@cache
def _fields(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _is_named_tuple(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _is_function_protocol(hint: Any) -> bool:
    return getattr(hint, "_is_protocol", False) and not getattr(hint, "_is_runtime_protocol", False)


def _holds_tuples(hint: Any) -> bool:
    """Whether ``hint`` is a NamedTuple, or a tuple with one in it."""
    kind = get_origin(hint) or hint
    if kind is tuple or isinstance(hint, GenericAlias):
        return kind is tuple and any(_holds_tuples(part) for part in get_args(hint))
    return _is_named_tuple(kind)
