"""Command line: flags that are made from option classes, and errors of one sentence.

argparse reads the flags; the option classes check the values, as they do for Python and files.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar, get_args, get_origin

from lpo.errors import LPOError, nearest
from lpo.options import Option, bare, choices, fields_of

T = TypeVar("T")


class _PositionalMark:
    """The option is given without a flag."""


POSITIONAL = _PositionalMark()
Positional = Annotated[T, POSITIONAL]


@dataclasses.dataclass(frozen=True)
class Listed:
    """The help lists these names after the text of the option."""

    names: tuple[str, ...]


IMPORTS = (
    "Every command takes --import PACKAGE or --import FILE.py, for environments, bonuses and other "
    "parts of your own."
)


class Parser(argparse.ArgumentParser):
    """An argument parser that raises LPOError instead of exiting."""

    def __init__(self, command: str, summary: str = "", **more: Any):
        super().__init__(
            prog=f"lpo {command}",
            usage=f"lpo {command} [OPTIONS]",
            description=summary,
            allow_abbrev=False,
            epilog=IMPORTS,
            formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=34),
            **more,
        )
        self.command = command

    def error(self, message: str) -> NoReturn:
        plain = message.replace("argument ", "", 1)
        raise LPOError(f"{plain}; see `lpo {self.command} --help`.")


def flag(short: str) -> str:
    return "--" + short.replace("_", "-")


def add_option(group: Any, option: Option, short: str, shown: Any, hidden: bool = False) -> None:
    """Adds the flag of an option. A flag that is not given is absent from the result."""
    text = option.help.replace("%", "%%")
    text += " Host only." if option.host_only else ""
    for mark in getattr(option.hint, "__metadata__", ()):
        text += f" One of {', '.join(mark.names)}." if isinstance(mark, Listed) else ""
    if shown is not dataclasses.MISSING and shown is not None and shown != ():
        words = " ".join(map(str, shown)) if isinstance(shown, tuple) else shown
        text += f" (default: {words})"
    text = argparse.SUPPRESS if hidden else text
    more: dict[str, Any] = {"help": text, "default": argparse.SUPPRESS, "dest": short}
    if is_positional(option):
        del more["dest"]
        many = get_origin(option.plain) is tuple
        group.add_argument(short, **more, nargs="+" if many else None, metavar=short.upper())
    elif option.plain is bool:
        group.add_argument(flag(short), **more, action=argparse.BooleanOptionalAction)
    elif get_origin(option.plain) is tuple:
        group.add_argument(flag(short), **more, nargs="*", metavar=metavar(option))
    else:
        group.add_argument(flag(short), **more, metavar=metavar(option))


def is_positional(option: Option) -> bool:
    return any(mark is POSITIONAL for mark in getattr(option.hint, "__metadata__", ()))


def metavar(option: Option) -> str:
    """Returns the placeholder of the value in the help: its choices or its type."""
    words = []
    for member in choices(option.hint):
        plain = bare(member)
        plain = bare(get_args(plain)[0]) if get_origin(plain) is tuple else plain
        if get_origin(plain) is not None and get_origin(plain) is not dict:
            words.append("{" + ",".join(map(str, get_args(plain))) + "}")
        elif plain is not type(None):
            words.append(getattr(plain, "__name__", "dict").upper())
    return "|".join(words)


def from_text(hint: Any, text: Any) -> Any:
    """Returns a text of the command line as a value of type ``hint``, or the text itself.

    The option class then refuses such a text, with the same message as in Python.
    """
    if not isinstance(text, str):
        inner = get_args(bare(hint))[0] if isinstance(text, list) else None
        return text if inner is None else tuple(from_text(inner, word) for word in text)
    plain = [bare(member) for member in choices(hint)]
    if type(None) in plain and text.lower() == "none":
        return None
    for kind, read in ((int, whole), (float, float), (Path, Path)):
        if kind in plain:
            try:
                return read(text)
            except ValueError:
                continue
    return text


def whole(text: str) -> int:
    """Returns a whole number; 2e6 and 2_000_000 are two million."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise
        return int(number)


def unknown_flags(rest: Sequence[str], known: Iterable[str], command: str) -> None:
    """Raises LPOError for the first argument that the command does not know."""
    if not rest:
        return
    first = rest[0].split("=")[0]
    if not first.startswith("--"):
        raise LPOError(
            f"The argument {rest[0]!r} belongs to no flag; see `lpo {command} --help` for all."
        )
    flags = [flag(short) for short in known]
    hint = nearest(first, flags, f"see `lpo {command} --help` for all.")
    raise LPOError(f"There is no option {first}; {hint}")


def parse(cls: type[T], command: str, arguments: Sequence[str]) -> T:
    """Returns the options of a command."""
    parser = Parser(command, (cls.__doc__ or "").strip())
    known = fields_of(cls)
    for option in known.values():
        add_option(parser, option, option.short, option.default)
    places = [option.short.upper() for option in known.values() if is_positional(option)]
    parser.usage = " ".join([parser.prog, *places, "[OPTIONS]"])
    given, rest = parser.parse_known_args(list(arguments))
    unknown_flags(rest, known, command)
    values = {name: from_text(known[name].hint, value) for name, value in vars(given).items()}
    return cls(**values)
