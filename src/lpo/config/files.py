"""Configuration: to JSON and back; the JSON is nested like the object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lpo import files
from lpo.config.run import CHOICES, Config
from lpo.errors import LPOError, nearest
from lpo.options import Option, Part, bare, fields_of, is_options, wrong_value

FORMAT = 3


def to_dict(c: Config) -> dict[str, Any]:
    return {"format": FORMAT, **_nested(c)}


def _nested(part: Any) -> dict[str, Any]:
    kind = {"kind": part.kind} if isinstance(part, Part) else {}
    values = {name: getattr(part, name) for name in fields_of(type(part))}
    return kind | {k: _nested(v) if is_options(v) else v for k, v in values.items()}


def to_json(c: Config) -> str:
    return json.dumps(to_dict(c), indent=2) + "\n"


def from_json(text: str | bytes, source: str) -> Config:
    """Returns the configuration in ``text``. Raises LPOError, which names ``source``."""
    try:
        values = files.parse_json(text)
    except ValueError as error:
        raise LPOError(
            f"{source} is not a configuration ({error}); pass the config.json of a run."
        ) from error
    return from_dict(values, source)


def from_dict(values: Any, source: str) -> Config:
    """Returns the configuration in a JSON object. Raises LPOError for wrong names and values."""
    if not isinstance(values, dict):
        raise LPOError(f"{source} is not a configuration; pass the config.json of a run.")
    values = upgraded(values)
    if values.get("format") != FORMAT:
        raise LPOError(
            f"{source} is a configuration of format {values.get('format')!r}, and this version of "
            f"lpo reads format {FORMAT}; read it with the version that wrote it."
        )
    try:
        return _built(Config, {k: v for k, v in values.items() if k != "format"})
    except LPOError as error:
        raise LPOError(f"{source}: {error}") from None


def for_acting(values: Any, source: str) -> Config:
    """Returns the configuration in a JSON object, as far as acting needs it.

    A bonus, switch, start or weighing that no installed package has is another one there.
    """
    without = upgraded(values) if isinstance(values, dict) else values
    for slot in SIMPLEST:
        part = without.get(slot) if isinstance(without, dict) else None
        kind = part.get("kind") if isinstance(part, dict) else None
        if isinstance(part, dict) and isinstance(kind, str) and not CHOICES[slot].kinds.has(kind):
            without[slot] = {"kind": SIMPLEST[slot]} | {
                name: part[name] for name in ("rollout",) if slot == "switch" and name in part
            }
            if slot == "bonus":
                without["weighing"] = {"kind": "none"}
    return from_dict(without, source)


SIMPLEST = {"weighing": "fixed", "bonus": "none", "switch": "every", "start": "reset"}
WEIGHTS = ("alpha", "beta")
FORMER: Mapping[str, Any] = MappingProxyType(
    {
        "algo": "lpo",
        "task": {},
        "ppo": {},
        "network": {"kind": "auto"},
        "bonus": {"kind": "rnd"},
        "switch": {"kind": "growth"},
        "start": {"kind": "reset"},
    }
)


def upgraded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the table of a file in the form of now.

    In format 2 the weights and the weighing were options of the bonus, and what a file left out was
    that of the row `lpo`.
    """
    if values.get("format") != 2:
        return dict(values)
    values = {**FORMER, **values}
    stated = values.get("bonus")
    if not isinstance(stated, dict):
        return {**values, "format": FORMAT}
    bonus, weighing = dict(stated), {"kind": "none"}
    if bonus.get("kind") != "none":
        weighing = bonus.pop("weighing", {"kind": "fixed"})
    if isinstance(weighing, dict):
        weighing = weighing | {name: bonus.pop(name) for name in WEIGHTS if name in bonus}
    return {**values, "format": FORMAT, "weighing": weighing, "bonus": bonus}


# Options that were removed, with the value at which they did nothing.
REMOVED = {"learning_rate_end": 1.0, "fading": "time"}


def renamed(name: str, value: Any) -> tuple[str, Any]:
    """Returns an option of a file under the name that it has now, with the value in its words."""
    new = {"episodic": "ends", "intrinsic_episodic": "intrinsic_ends"}.get(name)
    if new is None or not isinstance(value, bool):
        return name, value
    return new, "ends" if value else "across"


def _built(cls: type, values: Any) -> Any:
    """Returns the object of a class from nested dictionaries."""
    if not isinstance(values, dict):
        raise LPOError(f"{values!r} is not a table of options; correct the file.")
    made = {}
    for written, stated in values.items():
        name, value = renamed(written, stated)
        option = fields_of(cls).get(name)
        if option is None and name in REMOVED:
            check_removed(name, value)
            continue
        if option is None:
            raise LPOError(f"There is no option {name!r}; {nearest(str(name), fields_of(cls))}")
        plain = bare(option.hint)
        if isinstance(plain, type) and issubclass(plain, Part):
            made[name] = _built_part(option, value)
        elif is_options(option.default):
            made[name] = _built(plain, value)
        else:
            made[name] = value
    return cls(**made)


def check_removed(name: str, value: Any) -> None:
    """Raises LPOError where a file gives a removed option a value that did something."""
    if value != REMOVED[name]:
        raise LPOError(
            f"The option {name!r} was removed, and the file has {value!r} for it; train a new run "
            "without it."
        )


def _built_part(option: Option, value: Any) -> Any:
    if isinstance(value, dict) and option.field == "network":
        value = {"kind": option.default.kind} | value  # a file of before networks had kinds
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise LPOError(wrong_value(option, value))
    cls = bare(option.hint).kinds.get(value["kind"])
    return _built(cls, {k: v for k, v in value.items() if k != "kind"})


def read(path: Path) -> Config:
    """Returns the configuration in a file."""
    try:
        return from_json(files.read_text(path), str(path))
    except (OSError, ValueError) as error:
        raise LPOError(f"Cannot read {path} ({error}); pass the config.json of a run.") from error
