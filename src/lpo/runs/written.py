"""Runs: the options of a run as its files state them, without the classes that read them.

A report needs names and values, not objects. So the results of a part that was removed can still be
read, put into tables and compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from lpo import algorithms, files
from lpo.config import Config, renamed, upgraded
from lpo.errors import LPOError
from lpo.options import Option, Part, bare, fields_of, is_options

Value: TypeAlias = object  # what JSON can hold
Options: TypeAlias = Mapping[str, Value]  # by short names


def options_of(text: str | bytes, source: str) -> dict[str, Value]:
    """Returns the options in a configuration's JSON, and the kinds of its parts, by short names.

    An option that no class has now is called after its place, as in bonus_length. Raises LPOError,
    which names ``source``, where the text is not a configuration.
    """
    try:
        values = files.parse_json(text)
    except ValueError as error:
        raise LPOError(
            f"{source} is not a configuration ({error}); pass the config.json of a run."
        ) from error
    if not isinstance(values, dict):
        raise LPOError(f"{source} is not a configuration; pass the config.json of a run.")
    kinds: dict[str, Value] = {}
    found: dict[str, Value] = {}
    values = {k: v for k, v in upgraded(values).items() if k != "format"}
    walk(values, Config, (), kinds, found)
    row = algorithms.ALGORITHMS.get(algorithms.row_name(str(found.get("algo"))))
    for slot in ("bonus", "switch", "start"):  # files of the first format leave out the row's part
        if row is not None and found.get(slot, slot) is None:
            found[slot] = getattr(row, slot).kind
    return kinds | found


def walk(
    values: Mapping[str, Value],
    cls: type | None,
    path: tuple[str, ...],
    kinds: dict[str, Value],
    found: dict[str, Value],
) -> None:
    """Adds the options in ``values``, which ``cls`` has where it is known, to ``found``."""
    known = fields_of(cls) if cls is not None else {}
    for written, value in values.items():
        name, value = renamed(written, value)
        option, here = known.get(name), (*path, name)
        if isinstance(value, dict) and (option is None or is_part(option)):
            inner = {k: v for k, v in value.items() if k != "kind"}
            chosen = class_of(option, value.get("kind"))
            if isinstance(value.get("kind"), str) and not getattr(chosen, "implied", False):
                kinds.setdefault(name, value["kind"])
            walk(inner, chosen, here, kinds, found)
        else:
            found[short_name(option, here, found)] = value


def is_part(option: Option) -> bool:
    return is_options(option.default)


def class_of(option: Option | None, kind: Value) -> type | None:
    """Returns the class that a part's options belong to; of a kind that is gone the common one."""
    if option is None:
        return None
    plain = bare(option.hint)
    if not issubclass(plain, Part):
        return plain
    if not isinstance(kind, str):
        return None
    try:
        return plain.kinds.get(kind)
    except LPOError:
        return plain.kinds.common


def short_name(option: Option | None, path: tuple[str, ...], taken: Mapping[str, Value]) -> str:
    """Returns the name of an option; of a foreign part's one that is taken, with its part's."""
    if option is not None and (option.given_short or option.short not in taken):
        return option.short
    first, *rest = path
    return f"{first}_{rest[-1]}" if rest else first


def text(options: Options, name: str, source: str) -> str:
    """Returns an option that is a text. Raises LPOError, which names ``source``."""
    value = options.get(name)
    if not isinstance(value, str):
        raise LPOError(f"{source} has {name} {value!r}, which is no text; {REMEDY}.")
    return value


def whole(options: Options, name: str, source: str) -> int:
    """Returns an option that is a whole number. Raises LPOError, which names ``source``."""
    value = options.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise LPOError(f"{source} has {name} {value!r}, which is no whole number; {REMEDY}.")
    return value


def number(options: Options, name: str, default: float) -> float:
    """Returns an option that is a number; ``default`` where the run's parts do not have it."""
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LPOError(f"A run has {name} {value!r}, which is no number; {REMEDY}.")
    return float(value)


REMEDY = "pass a run that `lpo train` made"
