"""Command line: `lpo train`, with the options of the chosen row and parts, and `lpo list`."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lpo import algorithms, config, elsewhere
from lpo.cli.parser import Parser, add_option, flag, from_text, unknown_flags
from lpo.config import CHOICES, PRESETS, Config, Leaf, choices_of, leaves
from lpo.envs.registry import import_package
from lpo.envs.task import DEFAULT_ENV
from lpo.errors import LPOError
from lpo.network import sight
from lpo.options import PositiveInt, fields_of, options
from lpo.platform import device_here

FIRST = "the five to begin with"
MATTER = ("env", "steps", "seed", "out", "bonus")
OTHERS = ", ".join(map(flag, ("algo", *CHOICES)))
SUMMARY = f"""Train an agent. Without arguments: the default agent on SparseHopper, about a minute.
Options depend on the algorithm and its parts. To see the options of other parts, name the parts in
front of --help (flags: {OTHERS}). --help --all also shows options that few have a reason to set."""
ALL = "--all"


@options
class RunOptions:
    """Where a run is written, and the values it starts from."""

    preset: str | None = None
    """Named set of option values to start from (see `lpo list`; default: those of --algo)."""
    config: Path | None = None
    """Start from the config.json of a run. Other flags override its values."""
    out: Path | None = None
    """Directory of the new run (default: runs/ALGO-ENV-sSEED-NNN)."""
    quiet: bool = False
    """Show no progress."""
    device: Literal["host", "gpu", "cpu"] = "host"
    """host: one run on a CPU core. gpu or cpu: many runs as one compiled program."""
    seeds: PositiveInt | None = None
    """With --device: number of runs; their seeds count up from --seed."""


class Command(NamedTuple):
    """The arguments of `lpo train`."""

    config: Config
    run: RunOptions


def read_command(arguments: Sequence[str]) -> Command:
    """Returns the configuration that the flags of `lpo train` describe, and where it is written."""
    arguments = [under_new_name(word) for word in arguments]
    chosen, _ = choosing_parser().parse_known_args(list(arguments))
    if chosen.env is not None and ":" in chosen.env:
        import_package(chosen.env)  # the user names it
    if chosen.wrapper is not None:
        import_package(chosen.wrapper)
    base = base_config(chosen)
    parser = Parser("train", SUMMARY)
    everything = ALL in arguments and {"-h", "--help"} & set(arguments)
    arguments = [word for word in arguments if word != ALL] if everything else arguments
    own = fields_of(RunOptions)
    groups: dict[str, Any] = {}
    by_short: dict[str, Leaf] = {}
    for leaf in leaves(base):
        by_short.setdefault(leaf.short, leaf)
    places = {name: ("run", option, option.default) for name, option in own.items()}
    places |= {short: (leaf.group, leaf.option, leaf.value) for short, leaf in by_short.items()}
    for name in sorted(places, key=rank):
        home, option, shown = places[name]
        group = group_of(parser, groups, FIRST if name in MATTER else home, base)
        add_option(group, option, name, shown, hidden=option.rare and not everything)
    add_choices(parser, groups, base)
    given, rest = parser.parse_known_args(list(arguments))
    values = vars(given)
    refuse_unknown(rest, base, by_short, own)
    run = RunOptions(**{k: from_text(own[k].hint, v) for k, v in values.items() if k in own})
    found = {
        name: from_text(by_short[name].option.hint, value)
        for name, value in values.items()
        if name in by_short and name != "algo"
    }
    return Command(config.with_options(base, found), run)


def rank(name: str) -> int:
    """Returns the place of an option in the help: those that matter come first, in their order."""
    return MATTER.index(name) if name in MATTER else len(MATTER)


def under_new_name(word: str) -> str:
    """Returns a flag of an earlier version as it is called now; any other word as it is."""
    name, equals, value = word.partition("=")
    option = name.removeprefix("--").replace("-", "_")
    return flag(config.new_name(option)) + equals + value if name.startswith("--") else word


def choosing_parser() -> Parser:
    """Returns a parser for the flags that decide which other flags exist."""
    parser = Parser("train", add_help=False)
    for name in ("algo", "env", "wrapper", "preset", "config", *CHOICES):
        parser.add_argument(flag(name), dest=name)
    return parser


def base_config(chosen: Any) -> Config:
    """Returns the configuration that the other flags change."""
    if chosen.config is not None and chosen.preset is not None:
        raise LPOError("--config and --preset were both given; leave one of them out.")
    if chosen.config is not None:
        c = config.read(Path(chosen.config))
        c = (
            c
            if algorithms.row_name(chosen.algo) in (None, c.algo)
            else config.as_row(c, chosen.algo)
        )
    else:
        env, more = chosen.env or DEFAULT_ENV, {"wrapper": chosen.wrapper} if chosen.wrapper else {}
        c = config.configure(chosen.algo, env=env, preset=chosen.preset, **more)
    for name in CHOICES:
        if (kind := getattr(chosen, name)) is not None:
            c = config.with_part(c, name, kind)
    return c


def group_of(parser: Parser, groups: dict[str, Any], name: str, c: Config) -> Any:
    """Returns the group of flags of a part; its title names the kind that was chosen."""
    if name not in groups:
        part = getattr(c, name, None)
        kind = getattr(part, "kind", "")
        title = f"{name} ({kind})" if kind else name
        summary = (type(part).__doc__ or "").strip() if part is not None else None
        groups[name] = parser.add_argument_group(title, summary)
    return groups[name]


def add_choices(parser: Parser, groups: dict[str, Any], c: Config) -> None:
    """Adds the flags that choose a part."""
    for name, places in choices_of(c).items():
        path, part = places[0]
        place = FIRST if name in MATTER else path[0]
        group_of(parser, groups, place, c).add_argument(
            flag(name),
            metavar="{" + ",".join(part.kinds.to_choose()) + "}",
            help=f"Which {part.kinds.noun} to use (default here: {part.kind})."
            + " none: no bonus, for a fair comparison." * (name == "bonus"),
        )


def refuse_unknown(
    rest: Sequence[str], c: Config, by_short: dict[str, Leaf], own: dict[str, Any]
) -> None:
    """Raises LPOError for a flag that the chosen parts do not have."""
    first = next((word for word in rest if word.startswith("--")), None)
    if first == ALL:
        raise LPOError("--all belongs to --help; add --help, or leave it out.")
    if first is not None:
        known = {**by_short, **own}
        name = first.split("=")[0].removeprefix("--").replace("-", "_")
        words = config.unknown_option(c, name, known)
        if "has no effect" in words or elsewhere.answer(name):
            raise LPOError(words)
        unknown_flags([first], [*known, *CHOICES], "train")
    unknown_flags(rest, (), "train")


def train(arguments: Sequence[str]) -> None:
    command = read_command(arguments)
    if command.run.device != "host":
        return train_on_device(command)
    if command.run.seeds is not None:
        raise LPOError(
            f"--seeds is for many runs in one program; add --device {device_here()}, or use a "
            "sweep."
        )
    from lpo.cli.memory import remember
    from lpo.cli.progress import report_result, watched
    from lpo.runs.directory import free_directory, short_env
    from lpo.runs.run import start

    c = command.config
    stem = f"{c.algo}-{short_env(c.task.env)}-s{c.seed}"
    out = command.run.out or free_directory(Path("runs"), stem)
    with start(c, out) as run:
        remember(out)
        with watched(run, c.steps, command.run.quiet) as callback:
            run.advance(c.steps, callback)
        report_result(run)


def train_on_device(command: Command) -> None:
    """Trains runs that differ only in the seed, in one program and in the directory of a sweep."""
    from lpo.cli.memory import remember
    from lpo.report.doctor import examine
    from lpo.runs.directory import free_directory, short_env
    from lpo.sweep.device import sweep_on_device
    from lpo.sweep.grid import Grid, Item

    c, run = command.config, command.run
    assert run.device != "host"
    stem = f"{c.algo}-{short_env(c.task.env)}"
    root = run.out or free_directory(Path("runs"), stem)
    seeds = range(c.seed, c.seed + (run.seeds or 1))
    items = [Item(f"{stem}-s{s}", c.algo, dataclasses.replace(c, seed=s)) for s in seeds]
    remember(root)
    status = sweep_on_device(Grid(root.name, items), root, run.device, run.quiet)
    if status == 0:
        print(*examine([root]), sep="\n")
    sys.exit(status)


def task_in_words(env: str, network: str | None) -> str:
    """Returns what `lpo list --env ID` prints: what a task observes, how it acts, its network."""
    c = config.configure(None, env=env)
    c = c if network is None else config.with_part(c, "network", network)
    batch = c.task.make(1, flat=c.network.flat)
    spec, codec = batch.codec.spec, batch.codec
    batch.close()
    see = sight(c.network, spec)
    parts = ", ".join(f"{name} {size}" for name, size in spec.parts)
    hidden = ", ".join(map(str, c.network.hidden))
    body = "" if see.body.plain else f"{see.body.size} features of it, then "
    episode = getattr(getattr(c.bonus, "episode", None), "kind", "none")
    lines = {
        "task": str(batch.description["id"]),
        "observes": spec.words + (f" ({parts})" if parts else ""),
        "acts in": str(codec.raw_action_space),
        "network": f"{c.network.kind}: {body}tanh layers of {hidden} for policy and each critic",
        "bonus": c.bonus.kind + ("" if episode == "none" else f", by the episode {episode}"),
    }
    return "\n".join(f"{name:9} {text}" for name, text in lines.items())


def print_tables() -> None:
    """`lpo list`: prints algorithms, parts, environments and presets."""
    from rich.console import Console
    from rich.table import Table

    from lpo.envs import describe

    console = Console()

    def show(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
        table = Table(*head, title=title, title_justify="left")
        for row in rows:
            table.add_row(*row)
        console.print(table)

    rows = [(name, row.summary) for name, row in algorithms.ALGORITHMS.items()]
    show("Algorithms (--algo)", ("algorithm", "what it is"), rows)
    parts = [
        (flag(name), cls.kind, (cls.__doc__ or "").strip().partition("\n")[0])
        for name, base in CHOICES.items()
        for cls in base.kinds.all()
        if not cls.implied
    ]
    show("Parts that can be put into any row", ("flag", "kind", "what it is"), parts)
    envs = [
        (row["id"], row["reward"], "\n".join(f"{k}: {v}" for k, v in row["presets"].items()) or "–")
        for row in describe()
    ]
    envs.append(("any Gymnasium id", "its own", "–"))
    show("Environments (--env)", ("environment", "reward", "thresholds"), envs)
    presets = [(name, preset.summary) for name, preset in PRESETS.items()]
    show("Presets (--preset)", ("preset", "what it sets"), presets)
