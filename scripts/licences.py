"""List the licences of all dependencies in docs/supply-chain.md, from what is installed.

The metadata of the installed packages state them.

    pip install -e '.[dev,video,ray,report]' -c constraints.txt
    python scripts/licences.py            # writes the table
    python scripts/licences.py --check    # exits with 1 where an installed dependency is not in it

A licence is taken from License-Expression, else from the classifiers, else from License. Extras
that are not installed are left out; rows that the page has of them stay.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "supply-chain.md"
BEGIN, END = "<!-- licences -->\n", "<!-- end of licences -->\n"
ROW = re.compile(r"^\| (\S+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
SHORT = {  # of texts that stand in older metadata
    "MIT License": "MIT", "The MIT License (MIT)": "MIT", "ISC License (ISCL)": "ISC",
    "Apache Software License": "Apache-2.0", "Apache License 2.0": "Apache-2.0",
    "Apache 2.0": "Apache-2.0", "Apache License, Version 2.0": "Apache-2.0",
    "BSD License": "BSD", "BSD 3-Clause": "BSD-3-Clause", "3-Clause BSD License": "BSD-3-Clause",
    "Python Software Foundation License": "PSF-2.0", "PSF": "PSF-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
}  # fmt: skip


def licence(name: str) -> str:
    """Returns the licence that the metadata of an installed distribution states."""
    about: Any = metadata.metadata(name)
    stated = about.get("License-Expression")
    if not stated:
        kinds: list[str] = [
            c for c in about.get_all("Classifier") or [] if c.startswith("License ::")
        ]
        last: list[str] = [kind.rpartition(" :: ")[2] for kind in kinds if kind.count(" :: ") > 1]
        lines = (about.get("License") or "").strip().splitlines()
        stated = " or ".join(SHORT.get(x, x) for x in last) or (lines[0] if lines else "")
    stated = SHORT.get(stated.strip(), stated.strip())
    return " ".join(stated.replace("|", "/").split())[:60] or "not stated"


def extras(project: dict) -> dict[str, list[str]]:
    """Returns the requirements of the package and of each extra."""
    return {"": project["dependencies"], **project["optional-dependencies"]}


def closure(requirements: list[str], own: dict[str, list[str]]) -> set[str]:
    """Returns the installed distributions that requirements need, directly or not."""
    found: set[str] = set()
    todo = [(Requirement(text), "") for text in requirements]
    while todo:
        need, extra = todo.pop()
        name = canonicalize_name(need.name)
        if need.marker is not None and not need.marker.evaluate({"extra": extra}):
            continue
        if name == "lpo-rl":
            todo += [(Requirement(text), "") for e in need.extras for text in own[e]]
            continue
        try:
            inner = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        if name not in found or need.extras:
            found.add(name)
            todo += [(Requirement(text), e) for text in inner for e in ("", *need.extras)]
    return found


def collect() -> dict[str, tuple[str, str]]:
    """Returns licence and place of every installed dependency, by name."""
    own = extras(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])
    found: dict[str, tuple[str, str]] = {}
    for extra, requirements in own.items():
        for name in sorted(closure(requirements, own) - set(found)):
            found[name] = licence(name), f"extra `{extra}`" if extra else "always"
    return found


def listed() -> dict[str, tuple[str, str]]:
    """Returns the rows of the page."""
    text = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    rows = [tuple(word.strip() for word in row) for row in ROW.findall(text)]
    return {name: (kind, place) for name, kind, place in rows if name not in ("package", "---")}


def main() -> int:
    parser = argparse.ArgumentParser(description="Licences of all dependencies")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    now, before = collect(), listed()
    if options.check:
        wrong = [f"{n}: {row[0]}" for n, row in now.items() if before.get(n, ("",))[0] != row[0]]
        print("\n".join(wrong) or f"{len(now)} dependencies are listed")
        return int(bool(wrong))
    order = {"always": ""}
    rows = sorted((before | now).items(), key=lambda row: (order.get(row[1][1], row[1][1]), row[0]))
    lines = ["| package | licence | needed |", "|---|---|---|"]
    lines += [f"| {name} | {kind} | {place} |" for name, (kind, place) in rows]
    head, _, rest = PAGE.read_text().partition(BEGIN)
    tail = rest.partition(END)[2]
    PAGE.write_text(head + BEGIN + "\n".join(lines) + "\n" + END + tail)
    print(f"{PAGE.relative_to(ROOT)}: {len(rows)} dependencies")
    return 0


if __name__ == "__main__":
    sys.exit(main())
