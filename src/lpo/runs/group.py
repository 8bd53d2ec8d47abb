"""Runs: the files of a group of runs that share a program on a device.

Every run has an ordinary directory. The state of all of them lies beside these in ``device/``, from
which a killed group goes on; at the end each run gets its own checkpoints.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from lpo.config import Config, host_only
from lpo.engine.device import GroupTrainer, host
from lpo.engine.device.trainer import acting_by
from lpo.engine.trainer import Row
from lpo.errors import LPOError, named
from lpo.math import trees
from lpo.runs import checkpoint
from lpo.runs.checkpoint import Checkpoint
from lpo.runs.directory import RunDirectory, clear, log_digest
from lpo.runs.journal import Journal, Memory
from lpo.runs.session import Best, NoFiles, Session
from lpo.runs.verdict import Claim, Recent

STATES = "device"  # the folder of the groups' states
KEPT = 2  # states of a group that stay
SPARING = 5  # a state is that of all runs, so there are fewer of them


def check_heeded(c: Config) -> None:
    """Raises LPOError for an option that somebody set and that runs on a device do not have.

    A value that is empty asks for nothing: `--loggers` alone switches all loggers off.
    """
    for name, leaf in host_only(c).items():
        if leaf.value and leaf.value != leaf.option.default:
            many = isinstance(leaf.value, tuple)
            shown = " ".join(map(str, leaf.value)) if many else leaf.value
            raise LPOError(
                f"{named(name)} {shown} is for runs on the host, and a device has no such "
                f"choice; leave {named(name)} out, or leave {named('device')} out."
            )


class GroupMemory(NoFiles):
    """The files of a group in memory: there are none, but the best policies are kept."""

    def __init__(self, trainer: GroupTrainer):
        self.trainer = trainer
        self.policies: Any = None  # the best ones

    def keep(self, session: Session, better: np.ndarray) -> None:
        now = host(self.trainer.policy())
        old = now if self.policies is None else self.policies
        self.policies = self.trainer.choose(better, now, old)

    def finalists(self, session: Session) -> list[Any]:
        return [self.policies, self.trainer.policy()]

    def crown(self, session: Session, claim: Claim) -> None:
        self.keep(session, claim.last)

    def arrays(self, session: Session) -> dict[str, np.ndarray]:
        """Returns everything that decides the rest of the runs."""
        best = host(self.trainer.policy()) if self.policies is None else self.policies
        arrays = self.trainer.arrays() | trees.flatten("group", {"best": best})
        arrays |= {"best/score": session.best.score, "best/env_steps": session.best.env_steps}
        arrays |= {"best/sampled": session.best.sampled, "best/acts": session.sampled}
        if session.recent.kept:
            arrays["best/recent"] = np.stack(list(session.recent.kept))
        return arrays

    def record(self, session: Session) -> dict[str, Any]:
        """Returns what a state of the group says beside its arrays."""
        return {
            "seconds": self.trainer.seconds["device"],
            "evaluated": session.evaluated,
            "runs": list(self.trainer.names),
        }

    def checkpoints(self, session: Session, run: int) -> tuple[Checkpoint, Checkpoint | None]:
        """Returns a run's last learner and its best policy; None where none was evaluated."""
        state = jax.tree.map(lambda x: np.asarray(x[run]), self.trainer.group.train)
        record, best = session.record(run), session.best
        last = Checkpoint(trees.flatten("train", {"state": state}), record)
        if self.policies is None:
            return last, None
        own = jax.tree.map(lambda x: x[run], self.policies)
        state = acting_by(state, own)
        steps, acts = int(best.env_steps[run]), session.way(best.sampled, run)
        record = record | {"env_steps": steps, "acts": acts}
        return last, Checkpoint(trees.flatten("train", {"state": state}), record)

    def restore(self, saved: Checkpoint) -> None:
        """Takes over the state of the runs and their best policies."""
        like = {"best": host(self.trainer.policy())}
        self.policies = host(trees.unflatten("group", like, saved.arrays)["best"])
        self.trainer.restore(saved.arrays, {"device": saved.record["seconds"]})


class GroupFiles(GroupMemory):
    """The directories of runs, with their logs, and the states of the group."""

    def __init__(self, root: Path, trainer: GroupTrainer):
        super().__init__(trainer)
        self.runs = [RunDirectory(root / name) for name in trainer.names]
        self.folder = root / STATES / trainer.names[0]
        self.journal: Journal | None = None  # until the runs begin or go on
        self.saved = 0  # environment steps at the last save

    def begin(self) -> None:
        """Makes the directories. Raises LPOError where one of them has results already."""
        for i, run in enumerate(self.runs):
            if run.reached() is not None:
                raise LPOError(
                    f"{run} has results, and {self.folder} no state from which they could go "
                    "on; move that run away, or pass another --out."
                )
            clear(run)
            RunDirectory.create(run.path, self.trainer.configs[i], self.trainer.envs[i].description)
        self.journal = Journal(self.runs)

    def go_on(self) -> Checkpoint:
        """Returns the newest sound state, and cuts the logs off where they ended then."""
        saved, problems = checkpoint.load_latest(self.folder, self.misfit)
        for problem in problems:
            warnings.warn(problem, stacklevel=2)
        self.restore(saved)
        self.journal = Journal(self.runs, lengths=saved.record["logs"])
        self.saved = int(self.trainer.steps.min())
        return saved

    def misfit(self, saved: Checkpoint) -> str | None:
        """Returns what is wrong with the logs up to a state, or None."""
        logs = [file for run in self.runs for file in (run.metrics_file, run.timing_file)]
        stated = zip(logs, saved.record["logs"], saved.record["log_sha256"], strict=True)
        for path, length, sha256 in stated:
            if log_digest(path, length) != sha256:
                return f"{path} is damaged."
        return None

    def write(self, rows: Sequence[Sequence[Row]], timing: Mapping[str, float]) -> None:
        assert self.journal is not None
        self.journal.write(rows, timing)

    def due(self, before: int, now: int) -> bool:
        return now - self.saved >= self.trainer.config.checkpoints.every * SPARING

    def save(self, session: Session) -> None:
        assert self.journal is not None
        record = {"logs": self.journal.lengths, "log_sha256": self.journal.sums}
        record |= self.record(session)
        self.folder.parent.mkdir(exist_ok=True)
        name = f"{int(self.trainer.steps.max()):012d}"
        checkpoint.save(self.folder, name, self.arrays(session), record)
        checkpoint.prune(self.folder, KEPT)
        self.saved = session.env_steps

    def finish(self, session: Session) -> None:
        """Gives every run its checkpoints: the last learner's state and the best policy."""
        for i, run in enumerate(self.runs):
            last, best = self.checkpoints(session, i)
            name = f"{last.record['env_steps']:012d}"
            checkpoint.save(run.checkpoints, name, last.arrays, last.record)
            if best is not None:
                checkpoint.save(run.checkpoints, "best", best.arrays, best.record)

    def close(self) -> None:
        if self.journal is not None:
            self.journal.close()


class GroupSession(NamedTuple):
    """A group under way, and its files."""

    session: Session
    files: GroupFiles


def open_group(root: Path, configs: Sequence[Config], names: Sequence[str]) -> GroupSession:
    """Returns a group in ``root``: as its newest state left it, or at its first step."""
    files = GroupFiles(root, GroupTrainer(configs, names))
    if checkpoint.names(files.folder):
        return GroupSession(resumed(files, files.go_on()), files)
    files.begin()
    return GroupSession(Session(files.trainer, files), files)


def resumed(files: GroupMemory, saved: Checkpoint, memory: Memory | None = None) -> Session:
    """Returns the session of a group whose files were just restored."""
    kept, trainer = saved.arrays, files.trainer
    recent = Recent(kept.get("best/recent", ()))
    session = Session(trainer, files, memory=memory, recent=recent)
    none = np.zeros(trainer.runs, bool)  # what states from before do not have
    sampled = kept.get("best/sampled", none)
    session.best = Best(kept["best/score"], kept["best/env_steps"], sampled)
    session.sampled = kept.get("best/acts", none)
    session.evaluated = saved.record.get("evaluated", session.env_steps)  # older ones: just then
    return session
