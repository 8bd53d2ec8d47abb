"""A run: a trainer with a directory, logs, evaluations and checkpoints at their times."""

from __future__ import annotations

import dataclasses
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from lpo import algorithms, config
from lpo.config import Config
from lpo.engine.train import Trainer
from lpo.envs import make_batch
from lpo.errors import LPOError
from lpo.runs import checkpoint
from lpo.runs.log import MemoryLog, RunLog, claim, create_directory, open_directory
from lpo.runs.visits import Visits
from lpo.types import BatchEnv

Callback = Callable[[int, dict[str, float]], Any]


def threshold_options(c: Config) -> dict[str, Any]:
    """--threshold is the name of a preset or a number."""
    if c.threshold is None:
        return {}
    try:
        return {"threshold": float(c.threshold)}
    except ValueError:
        return {"preset": c.threshold}


def make_envs(c: Config, num_envs: int, env: Any = None) -> BatchEnv:
    """The environments that ``c`` names, or those made from ``env``."""
    return make_batch(
        c.env if env is None else env,
        num_envs,
        **threshold_options(c),
        threads=c.threads,
        backend=c.backend,
        env_kwargs=config.env_kwargs(c),
    )


def crossed(before: int, after: int, every: int) -> bool:
    """Whether a multiple of ``every`` lies in (before, after]; 0 means never."""
    return every > 0 and after // every > before // every


class Run:
    """Advance a trainer, keeping its directory (if it has one) true to it."""

    def __init__(self, trainer: Trainer, log: MemoryLog, directory: Path | None = None):
        self.trainer, self.log, self.directory = trainer, log, directory
        self.until = trainer.config.steps
        self.best: float | None = None
        self.stop_requested = False
        self.visits = Visits(trainer.env.description.get("id", ""), trainer.config.steps)

    @property
    def env_steps(self) -> int:
        return self.trainer.env_steps

    def advance(self, callback: Callback | None = None) -> None:
        """Train until the budget is spent, the callback returns False, or a signal asks to stop."""
        c, trainer = self.trainer.config, self.trainer
        go_on = True
        while go_on and not self.stop_requested and trainer.env_steps < self.until:
            before, seconds = trainer.env_steps, dict(trainer.seconds)
            metrics = trainer.iterate(self.until)
            self.visits.add(trainer.buffer.obs, trainer.buffer.valid, before)
            after, last = trainer.env_steps, trainer.env_steps >= self.until
            if trainer.eval_env and (
                crossed(before, after, c.eval_every) or (last and c.eval_every)
            ):
                metrics |= trainer.evaluate()
            with self.clear_errors():
                self.log.write(after, metrics, self.timing(after - before, seconds))
                self.keep_best(metrics)
                go_on = callback is None or callback(after, metrics) is not False
                if (
                    crossed(before, after, c.checkpoint_every)
                    or last
                    or not go_on
                    or self.stop_requested
                ):
                    self.save_checkpoint()

    def timing(self, steps: int, before: dict[str, float]) -> dict[str, float]:
        """Seconds so far; steps/s of this iteration without its evaluation."""
        now = self.trainer.seconds
        elapsed = sum(now[part] - before[part] for part in ("rollout", "switch", "learn"))
        return {"time/env_steps_per_s": steps / elapsed} | {
            f"time/{k}_s": v for k, v in now.items()
        }

    def record(self, **more: Any) -> dict[str, Any]:
        return {
            "env_steps": self.env_steps,
            "until": self.until,
            "best": self.best,
            "env": self.trainer.env.description,
            "config": dataclasses.asdict(self.trainer.config),
            **more,
        }

    def save_checkpoint(self) -> None:
        if self.directory is None:
            return
        folder = self.directory / "checkpoints"
        record = self.record(logs=self.log.offsets(), seconds=self.trainer.seconds)
        arrays = self.trainer.arrays() | self.visits.arrays()
        checkpoint.save(folder, f"{self.env_steps:012d}", arrays, record)
        if (text := self.visits.to_json()) is not None:
            checkpoint.write_atomically(self.directory / "visits.json", text.encode())
        checkpoint.prune(folder, self.trainer.config.keep_checkpoints)

    def keep_best(self, metrics: dict[str, float]) -> None:
        score = metrics.get("eval/return")
        if score is None or (self.best is not None and score <= self.best):
            return
        self.best = score
        if self.directory is not None:
            arrays = self.trainer.arrays()
            checkpoint.save(self.directory / "checkpoints", "best", arrays, self.record())

    @contextmanager
    def clear_errors(self):
        """A disk that is full loses nothing that was saved before."""
        try:
            yield
        except OSError as error:
            raise LPOError(
                f"Could not write to {self.directory} at step {self.env_steps} "
                f"({error.strerror or error}); free some space and continue with "
                f"`lpo resume {self.directory}`: the last checkpoint is intact."
            ) from error

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *error: object) -> None:
        self.log.close()
        self.trainer.env.close()
        if self.trainer.eval_env:
            self.trainer.eval_env.close()


def make_trainer(c: Config, env: Any = None, eval_env: Any = None) -> Trainer:
    """Environments and learner of ``c``; ``env`` stands for the id where the user passed an object.

    An object cannot be copied, so it is evaluated only if the user passes an ``eval_env``.
    """
    algorithms.get(config.validate(c))  # refuse a wrong name before anything is made
    train_env = make_envs(c, c.num_envs, env)
    if c.eval_every == 0 or (eval_env is None and isinstance(env, gymnasium.Env | VectorEnv)):
        return Trainer(c, train_env)
    source = env if eval_env is None else eval_env
    episodes = count_of(source).get("num_envs", c.eval_episodes)
    return Trainer(c, train_env, make_envs(c, episodes, source))


def count_of(env: Any) -> dict[str, int]:
    """An environment object fixes how many there are; an id or a function does not."""
    if isinstance(env, VectorEnv):
        return {"num_envs": env.num_envs}
    return {"num_envs": 1} if isinstance(env, gymnasium.Env) else {}


def start(c: Config, out: Path) -> Run:
    """A new run in the new directory ``out``."""
    algorithms.refuse_idle_options(config.validate(c))
    trainer = make_trainer(c)
    directory = create_directory(out, trainer.config, trainer.env.description)
    return Run(trainer, RunLog(directory, claim(directory)), directory)


def resume(directory: Path, steps: int | None = None) -> tuple[Run, list[str]]:
    """The run as its newest sound checkpoint left it, and what was wrong with newer ones."""
    c = open_directory(directory)
    with ExitStack() as undo:
        claimed = undo.enter_context(claim(directory))  # before anything of it is read
        saved, problems = checkpoint.load_latest(directory / "checkpoints")
        trainer = make_trainer(c)
        trainer.restore(saved.arrays)
        undo.pop_all()
    if not trainer.env.resumable:
        problems.append(f"{c.env} cannot return to a saved state, so new episodes begin here.")
    trainer.seconds = dict(saved.record["seconds"])
    log = RunLog(directory, claimed, saved.record["logs"], trainer.env_steps)
    run = Run(trainer, log, directory)
    run.until = steps or saved.record["until"]
    run.best = saved.record["best"]
    run.visits.restore(saved.arrays)
    return run, problems


@contextmanager
def stopping_on_signals(run: Run):
    """Ctrl-C or SIGTERM lets the iteration end and a checkpoint be written; a second one kills."""

    def ask(signum, frame):
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
