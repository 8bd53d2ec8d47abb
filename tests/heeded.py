"""Which options are heeded where: a table for `docs/api/heeded.md`, and a spy that checks it.

    python -m tests.heeded > docs/api/heeded.md

A part of a run heeds an option when it reads it. The spy runs a life of every part on the host and
on a device, without compiling what learns, and records what is read outside of the rooms that only
carry options about.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from lpo.algorithms import ALGORITHMS
from lpo.cli.train import RunOptions
from lpo.config import CHOICES, Config, configure, with_part
from lpo.engine.device import GroupTrainer
from lpo.engine.host import Trainer
from lpo.envs.device import Transition, register_device
from lpo.errors import LPOError
from lpo.math.distributions import ActionSpec
from lpo.options import fields_of, is_options
from lpo.runs.group import open_group
from lpo.runs.run import start
from lpo.types import Leaf, ObsSpec

SMALL: dict[str, Any] = dict(
    env="lpo/DeepSea-v0", env_kwargs={"size": 5}, num_envs=4, rollout=64, batch_size=16, epochs=1,
    hidden=[8], steps=128, eval_every=64, eval_episodes=2, checkpoint_every=64, loggers=(),
)  # fmt: skip
CARRIES = ("lpo.config", "lpo.options", "lpo.runs.written", "dataclasses", "pydantic", "tests.")
SIDES = ("host", "device", "resume", "Python", "command")
GOES_ON = {"steps", "quiet", "device"}  # what `lpo resume` takes
BY_ANOTHER_NAME = {"quiet": "refused", "out": "refused"}  # Python: progress_bar, and save
Read = tuple[type, str]


class Entry(NamedTuple):
    """An option, and the class that has it; None for those of the command itself."""

    name: str
    owner: type | None
    field: str
    host_only: bool


def parts() -> list[type]:
    """Returns the options classes of this package: those of every run, and of every part."""
    found: dict[type, None] = {}

    def add(cls: type) -> None:
        found[cls] = None
        for option in fields_of(cls).values():
            if is_options(option.default):
                add(type(option.default))

    add(Config)
    for base in CHOICES.values():
        for cls in base.kinds.ours.values():
            if cls.__module__.startswith("lpo."):
                add(cls)
    return list(found)


def entries() -> list[Entry]:
    """Returns every option once for each class that has it."""
    own = [
        Entry(option.short, cls, name, option.host_only)
        for cls in parts()
        for name, option in fields_of(cls).items()
        if not is_options(option.default)
    ]
    return own + [Entry(name, None, name, False) for name in fields_of(RunOptions)]


def cells(entry: Entry) -> dict[str, str]:
    """Returns "heeded" or "refused" for every side."""
    mark = {True: "heeded", False: "refused"}
    host = entry.owner is not None or entry.name != "seeds"
    return {
        "host": mark[host],
        "device": mark[not entry.host_only],
        "resume": mark[entry.name in GOES_ON],
        "Python": BY_ANOTHER_NAME.get(entry.name, "heeded"),
        "command": "heeded",
    }


def page() -> str:
    rows: dict[str, dict[str, str]] = {}
    for entry in entries():
        assert rows.setdefault(entry.name, cells(entry)) == cells(entry)  # one name, one answer
    lines = [
        "# Which options are heeded where",
        "",
        "Made and checked by a test: an option is heeded, or it is refused in one sentence.",
        "*host* and *device* are runs without and with `--device`; *resume* is `lpo resume`, where",
        "all else stays as the run was made; *Python* is `Agent(…)`, whose names for `out` and",
        "`quiet` are `save` and `progress_bar`; *command* is `lpo train`.",
        "",
        f"| option | {' | '.join(SIDES)} |",
        "|---|" + "---|" * len(SIDES),
    ]
    for name in sorted(rows):
        lines.append(f"| `{name}` | {' | '.join(rows[name][side] for side in SIDES)} |")
    return "\n".join(lines) + "\n"


# -- the spy


def variants() -> Iterator[dict[str, Any]]:
    """Yields a row and a part for every row and every kind of a part."""
    for row in ALGORITHMS:
        yield {"algo": row}
    for name, base in CHOICES.items():
        for kind, cls in base.kinds.ours.items():
            if cls.__module__.startswith("lpo."):
                for row in ("default", "lpo-s", "pcpg"):
                    yield {"algo": row, name: kind}


@dataclass(frozen=True)
class Picture:
    """A device environment that observes a grey image."""

    obs = ObsSpec((("", Leaf((40, 40, 1), "uint8", "image")),))
    obs_size = 40 * 40
    action = ActionSpec(nvec=(2,), scalar=True)
    horizon = 8
    params: ClassVar[dict[str, Any]] = {}
    description: ClassVar[dict[str, Any]] = {"id": "tests/Picture-v0", "backend": "device"}

    def reset(self, key: Any, params: Any) -> tuple[Any, Any]:
        return jnp.zeros(()), jnp.zeros((40, 40, 1), jnp.uint8)

    def step(self, state: Any, action: Any, key: Any, params: Any) -> Transition:
        seen = jnp.full((40, 40, 1), 7, jnp.uint8)
        return Transition(state, seen, state, terminated=state > 0)


OWN = (lambda key, spec: (), lambda params, obs: obs)  # a network of the user's


def pictures() -> Iterator[Config]:
    """Yields runs on a device that observe images."""
    picture: Any = Picture
    register_device("tests/Picture-v0", picture)
    for kind in ("auto", "cnn"):
        given = SMALL | {"env": "tests/Picture-v0", "env_kwargs": None}
        yield configure("ppo", network=kind, **{k: v for k, v in given.items() if k != "hidden"})


def configs() -> Iterator[Config]:
    """Yields small runs that hold every kind between them, no two of them of equal parts."""
    seen: set[frozenset[type]] = set()
    met: set[type] = set()
    for given in variants():
        row, (name, kind) = given["algo"], next(reversed(given.items()))
        try:
            c = configure(row, **{k: v for k, v in SMALL.items() if k != "hidden"})
            part = OWN if (name, kind) == ("network", "own") else kind
            c = c if name == "algo" else with_part(c, name, part)
        except LPOError:
            continue  # the row has no such part
        here = frozenset(held(c))
        if here in seen or (name != "algo" and here <= met):
            continue
        seen.add(here)
        met |= here
        yield c


def held(part: Any) -> Iterator[type]:
    """Yields the classes of a configuration's parts."""
    yield type(part)
    for name in fields_of(type(part)):
        if is_options(value := getattr(part, name)):
            yield from held(value)


@contextmanager
def spied(read: set[Read]) -> Iterator[None]:
    """Records the options that are read, but for those that are only checked or carried."""
    patched: list[Any] = []

    def spy(cls: Any) -> None:
        names, plain = set(fields_of(cls)), cls.__getattribute__

        def get(self: Any, name: str) -> Any:
            if name in names:
                frame = sys._getframe(1)
                home = frame.f_globals.get("__name__", "")
                checks = frame.f_code.co_name in ("check", "__post_init__")
                if not home.startswith(CARRIES) and not checks:
                    read.add((type(self), name))
            return plain(self, name)

        cls.__getattribute__ = get
        patched.append(cls)

    for cls in parts():
        spy(cls)
    try:
        yield
    finally:
        for cls in patched:
            del cls.__getattribute__


def live(c: Config, out: Path) -> None:
    """Lives a run on the host; what learns is traced and not computed."""
    with start(c, out) as run:
        trainer: Trainer = run.trainer
        learn = trainer.learn

        def traced(state: Any, rollout: Any) -> tuple[Any, Any]:
            _, metrics = jax.eval_shape(learn, state, rollout)
            return state, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), metrics)

        trainer.learn = traced
        run.advance(c.steps)


def live_on_device(c: Config, out: Path) -> None:
    """Lives a group of one run; its programs are traced and not computed."""
    session, files = open_group(out, [c], ["run"])
    trainer: GroupTrainer = session.trainer  # type: ignore[assignment]
    program: Any = trainer.program

    def zeros(tree: Any) -> Any:
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), tree)

    def advance(group: Any, axes: Any, until: Any, iterations: int) -> tuple[Any, Any]:
        traced = partial(program._advance, iterations=iterations)
        _, metrics = jax.eval_shape(traced, group, axes, until)
        steps = jnp.minimum(group.moving.env_steps + 64, until)
        return group._replace(moving=group.moving._replace(env_steps=steps)), zeros(metrics)

    evaluate = program.evaluate
    program.advance = advance
    program.evaluate = lambda *given: zeros(jax.eval_shape(evaluate, *given))
    session.advance(c.steps)
    files.finish(session)


if __name__ == "__main__":
    print(page(), end="")
