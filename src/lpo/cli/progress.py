"""Command line: what is shown during a run and at its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lpo.config import flat
from lpo.runs import verdict
from lpo.runs.directory import task_line
from lpo.runs.progress import plain_warnings, shown
from lpo.runs.run import Run
from lpo.runs.session import Callback, stopping_on_signals


@contextmanager
def watched(run: Run, until: int, quiet: bool) -> Iterator[Callback]:
    """Yields a callback that shows progress: a bar on a terminal, else a line per evaluation.

    Raises KeyboardInterrupt after a run that a signal stopped.
    """
    with stopping_on_signals(run), plain_warnings(), shown(run, until, not quiet) as show:
        yield show
    if run.stop_requested:
        print(f"Stopped at step {run.env_steps}; continue with `lpo resume {run.directory}`.")
        raise KeyboardInterrupt


def report_result(run: Run) -> None:
    """Prints the final score of a run, and where its curve and its directory are."""
    from lpo.report.curves import plot_runs
    from lpo.report.doctor import diagnose

    assert run.directory is not None
    c, directory = run.trainer.config, run.directory
    final = next((row for row in reversed(run.rows) if "eval/return" in row), None)
    print(f"{c.algo} on {task_line(run.trainer.env.description)}: {run.env_steps:,} steps")
    for line in verdict.at_end(final or {}):
        print(line)
    sick = diagnose(directory.metrics(), run.trainer.env.description, flat(c))
    for line in sick.lines() if sick else ():
        print(line)
    metric = "eval/return" if final is not None else "rollout/return"
    try:
        if any(metric in row for row in directory.metrics()):
            print(f"curve  {plot_runs((directory.path,), metric, directory.curve_file)}")
        else:
            print("curve  none: no episode has ended yet")
    finally:
        print(f"run    {directory}")
