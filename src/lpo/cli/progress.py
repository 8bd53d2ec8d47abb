"""What a person sees while a run goes on, when it ends, and when they ask what there is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from lpo.engine.evaluate import success_rate
from lpo.runs.log import task_line
from lpo.runs.run import Callback, Run, stopping_on_signals


def state_line(run: Run, rate: float) -> dict[str, str]:
    """Return, success, bonus, switches and speed as they are shown."""
    trainer, last = run.trainer, run.log.rows[-1]
    recent = list(trainer.episodes.recent)
    shown = {
        "return": f"{sum(e.ret for e in recent) / len(recent):.1f}" if recent else "–",
        "success": f"{success_rate(recent, trainer.max_return):.0%}" if recent else "–",
        "bonus": f"{last['bonus/mean']:.2g}" if "bonus/mean" in last else "–",
        "switches": f"{last['switch/count']:.0f}",
        "steps/s": f"{rate:,.0f}",
    }
    return shown


class Rate:
    """Steps per second since the start, the first iteration (compilation) left out."""

    def __init__(self) -> None:
        self.start: tuple[float, int] | None = None

    def __call__(self, steps: int) -> float:
        now = time.perf_counter()
        if self.start is None:
            self.start = now, steps
            return 0.0
        return (steps - self.start[1]) / max(now - self.start[0], 1e-9)


@contextmanager
def watched(run: Run, quiet: bool) -> Iterator[Callback]:
    """A callback that shows progress: a bar on a terminal, a line per evaluation elsewhere."""
    rate = Rate()
    with stopping_on_signals(run):
        if quiet:
            yield lambda step, metrics: True
        elif sys.stdout.isatty():
            yield from _bar(run, rate)
        else:
            yield from _lines(run, rate)
    if run.stop_requested:
        print(f"Stopped at step {run.env_steps}; continue with `lpo resume {run.directory}`.")
        raise KeyboardInterrupt


def _lines(run: Run, rate: Rate) -> Iterator[Callback]:
    def show(step: int, metrics: dict[str, float]) -> None:
        speed = rate(step)
        if "eval/return" in metrics:
            shown = "  ".join(f"{k} {v}" for k, v in state_line(run, speed).items())
            print(f"step {step:>9,}  eval {metrics['eval/return']:.1f}  {shown}", flush=True)

    yield show


def _bar(run: Run, rate: Rate) -> Iterator[Callback]:
    columns = (
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, TextColumn("{task.description}")) as bar:
        task = bar.add_task("compiling", total=run.until, completed=run.env_steps)

        def show(step: int, metrics: dict[str, float]) -> None:
            shown = " ".join(f"{k} [bold]{v}[/]" for k, v in state_line(run, rate(step)).items())
            bar.update(task, completed=step, description=shown)

        yield show


def report_result(run: Run) -> None:
    """The end of a run: success, where the curve is, where the run is."""
    from lpo.report.curves import plot_runs

    assert run.directory is not None
    c = run.trainer.config
    final = next((row for row in reversed(run.log.rows) if "eval/success" in row), None)
    print(f"{c.algo} on {task_line(run.trainer.env.description)}: {run.env_steps:,} steps")
    if final is not None:
        print(f"success rate {final['eval/success']:.0%} (return {final['eval/return']:.1f})")
    metric = "eval/return" if final is not None else "rollout/return"
    try:
        print(f"curve  {plot_runs((run.directory,), metric, run.directory / 'curve.png')}")
    finally:
        print(f"run    {run.directory}")


def print_tables() -> None:
    """`lpo list`: algorithms, environments, presets."""
    from lpo.algorithms import ALGORITHMS
    from lpo.config import PRESET_HELP
    from lpo.envs import describe

    console = Console()
    table = Table("algorithm", "what it is", title="Algorithms (--algo)", title_justify="left")
    for name, row in ALGORITHMS.items():
        table.add_row(name, row.summary)
    console.print(table)
    table = Table(
        "environment", "reward", "thresholds", title="Environments (--env)", title_justify="left"
    )
    for row in describe():
        thresholds = "\n".join(f"{k}: {v}" for k, v in row["presets"].items())
        table.add_row(row["id"], row["reward"], thresholds or "–")
    table.add_row("any Gymnasium id", "its own", "–")
    console.print(table)
    table = Table("preset", "what it sets", title="Presets (--preset)", title_justify="left")
    for name, text in PRESET_HELP.items():
        table.add_row(name, text)
    console.print(table)
