"""Reading files that a stranger may have made: bounded in size and depth, and within their folder.

The functions raise ValueError or OSError; a reader adds what the file is and the remedy.
``check_folder`` raises LPOError itself, because it is the first look at a folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    import resource
except ImportError:  # no such limits on this system
    resource = None

from lpo.errors import LPOError

SMALL = 64 * 2**20  # bytes of a configuration, a plan or a grid
LARGE = 8 * 2**30  # bytes of a log, a checkpoint or a packed file
DEEPEST = 40  # levels of lists and tables in JSON
STATM = Path("/proc/self/statm")  # the memory of this process, in pages
WHOLE = 2**63  # whole numbers in JSON are smaller


def read_bytes(path: Path, largest: int = SMALL) -> bytes:
    """Returns the content of a file. Raises ValueError where it is larger than ``largest``."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > largest:
            raise ValueError(f"it has {size:,} bytes, and {largest:,} are the most")
        return file.read()


def read_text(path: Path, largest: int = SMALL) -> str:
    """Returns the text of a file in UTF-8. Raises ValueError where it is too large or no text."""
    return read_bytes(path, largest).decode("utf-8")


def parse_json(text: str | bytes) -> Any:
    """Returns what a text in JSON says. Raises ValueError for all that is wrong with it.

    A name that stands twice in a table is wrong, and so are very deep nesting, whole numbers that
    do not fit into 64 bits, and halves of characters, which no file can hold.
    """
    text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
    try:
        values = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    level = [values]
    for _ in range(DEEPEST):
        if any(isinstance(x, int) and not -WHOLE <= x < WHOLE for x in level):
            raise ValueError("it holds a whole number that is too large")
        tables = [x.values() if isinstance(x, dict) else x for x in level if _is_nest(x)]
        level = [x for table in tables for x in table]
    if level:
        raise ValueError("it is nested too deeply")
    check_text(text, values)
    return values


def check_text(text: str, values: Any) -> None:
    """Raises ValueError where ``values`` of JSON hold a lone surrogate, as ``\\ud800`` is."""
    if (
        "\\u" in text
        and "\\ud" in text.lower()
        and not is_text(json.dumps(values, ensure_ascii=False))
    ):
        raise ValueError("it contains an invalid Unicode character (a lone surrogate)")


def is_text(text: str) -> bool:
    """Returns whether a text can be written to a file."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_nest(x: Any) -> bool:
    return isinstance(x, dict | list)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice[:60]!r} stands twice in one table")
    return table


@contextmanager
def limited_memory(more: int) -> Iterator[None]:
    """Lets the process grow by at most ``more`` bytes, on Linux: a small file may ask for a lot."""
    if not STATM.exists() or resource is None:
        yield
        return
    now = int(STATM.read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = now + more if soft == resource.RLIM_INFINITY else min(soft, now + more)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


UNREAD = frozenset(["wandb"])  # W&B links its own logs from there


def check_folder(folder: Path, parts: Iterable[Path] | None = None) -> None:
    """Raises LPOError where something in ``folder`` leads out of it or is no ordinary file.

    ``parts`` are the files and folders in it that matter, by default all. What lies in a folder of
    another library (``UNREAD``) is not looked at, since nothing of lpo reads it.
    """
    home = folder.resolve()
    for part in (home,) if parts is None else parts:
        _check_path(part, home)
        for where, folders, files in os.walk(part):
            if Path(where).name in UNREAD and Path(where) != home:
                folders.clear()
                continue
            for name in (*folders, *files):
                _check_path(Path(where, name), home)


def _check_path(path: Path, home: Path) -> None:
    if path.is_symlink() and not path.resolve().is_relative_to(home):
        raise LPOError(
            f"{path} is a link that leads out of its folder; if you trust it, put what it leads "
            "to in its place."
        )
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise LPOError(f"{path} is not an ordinary file; delete it.")


def check_name(name: Any) -> str:
    """Returns the name of a file or folder. Raises ValueError where it could lead elsewhere."""
    if not isinstance(name, str) or name in ("", ".", "..") or len(name) > 200:
        raise ValueError(f"{str(name)[:60]!r} cannot be the name of a run")
    if any(c in "/\\:" or not c.isprintable() for c in name):
        raise ValueError(f"{name[:60]!r} cannot be the name of a run")
    return name
