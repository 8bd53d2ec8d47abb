"""Runs: loggers. A logger is any object with ``write(step, metrics, timing)``.

The logs of the run directory are written beside them, by ``lpo.runs.journal``. A logger that also
has ``close`` is closed at the end of the run.

``LOGGERS`` are those that can be chosen by name. Where they send rows to is said by the variables
of their own libraries (``WANDB_MODE``, ``MLFLOW_TRACKING_URI``, …), never by a file of a run: a
stranger's run cannot choose a server.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import os
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from lpo.errors import LPOError, nearest
from lpo.runs.directory import RunDirectory, read_rows

SHOW_EVERY = 30.0  # seconds until TensorBoard and MLflow see new rows


class Logger(Protocol):
    def write(self, step: int, metrics: dict[str, float], timing: dict[str, float]) -> None:
        """Takes the metrics and the seconds of one policy change."""
        ...


class TensorBoard:
    """Writes every number as a scalar of TensorBoard.

    It writes in the thread that trains. With a thread of its own, as ``SummaryWriter`` has one, a
    full disk would end that thread, and training would wait for it for ever.
    """

    def __init__(self, run: RunDirectory, step: int = 0):
        """Rows after ``step`` that an interrupted run has written are replaced."""
        from tensorboardX import summary
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2

        events: Any = event_pb2
        run.tensorboard.mkdir(parents=True, exist_ok=True)
        self.event, self.scalar = events.Event, summary.scalar
        self.writer = EventsWriter(str(run.tensorboard / "events"))
        self.shown = time.monotonic()  # when rows were last written out
        if step:  # what an earlier process wrote from this step on is void
            start = events.SessionLog(status=events.SessionLog.START)
            self.writer.write_event(self.event(wall_time=time.time(), step=step, session_log=start))

    def write(self, step: int, metrics: dict[str, float], timing: dict[str, float]) -> None:
        event = self.event(wall_time=time.time(), step=step)
        for key, value in {**metrics, **timing}.items():
            event.summary.MergeFrom(self.scalar(key, value))
        self.writer.write_event(event)
        if time.monotonic() - self.shown > SHOW_EVERY:
            self.writer.flush()
            self.shown = time.monotonic()

    def close(self) -> None:
        self.writer.close()


class About(NamedTuple):
    """What a logger is told about a run before its first row."""

    directory: RunDirectory
    options: dict[str, Any]
    step: int = 0  # environment steps at which the run begins or goes on


class WandB:
    """Writes rows to Weights & Biases. Its library has a process of its own, which sends them.

    A resumed run goes on under the id that it had.
    """

    def __init__(self, about: About):
        wandb: Any = importlib.import_module("wandb")
        try:
            self.run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "lpo"),
                id=about.directory.id_for("wandb", lambda: secrets.token_hex(4)),
                name=about.directory.path.name,
                dir=str(about.directory),
                config=about.options,
                resume="allow",
                reinit="create_new",
                settings=wandb.Settings(console="off"),
            )
        except wandb.errors.Error as error:
            raise LPOError(
                f"Weights & Biases did not start ({one_line(error)}); run `wandb login`, or set "
                "WANDB_MODE=offline."
            ) from error

    def write(self, step: int, metrics: dict[str, float], timing: dict[str, float]) -> None:
        if step >= self.run.step:  # a resumed run repeats rows that were sent before
            self.run.log({**metrics, **timing}, step=step)

    def close(self) -> None:
        self.run.finish()


class MLflow:
    """Writes rows to MLflow, in batches from a thread of its own.

    A resumed run goes on under the id that it had. It first sends the rows that were logged before
    the interruption and did not arrive.
    """

    def __init__(self, about: About):
        mlflow: Any = importlib.import_module("mlflow")
        self.entities: Any = importlib.import_module("mlflow.entities")
        try:
            self.client: Any = mlflow.MlflowClient()
            self.id = about.directory.id_for("mlflow", lambda: self.begin(about))
            self.client.update_run(self.id, status="RUNNING")
            # Every row has this metric.
            known = self.client.get_metric_history(self.id, "switch/count")
        except mlflow.MlflowException as error:
            raise LPOError(
                f"MLflow did not start ({one_line(error)}); set MLFLOW_TRACKING_URI to a server or "
                "a database, for instance sqlite:///mlflow.db."
            ) from error
        self.last = max((metric.step for metric in known), default=0)
        self.batches = Batches(self.send)
        for row in logged(about.directory, self.last):
            self.batches.add(row)

    def begin(self, about: About) -> str:
        """Returns the id of a new run that holds the options."""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "lpo")
        found = self.client.get_experiment_by_name(name)
        place = found.experiment_id if found else self.client.create_experiment(name)
        run_id = self.client.create_run(place, run_name=about.directory.path.name).info.run_id
        params = [self.entities.Param(key, str(value)) for key, value in about.options.items()]
        self.client.log_batch(run_id, params=params)
        return run_id

    def write(self, step: int, metrics: dict[str, float], timing: dict[str, float]) -> None:
        if step > self.last:  # a resumed run repeats rows that were sent before
            self.batches.add(Row(step, time.time(), {**metrics, **timing}))

    def send(self, rows: Sequence[Row]) -> None:
        """Sends rows, at most 1000 numbers at a time: a server takes no more."""
        values = [
            self.entities.Metric(key, value, int(1000 * row.time), row.step)
            for row in rows
            for key, value in row.values.items()
        ]
        for i in range(0, len(values), 1000):
            self.client.log_batch(self.id, metrics=values[i : i + 1000])

    def close(self) -> None:
        self.batches.close()
        self.client.set_terminated(self.id)


class Row(NamedTuple):
    step: int
    time: float  # seconds since 1970
    values: dict[str, float]


def logged(directory: RunDirectory, after: int) -> list[Row]:
    """Returns the rows of the logs of a run with more than ``after`` environment steps."""
    rows: dict[int, dict[str, float]] = {}
    for file in (directory.metrics_file, directory.timing_file):
        for row in read_rows(file) if file.exists() else []:
            step = row.pop("env_steps")
            rows[step] = rows.get(step, {}) | row
    return [Row(step, time.time(), values) for step, values in rows.items() if step > after]


class Batches:
    """Passes rows to ``send``, several at once, from a thread: training does not wait for it.

    A call costs as much as two rows, so they wait for each other. Rows that could not be sent are
    kept, and sent with the next ones.
    """

    def __init__(self, send: Callable[[Sequence[Row]], None], every: float = SHOW_EVERY):
        self.send, self.every = send, every
        self.rows: list[Row] = []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.work, name="lpo-logger", daemon=True)
        self.thread.start()
        atexit.register(self.close)  # for an agent that nobody closed

    def add(self, row: Row) -> None:
        self.rows.append(row)

    def work(self) -> None:
        while not self.ended.wait(self.every):
            self.flush()

    def flush(self) -> str:
        """Sends the rows that wait. Returns what went wrong."""
        rows = self.rows[:]
        try:
            if rows:
                self.send(rows)
        except Exception as error:  # a server that is away must not end the training
            return one_line(error)
        del self.rows[: len(rows)]
        return ""

    def close(self) -> None:
        """Sends what is left. Says so where it does not arrive."""
        if self.ended.is_set():
            return
        self.ended.set()
        self.thread.join()
        atexit.unregister(self.close)
        if problem := self.flush():
            warnings.warn(
                f"{len(self.rows)} rows did not reach MLflow ({problem}); they are in "
                "metrics.jsonl, and `lpo resume` sends them.",
                stacklevel=2,
            )


LOGGERS: dict[str, Callable[[About], Logger]] = {
    "tensorboard": lambda about: TensorBoard(about.directory, about.step),
    "wandb": WandB,
    "mlflow": MLflow,
}
LIBRARIES = {"tensorboard": "tensorboardX", "wandb": "wandb", "mlflow": "mlflow"}


def open_loggers(names: Sequence[str], about: About) -> list[Logger]:
    """Returns the loggers of these names. Raises LPOError for an unknown or missing one."""
    check_installed(names)
    return [LOGGERS[name](about) for name in dict.fromkeys(names)]


def check_installed(names: Sequence[str]) -> None:
    """Raises LPOError for a logger that is unknown, or whose library is not installed."""
    for name in names:
        if name not in LOGGERS:
            raise LPOError(f"No logger is called {name!r}; {nearest(str(name), LOGGERS)}")
        if importlib.util.find_spec(LIBRARIES[name]) is None:
            raise LPOError(
                f"The logger {name!r} needs {LIBRARIES[name]}; run `pip install 'lpo-rl[{name}]'`."
            )


def one_line(error: Exception) -> str:
    """Returns the first line of an error, for a sentence."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
