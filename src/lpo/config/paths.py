"""Configuration: options by their short names, wherever in a configuration they stand."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from lpo import algorithms, elsewhere
from lpo.bonus import Fixed, NoWeighing
from lpo.config.run import CHOICES, Config
from lpo.errors import LPOError, named, nearest
from lpo.options import (
    Option,
    Part,
    as_whole,
    fields_of,
    in_words,
    is_options,
    is_ours,
    kept,
    put_in,
    with_tracers,
)  # fmt: skip

RENAMED = {"periodic": "angles"}  # short names of earlier grids, flags and scripts


class Leaf(NamedTuple):
    """One option of a configuration."""

    path: tuple[str, ...]  # of field names, from the configuration down
    option: Option
    short: str  # unique, or shared by parts that declare it so
    value: Any

    @property
    def group(self) -> str:
        """The part that it belongs to."""
        return self.path[0] if len(self.path) > 1 else "run"


def leaves(c: Config) -> list[Leaf]:
    """Returns all options of a configuration with their values."""
    found: list[Leaf] = []
    taken: set[str] = set()
    for path, option, value in _walk(c, ()):
        short = option.short
        if not option.given_short and short in taken:  # of a part from another package
            short = f"{path[0]}_{option.field}"
        taken.add(short)
        found.append(Leaf(path, option, short, value))
    return found


def _walk(part: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Option, Any]]:
    for option in fields_of(type(part)).values():
        value, here = getattr(part, option.field), (*path, option.field)
        if is_options(value):
            yield from _walk(value, here)
        else:
            yield here, option, value


def choices_of(c: Config) -> dict[str, list[tuple[tuple[str, ...], Part]]]:
    """Returns the parts that can be chosen by name, with the places where they stand."""
    found: dict[str, list[tuple[tuple[str, ...], Part]]] = {}

    def look(part: Any, path: tuple[str, ...]) -> None:
        for name in fields_of(type(part)):
            value = getattr(part, name)
            if isinstance(value, Part) and not value.implied:
                found.setdefault(name, []).append(((*path, name), value))
            if is_options(value):
                look(value, (*path, name))

    look(c, ())
    return found


def all_ours(c: Config) -> bool:
    """Returns whether every part is of this package, and none of the user's code."""
    parts = [part for places in choices_of(c).values() for _, part in places]
    return all(is_ours(type(part)) for part in parts)


def flat(c: Config) -> dict[str, Any]:
    """Returns all options by their short names, and the chosen parts by theirs."""
    chosen = {name: places[0][1].kind for name, places in choices_of(c).items()}
    return chosen | {leaf.short: leaf.value for leaf in leaves(c)}


def replaced(c: Config, changes: Mapping[tuple[str, ...], Any]) -> Config:
    """Returns ``c`` with the values at the given paths; every object is made, and checked, once."""

    def rebuild(part: Any, path: tuple[str, ...]) -> Any:
        values = {}
        for name in fields_of(type(part)):
            here = (*path, name)
            if here in changes:
                values[name] = changes[here]
            elif any(key[: len(here)] == here for key in changes):
                values[name] = rebuild(getattr(part, name), here)
        return dataclasses.replace(part, **values) if values else part

    return rebuild(c, ())


def with_options(c: Config, values: Mapping[str, Any]) -> Config:
    """Returns ``c`` with options set by their short names, and parts by name or as objects.

    Raises LPOError for an option that the parts of ``c`` do not have.
    """
    values = {new_name(name): value for name, value in values.items()}
    for name in CHOICES:
        if name in values:
            c = with_part(c, name, values.pop(name))
    whole = {
        (name,): kept(getattr(c, name), value)
        for name, value in values.items()
        if _is_whole(name, value)
    }
    places: dict[str, list[tuple[str, ...]]] = {}
    hints: dict[str, Any] = {}
    for leaf in leaves(c):
        places.setdefault(leaf.short, []).append(leaf.path)
        hints[leaf.short] = leaf.option.hint
    changes: dict[tuple[str, ...], Any] = dict(whole)
    for name, value in values.items():
        if (name,) in whole:
            continue
        if name not in places:
            raise LPOError(unknown_option(c, name, places))
        value = as_whole(hints[name], value)
        changes |= {path: value for path in places[name]}
    return replaced(c, changes) if changes else c


def new_name(name: str) -> str:
    """Returns the short name of an option that had another one."""
    return RENAMED.get(name, name)


def _is_whole(name: str, value: Any) -> bool:
    return name in fields_of(Config) and is_options(value)


def axes_of(c: Config) -> dict[str, Leaf]:
    """Returns the options that may differ between the runs of one compiled program."""
    return {leaf.short: leaf for leaf in leaves(c) if leaf.option.axis}


def host_only(c: Config) -> dict[str, Leaf]:
    """Returns the options that runs on a device do not have."""
    return {leaf.short: leaf for leaf in leaves(c) if leaf.option.host_only}


def idle(c: Config) -> set[str]:
    """Returns the options on which no number of a run depends."""
    return {leaf.short for leaf in leaves(c) if leaf.option.idle}


def with_axes(c: Config, values: Mapping[str, Any]) -> Config:
    """Returns ``c`` with traced values of axes, by short name; nothing is checked."""
    found = axes_of(c)
    paths = {found[name].path: value for name, value in values.items()}

    def rebuild(part: Any, path: tuple[str, ...]) -> Any:
        inner = {
            name: rebuild(getattr(part, name), (*path, name))
            for name in fields_of(type(part))
            if any(p[: len(path) + 1] == (*path, name) and len(p) > len(path) + 1 for p in paths)
        }
        own = {p[-1]: value for p, value in paths.items() if p[:-1] == path}
        return with_tracers(part, own, inner)

    return rebuild(c, ())


def with_part(c: Config, name: str, new: Any) -> Config:
    """Returns ``c`` with another bonus, switch, …, by name or as an object."""
    places = choices_of(c).get(name)
    if places is None:
        raise LPOError(without_part(c, name))
    base = CHOICES[name]
    new = base.adopt(new)
    if not isinstance(new, str | base):
        raise LPOError(
            f"{named(name)} is {new!r}, but must be {in_words(base)}; pass one of these names, "
            "or its options object."
        )
    changes: dict[tuple[str, ...], Any] = {path: put_in(old, new) for path, old in places}
    if name == "bonus" and changes["bonus",].weighed == c.weighing.implied:
        changes["weighing",] = NoWeighing() if c.bonus.weighed else Fixed()
    return replaced(c, changes)


def without_part(c: Config, name: str) -> str:
    """Returns the sentence for a part that ``c`` has no place for."""
    if hasattr(c, name):  # it is implied
        return no_effect(c, name, "bonus", usual_first("bonus")[0])
    for slot in CHOICES:
        for cls in usual_first(slot) if hasattr(c, slot) else ():
            option = fields_of(cls).get(name)
            if option is not None and isinstance(option.default, CHOICES[name]):
                return no_effect(c, name, slot, cls)
    return f"{named(name)} has no effect on {c.algo}, whose parts have no {name}; leave it out."


def no_effect(c: Config, name: str, slot: str, cls: type[Part]) -> str:
    """Returns the sentence for what only ``cls`` has, and not the part of ``c`` in its place."""
    return (
        f"{named(name)} has no effect on {c.algo} with {slot} {getattr(c, slot).kind!r}; leave it "
        f"out, or choose {named(slot)} {cls.kind}."
    )


def usual_first(slot: str) -> list[type[Part]]:
    """Returns the kinds of a part. The one of the default row comes first: it is the one to name
    where several would do."""
    usual = getattr(algorithms.get(algorithms.DEFAULT), slot, None)
    return sorted(CHOICES[slot].kinds.all(), key=lambda cls: cls is not type(usual))


def unknown_option(c: Config, name: str, known: Mapping[str, Any]) -> str:
    """Returns the sentence for an option that ``c`` does not have."""
    if (found := elsewhere.answer(name)) is not None:
        return found
    for slot in CHOICES:
        for cls in usual_first(slot):
            if name in shorts_of(cls) and hasattr(c, slot):
                if getattr(c, slot).implied:
                    slot, cls = "bonus", usual_first("bonus")[0]
                return no_effect(c, name, slot, cls)
            if name in shorts_of(cls):
                return (
                    f"{named(name)} has no effect here; leave it out, or choose parts with "
                    f"{named(slot)} {cls.kind}."
                )
    hint = nearest(name, [*known, *CHOICES], "see `lpo train --help` for all.")
    return f"There is no option {name!r}; {hint}"


def shorts_of(cls: type) -> set[str]:
    """Returns the short names of a part, those of its nested parts included."""
    names = set()
    for option in fields_of(cls).values():
        names |= shorts_of(type(option.default)) if is_options(option.default) else {option.short}
    return names
