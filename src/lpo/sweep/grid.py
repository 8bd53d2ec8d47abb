"""Sweeps: a grid in TOML, and its runs.

A grid is algorithms × environments × thresholds × variants × seeds. A variant is a named set of
options. A variant that names its ``algo`` is one column; any other is combined with every algorithm
in ``algos``. A variant may start from a ``preset`` of its own. An override applies to all columns
that have the option; at least one must have it.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from lpo import config, files
from lpo.algorithms import row_name
from lpo.config import CHOICES, Config, choices_of, flat, new_name, with_options, with_part
from lpo.errors import LPOError, nearest

KEYS = {
    "name": str, "algos": list, "envs": list, "seeds": (int, list), "steps": int,
    "thresholds": list, "preset": str, "overrides": dict, "variants": dict,
}  # fmt: skip
OF_THE_GRID = ("env", "seed", "steps", "threshold")  # overrides and variants may not set these
LARGEST = 20_000  # runs of a grid
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


class Item(NamedTuple):
    """One run of a sweep."""

    name: str  # of its directory
    label: str  # of its column in tables and figures: the algorithm or the variant
    config: Config
    until: int | None = None  # steps that it goes on to, where `lpo resume --steps` said so

    @property
    def goal(self) -> int:
        """Environment steps at which it is done."""
        return self.until or self.config.steps


class Grid(NamedTuple):
    name: str
    items: list[Item]


def read_grid(path: Path, device: bool = False) -> Grid:
    """Returns the grid in ``path``, whose runs are for the host or for a device.

    Raises LPOError if any of its runs has a wrong option.
    """
    try:
        values = tomllib.loads(files.read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise LPOError(f"{path} is not TOML ({error}); correct the line it names.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise LPOError(f"Cannot read {path} ({error}); pass the TOML file of a grid.") from error
    try:
        return expand(values, device)
    except LPOError as error:
        raise LPOError(f"{path}: {error}") from None


def expand(values: dict[str, Any], device: bool = False) -> Grid:
    """Returns all runs, seed by seed: a sweep that stops early has some seeds of every cell."""
    check(values)
    values = values | {"overrides": renamed(values.get("overrides", {}))}
    seeds = values["seeds"]
    seeds = range(seeds) if isinstance(seeds, int) else seeds
    columns = labels(values)
    lists = seeds, values["envs"], values.get("thresholds", [None]), columns
    if (number := math.prod(map(len, lists))) > LARGEST:
        raise LPOError(f"The grid has {number:,} runs, and {LARGEST:,} are the most; split it.")
    first, *others = seeds
    cells = [
        make_item(values, label, options, env, threshold, first, device)
        for env in values["envs"]
        for threshold in values.get("thresholds", [None])
        for label, options in columns.items()
    ]
    items = [*cells, *(reseeded(item, first, seed) for seed in others for item in cells)]
    for name in values.get("overrides", {}):
        own = [item.config for item in cells if name not in columns[item.label]]
        if all(name not in flat(c) for c in own):
            words = config.unknown_option(own[0], name, flat(own[0])) if own else "remove it."
            raise LPOError(f"overrides sets {name}, which no run of the grid reads: {words}")
    names = Counter(item.name for item in items)
    twice = next((name for name, count in names.items() if count > 1), None)
    if twice is not None:
        raise LPOError(f"The grid holds the run {twice} twice; remove one of the equal entries.")
    return Grid(values["name"], items)


def check(values: dict[str, Any]) -> None:
    for key, value in values.items():
        if key not in KEYS:
            raise LPOError(f"A grid has no {key!r}; {nearest(str(key), KEYS)}")
        if not isinstance(value, KEYS[key]) or isinstance(value, bool):
            raise LPOError(f"{key} is {value!r}; see experiments/ for how it is written.")
    variants = values.get("variants", {})
    if not all(isinstance(table, dict) for table in variants.values()):
        raise LPOError("A variant is a table of options; write it as `[variants.NAME]`.")
    needed = ["name", "envs", "seeds", "steps", *(["thresholds"] if "thresholds" in values else [])]
    needed += ["algos"] if not variants or any("algo" not in v for v in variants.values()) else []
    for key in needed:
        if not values.get(key):
            raise LPOError(f"The grid has no {key}, or it is empty; add `{key} = …`.")
    if "algos" in values and "algos" not in needed:
        raise LPOError("Every variant names its own algo, so algos is not used; remove it.")
    for key in ("algos", "envs"):
        if not all(isinstance(v, str) for v in values.get(key, [])):
            raise LPOError(f"{key} must be a list of names in quotes; correct it.")
    if isinstance(values["seeds"], int) and not 1 <= values["seeds"] <= LARGEST:
        raise LPOError(
            f"seeds is {values['seeds']}; pass how many (1 or more, at most {LARGEST:,}), or a "
            "list of them."
        )
    for name in (values["name"], *variants):
        if not NAME.fullmatch(name):
            raise LPOError(f"{name!r} is the name of a folder; use letters, digits, '-', '.', '_'.")
    check_tables({"overrides": values.get("overrides", {}), **variants})


def check_tables(tables: dict[str, dict[str, Any]]) -> None:
    for name, table in tables.items():
        for key in OF_THE_GRID if name != "overrides" else (*OF_THE_GRID, "algo"):
            if key in table:
                raise LPOError(
                    f"{name} sets {key}, which belongs to the whole grid; set "
                    f"{key.rstrip('s')}s at the top of the file."
                )


def labels(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the columns of the grid: their labels and the options they set."""
    rows: dict[str, str] = {}  # under the names in the file: the folders of the runs have them
    for algo in values.get("algos", []):
        rows.setdefault(row_name(algo), algo)
    algos = list(rows.values())
    variants = values.get("variants", {})
    if not variants:
        return {algo: {"algo": algo} for algo in algos}
    columns = {}
    for name, options in variants.items():
        if "algo" in options:
            columns[name] = renamed(options)
        for algo in () if "algo" in options else algos:
            column = name if len(algos) == 1 else f"{algo}-{name}"
            columns[column] = {"algo": algo, **renamed(options)}
    return columns


def renamed(options: dict[str, Any]) -> dict[str, Any]:
    """Returns options of an earlier grid under the names that they have now."""
    return {new_name(name): value for name, value in options.items()}


def make_item(
    values: dict[str, Any],
    label: str,
    options: dict[str, Any],
    env: str,
    threshold: Any,
    seed: int,
    device: bool,
) -> Item:
    own = {"steps": values["steps"], "seed": seed}
    if threshold is not None:
        own["threshold"] = threshold
    overrides = values.get("overrides", {})
    preset = options.get("preset", values.get("preset"))
    variant = {name: value for name, value in options.items() if name not in ("algo", "preset")}
    c = config.configure(options["algo"], env=env, preset=preset, **own)
    for name in CHOICES:
        if name in variant:
            c = with_part(c, name, variant[name])
        elif name in overrides and name in choices_of(c):
            c = with_part(c, name, overrides[name])
    reaching = {name: value for name, value in overrides.items() if name in flat(c)}
    c = with_options(c, reaching | variant)
    c = c if device else one_thread(c)
    c.task.check(device)
    parts = [label, env.split("/")[-1].split(":")[-1], str(threshold or ""), f"s{seed}"]
    return Item("-".join(part for part in parts if part), label, c)


def reseeded(item: Item, first: int, seed: int) -> Item:
    """Returns the run of another seed: all else is checked once."""
    name = item.name.removesuffix(f"s{first}") + f"s{seed}"
    return item._replace(name=name, config=with_options(item.config, {"seed": seed}))


def one_thread(c: Config) -> Config:
    """Returns ``c`` with one thread: each run has a core of its own."""
    if c.task.native and c.task.threads is None:
        return with_options(c, {"threads": 1})
    return c
