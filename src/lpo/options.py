"""Options: frozen dataclasses whose types and ranges are checked when they are made.

A part (a bonus, a switch, a start, …) declares its options as one such class:

    @options
    class RND(BonusOptions):
        kind: ClassVar[str] = "rnd"
        learning_rate: Annotated[Axis[Positive], Short("predictor_learning_rate")] = 1e-4
        \"\"\"Adam's step size for the predictor.\"\"\"

The command line, the JSON files, the help texts and the tables of a report are all derived from
these fields. pydantic checks types and ranges; this module turns its errors into one sentence.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import annotated_types as at
import numpy as np
import pydantic
import pydantic.dataclasses

from lpo.errors import SPEAKS_FLAGS, LPOError, named, nearest

T = TypeVar("T")
C = TypeVar("C", bound=type)


class _AxisMark:
    """The option may differ between the runs of one compiled program."""


AXIS = _AxisMark()
Axis = Annotated[T, AXIS]


class _HostOnlyMark:
    """Runs on a device (``--device``) do not have the option: there it must keep its default."""


HOST_ONLY = _HostOnlyMark()
HostOnly = Annotated[T, HOST_ONLY]


class _IdleMark:
    """No number of a run depends on the option: it decides its speed or its files."""


IDLE = _IdleMark()
Idle = Annotated[T, IDLE]


class _RareMark:
    """Few users have a reason to set the option: only ``--help --all`` shows it."""


RARE = _RareMark()
Rare = Annotated[T, RARE]


@dataclasses.dataclass(frozen=True)
class Short:
    """The name of an option on the command line and in flat tables, if it is not the field's name.

    Two parts of a run may share a short name; one value then reaches both.
    """

    name: str


Positive = Annotated[float, at.Gt(0)]
NonNegative = Annotated[float, at.Ge(0)]
Unit = Annotated[float, at.Ge(0), at.Le(1)]
PositiveInt = Annotated[int, at.Ge(1)]
Count = Annotated[int, at.Ge(0)]
Layers = Annotated[
    tuple[PositiveInt, ...],
    at.MinLen(1),
    pydantic.BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
]
Names = Annotated[
    tuple[str, ...],
    pydantic.BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
]

_CHECKS = pydantic.ConfigDict(
    strict=True,
    extra="forbid",
    allow_inf_nan=False,
    use_attribute_docstrings=True,
    arbitrary_types_allowed=True,
)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def options(cls: type[T]) -> type[T]:
    """Makes ``cls`` a frozen, keyword-only dataclass that checks itself when it is made."""
    made: Any = pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=_CHECKS)(cls)
    check = made.__init__

    def __init__(self: Any, *args: Any, **values: Any) -> None:
        if args:
            raise LPOError(
                f"{made.__name__} got {args[0]!r} without a name; write {first_name(made)}=…."
            )
        values = {k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()}
        try:
            check(self, **values)
        except pydantic.ValidationError as error:
            raise LPOError(refusal(made, values, error)) from None
        object.__setattr__(self, GIVEN, frozenset(values))

    made.__init__ = __init__
    if issubclass(cls, Part) and "kind" in vars(cls):
        cls.kinds.define(made)
    return made


GIVEN = "_given"  # the fields that the caller named when the object was made


def first_name(cls: type) -> str:
    return next((field.name for field in dataclasses.fields(cls)), "name")


class Option(NamedTuple):
    """A field of an options class."""

    field: str
    short: str  # its name on the command line
    given_short: bool  # the class names it, so that parts may share it
    hint: Any  # its type with all annotations
    default: Any
    help: str
    axis: bool
    host_only: bool
    idle: bool
    rare: bool

    @property
    def plain(self) -> Any:
        """Its type without annotations."""
        return bare(self.hint)


@cache
def fields_of(cls: type) -> dict[str, Option]:
    """Returns the options of a class by field name."""
    hints = get_type_hints(cls, include_extras=True)
    found = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        hint = hints[field.name]
        marks = list(_marks(hint))
        short = next((mark.name for mark in marks if isinstance(mark, Short)), None)
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        found[field.name] = Option(
            field=field.name,
            short=short or field.name,
            given_short=short is not None,
            hint=hint,
            default=default,
            help=help_of(cls, field.name),
            axis=any(mark is AXIS for mark in marks),
            host_only=any(mark is HOST_ONLY for mark in marks),
            idle=any(mark is IDLE for mark in marks),
            rare=any(mark is RARE for mark in marks),
        )
    return found


def help_of(cls: type, name: str) -> str:
    """Returns the docstring below a field, in the class that declares it."""
    for base in cls.__mro__:
        field = getattr(base, "__pydantic_fields__", {}).get(name)
        if name in inspect.get_annotations(base) and field is not None:
            return " ".join((field.description or "").split())
    return ""


def _marks(hint: Any) -> Iterator[Any]:
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        yield from marks
        yield from _marks(inner)


def bare(hint: Any) -> Any:
    """Returns a type without its annotations."""
    return bare(get_args(hint)[0]) if get_origin(hint) is Annotated else hint


def is_options(value: Any) -> bool:
    """Returns whether ``value`` is an object of an options class."""
    return hasattr(type(value), "__pydantic_fields__")


def choices(hint: Any) -> list[Any]:
    """Returns the members of a union, or the type itself."""
    plain = bare(hint)
    if get_origin(plain) in (Union, types.UnionType):
        return list(get_args(plain))
    return [hint]


def refusal(cls: type, values: Mapping[str, Any], error: pydantic.ValidationError) -> str:
    """Returns one sentence that says what is wrong with ``values`` and what to do."""
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    known = fields_of(cls)
    if name not in known:
        elsewhere = getattr(cls, "elsewhere", {}).get(name)
        return f"{cls.__name__} has no option {name!r}; {elsewhere or nearest(name, known)}"
    option = known[name]
    if first["type"] == "missing":
        return f"{named(option.short)} is missing; pass {in_words(option.hint)}."
    return wrong_value(option, values.get(name))


def wrong_value(option: Option, value: Any) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "…"
    words = in_words(option.hint)
    return f"{named(option.short)} must be {words}, got {shown}."


def as_whole(hint: Any, value: Any) -> Any:
    """Returns 1e6 as 1000000 where ``hint`` takes whole numbers and no others; else ``value``."""
    kinds = [bare(member) for member in choices(hint)]
    if isinstance(value, float) and value.is_integer() and int in kinds and float not in kinds:
        return int(value)
    return value


def in_words(hint: Any) -> str:
    """Returns what an option must be, in words for a message."""
    members = [member for member in choices(hint) if member is not type(None)]
    if len(members) < len(choices(hint)) or len(members) > 1:
        words = [in_words(member) for member in members]
        words += ["left out"] if len(members) < len(choices(hint)) else []
        return " or ".join(words)
    plain, marks = bare(hint), list(_marks(hint))
    if get_origin(plain) is Literal:
        return f"one of {', '.join(map(str, get_args(plain)))}"
    if get_origin(plain) is tuple:
        filled = " with at least one entry" if any(isinstance(m, at.MinLen) for m in marks) else ""
        return f"a list{filled}, each of them {in_words(get_args(plain)[0])}"
    kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    if plain in kinds:
        even = any(isinstance(mark, at.MultipleOf) for mark in marks)
        return ("an even number" if even else kinds[plain]) + _range(marks)
    if plain is dict or get_origin(plain) is dict:
        return 'a dictionary such as {"size": 5}'
    if isinstance(plain, type) and issubclass(plain, Part):
        return f"a {plain.kinds.noun}: {', '.join(plain.kinds.names())}"
    return f"of type {getattr(plain, '__name__', plain)}"


def _range(marks: list[Any]) -> str:
    bounds = {type(mark): mark for mark in marks}
    low, above, high = bounds.get(at.Ge), bounds.get(at.Gt), bounds.get(at.Le)
    if low is not None and high is not None:
        return f" between {low.ge} and {high.le}"
    if low is not None:
        return f" of at least {low.ge}"
    if above is not None:
        return f" greater than {above.gt}"
    if high is not None:
        return f" of at most {high.le}"
    return ""


class Kinds(Generic[T]):
    """The kinds that a part can be: ours, and those of installed packages (entry points)."""

    def __init__(self, noun: str, group: str | None = None):
        self.noun, self.group = noun, group
        self.common: type | None = None  # the class whose options the kinds have in common
        self.ours: dict[str, type[T]] = {}
        self.defined: dict[str, type[T]] = {}  # in code that the user has run or imported

    def add(self, cls: C) -> C:
        """Registers a class under its ``kind``; a decorator."""
        self.ours[cls.kind] = cast(type[T], cls)
        return cls

    def define(self, cls: type) -> None:
        """Makes a class of the user's own code known by its ``kind``; a later one replaces it."""
        if not is_ours(cls):
            known, kind = self.ours.get(cls.kind), cls.kind
            if known is not None and is_ours(known):
                raise LPOError(
                    f"{cls.__name__} has the kind {kind!r}, which is a {self.noun} of lpo; give "
                    "it another one."
                )
            self.defined[kind] = cast(type[T], cls)

    def names(self) -> list[str]:
        foreign = [entry.name for entry in self._foreign()]
        return list(dict.fromkeys([*self.ours, *self.defined, *foreign]))

    def to_choose(self) -> list[str]:
        """Returns the names without those that follow from another part."""
        return [x for x in self.names() if not getattr(self.ours.get(x), "implied", False)]

    def _foreign(self) -> list[Any]:
        return list(entry_points(group=self.group)) if self.group else []

    def has(self, name: str) -> bool:
        """Returns whether there is such a kind, of lpo, of the user or of an installed package."""
        return name in self.names()

    def get(self, name: Any) -> type[T]:
        """Returns the class of a kind. Raises LPOError where no installed package has it."""
        for known in (self.defined, self.ours):
            if name in known:
                return known[name]
        entry = next((entry for entry in self._foreign() if entry.name == name), None)
        if entry is None:
            hint = nearest(str(name), self.to_choose())
            file = "add --import FILE.py" if SPEAKS_FLAGS.get() else "import the file that has it"
            raise LPOError(
                f"No {self.noun} is called {name!r}; {hint} If it is in a file of yours, {file}."
            )
        return self.load(entry)

    def load(self, entry: Any) -> type[T]:
        """Imports a part of another package. Raises LPOError where it is not an options class."""
        try:
            cls = entry.load()
        except Exception as error:
            raise LPOError(
                f"The {self.noun} {entry.name!r} of {entry.value} cannot be imported "
                f"({type(error).__name__}: {error}); repair or uninstall its package."
            ) from error
        if not hasattr(cls, "__pydantic_fields__") or getattr(cls, "kind", None) != entry.name:
            raise LPOError(
                f"The {self.noun} {entry.name!r} of {entry.value} is not an options class with "
                f"kind = {entry.name!r}; decorate it with lpo.options.options and name its kind."
            )
        self.ours[entry.name] = cls
        return cls

    def all(self) -> list[type[T]]:
        """Returns every kind that can be imported."""
        found = []
        for name in self.names():
            try:
                found.append(self.get(name))
            except LPOError:
                continue  # a broken package must not break the others
        return found


class Part:
    """Options that choose a part of a run; ``kind`` is its name."""

    kind: ClassVar[str] = ""
    kinds: ClassVar[Kinds[Any]]
    implied: ClassVar[bool] = False  # it follows from another part, so nobody chooses it
    elsewhere: ClassVar[Mapping[str, str]] = {}  # what to do for options that are not of the part

    @classmethod
    def adopt(cls, value: Any) -> Any:
        """Returns what a user passed for the part as a name or an options object, if it is one."""
        return value

    def check(self, run: Any) -> None:
        """Raises LPOError where the part does not fit the configuration ``run`` it is in."""


def is_ours(cls: type) -> bool:
    """Returns whether a class is of this package, and not of the user's code."""
    return cls.__module__.split(".")[0] == __name__.split(".")[0]


def put_in(old: Part, new: str | Part) -> Part:
    """Returns ``new`` in place of ``old``.

    It keeps the options that both kinds have: `--switch every` keeps N. An object has its own
    values of the options that were named when it was made.
    """
    if isinstance(new, Part):
        if not is_ours(type(new)) and "kind" not in vars(type(new)):
            raise LPOError(
                f"{type(new).__name__} has no kind, the name by which files know it; write in it "
                f"`kind: ClassVar[str] = {type(new).__name__.lower()!r}`."
            )
        return kept(old, new)
    cls = old.kinds.get(new)
    if isinstance(old, cls) and old.kind == new:
        return old
    return cls(**{name: getattr(old, name) for name in shared(type(old), cls)})


def shared(old: type, new: type) -> list[str]:
    """Returns the fields of ``new`` that ``old`` has too, as the same option."""
    mine, theirs = fields_of(new), fields_of(old)
    return [name for name in mine if name in theirs and mine[name].short == theirs[name].short]


def kept(old: T, new: T) -> T:
    """Returns ``new`` with the values of ``old`` where nobody named one when ``new`` was made."""
    given = getattr(new, GIVEN, frozenset())
    values: dict[str, Any] = {}
    for name in shared(type(old), type(new)):
        was, now = getattr(old, name), getattr(new, name)
        if name not in given:
            values[name] = was
        elif isinstance(now, Part):
            values[name] = put_in(was, now)
    return dataclasses.replace(cast(Any, new), **values) if values else new


def with_tracers(part: T, values: Mapping[str, Any], parts: Mapping[str, Any] | None = None) -> T:
    """Returns a copy of ``part`` that holds traced arrays in the fields of ``values``.

    For programs over many runs: nothing is checked, because a tracer has no value yet. Only
    fields that are marked as an axis are taken. ``parts`` are nested parts made in this way.
    """
    for name in values:
        if not fields_of(type(part))[name].axis:
            raise LPOError(f"{name} decides shapes or code, so it cannot be an axis; leave it out.")
    new = {**values, **(parts or {})}
    copy = object.__new__(type(part))
    for field in dataclasses.fields(part):  # type: ignore[arg-type]
        object.__setattr__(copy, field.name, new.get(field.name, getattr(part, field.name)))
    return copy
