"""The exception for mistakes that a user can correct, and helpers for its messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from contextvars import ContextVar

# Set by the command line: messages then name options as flags.
SPEAKS_FLAGS: ContextVar[bool] = ContextVar("speaks_flags", default=False)


LONGEST = 600  # characters of a message on each side of a cut


class LPOError(Exception):
    """An error that the user can correct. The message says what is wrong and what to do.

    It is one line that a terminal can show, whatever a file held that it quotes.
    """

    def __init__(self, message: str):
        if len(message) > 2 * LONGEST:
            message = f"{message[:LONGEST]} […] {message[-LONGEST:]}"
        super().__init__("".join(c if c.isprintable() else " " for c in message))


def named(option: str) -> str:
    """Returns ``batch_size`` for Python and files, ``--batch-size`` on the command line."""
    return "--" + option.replace("_", "-") if SPEAKS_FLAGS.get() else option


def nearest(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """Returns a hint for an unknown name: a similar known name, else ``otherwise`` or all names."""
    known = list(known)
    near = difflib.get_close_matches(name[:60], known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return otherwise or f"choose one of {', '.join(known)}."
