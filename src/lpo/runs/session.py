"""Runs: the life of R runs side by side, from their first step to their last.

A session turns a trainer, evaluates, ranks the policies, logs, warns, saves, and at the end tests
the best policy against the last one. A run on the host is one of R = 1; a group of runs on a device
is one of R. Where they lie is known to its files: in the directory of a run (``runs.run``), beside
the directories of a group (``runs.group``), or nowhere.
"""

from __future__ import annotations

import math
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from lpo.engine.trainer import Acts, Row, Scores, Trainer
from lpo.envs.angles import Drift
from lpo.errors import LPOError
from lpo.runs import verdict
from lpo.runs.costs import Costs
from lpo.runs.endless import Endless
from lpo.runs.journal import Memory
from lpo.runs.loggers import Logger
from lpo.runs.unit import SmallRewards
from lpo.runs.verdict import Claim, Recent
from lpo.runs.visits import Visits

S = TypeVar("S", bound="Session")
Callback = Callable[[int, dict[str, Any]], Any]


class Best(NamedTuple):
    """The best policies by evaluation: numbers, or [R] each."""

    score: np.ndarray
    env_steps: np.ndarray
    sampled: np.ndarray  # sampled actions are better than the mode

    @staticmethod
    def none(steps: np.ndarray) -> Best:
        """Returns the best of runs that were not evaluated."""
        return Best(np.full_like(steps, -np.inf, float), steps, np.zeros_like(steps, bool))

    def where(self, new: np.ndarray, *values: np.ndarray) -> Best:
        """Returns these with other ``values`` for the runs that ``new`` marks."""
        return Best(*(np.where(new, a, b) for a, b in zip(values, self, strict=True)))


class Files(Protocol):
    """Where the runs of a session lie."""

    def disk_errors(self, when: str) -> AbstractContextManager[None]:
        """Turns an error of the disk into an LPOError that says how to go on."""
        ...

    def write(self, rows: Sequence[Sequence[Row]], timing: Mapping[str, float]) -> None:
        """Adds rows to the logs."""
        ...

    def due(self, before: int, now: int) -> bool:
        """Whether a checkpoint is due."""
        ...

    def save(self, session: Session) -> None:
        """Writes a checkpoint from which the session can go on."""
        ...

    def keep(self, session: Session, better: np.ndarray) -> None:
        """Keeps the current policies as the best ones of the runs that ``better`` marks."""
        ...

    def finalists(self, session: Session) -> list[Any]:
        """Returns the policies that are tested at the end: the best and the last, the last alone,
        or none."""
        ...

    def crown(self, session: Session, claim: Claim) -> None:
        """Keeps the winners of a test as the best policies, and how they act."""
        ...

    def close(self) -> None: ...


class NoFiles:
    """The files of a run in memory: there are none, and no best policy is kept."""

    def disk_errors(self, when: str) -> AbstractContextManager[None]:
        return nullcontext()

    def write(self, rows: Sequence[Sequence[Row]], timing: Mapping[str, float]) -> None:
        """Has no logs."""

    def due(self, before: int, now: int) -> bool:
        return False

    def save(self, session: Session) -> None:
        """Writes nothing."""

    def keep(self, session: Session, better: np.ndarray) -> None:
        """Keeps nothing."""

    def finalists(self, session: Session) -> list[Any]:
        return []

    def crown(self, session: Session, claim: Claim) -> None:
        """Keeps nothing."""

    def close(self) -> None:
        """Holds nothing open."""


class Session:
    """Trains, evaluates, ranks, logs and saves R runs."""

    def __init__(
        self,
        trainer: Trainer,
        files: Files,
        *,
        memory: Memory | None = None,
        loggers: Sequence[Logger] = (),
        recent: Recent | None = None,
        visits: Visits | None = None,
    ):
        self.trainer, self.files = trainer, files
        self.memory, self.loggers, self.visits = memory, list(loggers), visits
        self.best, self.recent = Best.none(trainer.steps), recent or Recent()
        sampled = self.recent.rank().sampled | (not self.deterministic)
        self.sampled = np.broadcast_to(sampled, trainer.steps.shape)  # of the last policies
        self.evaluated = 0  # environment steps at the last evaluation
        self.until = self.env_steps
        self.stop_requested = False
        self.drift = Drift(trainer.description["id"], trainer.unbounded)
        self.small = SmallRewards(trainer.config, trainer.description)
        num_envs = trainer.config.task.num_envs
        self.costs = Costs(trainer.config, trainer.description)
        self.endless = Endless(trainer.description, num_envs, self.env_steps)

    @property
    def env_steps(self) -> int:
        """Environment steps of every run, or of the run that is behind the others."""
        return int(self.trainer.steps.min())

    @property
    def deterministic(self) -> bool:
        return self.trainer.config.evaluation.deterministic

    def acts(self, run: int = 0) -> Acts | None:
        """Returns how the last policy of a run acts by default; None before an evaluation."""
        return self.way(self.sampled, run)

    def way(self, sampled: np.ndarray, run: int) -> Acts | None:
        if not self.recent.kept:
            return None
        return "sampled" if of(sampled, run) else "mode"

    def advance(self, until: int, callback: Callback | None = None) -> None:
        """Trains up to ``until`` steps. A signal, or False from the callback, ends it earlier."""
        self.until = until
        go_on = True
        while go_on and not self.stop_requested and self.env_steps < until:
            before, seconds = self.env_steps, dict(self.trainer.seconds)
            turn = self.trainer.turn(until)
            now = self.env_steps
            if self.visits is not None and turn.states is not None:
                self.visits.add(*turn.states, before)
            self.warn(turn.rows, turn.size)
            scores = self.evaluate(before) if self.trainer.ways else {}
            with self.files.disk_errors(f" at step {now}"):
                if scores:
                    self.keep_best(scores)
                if scores and now >= until:
                    scores |= self.conclude(float(np.mean(scores["eval/length"])))
                rows = joined(turn.rows, scores)
                self.log(rows, self.timing(turn.steps, seconds))
                if callback is not None:
                    go_on = callback(now, self.trainer.shown(rows)) is not False
                over = now >= until or not go_on or self.stop_requested
                if over or self.files.due(before, now):
                    self.files.save(self)

    def evaluate(self, before: int) -> Scores:
        """Returns the metrics of an evaluation, where one is due."""
        last = self.env_steps >= self.until and self.trainer.config.evaluation.every > 0
        if not last and not self.trainer.due(before, self.evaluated):
            return {}
        self.evaluated = self.env_steps
        return self.trainer.evaluate()

    def warn(self, rows: Sequence[Sequence[Row]], size: np.ndarray | None) -> None:
        """Warns of rewards that are too small, of tasks that only cost, of observations that grow
        without bound, and of episodes that do not end."""
        all_rows, now = [row for own in rows for row in own], self.env_steps
        small = self.small.look(max((r["rollout/reward_max"] for r in all_rows), default=0.0), now)
        ended = next((row for row in all_rows if "rollout/return" in row), {})
        drifts = [] if size is None else self.drift.look(size, now)
        costs = self.costs.look(ended, now)
        for message in (*drifts, *small, *self.endless.look(ended, now), *costs):
            warnings.warn(message, stacklevel=3)

    def timing(self, steps: int, before: Mapping[str, float]) -> Row:
        """Returns the seconds so far, and steps/s of this turn without an evaluation of its own."""
        now = self.trainer.seconds
        elapsed = sum(now[part] - before[part] for part in now if part != "eval")
        return {"time/env_steps_per_s": steps / elapsed} | {
            f"time/{k}_s": v for k, v in now.items()
        }

    def log(self, rows: Sequence[Sequence[Row]], timing: Row) -> None:
        if self.memory is not None:
            self.memory.write(rows, timing)
        self.files.write(rows, timing)
        for row in rows[0] if self.loggers else ():
            metrics = {name: value for name, value in row.items() if name != "env_steps"}
            for logger in self.loggers:
                logger.write(int(row["env_steps"]), metrics, timing)

    def keep_best(self, scores: Scores) -> None:
        """Takes in an evaluation, and keeps the policies of the runs where none ranks higher."""
        rank = self.recent.add(scores)
        self.sampled = rank.sampled | (not self.deterministic)
        better = rank.score >= self.best.score
        if np.any(better):
            self.best = self.best.where(better, rank.score, self.trainer.steps, self.sampled)
            self.files.keep(self, better)

    def conclude(self, length: float) -> Scores:
        """Tests the best policies and the last ones, and keeps the winners. Returns their claims.

        ``length`` is that of an episode, by which the size of the test is chosen.
        """
        if not (policies := self.files.finalists(self)):
            return {}
        c, t = self.trainer.config.evaluation, self.trainer
        ways: tuple[Acts, ...] = ("mode", "sampled") if c.deterministic else ("sampled",)
        arms = len(policies) * len(t.ways)
        size = verdict.factor(int(t.steps.max()), c.episodes, length, arms)
        claim = verdict.test(t.play, policies, t.choose, ways, size)
        self.sampled = claim.last_sampled
        self.best = self.best.where(claim.last, self.best.score, t.steps, claim.sampled)
        self.best = self.best._replace(sampled=claim.sampled)
        self.files.crown(self, claim)
        return claim.metrics | {"best/env_steps": self.best.env_steps}

    def record(self, run: int = 0, **more: Any) -> dict[str, Any]:
        """Returns the JSON record of a checkpoint of a run."""
        best = float(of(self.best.score, run))
        return {
            "env_steps": int(of(self.trainer.steps, run)),
            "until": self.until,
            "best": best if math.isfinite(best) else None,
            "acts": self.acts(run),
            **self.trainer.about(run),
            **more,
        }

    def close(self) -> None:
        """Closes loggers, files and environments, all of them even if one fails."""
        with self.files.disk_errors(f" at step {self.env_steps}"), ExitStack() as closing:
            closing.callback(self.trainer.close)
            for one in (*reversed(self.loggers), self.files):
                if (close := getattr(one, "close", None)) is not None:
                    closing.callback(close)

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        with nullcontext() if kind is None else suppress(LPOError):  # the first error is the one
            self.close()


def of(values: Any, run: int) -> Any:
    """Returns the value of one run, as a number of Python."""
    return np.asarray(values).reshape(-1)[run].item()


def joined(rows: list[list[Row]], scores: Scores) -> list[list[Row]]:
    """Returns the rows, with the scores of a run in its last one."""
    if not scores:
        return rows
    return [
        own and [*own[:-1], own[-1] | {name: of(x, i) for name, x in scores.items()}]
        for i, own in enumerate(rows)
    ]


@contextmanager
def stopping_on_signals(session: Session) -> Iterator[None]:
    """Lets Ctrl-C or SIGTERM end a session after the current turn; a second one, at once."""

    def ask(signum: int, frame: object) -> None:
        session.stop_requested = True
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
