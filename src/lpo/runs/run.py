"""Runs: a single run on the host, in its own directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from lpo import config, files
from lpo.config import Config
from lpo.engine.host import Trainer
from lpo.engine.trainer import Row, crossed
from lpo.errors import LPOError
from lpo.platform import device_here
from lpo.runs import checkpoint
from lpo.runs.checkpoint import Checkpoint
from lpo.runs.directory import RunDirectory, runs_in
from lpo.runs.journal import Journal, Memory, of_run
from lpo.runs.loggers import About, Logger, check_installed, open_loggers
from lpo.runs.session import Files, NoFiles, Session
from lpo.runs.verdict import Claim, Recent, recent_of
from lpo.runs.visits import Visits


class RunFiles:
    """The directory of a run, with its logs and checkpoints."""

    def __init__(self, directory: RunDirectory, journal: Journal, trainer: Trainer):
        self.directory, self.journal, self.trainer = directory, journal, trainer

    def disk_errors(self, when: str) -> AbstractContextManager[None]:
        return self.directory.disk_errors(when)

    def write(self, rows: Sequence[Sequence[Row]], timing: Mapping[str, float]) -> None:
        self.journal.write(rows, timing)

    def due(self, before: int, now: int) -> bool:
        return crossed(before, now, self.trainer.config.checkpoints.every)

    def save(self, session: Session) -> None:
        self.journal.sync()
        record = recorded(session, **of_run(self.journal), seconds=self.trainer.seconds)
        arrays = self.trainer.arrays()
        if session.visits is not None:
            arrays |= session.visits.arrays()
        self.write_visits(session)  # before the checkpoint: nothing is written after the last one
        checkpoint.save(self.directory.checkpoints, f"{session.env_steps:012d}", arrays, record)
        self.prune()

    def write_visits(self, session: Session) -> None:
        text = None if session.visits is None else session.visits.to_json()
        if text is not None:
            checkpoint.write_atomically(self.directory.visits_file, text.encode())

    def prune(self) -> None:
        checkpoint.prune(self.directory.checkpoints, self.trainer.config.checkpoints.keep)

    def keep(self, session: Session, better: np.ndarray) -> None:
        self.save_best(self.trainer.arrays(), recorded(session))

    def save_best(self, arrays: dict[str, np.ndarray], record: dict[str, Any]) -> None:
        checkpoint.save(self.directory.checkpoints, "best", arrays, record)

    def finalists(self, session: Session) -> list[Any]:
        last = self.trainer.policy_of(self.trainer.state)
        saved = self.directory.sound_best()
        if saved is None or saved.record.get("env_steps") == session.env_steps:
            return [last]
        return [self.trainer.policy_in(saved.arrays), last]

    def crown(self, session: Session, claim: Claim) -> None:
        acts = {"acts": session.way(claim.sampled, 0)}
        saved = None if claim.last else self.directory.sound_best()
        if saved is None:
            self.save_best(self.trainer.arrays(), recorded(session) | acts)
        else:
            self.save_best(saved.arrays, checkpoint.plain(saved.record) | acts)

    def close(self) -> None:
        self.journal.close()


def recorded(session: Session, **more: Any) -> dict[str, Any]:
    """Returns the JSON record of a checkpoint of a run on the host."""
    return session.record(recent=session.recent.to_json(), **more)


class Run(Session):
    """A session of one run on the host."""

    trainer: Trainer
    memory: Memory

    def __init__(
        self,
        trainer: Trainer,
        files: Files | None = None,
        *,
        loggers: Sequence[Logger] = (),
        recent: Recent | None = None,
        counts: np.ndarray | None = None,
    ):
        super().__init__(
            trainer,
            files or NoFiles(),
            memory=Memory(),
            loggers=loggers,
            recent=recent,
            visits=Visits(trainer.description, trainer.config.steps, counts),
        )

    @property
    def rows(self) -> list[Row]:
        """The metrics of every policy change since the run was made or resumed."""
        return self.memory.rows[0]

    @property
    def directory(self) -> RunDirectory | None:
        return getattr(self.files, "directory", None)


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
        journal = Journal([directory], [claimed])
        chosen = open_loggers(c.logs.loggers, About(directory, config.flat(c)))
    return Run(trainer, RunFiles(directory, journal, trainer), loggers=[*chosen, *loggers])


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
            why = f"{path} was ended before its first checkpoint, so it begins again."
            found = Resumed(run, run.trainer.config.steps, [why])
        else:
            found = gone_on(directory, claimed, loggers)
        undo.pop_all()
    return found


def gone_on(directory: RunDirectory, claimed: IO[bytes], loggers: Sequence[Logger]) -> Resumed:
    """Returns the run as the newest checkpoint left it."""
    saved, problems = directory.restored()
    c = directory.config()  # which was put right where it was damaged
    check_installed(c.logs.loggers)
    before = Continued.of(saved, str(directory))
    trainer = make_trainer(c)
    trainer.restore(saved.arrays, before.seconds)
    best, wrong = directory.sound_best(), directory.unsound_best()
    if best is None and (before.best is not None or directory.has_best()):
        problems.append(f"{wrong} The best from here on is kept instead.")
    if not trainer.env.resumable:
        why = f"{c.task.env} cannot restore a saved state, so new episodes begin here."
        problems.append(why)
    lengths = [before.logs[name] for name in ("metrics.jsonl", "timing.jsonl")]
    journal = Journal([directory], [claimed], lengths)  # cut before others read it
    about = About(directory, config.flat(c), trainer.env_steps)
    run = Run(
        trainer,
        own := RunFiles(directory, journal, trainer),
        loggers=[*open_loggers(c.logs.loggers, about), *loggers],
        recent=before.recent,
        counts=saved.arrays.get("visits/counts"),
    )
    if best is not None and before.best is not None:
        steps = best.record.get("env_steps", 0)
        run.best = run.best._replace(score=np.array(before.best), env_steps=np.array(steps))
    own.write_visits(run)  # what a kill after the last checkpoint may have left undone
    own.prune()
    return Resumed(run, before.until, problems)
