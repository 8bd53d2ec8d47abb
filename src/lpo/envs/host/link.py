"""Environments: messages between a run and the processes that step its environments.

A message is one letter and some bytes. Steps carry none: their numbers are in the shared arrays.
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

HEADER = struct.Struct("<cI")  # the letter, and the number of bytes that follow
MAKE, BEGIN, STEP, REPLAY, CLOSE, DONE = b"m", b"b", b"s", b"r", b"c", b"d"


class Failure(NamedTuple):
    """What went wrong with one environment."""

    row: int  # of the batch
    first: bool  # at the reset that begins an episode
    age: int | None  # the step of a replayed episode
    words: str  # empty: a replayed episode ended earlier than the first time


def send(link: socket.socket, letter: bytes, content: bytes = b"") -> None:
    link.sendall(HEADER.pack(letter, len(content)) + content)


def receive(link: socket.socket) -> tuple[bytes, bytes]:
    """Returns the next message. Raises EOFError where the other side is gone."""
    letter, size = HEADER.unpack(_exactly(link, HEADER.size))
    return letter, _exactly(link, size) if size else b""


def _exactly(link: socket.socket, size: int) -> bytes:
    parts, left = [], size
    while left:
        try:
            part = link.recv(left)
        except TimeoutError:
            if left == size:
                raise
            continue
        except ConnectionError:
            part = b""
        if not part:
            raise EOFError
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
