"""Does a logger slow training? One run trains with each logger on and off, slice by slice in turn.

    pip install 'lpo-rl[wandb,mlflow,bench]'
    python benchmarks/loggers.py            # about ten minutes

One process, pinned to one core, trains one agent. Before every slice the loggers of its run are
exchanged: a pair of slices is one without any logger and one with one, and their order changes from
pair to pair. A slice takes some seconds. One with a logger ends when its rows are written: what a
thread of its own would do beside the training is counted in full. W&B is in its offline mode,
MLflow writes to SQLite.

Prints, for each logger, the median speed on and off and the median over the pairs of on / off, by
the wall clock and by the CPU seconds of the process and its children (W&B has one). The last line
is one JSON object. On a machine that others use too, the ratio by CPU seconds is the steadier one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from checkout import commit

TASKS = ("lpo/SparseHopper-v0", "lpo/SparseHalfCheetah-v0")
QUIET = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "OPENBLAS_NUM_THREADS": "1",
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


def cpu_seconds() -> float:
    """CPU seconds of this process and of its children, which W&B has one of."""
    import psutil  # pyright: ignore[reportMissingModuleSource]

    me = psutil.Process()
    times = [p.cpu_times() for p in (me, *me.children(recursive=True))]
    return sum(t.user + t.system for t in times)


def timed(run: Any, loggers: list[Any], steps: int) -> dict[str, float]:
    """Steps per second of one slice with these loggers; their rows are written when it ends."""
    run.loggers = loggers
    before, wall, cpu = run.env_steps, time.perf_counter(), cpu_seconds()
    run.advance(before + steps)
    for logger in loggers:
        settle(logger)
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    done = run.env_steps - before
    return {"wall": done / wall, "cpu": done / cpu}


def settle(logger: Any) -> None:
    """Waits until the rows that a logger was given are written."""
    if hasattr(logger, "batches"):
        assert not logger.batches.flush()
    if hasattr(logger, "writer"):
        logger.writer.flush()


def measure(task: str, names: list[str], pairs: int, steps: int) -> dict[str, dict[str, Any]]:
    from lpo import config
    from lpo.runs.directory import RunDirectory
    from lpo.runs.loggers import About, open_loggers
    from lpo.runs.run import Run, make_trainer

    c = config.configure("lpo", env=task, steps=2_000_000, eval_every=0, threads=1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        about = About(RunDirectory(Path(folder) / "run"), config.flat(c))
        loggers = {name: open_loggers([name], about) for name in names}
        run = Run(make_trainer(c))
        for own in [[], *loggers.values()]:  # compilation and warm-up
            timed(run, own, steps)
        slices: dict[str, list[dict[str, dict[str, float]]]] = {name: [] for name in names}
        for pair in range(pairs):
            for name in names:
                sides = [("off", []), ("on", loggers[name])]
                order = sides if pair % 2 == 0 else sides[::-1]
                slices[name].append({side: timed(run, own, steps) for side, own in order})
        run.loggers = [logger for own in loggers.values() for logger in own]
        run.close()
    return {name: summarise(rows) for name, rows in slices.items()}


def summarise(pairs: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for clock in ("wall", "cpu"):
        ratios = [pair["on"][clock] / pair["off"][clock] for pair in pairs]
        found[clock] = {
            "off": round(statistics.median(pair["off"][clock] for pair in pairs)),
            "on": round(statistics.median(pair["on"][clock] for pair in pairs)),
            "ratio": round(statistics.median(ratios), 4),
            "quartiles": [round(q, 4) for q in statistics.quantiles(ratios, n=4)[::2]],
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), help="Gymnasium ids")
    parser.add_argument("--loggers", nargs="+", default=["tensorboard", "wandb", "mlflow"])
    parser.add_argument("--pairs", type=int, default=12, help="pairs of slices for each logger")
    parser.add_argument("--steps", type=int, default=25 * 2048, help="environment steps of a slice")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    args = parser.parse_args()
    os.sched_setaffinity(0, {args.core})
    os.environ.update(QUIET)
    found = {}
    for task in args.tasks:
        found[task] = measure(task, args.loggers, args.pairs, args.steps)
        print(task)
        for name, row in found[task].items():
            for clock, r in row.items():
                low, high = r["quartiles"]
                print(
                    f"  {name:12s} {clock:4s} off {r['off']:>7,} on {r['on']:>7,} steps/s  "
                    f"on/off {r['ratio']:.3f} (quartiles {low:.3f}, {high:.3f})",
                    flush=True,
                )
    print(json.dumps({"commit": commit(), "loggers": found}))


if __name__ == "__main__":
    main()
