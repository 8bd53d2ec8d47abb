"""Runs: progress in words, for logs and for the command line."""

from __future__ import annotations

import time

from lpo.engine.evaluate import success_rate
from lpo.runs.run import Callback, Run


def state_line(run: Run, rate: float) -> dict[str, str]:
    """Returns the texts of a progress line: return, success, bonus, switches and speed."""
    trainer, last = run.trainer, run.memory.rows[-1]
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
