"""Runs: progress in words, for logs and for the command line."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lpo.runs.run import Run
from lpo.runs.session import Callback, Session


def state_line(run: Run, rate: float) -> dict[str, str]:
    """Returns the texts of a progress line: return, success, bonus, switches and speed."""
    last, recent = run.rows[-1], run.trainer.recent()
    shown = {
        "return": f"{recent['return']:.1f}" if "return" in recent else "–",
        "success": f"{recent['success']:.0%}" if "success" in recent else "–",
        "bonus": f"{last['bonus/mean']:.2g}" if "bonus/mean" in last else "–",
        "switches": f"{last['switch/count']:.0f}",
        "steps/s": f"{rate:,.0f}",
    }
    return shown


def of_many(metrics: dict[str, Any], rate: float) -> dict[str, str]:
    """Returns the texts of a progress line of many runs; the metrics are arrays [R]."""
    texts = {}
    returns = metrics.get("eval/return", metrics.get("rollout/return"))
    if returns is not None and np.isfinite(returns).any():
        texts["return"] = f"best {np.nanmax(returns):.1f} median {np.nanmedian(returns):.1f}"
    success = metrics.get("eval/success", metrics.get("rollout/success"))
    if success is not None and np.isfinite(success).any():
        texts["success"] = f"{np.nanmean(success):.0%}"
    return texts | {"steps/s": f"{rate:,.0f}"}


def texts(session: Session, metrics: dict[str, Any], rate: float) -> dict[str, str]:
    """Returns the texts of a progress line of one run or of many."""
    if isinstance(session, Run):
        return state_line(session, rate)
    return of_many(metrics, rate)


def evaluated(metrics: dict[str, Any]) -> str:
    """Returns the returns of an evaluation, by the mode and by sampled actions."""
    metrics = {name: float(np.mean(value)) for name, value in metrics.items()}
    sampled = metrics.get("eval/sampled_return")
    more = "" if sampled is None else f" sampled {sampled:.4g}"
    return f"eval {metrics['eval/return']:.4g}{more}"


class Rate:
    """Steps per second of all runs since the first turn, which compiles; of that turn at first."""

    def __init__(self, session: Session) -> None:
        self.session, self.turns = session, 0
        self.start = self.now()

    def now(self) -> tuple[float, int]:
        return time.perf_counter(), int(self.session.trainer.steps.sum())

    def __call__(self) -> float:
        (began, first), (now, steps) = self.start, self.now()
        self.turns += 1
        if self.turns == 1:
            self.start = now, steps
        return (steps - first) / max(now - began, 1e-9)


def watched_lines(run: Session) -> Callback:
    """Returns a callback that prints a line for each evaluation."""
    rate = Rate(run)

    def show(step: int, metrics: dict[str, Any]) -> None:
        speed = rate()
        if "eval/return" in metrics:
            shown = "  ".join(f"{k} {v}" for k, v in texts(run, metrics, speed).items())
            print(f"step {step:>9,}  {evaluated(metrics)}  {shown}", flush=True)

    return show


@contextmanager
def shown(run: Session, until: int, asked: bool | None = None) -> Iterator[Callback]:
    """Yields a callback that shows how far the run is.

    It is a bar on a terminal and a line in a notebook. Elsewhere it is nothing, or a line for each
    evaluation where it was ``asked`` for. With False it is nothing anywhere.
    """
    if asked is False:
        yield nothing
    elif in_notebook():
        yield from _line(run, until)
    elif sys.stdout.isatty():
        yield from _bar(run, until)
    else:
        yield watched_lines(run) if asked else nothing


def nothing(step: int, metrics: dict[str, Any]) -> None:
    """Shows nothing."""


def in_notebook() -> bool:
    """Returns whether the output goes to a notebook, which has no terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def _bar(run: Session, until: int) -> Iterator[Callback]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    rate = Rate(run)
    columns = (
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, TextColumn("{task.description}")) as bar:
        task = bar.add_task("compiling", total=until, completed=run.env_steps)

        def show(step: int, metrics: dict[str, Any]) -> None:
            now = texts(run, metrics, rate())
            words = " ".join(f"{k} [bold]{v}[/]" for k, v in now.items())
            bar.update(task, completed=step, description=words)

        yield show


def _line(run: Session, until: int) -> Iterator[Callback]:
    """A line that is written over itself."""
    rate = Rate(run)

    def show(step: int, metrics: dict[str, Any]) -> None:
        words = "  ".join(f"{k} {v}" for k, v in texts(run, metrics, rate()).items())
        print(f"\r{step / until:4.0%}  {words}".ljust(90), end="", flush=True)

    yield show
    print()


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Shows warnings as one line each, without the line of code that they come from."""

    def show(message: Warning | str, *rest: object, **more: object) -> None:
        print(f"warning: {message}", file=sys.stderr, flush=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
