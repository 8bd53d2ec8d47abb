"""Many agents as one program on a device: seeds, and values of options.

agents = Agent("MountainCarContinuous-v0", device="cpu", seeds=64, beta=[0.1, 0.25])
agents.learn(50_000)
agents.best.predict(observation)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from lpo import config as configs
from lpo.config import Config, axes_of
from lpo.engine.device import GroupTrainer
from lpo.engine.trainer import Row
from lpo.errors import LPOError
from lpo.platform import find_device
from lpo.policy import Policy
from lpo.runs import checkpoint
from lpo.runs.callbacks import callbacks, whole_number
from lpo.runs.checkpoint import Checkpoint
from lpo.runs.group import GroupMemory, check_heeded, resumed
from lpo.runs.journal import Memory
from lpo.runs.progress import shown
from lpo.runs.session import Session, stopping_on_signals

LARGEST = 20_000  # runs of a program


class Life(NamedTuple):
    """The runs under way."""

    session: Session
    files: GroupMemory
    memory: Memory


class Agents:
    """Runs of an algorithm that differ in their seeds and in values of options, side by side."""

    def __init__(
        self,
        env: str,
        *,
        device: Literal["gpu", "cpu"],
        seeds: int | Sequence[int] = 1,
        algo: str | None = None,
        preset: str | None = None,
        **options: Any,
    ):
        """Makes the agents; see ``Agent``.

        Args:
            env: an id that has a device form; ``docs/device-env.md`` lists them.
            device: "gpu" or "cpu".
            seeds: how many, counted up from ``seed``, or a list of them.
            algo: a row of the table.
            preset: named values to start from.
            options: options by the names of their flags. A list of values makes a grid with the
                seeds, where the option may differ within a program (``beta=[0.1, 0.25]``).
        """
        if not isinstance(env, str):
            raise LPOError(
                f"On a device env is an id, and {env!r} is none; register the environment with "
                "lpo.envs.device.register_device, or leave device out."
            )
        base, axes = based(algo, env, preset, options)
        self.configs, self.axes = grid(base, axes, seeds_of(base, seeds))
        self.device = device
        for c in self.configs:
            check_heeded(c)
        base.task.check(device=True)
        self._where = find_device(device)
        self._life: Life | None = None

    @property
    def config(self) -> Config:
        """The configuration of the first run."""
        return self.configs[0]

    @property
    def algo(self) -> str:
        return self.config.algo

    def __len__(self) -> int:
        return len(self.configs)

    def __repr__(self) -> str:
        steps = 0 if self._life is None else self.env_steps
        return (
            f"Agents({self.config.task.env!r}, algo={self.algo!r}, device={self.device!r}, "
            f"runs={len(self)}, env_steps={steps})"
        )

    @property
    def life(self) -> Life:
        """The runs under way; they are made when they are first needed."""
        if self._life is None:
            with self.here():
                self._life = begun(self.configs)
        return self._life

    def here(self) -> AbstractContextManager[Any]:
        """Lets JAX compute on the device."""
        return jax.default_device(self._where)

    @property
    def env_steps(self) -> int:
        """Environment steps of each run."""
        return self.life.session.env_steps

    def learn(
        self, total_timesteps: float, callback: Any = None, *, progress_bar: bool | None = None
    ) -> Agents:
        """Trains every run for ``total_timesteps`` more environment steps.

        ``callback`` and ``progress_bar`` are those of ``Agent.learn``; the metrics that a callback
        gets are arrays with a number for each run. At the end the best policy of each run is
        tested against its last one by new episodes, as in a run with a directory.
        """
        number, calls = whole_number("total_timesteps", total_timesteps), callbacks(callback)
        if self._life is None:
            self.configs = [configs.with_options(c, {"steps": number}) for c in self.configs]
        session = self.life.session
        calls.on_start(self)
        until = session.env_steps + number
        with (
            self.here(),
            stopping_on_signals(session),
            shown(session, until, progress_bar) as show,
        ):
            session.advance(until, lambda step, row: (show(step, row), calls.on_step(step, row))[1])
        if session.stop_requested:
            session.stop_requested = False
            raise KeyboardInterrupt
        calls.on_end(self)
        return self

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """One row for each policy change of each run, with its seed and its values of options."""
        rows = zip(self.labels, self.life.memory.rows, strict=True)
        return [{**label, **row} for label, own in rows for row in own]

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row for each run: its seed, its values of options, and its newest metrics."""
        found = []
        for label, own in zip(self.labels, self.life.memory.rows, strict=True):
            newest: Row = {}
            for row in own:
                newest |= row
            found.append({**label, **newest})
        return found

    @property
    def labels(self) -> list[dict[str, Any]]:
        """The seed and the values of options by which the runs differ."""
        return [
            {"seed": c.seed, **{name: configs.flat(c)[name] for name in self.axes}}
            for c in self.configs
        ]

    def evaluate(self) -> dict[str, np.ndarray]:
        """Returns scores of new episodes of the current policies, one number for each run.

        Each plays ``eval_episodes`` episodes by its mode, and others by sampled actions.
        """
        life = self.life
        with self.here():
            found = life.session.trainer.evaluate()
        return {name.removeprefix("eval/"): value for name, value in found.items()}

    # -- policies

    @property
    def policies(self) -> list[Policy]:
        """The policy of every run as it is now."""
        life = self.life
        return [
            Policy.of(life.files.checkpoints(life.session, i)[0], "this run")
            for i in range(len(self))
        ]

    @property
    def best(self) -> Policy:
        """The best policy of the best run: by its test at the end, or else by its evaluations.

        The best of many was lucky too, so evaluate it again before you tell its score.
        """
        life = self.life
        ranks = [rank(row, life.session.best.score[i]) for i, row in enumerate(self.table)]
        last, best = life.files.checkpoints(life.session, ranks.index(max(ranks)))
        return Policy.of(best or last, "this run")

    # -- files

    def save(self, path: str | Path) -> Path:
        """Writes the full training state of all runs to ``path``.safetensors and ``path``.json."""
        path, life = Path(path), self.life
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {
            **life.files.record(life.session),
            "configs": [configs.to_dict(c) for c in self.configs],
            "axes": list(self.axes),
            "device": self.device,
        }
        arrays = life.files.arrays(life.session)
        return checkpoint.save(path.parent, path.with_suffix("").name, arrays, record)

    @classmethod
    def load(cls, path: str | Path, device: Literal["gpu", "cpu"] | None = None) -> Agents:
        """Returns the agents in a file of ``save``, on the device that they had or on another."""
        return cls.of(checkpoint.load(Path(path).with_suffix(".safetensors")), str(path), device)

    @classmethod
    def of(
        cls, saved: Checkpoint, source: str, device: Literal["gpu", "cpu"] | None = None
    ) -> Agents:
        """Returns the agents in a checkpoint; ``source`` names it in errors."""
        record = saved.record
        found, axes = record.get("configs"), record.get("axes")
        names = isinstance(axes, list) and all(isinstance(name, str) for name in axes)
        if not isinstance(found, list) or not found or len(found) > LARGEST or not names:
            raise LPOError(f"{source} does not hold agents of a device; pass a file of their save.")
        agents = cls.__new__(cls)
        agents.configs, agents.axes = [configs.from_dict(c, source) for c in found], axes
        agents.device = device or ("gpu" if record.get("device") == "gpu" else "cpu")
        agents._where = find_device(agents.device)
        with agents.here():
            agents._life = begun(agents.configs, saved)
        return agents

    def close(self) -> None:
        """Has nothing to close; for code that is written for one agent."""

    def __enter__(self) -> Agents:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def begun(runs: Sequence[Config], saved: Checkpoint | None = None) -> Life:
    """Returns runs at their first step, or as they were saved."""
    trainer = GroupTrainer(runs, [f"run {i}" for i in range(len(runs))])
    files, memory = GroupMemory(trainer), Memory(len(runs))
    if saved is None:
        return Life(Session(trainer, files, memory=memory), files, memory)
    files.restore(saved)
    return Life(resumed(files, saved, memory), files, memory)


def based(
    algo: str | None, env: str, preset: str | None, options: Mapping[str, Any]
) -> tuple[Config, dict[str, list[Any]]]:
    """Returns the configuration that the runs share, and the options that were given as lists.

    An option whose value is a list itself, such as ``hidden``, has one value.
    """
    lists = {k: list(v) for k, v in options.items() if isinstance(v, list | tuple | np.ndarray)}
    plain = {name: value for name, value in options.items() if name not in lists}
    base = configs.configure(algo, env=env, preset=preset, **plain)
    known = {leaf.short: leaf.option for leaf in configs.leaves(base)}
    axes = {k: v for k, v in lists.items() if k in known and "tuple" not in str(known[k].plain)}
    whole = {name: options[name] for name in lists if name not in axes}
    for name, values in axes.items():
        if not values:
            raise LPOError(f"{name} is an empty list; pass its values.")
    return configs.with_options(base, whole), axes


def grid(
    base: Config, axes: Mapping[str, list[Any]], seeds: Sequence[int]
) -> tuple[list[Config], list[str]]:
    """Returns the configuration of every run, and the names of the options that differ."""
    for name in axes:
        if name not in axes_of(base) or name == "seed":
            configs.with_options(base, {name: axes[name][0]})  # says what is wrong with the name
            can = ", ".join(sorted(set(axes_of(base)) - {"seed"}))
            raise LPOError(
                f"{name} is the same for all runs of a program, and {name} was given as a list; "
                f"pass one value{' and seeds=' if name == 'seed' else ''}. These may differ: {can}."
            )
    if len(seeds) * math.prod(map(len, axes.values())) > LARGEST:
        raise LPOError(f"These are more than {LARGEST:,} runs; split them.")
    found = [
        configs.with_options(base, {**dict(zip(axes, values, strict=True)), "seed": seed})
        for values in itertools.product(*axes.values())
        for seed in seeds
    ]
    return found, list(axes)


def seeds_of(base: Config, seeds: int | Sequence[int]) -> list[int]:
    """Returns the seeds of the runs."""
    if isinstance(seeds, Sequence | np.ndarray) and not isinstance(seeds, str):
        if len(set(seeds)) < len(seeds) or len(seeds) == 0:
            raise LPOError(f"seeds is {list(seeds)!r}; pass different numbers, or how many.")
        return [int(seed) for seed in seeds]
    return list(range(base.seed, base.seed + whole_number("seeds", seeds)))


def rank(row: Mapping[str, Any], score: float) -> float:
    """Returns what the best policy of a run is worth beside those of others."""
    if "best/return" in row:
        return float(row["best/return"])
    seen = (score, row.get("eval/return", -math.inf), row.get("rollout/return", -math.inf))
    return next((float(x) for x in seen if math.isfinite(x)), -math.inf)
