"""The command line: the commands of `lpo`."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from lpo import config
from lpo.config import Config
from lpo.errors import LPOError


@dataclass(frozen=True)
class TrainOptions:
    """Train an agent. Without arguments: LPO on SparseHopper, about a minute."""

    config_values: Annotated[Config, tyro.conf.arg(name="")]
    preset: str = "paper"
    """Named values that the flags start from (see `lpo list`)."""
    config: Path | None = None
    """Replay a configuration: the config.json of a run. Flags given beside it win."""
    out: Path | None = None
    """Directory of the new run (default: runs/ALGO-ENV-sSEED-NNN)."""
    quiet: bool = False
    """No progress bar."""


@dataclass(frozen=True)
class ResumeOptions:
    """Continue a run from its newest checkpoint, bit for bit as if it had never stopped."""

    run: tyro.conf.Positional[Path]
    """Run directory."""
    steps: int | None = None
    """Total environment steps to go to (default: those the run was started with)."""
    quiet: bool = False
    """No progress bar."""


@dataclass(frozen=True)
class EvalOptions:
    """Evaluate the policy of a run on fresh episodes."""

    run: tyro.conf.Positional[Path]
    """Run directory, or a file of `Agent.save`."""
    episodes: int = 20
    """Number of episodes."""
    seed: int = 1_000_003
    """Seed of the episodes."""
    checkpoint: Literal["best", "last"] = "best"
    """Policy to take from a run directory: the best by evaluation, or the last."""
    stochastic: bool = False
    """Sample actions instead of taking the mode."""


@dataclass(frozen=True)
class RenderOptions:
    """Write a video of the policy of a run playing (no screen needed)."""

    run: tyro.conf.Positional[Path]
    """Run directory, or a file of `Agent.save`."""
    out: Path | None = None
    """Video file, .mp4 or .gif (default: RUN/policy.mp4)."""
    steps: int = 500
    """Longest clip in environment steps."""
    seed: int = 0
    """Seed of the episode."""
    checkpoint: Literal["best", "last"] = "best"
    """Policy to take from a run directory: the best by evaluation, or the last."""
    stochastic: bool = False
    """Sample actions instead of taking the mode."""


@dataclass(frozen=True)
class PlotOptions:
    """Draw learning curves of runs as a PNG; runs that differ in the seed only share a band."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories."""
    metric: str = "eval/return"
    """Metric to draw (see `metrics.jsonl`)."""
    out: Path | None = None
    """PNG file (default: curve.png in the run, or in the current directory for several)."""


@dataclass(frozen=True)
class SweepOptions:
    """Run a grid of runs, one process per core, and go on where it was if interrupted."""

    grid: tyro.conf.Positional[Path]
    """TOML file: name, algos, envs, seeds, steps, thresholds, overrides, variants."""
    out: Path | None = None
    """Directory of the sweep (default: runs/NAME)."""
    workers: int | None = None
    """Processes, each on a core of its own (default: the usable cores)."""
    ray: str | None = None
    """Address of a Ray cluster to run on instead; --out must be on storage its nodes share."""
    plan: bool = False
    """Only show the runs and where they stand."""


@dataclass(frozen=True)
class ReportOptions:
    """Make a page of runs: curves with intervals, comparisons, clips, options and all numbers."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories, or directories of sweeps."""
    out: Path | None = None
    """Directory of the report (default: report/ in the sweep, or in the current directory)."""
    title: str | None = None
    """Title of the page (default: the name of the first directory)."""
    reference: str | None = None
    """Label that the others are compared with (default: lpo where there is one)."""
    clips: bool = True
    """Clips of the best policies (needs EGL or OSMesa)."""


@dataclass(frozen=True)
class PackOptions:
    """Copy runs without checkpoints, small enough to keep: what `lpo report` reads of them."""

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories, or directories of sweeps."""
    out: Path
    """Directory of the copies."""
    clips: bool = True
    """Keep a clip of the best policy of each cell (needs EGL or OSMesa)."""


@dataclass(frozen=True)
class ListOptions:
    """Show algorithms, environments with their thresholds, and presets."""


class TheoryOptions:
    """Run Algorithms 1-6 or a peer on an MDP with exact values; `theory compare`: a grid."""


def option(arguments: list[str], name: str) -> str | None:
    """The value of ``--name`` before the real parse, which needs it to choose its defaults."""
    for i, argument in enumerate(arguments):
        if argument == f"--{name}" and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith(f"--{name}="):
            return argument.split("=", 1)[1]
    return None


def parse(kind: Any, command: str, arguments: list[str], default: Any = None) -> Any:
    extra = {} if default is None else {"default": default}
    return tyro.cli(
        kind,
        prog=f"lpo {command}",
        args=arguments,
        config=(tyro.conf.OmitArgPrefixes,),
        **extra,
    )


def train(arguments: list[str]) -> None:
    file, name = option(arguments, "config"), option(arguments, "preset") or "paper"
    if file and option(arguments, "preset"):
        raise LPOError("--config and --preset were both given; leave one of them out.")
    env = option(arguments, "env") or config.DEFAULT_ENV
    base = config.read(Path(file)) if file else config.preset(name, env)
    options = parse(TrainOptions, "train", arguments, TrainOptions(base, preset=name))

    from lpo.cli.progress import report_result, watched
    from lpo.engine.train import run_name
    from lpo.runs.log import free_directory
    from lpo.runs.run import start

    c = options.config_values
    out = options.out or free_directory(Path("runs"), run_name(c))
    with start(c, out) as run:
        with watched(run, options.quiet) as callback:
            run.advance(callback)
        report_result(run)


def resume(arguments: list[str]) -> None:
    options = parse(ResumeOptions, "resume", arguments)
    from lpo.cli.progress import report_result, watched
    from lpo.runs.run import resume as open_run

    run, problems = open_run(options.run, options.steps)
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)
    with run:
        if run.env_steps >= run.until:
            print(f"{options.run} is complete at {run.env_steps} steps; pass --steps to go on.")
            return
        with watched(run, options.quiet) as callback:
            run.advance(callback)
        report_result(run)


def evaluate(arguments: list[str]) -> None:
    options = parse(EvalOptions, "eval", arguments)
    from lpo.agent import Agent
    from lpo.engine.evaluate import evaluate as run_episodes
    from lpo.runs.log import task_line
    from lpo.runs.run import make_envs

    if options.episodes < 1:
        raise LPOError(f"--episodes is {options.episodes}; pass 1 or more.")
    agent = Agent.load(options.run, which=options.checkpoint)
    env = make_envs(agent.config, options.episodes)
    trainer = agent.run.trainer
    episodes = run_episodes(
        env, trainer.policy(), options.seed, not options.stochastic, agent.config.eval_max_steps
    )
    scores = trainer.score("eval", episodes)
    print(f"{options.run}: policy at step {agent.env_steps}, {task_line(env.description)}")
    spread = max(e.ret for e in episodes), min(e.ret for e in episodes)
    print(
        f"return {scores['eval/return']:.1f} (from {spread[1]:.1f} to {spread[0]:.1f}), "
        f"length {scores['eval/length']:.0f}, success {scores['eval/success']:.0%} "
        f"over {len(episodes)} episodes"
    )


def render(arguments: list[str]) -> None:
    options = parse(RenderOptions, "render", arguments)
    from lpo.render import render_run

    default = options.run / "policy.mp4" if options.run.is_dir() else Path("policy.mp4")
    out = options.out or default
    deterministic = not options.stochastic
    print(
        render_run(options.run, out, options.steps, options.seed, deterministic, options.checkpoint)
    )


def plot(arguments: list[str]) -> None:
    options = parse(PlotOptions, "plot", arguments)
    from lpo.report.curves import plot_runs

    single = options.runs[0] if len(options.runs) == 1 else Path(".")
    print(plot_runs(options.runs, options.metric, options.out or single / "curve.png"))


def sweep(arguments: list[str]) -> None:
    options = parse(SweepOptions, "sweep", arguments)
    from lpo.sweep.main import sweep as run_grid

    sys.exit(run_grid(options.grid, options.out, options.workers, options.ray, options.plan))


def report(arguments: list[str]) -> None:
    options = parse(ReportOptions, "report", arguments)
    from lpo.report.main import Clips, make_report
    from lpo.report.runs import Runs

    runs = Runs(options.runs)
    out = options.out or (options.runs[0] if len(options.runs) == 1 else Path(".")) / "report"
    clips = Clips({})
    if options.clips:
        from lpo.report.clips import beside_report, make_clips

        clips = make_clips(runs, beside_report(out))
    title = options.title or options.runs[0].resolve().name
    command = shlex.join(["lpo", "report", *arguments])
    print(make_report(runs, out, title, command, options.reference, clips))


def pack(arguments: list[str]) -> None:
    options = parse(PackOptions, "pack", arguments)
    from lpo.runs.pack import pack as pack_runs

    number, note = pack_runs(options.runs, options.out, options.clips)
    print(f"{options.out}: {number} runs" + (f"\n{note}" if note else ""))


def list_all(arguments: list[str]) -> None:
    parse(ListOptions, "list", arguments)
    from lpo.cli.progress import print_tables

    print_tables()


def theory(arguments: list[str]) -> None:
    if importlib.util.find_spec("numba") is None:
        raise LPOError("`lpo theory` needs numba; run `pip install 'lpo-rl[theory]'`.")
    from lpo.cli.theory import dispatch

    sys.exit(dispatch(arguments))


COMMANDS = {
    "train": (train, TrainOptions),
    "resume": (resume, ResumeOptions),
    "eval": (evaluate, EvalOptions),
    "render": (render, RenderOptions),
    "plot": (plot, PlotOptions),
    "sweep": (sweep, SweepOptions),
    "report": (report, ReportOptions),
    "pack": (pack, PackOptions),
    "list": (list_all, ListOptions),
    "theory": (theory, TheoryOptions),
}


def usage() -> str:
    lines = ["usage: lpo COMMAND [OPTIONS]", ""]
    lines += [f"  lpo {name:8s} {kind.__doc__}" for name, (_, kind) in COMMANDS.items()]
    return "\n".join([*lines, "", "`lpo COMMAND --help` lists the options of a command."])


def main(argv: list[str] | None = None) -> None:
    # Small networks: threads of the linear algebra cost more than they bring, and the host steps.
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        sys.exit(0 if arguments else 2)
    if arguments[0] == "--version":
        from lpo import __version__

        print(__version__)
        return
    if arguments[0] not in COMMANDS:
        print(f"lpo: there is no command {arguments[0]!r}.\n\n{usage()}", file=sys.stderr)
        sys.exit(2)
    try:
        COMMANDS[arguments[0]][0](arguments[1:])
    except LPOError as error:
        print(f"lpo: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
