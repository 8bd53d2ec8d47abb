"""The configuration of a run, made of the options of its parts.

``configure("lpo", env="lpo/SparseHopper-v0", beta=2.0)`` starts from a row of the table and a
preset, and sets options by their short names. These are the names of the flags of the command line.
The JSON of a configuration is nested like the object.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import annotated_types as at
import pydantic

from lpo import algorithms, elsewhere, files
from lpo.bonus import RND, BonusPart, EpisodePart, ScaleOptions, Weighing
from lpo.envs.make import observes_grid
from lpo.envs.task import DEFAULT_ENV, TaskOptions
from lpo.errors import LPOError, named, nearest
from lpo.math.features import FeatureOptions
from lpo.math.ppo import PPOOptions
from lpo.network import Auto, NetworkPart
from lpo.options import (
    Axis,
    Count,
    HostOnly,
    Option,
    Part,
    PositiveInt,
    Short,
    as_whole,
    bare,
    fields_of,
    in_words,
    is_options,
    is_ours,
    kept,
    options,
    put_in,
    with_tracers,
    wrong_value,
)
from lpo.start import Reset, StartPart
from lpo.switch import Growth, SwitchPart

FORMAT = 2
CHOICES: dict[str, type[Part]] = {  # parts that are chosen by name
    "bonus": BonusPart,
    "switch": SwitchPart,
    "start": StartPart,
    "features": FeatureOptions,
    "scale": ScaleOptions,
    "episode": EpisodePart,
    "weighing": Weighing,
    "network": NetworkPart,
}


@options
class EvaluationOptions:
    """Evaluations during training, on separate environments."""

    every: Annotated[Count, Short("eval_every")] = 10_000
    """Environment steps between evaluations (0: none)."""
    episodes: Annotated[PositiveInt, Short("eval_episodes")] = 5
    """Episodes of an evaluation, stepped as one batch."""
    deterministic: Annotated[bool, Short("eval_deterministic")] = True
    """Take the mode of the policy in evaluations instead of sampling actions."""
    max_steps: Annotated[PositiveInt, Short("eval_max_steps")] = 10_000
    """Largest number of steps of an episode in evaluations, if there is no shorter time limit."""


@options
class CheckpointOptions:
    """Checkpoints of the run directory."""

    every: Annotated[PositiveInt, Short("checkpoint_every")] = 20_000
    """Environment steps between checkpoints (the end always gets one). On a device, where the state
    of all runs is saved together, five times as many lie between two."""
    keep: Annotated[HostOnly[PositiveInt], Short("keep_checkpoints")] = 3
    """Number of latest checkpoints to keep; the best by evaluation is kept too."""


LoggerNames = Annotated[
    tuple[Literal["tensorboard", "wandb", "mlflow"], ...],
    pydantic.BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
]


@options
class LogOptions:
    """Loggers of the run directory, beside its own metrics.jsonl."""

    loggers: HostOnly[LoggerNames] = ("tensorboard",)
    """Where metrics go as well: tensorboard, wandb, mlflow. Without a value: nowhere else."""


Seed = Annotated[int, at.Ge(0), at.Le(2**32 - 1)]


@options
class Config:
    """Everything that decides a run."""

    algo: Annotated[str, pydantic.BeforeValidator(algorithms.row_name)] = "lpo"
    """Algorithm: a row of `lpo list`, from which the configuration starts."""
    steps: PositiveInt = 300_000
    """Environment steps of the whole run, all environments together."""
    seed: Axis[Seed] = 0
    """Seed of every random stream of the run."""
    task: TaskOptions = TaskOptions()
    ppo: PPOOptions = PPOOptions()
    network: NetworkPart = Auto()
    evaluation: EvaluationOptions = EvaluationOptions()
    checkpoints: CheckpointOptions = CheckpointOptions()
    logs: LogOptions = LogOptions()
    bonus: BonusPart = RND()
    switch: SwitchPart = Growth()
    start: StartPart = Reset()

    def __post_init__(self) -> None:
        algorithms.get(self.algo)
        rollout = self.switch.rollout
        if self.task.num_envs > rollout:
            raise LPOError(
                f"A rollout of {rollout} steps is too short for {self.task.num_envs} environments; "
                f"lower {named('num_envs')} or raise {named('rollout')}."
            )
        if self.ppo.batch_size > rollout:
            raise LPOError(
                f"A minibatch of {self.ppo.batch_size} is larger than a rollout of {rollout} "
                f"steps; lower {named('batch_size')} or raise {named('rollout')}."
            )
        if self.ppo.batch_size == 1 and self.ppo.normalize_advantage:
            raise LPOError(
                f"A minibatch of 1 has no spread by which advantages could be normalised; raise "
                f"{named('batch_size')} to at least 2, or switch {named('normalize_advantage')} "
                "off."
            )
        for part in (self.bonus, self.switch, self.start, self.network):
            part.check(self)


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
            if isinstance(value, Part):
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
    values = dict(values)
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


def _is_whole(name: str, value: Any) -> bool:
    return name in fields_of(Config) and is_options(value)


def axes_of(c: Config) -> dict[str, Leaf]:
    """Returns the options that may differ between the runs of one compiled program."""
    return {leaf.short: leaf for leaf in leaves(c) if leaf.option.axis}


def host_only(c: Config) -> dict[str, Leaf]:
    """Returns the options that runs on a device do not have."""
    return {leaf.short: leaf for leaf in leaves(c) if leaf.option.host_only}


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
    if not isinstance(new, str | base):
        raise LPOError(
            f"{named(name)} is {new!r}, but must be {in_words(base)}; pass one of these names, "
            "or its options object."
        )
    return replaced(c, {path: put_in(old, new) for path, old in places})


def without_part(c: Config, name: str) -> str:
    """Returns the sentence for a part that ``c`` has no place for."""
    for slot in CHOICES:
        for cls in usual_first(slot) if hasattr(c, slot) else ():
            option = fields_of(cls).get(name)
            if option is not None and isinstance(option.default, CHOICES[name]):
                return (
                    f"{named(name)} has no effect on {c.algo} with {slot} "
                    f"{getattr(c, slot).kind!r}; leave it out, or choose {named(slot)} {cls.kind}."
                )
    return f"{named(name)} has no effect on {c.algo}, whose parts have no {name}; leave it out."


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
                return (
                    f"{named(name)} has no effect on {c.algo} with {slot} "
                    f"{getattr(c, slot).kind!r}; leave it out, or choose {named(slot)} {cls.kind}."
                )
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


class Preset(NamedTuple):
    summary: str
    values: dict[str, Any]
    row: str = algorithms.DEFAULT  # where none is named


# The paper's values per environment (App. G); everything else is in the defaults of the parts.
ENV_VALUES: dict[str, dict[str, Any]] = {
    "lpo/SparseHopper-v0": {"batch_size": 32},
    "lpo/SparseWalker2d-v0": {"batch_size": 16},
    "lpo/SparseHalfCheetah-v0": {"batch_size": 16},
}

# Named values to start from. Without one a row has its own numbers: those of the paper's table, and
# of `algorithms.DEFAULT` those that the search found.
PRESETS = {
    "paper": Preset(
        "the paper's table, batch size by environment; of lpo if no row is named", {}, "lpo"
    ),
    "finite": Preset(
        "tables of few states, one-hot: found for locks, see experiments/components; of pcpg if no "
        "row is named",
        {
            "rollout": 4096,
            "batch_size": 128,
            "epochs": 4,
            "learning_rate": 1e-3,
            "normalize_obs": False,
            "alpha": 1.0,
            "beta": 10.0,
            "gamma_int": 0.99,
            "intrinsic_ends": "ends",
            "bonus_shape": "raw",
            "features": "product",
            "cover_weights": "logdet",
            "rollin_length": "uniform",
            "first_uniform": 0.5,
        },
        "pcpg",
    ),
    "sb3": Preset(
        "stable-baselines3's PPO defaults: one environment, no observation normalisation",
        {
            "num_envs": 1,
            "normalize_obs": False,
            "periodic": (),
            "rollout": 2048,
            "learning_rate": 3e-4,
            "kl_target": 0.0,
            "batch_size": 64,
            "epochs": 10,
            "gamma_ext": 0.99,
            "gae_lambda": 0.95,
            "value_lambda": 0.95,
            "clip": 0.2,
            "value_coef": 0.5,
            "entropy_coef": 0.0,
            "max_grad_norm": 0.5,
            "adam_eps": 1e-5,
            "normalize_advantage": True,
            "advantage_floor": 0.0,
            "hidden": (64, 64),
            "log_std_init": 0.0,
            "log_std_min": -20.0,
            "value_gain": 1.0,
        },
    ),
    "grid": Preset(
        "what the default is where observations are grids of codes, for a task that flattens them",
        {},
    ),
    "gpu": Preset(
        "one big run on a GPU: 4,096 environments, large minibatches (with --device gpu)",
        {
            "num_envs": 4096,
            "rollout": 65_536,
            "batch_size": 4096,
            "epochs": 8,
            "learning_rate": 3e-4,
            "predictor_batch_size": 4096,
            "predictor_learning_rate": 3e-4,
            "steps": 50_000_000,
            "eval_every": 2_000_000,
            "checkpoint_every": 10_000_000,
        },
    ),
}


def configure(
    algo: str | None = None,
    *,
    env: str = DEFAULT_ENV,
    preset: str | None = None,
    grids: bool | None = None,
    **values: Any,
) -> Config:
    """Returns the configuration of a row, a preset and options by their short names.

    ``grids``: whether observations are grids of codes, for which the default row has other numbers;
    None: as the environment ``env`` says.
    """
    if preset is not None and preset not in PRESETS:
        raise LPOError(f"No preset is called {preset!r}; choose one of {', '.join(PRESETS)}.")
    wanted = PRESETS[preset] if preset is not None else Preset("", {})
    algo = algorithms.row_name(algo or wanted.row)
    row = algorithms.get(algo)
    if row.grids is not None:
        if grids is None:
            grids = observes_grid(env, values.get("env_kwargs"), values.get("wrapper"))
        row = row.grids if grids or preset == "grid" else row
    if row.values and wanted.row != algorithms.DEFAULT:
        raise LPOError(
            f"{algo} has numbers of its own; leave {named('preset')} {preset} out, or choose "
            f"{named('algo')} {wanted.row}."
        )
    base = Config(algo=algo, bonus=row.bonus, switch=row.switch, start=row.start)
    papers = ENV_VALUES.get(env, {}) if isinstance(env, str) and not row.values else {}
    names = {leaf.short for leaf in leaves(base)} | set(choices_of(base))
    chosen = {k: v for k, v in wanted.values.items() if k in names}  # a row has not all of them
    c = with_options(base, {**papers, **row.values, **chosen, "env": env})
    return with_options(c, values)


def as_row(c: Config, algo: str) -> Config:
    """Returns the configuration of another row, with the options of ``c`` that were set.

    Options that the row does not have are left out.
    """
    new = configure(algo, env=c.task.env)
    usual, names = flat(configure(c.algo, env=c.task.env)), {leaf.short for leaf in leaves(new)}
    kept = {k: v for k, v in flat(c).items() if k in names - {"algo"} and v != usual.get(k)}
    return with_options(new, kept)


def to_dict(c: Config) -> dict[str, Any]:
    return {"format": FORMAT, **_nested(c)}


def _nested(part: Any) -> dict[str, Any]:
    kind = {"kind": part.kind} if isinstance(part, Part) else {}
    values = {name: getattr(part, name) for name in fields_of(type(part))}
    return kind | {k: _nested(v) if is_options(v) else v for k, v in values.items()}


def to_json(c: Config) -> str:
    return json.dumps(to_dict(c), indent=2) + "\n"


def from_json(text: str | bytes, source: str) -> Config:
    """Returns the configuration in ``text``. Raises LPOError, which names ``source``."""
    try:
        values = files.parse_json(text)
    except ValueError as error:
        raise LPOError(
            f"{source} is not a configuration ({error}); pass the config.json of a run."
        ) from error
    return from_dict(values, source)


def from_dict(values: Any, source: str) -> Config:
    """Returns the configuration in a JSON object. Raises LPOError for wrong names and values."""
    if not isinstance(values, dict):
        raise LPOError(f"{source} is not a configuration; pass the config.json of a run.")
    if values.get("format") != FORMAT:
        raise LPOError(
            f"{source} is a configuration of format {values.get('format')!r}, and this version of "
            f"lpo reads format {FORMAT}; read it with the version that wrote it."
        )
    try:
        return _built(Config, {k: v for k, v in values.items() if k != "format"})
    except LPOError as error:
        raise LPOError(f"{source}: {error}") from None


def for_acting(values: Any, source: str) -> Config:
    """Returns the configuration in a JSON object, as far as acting needs it.

    A bonus, switch or start that no installed package has is another one there.
    """
    without = dict(values) if isinstance(values, dict) else values
    for slot in ("bonus", "switch", "start"):
        part = without.get(slot) if isinstance(without, dict) else None
        kind = part.get("kind") if isinstance(part, dict) else None
        if isinstance(part, dict) and isinstance(kind, str) and not CHOICES[slot].kinds.has(kind):
            without[slot] = {"kind": SIMPLEST[slot]} | {
                name: part[name] for name in ("rollout",) if slot == "switch" and name in part
            }
    return from_dict(without, source)


SIMPLEST = {"bonus": "none", "switch": "every", "start": "reset"}

# Options that were removed, with the value at which they did nothing.
REMOVED = {"learning_rate_end": 1.0, "fading": "time"}


def renamed(name: str, value: Any) -> tuple[str, Any]:
    """Returns an option of a file under the name that it has now, with the value in its words."""
    new = {"episodic": "ends", "intrinsic_episodic": "intrinsic_ends"}.get(name)
    if new is None or not isinstance(value, bool):
        return name, value
    return new, "ends" if value else "across"


def _built(cls: type, values: Any) -> Any:
    """Returns the object of a class from nested dictionaries."""
    if not isinstance(values, dict):
        raise LPOError(f"{values!r} is not a table of options; correct the file.")
    made = {}
    for written, stated in values.items():
        name, value = renamed(written, stated)
        option = fields_of(cls).get(name)
        if option is None and name in REMOVED:
            check_removed(name, value)
            continue
        if option is None:
            raise LPOError(f"There is no option {name!r}; {nearest(str(name), fields_of(cls))}")
        plain = bare(option.hint)
        if isinstance(plain, type) and issubclass(plain, Part):
            made[name] = _built_part(option, value)
        elif is_options(option.default):
            made[name] = _built(plain, value)
        else:
            made[name] = value
    return cls(**made)


def check_removed(name: str, value: Any) -> None:
    """Raises LPOError where a file gives a removed option a value that did something."""
    if value != REMOVED[name]:
        raise LPOError(
            f"The option {name!r} was removed, and the file has {value!r} for it; train a new run "
            "without it."
        )


def _built_part(option: Option, value: Any) -> Any:
    if isinstance(value, dict) and option.field == "network":
        value = {"kind": option.default.kind} | value  # a file of before networks had kinds
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise LPOError(wrong_value(option, value))
    cls = bare(option.hint).kinds.get(value["kind"])
    return _built(cls, {k: v for k, v in value.items() if k != "kind"})


def read(path: Path) -> Config:
    """Returns the configuration in a file."""
    try:
        return from_json(files.read_text(path), str(path))
    except (OSError, ValueError) as error:
        raise LPOError(f"Cannot read {path} ({error}); pass the config.json of a run.") from error
