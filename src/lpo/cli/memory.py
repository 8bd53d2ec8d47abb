"""Command line: the packages and files that a user named for a run, remembered for later commands.

They are remembered in the user's own folder, by the path of the run, and never in the run itself: a
stranger's run names nothing. A package is imported again only from the file where it was.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from lpo import files
from lpo.envs.registry import NAMED, import_package
from lpo.runs.checkpoint import write_atomically

MOST = 2000  # runs; the oldest are forgotten
Homes = dict[str, str]  # modules, and the file of each


def place() -> Path:
    """Returns the file of this user."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "lpo" / "imports.json"


def read() -> dict[str, Homes]:
    """Returns what is remembered, by the paths of runs; nothing where the file is damaged."""
    with contextlib.suppress(OSError, ValueError):
        found = files.parse_json(files.read_bytes(place()))
        if isinstance(found, dict):
            return {path: homes for path, homes in found.items() if sound(homes)}
    return {}


def sound(homes: object) -> bool:
    if not isinstance(homes, Mapping):
        return False
    return all(isinstance(x, str) for pair in homes.items() for x in pair)


def remember(run: Path) -> None:
    """Keeps what was named in this process for the run or sweep in ``run``."""
    modules = {name: getattr(sys.modules.get(name), "__file__", None) for name in sorted(NAMED)}
    homes = {name: str(Path(file).resolve()) for name, file in modules.items() if file}
    known = read()
    path = str(run.resolve())
    if known.get(path, {}) == homes:
        return
    known.pop(path, None)
    known |= {path: homes} if homes else {}
    text = json.dumps(dict(list(known.items())[-MOST:]), indent=1)
    with contextlib.suppress(OSError):  # without a folder of one's own nothing is remembered
        place().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place(), text.encode())


def recall(words: Iterable[str]) -> None:
    """Imports what was named for the runs among the arguments of a command."""
    known = read()
    for word in words if known else ():
        with contextlib.suppress(ValueError, OSError):  # of a word that is no path
            path = Path(word).resolve()
            for home in (path, *path.parents[:2]):
                for name, file in known.get(str(home), {}).items():
                    imported_again(name, Path(file))


def imported_again(name: str, file: Path) -> None:
    """Imports a module if it is still the one in ``file``."""
    if name in sys.modules or not file.is_file():
        return
    if file.stem == name:
        import_package(str(file))
        return
    found = importlib.util.find_spec(name.partition(".")[0])  # which runs nothing
    if found is None or found.origin is None:
        return
    if Path(found.origin).resolve().parent in file.parents:
        import_package(name)
