"""Runs: training with logs, evaluations and checkpoints."""

from __future__ import annotations

import math
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import gymnasium
from gymnasium.vector import VectorEnv

from lpo import config, files
from lpo.config import Config
from lpo.engine.host import Trainer
from lpo.envs import spaces
from lpo.envs.angles import Drift, largest, unbounded
from lpo.errors import LPOError
from lpo.platform import device_here
from lpo.runs import checkpoint, verdict
from lpo.runs.checkpoint import Checkpoint
from lpo.runs.directory import RunDirectory, runs_in
from lpo.runs.endless import Endless
from lpo.runs.loggers import About, JSONLines, Logger, Memory, check_installed, open_loggers
from lpo.runs.unit import SmallRewards
from lpo.runs.verdict import Acts, Recent, recent_of
from lpo.runs.visits import Visits

Callback = Callable[[int, dict[str, float]], Any]


def crossed(before: int, after: int, every: int) -> bool:
    """Returns whether a multiple of ``every`` lies in (before, after]; 0 means never."""
    return every > 0 and after // every > before // every


class Run:
    """Trains, evaluates, and writes logs and checkpoints to the run directory, if it has one."""

    def __init__(
        self,
        trainer: Trainer,
        directory: RunDirectory | None = None,
        journal: JSONLines | None = None,
        *,
        loggers: Sequence[Logger] = (),
        best: float | None = None,
        recent: Recent | None = None,
        visits: Visits | None = None,
    ):
        self.trainer, self.directory, self.journal = trainer, directory, journal
        self.memory = Memory()
        own = [self.memory, *([] if journal is None else [journal])]
        self.loggers: list[Logger] = [*own, *loggers]
        self.best, self.recent = best, recent or Recent()
        self.acts: Acts | None = self.ranked_way()
        self.stop_requested = False
        self.until = trainer.env_steps
        self.visits = visits or Visits(trainer.env.description, trainer.config.steps)
        env = trainer.env
        self.drift = Drift(env.description["id"], unbounded(env.observation_space))
        self.small = SmallRewards(trainer.config, env.description)
        self.endless = Endless(env.description, env.num_envs, trainer.env_steps)

    @property
    def env_steps(self) -> int:
        return self.trainer.env_steps

    def advance(self, until: int, callback: Callback | None = None) -> None:
        """Trains up to ``until`` steps. A signal, or False from the callback, ends it earlier."""
        c, trainer = self.trainer.config, self.trainer
        self.until = until
        go_on = True
        while go_on and not self.stop_requested and trainer.env_steps < until:
            before, seconds = trainer.env_steps, dict(trainer.seconds)
            metrics = trainer.iterate(until)
            self.visits.add(trainer.buffer.obs, trainer.buffer.valid, before)
            self.warn(metrics)
            after, last = trainer.env_steps, trainer.env_steps >= until
            every = c.evaluation.every
            if trainer.eval_env and (crossed(before, after, every) or (last and every)):
                metrics |= trainer.evaluate()
            with self.disk_errors():
                self.keep_best(metrics)
                if last:
                    metrics |= self.conclude(metrics)
                timing = self.timing(after - before, seconds)
                for logger in self.loggers:
                    logger.write(after, metrics, timing)
                go_on = callback is None or callback(after, metrics) is not False
                due = crossed(before, after, c.checkpoints.every)
                if due or last or not go_on or self.stop_requested:
                    self.save_checkpoint()

    def warn(self, metrics: dict[str, float]) -> None:
        buffer, drifts = self.trainer.buffer, []
        if self.trainer.env.codec.spec.size is not None:
            drifts = self.drift.look(largest(buffer.obs, buffer.valid), self.env_steps)
        small = self.small.look(metrics["rollout/reward_max"], self.env_steps)
        endless = self.endless.look(metrics, self.env_steps)
        for message in (*drifts, *small, *endless):
            warnings.warn(message, stacklevel=2)

    def timing(self, steps: int, before: dict[str, float]) -> dict[str, float]:
        """Returns the seconds so far, and steps/s of this iteration without its evaluation."""
        now = self.trainer.seconds
        elapsed = sum(now[part] - before[part] for part in ("rollout", "switch", "learn"))
        return {"time/env_steps_per_s": steps / elapsed} | {
            f"time/{k}_s": v for k, v in now.items()
        }

    def record(self, **more: Any) -> dict[str, Any]:
        """Returns the JSON record of a checkpoint."""
        codec = self.trainer.env.codec
        return {
            "env_steps": self.env_steps,
            "until": self.until,
            "best": self.best,
            "recent": self.recent.to_json(),
            "acts": self.acts,
            "env": self.trainer.env.description,
            "spaces": {
                "observation": spaces.to_dict(codec.raw_observation_space),
                "action": spaces.to_dict(codec.raw_action_space),
            },
            "config": config.to_dict(self.trainer.config),
            **more,
        }

    def save_checkpoint(self) -> None:
        if self.directory is None or self.journal is None:
            return
        record = self.record(
            logs=self.journal.offsets(),
            log_sha256=self.journal.sums(),
            seconds=self.trainer.seconds,
        )
        arrays = self.trainer.arrays() | self.visits.arrays()
        self.write_visits()  # before the checkpoint: after the last one nothing is written again
        checkpoint.save(self.directory.checkpoints, f"{self.env_steps:012d}", arrays, record)
        self.prune()

    def write_visits(self) -> None:
        if self.directory is not None and (text := self.visits.to_json()) is not None:
            checkpoint.write_atomically(self.directory.visits_file, text.encode())

    def prune(self) -> None:
        if self.directory is not None:
            checkpoint.prune(self.directory.checkpoints, self.trainer.config.checkpoints.keep)

    def ranked_way(self) -> Acts | None:
        return self.recent.acts(self.trainer.config.evaluation.deterministic)

    def keep_best(self, metrics: dict[str, float]) -> None:
        """Takes in an evaluation, and keeps the policy where none has a higher rank."""
        if "eval/return" not in metrics:
            return
        score = float(self.recent.add(metrics).score)
        self.acts = self.ranked_way()
        if self.best is not None and score < self.best:
            return
        self.best = score if math.isfinite(score) else None
        if self.directory is not None:
            arrays = self.trainer.arrays()
            checkpoint.save(self.directory.checkpoints, "best", arrays, self.record())

    def conclude(self, metrics: dict[str, float]) -> dict[str, float]:
        """Tests the best policy and the last one, and keeps the winner. Returns its claim."""
        if self.directory is None or "eval/return" not in metrics:
            return {}
        trainer, c = self.trainer, self.trainer.config.evaluation
        policies, saved = {"last": trainer.policy()}, None
        if self.directory.unsound_best() is None:
            saved = self.directory.best()
            if saved.record.get("env_steps") != self.env_steps:
                policies = {"best": trainer.policy_in(saved.arrays), **policies}
        ways: tuple[Acts, ...] = ("mode", "sampled") if c.deterministic else ("sampled",)
        size = verdict.factor(
            self.env_steps, c.episodes, metrics["eval/length"], len(policies) * len(ways)
        )
        claim = verdict.test(trainer.test, policies, ways, size)
        self.acts = claim.ways["last"]
        arrays, record = trainer.arrays(), self.record()
        if claim.name == "best" and saved is not None:
            arrays, record = saved.arrays, checkpoint.plain(saved.record)
        record |= {"acts": claim.acts}
        checkpoint.save(self.directory.checkpoints, "best", arrays, record)
        return claim.metrics | {"best/env_steps": record["env_steps"]}

    def disk_errors(self) -> AbstractContextManager[None]:
        """Turns an error of the disk into an LPOError that says how to continue the run."""
        if self.directory is None:
            return nullcontext()
        return self.directory.disk_errors(f" at step {self.env_steps}")

    def close(self) -> None:
        """Closes loggers and environments, all of them even if one fails."""
        envs = [self.trainer.env, *([self.trainer.eval_env] if self.trainer.eval_env else [])]
        with self.disk_errors(), ExitStack() as closing:
            for one in [*envs, *reversed(self.loggers)]:
                if (close := getattr(one, "close", None)) is not None:
                    closing.callback(close)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        with nullcontext() if kind is None else suppress(LPOError):  # the first error is the one
            self.close()


def make_trainer(c: Config, env: Any = None, eval_env: Any = None) -> Trainer:
    """Returns a trainer for ``c``; ``env`` is the environment object, if the user passed one.

    An object cannot be copied, so there are evaluations only if the user also passes ``eval_env``.
    """
    flat = c.network.flat
    train_env = c.task.make(env=env, flat=flat)
    single = isinstance(env, gymnasium.Env | VectorEnv)
    if c.evaluation.every == 0 or (eval_env is None and single):
        return Trainer(c, train_env)
    source = env if eval_env is None else eval_env
    episodes = count_of(source).get("num_envs", c.evaluation.episodes)
    return Trainer(c, train_env, c.task.make(episodes, source, flat=flat))


def count_of(env: Any) -> dict[str, int]:
    """Returns the number of environments in an object; empty for an id or a function."""
    if isinstance(env, VectorEnv):
        return {"num_envs": env.num_envs}
    return {"num_envs": 1} if isinstance(env, gymnasium.Env) else {}


def start(c: Config, out: Path, loggers: Sequence[Logger] = ()) -> Run:
    """Returns a new run in the new directory ``out``."""
    check_installed(c.logs.loggers)
    trainer = make_trainer(c)
    directory = RunDirectory.create(out, c, trainer.env.description)
    return begin(directory, directory.claim(), trainer, loggers)


def begin(
    directory: RunDirectory, claimed: IO[bytes], trainer: Trainer, loggers: Sequence[Logger]
) -> Run:
    """Returns a run at its first step in a directory that was made for it."""
    c = trainer.config
    with directory.disk_errors():
        journal = JSONLines(directory, claimed)
        chosen = open_loggers(c.logs.loggers, About(directory, config.flat(c)))
    return Run(trainer, directory, journal, loggers=[*chosen, *loggers])


class Continued(NamedTuple):
    """What the record of a checkpoint says about the run, beside its arrays."""

    until: int  # the steps that it was meant to reach
    best: float | None  # its best evaluation
    seconds: dict[str, float]  # spent on each part of the run
    logs: dict[str, int]  # the lengths of its logs in bytes
    recent: Recent  # its last evaluations

    @staticmethod
    def of(saved: Checkpoint, source: str) -> Continued:
        """Reads the record. Raises LPOError where it is not that of a run."""
        found: list[Any] = [saved.record.get(name) for name in Continued._fields]
        until, best, seconds, logs, recent = found
        sound = (
            _is_count(until)
            and (best is None or _is_number(best))
            and isinstance(seconds, dict)
            and all(_is_number(seconds.get(part)) for part in ("rollout", "switch", "learn"))
            and all(map(_is_number, seconds.values()))
            and isinstance(logs, dict)
            and all(map(_is_count, logs.values()))
        )
        if not sound or set(logs) != {"metrics.jsonl", "timing.jsonl"}:
            raise LPOError(
                f"The checkpoint in {source} has no resume information; resume a run directory "
                "that `lpo train` made."
            )
        return Continued(until, best, seconds, logs, recent_of(recent))


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


class Resumed(NamedTuple):
    """A run as its newest sound checkpoint left it."""

    run: Run
    until: int  # the steps that it was meant to reach
    problems: list[str]  # what was wrong with newer checkpoints


def resume(path: Path, loggers: Sequence[Logger] = ()) -> Resumed:
    """Returns the run in ``path``, the steps it goes to, and problems of newer checkpoints.

    A run that was killed before its first checkpoint begins again.
    """
    inside = [] if RunDirectory(path).exists else runs_in(Path(path))
    files.check_folder(Path(path), [run.task_file for run in inside[:1]])
    if inside and inside[0].on_device():
        raise LPOError(
            f"{path} holds {len(inside)} runs that were trained on a device; resume them with "
            f"`lpo resume {path} --device {device_here()}`."
        )
    directory = RunDirectory.open(path)
    with directory.disk_errors(), ExitStack() as undo:
        claimed = undo.enter_context(directory.claim())  # before anything in it is read
        if directory.on_device():
            raise LPOError(
                f"{path} was trained on a device together with others; resume them with "
                f"`lpo resume {path.parent} --device {device_here()}`."
            )
        if directory.reached() is None:
            c = directory.config()
            check_installed(c.logs.loggers)
            run = begin(directory, claimed, make_trainer(c), loggers)
            undo.pop_all()
            why = f"{path} was ended before its first checkpoint, so it begins again."
            return Resumed(run, run.trainer.config.steps, [why])
        saved, problems = directory.restored()
        c = directory.config()  # which was put right where it was damaged
        check_installed(c.logs.loggers)
        before = Continued.of(saved, str(path))
        trainer = make_trainer(c)
        trainer.restore(saved.arrays, before.seconds)
        best = before.best
        if best is not None and (wrong := directory.unsound_best()) is not None:
            best = None
            problems.append(f"{wrong} The best from here on is kept instead.")
        if not trainer.env.resumable:
            why = f"{c.task.env} cannot restore a saved state, so new episodes begin here."
            problems.append(why)
        journal = JSONLines(directory, claimed, before.logs)  # cut before others read it
        about = About(directory, config.flat(c), trainer.env_steps)
        run = Run(
            trainer,
            directory,
            journal,
            loggers=[*open_loggers(c.logs.loggers, about), *loggers],
            best=best,
            recent=before.recent,
            visits=Visits(trainer.env.description, c.steps, saved.arrays.get("visits/counts")),
        )
        run.write_visits()  # what a kill after the last checkpoint may have left undone
        run.prune()
        undo.pop_all()
    return Resumed(run, before.until, problems)


@contextmanager
def stopping_on_signals(run: Run) -> Iterator[None]:
    """Lets Ctrl-C or SIGTERM end the run after the current iteration; a second one, at once."""

    def ask(signum: int, frame: object) -> None:
        run.stop_requested = True
        for number, handler in previous.items():
            signal.signal(number, handler)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
