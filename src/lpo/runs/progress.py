"""Runs: progress in words, for logs and for the command line."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from lpo.engine.evaluate import success_rate
from lpo.runs.run import Run
from lpo.runs.session import Callback


def state_line(run: Run, rate: float) -> dict[str, str]:
    """Returns the texts of a progress line: return, success, bonus, switches and speed."""
    trainer, last = run.trainer, run.rows[-1]
    recent = list(trainer.episodes.recent)
    success = success_rate(recent, trainer.env.description) if recent else None
    shown = {
        "return": f"{sum(e.ret for e in recent) / len(recent):.1f}" if recent else "–",
        "success": "–" if success is None else f"{success:.0%}",
        "bonus": f"{last['bonus/mean']:.2g}" if "bonus/mean" in last else "–",
        "switches": f"{last['switch/count']:.0f}",
        "steps/s": f"{rate:,.0f}",
    }
    return shown


def evaluated(metrics: dict[str, float]) -> str:
    """Returns the returns of an evaluation, by the mode and by sampled actions."""
    sampled = metrics.get("eval/sampled_return")
    more = "" if sampled is None else f" sampled {sampled:.4g}"
    return f"eval {metrics['eval/return']:.4g}{more}"


class Rate:
    """Steps per second since the start, without the first iteration, which compiles."""

    def __init__(self) -> None:
        self.start: tuple[float, int] | None = None

    def __call__(self, steps: int) -> float:
        now = time.perf_counter()
        if self.start is None:
            self.start = now, steps
            return 0.0
        return (steps - self.start[1]) / max(now - self.start[0], 1e-9)


def watched_lines(run: Run) -> Callback:
    """Returns a callback that prints a line for each evaluation."""
    rate = Rate()

    def show(step: int, metrics: dict[str, float]) -> None:
        speed = rate(step)
        if "eval/return" in metrics:
            shown = "  ".join(f"{k} {v}" for k, v in state_line(run, speed).items())
            print(f"step {step:>9,}  {evaluated(metrics)}  {shown}", flush=True)

    return show


@contextmanager
def shown(run: Run, until: int, asked: bool | None = None) -> Iterator[Callback]:
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


def nothing(step: int, metrics: dict[str, float]) -> None:
    """Shows nothing."""


def in_notebook() -> bool:
    """Returns whether the output goes to a notebook, which has no terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def _bar(run: Run, until: int) -> Iterator[Callback]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    rate = Rate()
    columns = (
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, TextColumn("{task.description}")) as bar:
        task = bar.add_task("compiling", total=until, completed=run.env_steps)

        def show(step: int, metrics: dict[str, float]) -> None:
            texts = " ".join(f"{k} [bold]{v}[/]" for k, v in state_line(run, rate(step)).items())
            bar.update(task, completed=step, description=texts)

        yield show


def _line(run: Run, until: int) -> Iterator[Callback]:
    """A line that is written over itself."""
    rate = Rate()

    def show(step: int, metrics: dict[str, float]) -> None:
        texts = "  ".join(f"{k} {v}" for k, v in state_line(run, rate(step)).items())
        print(f"\r{step / until:4.0%}  {texts}".ljust(90), end="", flush=True)

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
