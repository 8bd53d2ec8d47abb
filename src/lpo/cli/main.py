"""Command line: the commands of `lpo`."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from lpo.cli.options import (
    CardOptions,
    DoctorOptions,
    EvalOptions,
    ExportOptions,
    ListOptions,
    PackOptions,
    PlotOptions,
    RenderOptions,
    ReportOptions,
    ResumeOptions,
    SweepOptions,
    TheoryOptions,
    TuneOptions,
)
from lpo.cli.parser import IMPORTS, parse
from lpo.errors import SPEAKS_FLAGS, LPOError, nearest
from lpo.files import check_folder
from lpo.platform import TRUSTED, prefer_device, prefer_host, trusted_packages


def train(arguments: Sequence[str]) -> None:
    """Train an agent. Without arguments: the default on SparseHopper, about a minute."""
    from lpo.cli.train import train as run_training

    run_training(arguments)


def resume(arguments: Sequence[str]) -> None:
    options = parse(ResumeOptions, "resume", arguments)
    if options.device != "host":
        from lpo.sweep.device import resume_on_device

        sys.exit(resume_on_device(options.run, options.device, options.steps, options.quiet))
    from lpo.cli.memory import remember
    from lpo.cli.progress import report_result, watched
    from lpo.runs.run import resume as open_run

    found = open_run(options.run)
    for problem in found.problems:
        print(f"warning: {problem}", file=sys.stderr)
    until = options.steps or found.until
    remember(options.run)
    with found.run as run:
        if run.env_steps >= until:
            print(f"{options.run} is complete at {run.env_steps} steps; pass --steps to continue.")
            return
        with watched(run, until, options.quiet) as callback:
            run.advance(until, callback)
        report_result(run)


def evaluate(arguments: Sequence[str]) -> None:
    options = parse(EvalOptions, "eval", arguments)
    from lpo.cli.evaluate import evaluate as run_episodes

    run_episodes(options.run, options.checkpoint, options.episodes, options.seed, options.actions)


def render(arguments: Sequence[str]) -> None:
    options = parse(RenderOptions, "render", arguments)
    from lpo.policy import Policy
    from lpo.render import render_policy

    policy = Policy.load(options.run, options.checkpoint)
    out = options.out or result((options.run,), "policy.mp4")
    way = policy.way(options.actions)
    print(render_policy(policy, out, options.steps, options.seed, way == "mode"))


def export(arguments: Sequence[str]) -> None:
    options = parse(ExportOptions, "export", arguments)
    if not options.onnx:
        raise LPOError("ONNX is the only format of `lpo export`; leave --no-onnx out.")
    from lpo.export import export_onnx
    from lpo.policy import Policy

    default = result((options.run,), "policy.onnx")
    print(export_onnx(Policy.load(options.run, options.checkpoint), options.out or default))


def card(arguments: Sequence[str]) -> None:
    options = parse(CardOptions, "card", arguments)
    from lpo.card import write_card

    out = options.out or result((options.run,), "card")
    notes = write_card(
        options.run, out, options.checkpoint, options.episodes, options.seed, options.clip
    )
    print(out, *notes, sep="\n")


def result(runs: tuple[Path, ...], name: str) -> Path:
    """Returns the default path of a result: in the one run or sweep, or in the current folder.

    Raises LPOError where a link there leads elsewhere.
    """
    home = runs[0] if len(runs) == 1 and runs[0].is_dir() else Path(".")
    check_folder(home, [home / name])
    return home / name


def plot(arguments: Sequence[str]) -> None:
    options = parse(PlotOptions, "plot", arguments)
    from lpo.report.curves import plot_runs

    out = options.out or result(options.runs, "curve.png")
    print(plot_runs(options.runs, options.metric, out))


def sweep(arguments: Sequence[str]) -> None:
    options = parse(SweepOptions, "sweep", arguments)
    from lpo.cli.memory import remember
    from lpo.envs.registry import NAMED
    from lpo.sweep.grid import read_grid
    from lpo.sweep.main import sweep as run_grid

    if NAMED and not options.plan:
        grid = read_grid(options.grid, options.device != "host")
        remember(options.out or Path("runs") / grid.name)
    sys.exit(
        run_grid(
            options.grid, options.out, options.workers, options.ray, options.plan, options.device
        )
    )


def tune(arguments: Sequence[str]) -> None:
    options = parse(TuneOptions, "tune", arguments)
    from lpo.sweep.tune import tune as search

    sys.exit(search(options.grid, options.out, options.workers, options.ray, options.device))


def report(arguments: Sequence[str]) -> None:
    options = parse(ReportOptions, "report", arguments)
    from lpo.report.main import Clips, make_report
    from lpo.report.runs import Runs

    runs = Runs(options.runs)
    out = options.out or result(options.runs, "report")
    clips = Clips({})
    if options.clips:
        from lpo.report.clips import beside_report, make_clips

        clips = make_clips(runs, beside_report(out))
    title = options.title or options.runs[0].resolve().name.removesuffix(".parquet")
    command = shlex.join(["lpo", "report", *arguments])
    print(make_report(runs, out, title, command, options.reference, clips))


def pack(arguments: Sequence[str]) -> None:
    options = parse(PackOptions, "pack", arguments)
    from lpo.report.clips import best_policies
    from lpo.runs.store import pack as pack_runs

    policies = best_policies(options.runs) if options.policies else {}
    number, note = pack_runs(options.runs, options.out, policies, options.metrics)
    print(f"{options.out}: {number} runs" + (f"\n{note}" if note else ""))


def doctor(arguments: Sequence[str]) -> None:
    options = parse(DoctorOptions, "doctor", arguments)
    from lpo.report.doctor import examine

    print("\n".join(examine(options.runs)))


def list_all(arguments: Sequence[str]) -> None:
    options = parse(ListOptions, "list", arguments)
    from lpo.cli.train import print_tables, task_in_words

    if options.env is None:
        print_tables()
    else:
        print(task_in_words(options.env, options.network))


def theory(arguments: Sequence[str]) -> None:
    if importlib.util.find_spec("numba") is None:
        raise LPOError("`lpo theory` needs numba; run `pip install 'lpo-rl[theory]'`.")
    from lpo.cli.theory import dispatch

    sys.exit(dispatch(arguments))


COMMANDS = {
    "train": (train, train),
    "resume": (resume, ResumeOptions),
    "eval": (evaluate, EvalOptions),
    "render": (render, RenderOptions),
    "export": (export, ExportOptions),
    "card": (card, CardOptions),
    "plot": (plot, PlotOptions),
    "sweep": (sweep, SweepOptions),
    "tune": (tune, TuneOptions),
    "report": (report, ReportOptions),
    "doctor": (doctor, DoctorOptions),
    "pack": (pack, PackOptions),
    "list": (list_all, ListOptions),
    "theory": (theory, TheoryOptions),
}


READ = ("resume", "eval", "render", "export", "card", "report")  # what makes parts of a run again


def usage() -> str:
    lines = ["usage: lpo COMMAND [OPTIONS]", ""]
    lines += [f"  lpo {name:8s} {kind.__doc__}" for name, (_, kind) in COMMANDS.items()]
    more = "`lpo COMMAND --help` lists the options of a command.\n" + IMPORTS
    return "\n".join([*lines, "", more])


def import_trusted(arguments: list[str]) -> list[str]:
    """Imports what ``--import`` names, packages and files, and returns the other arguments.

    A run may name the environments and parts of a package, but only the user can have it imported.
    """
    rest = iter(arguments)
    left, named = [], []
    for word in rest:
        name, equals, value = word.partition("=")
        if name != "--import":
            left.append(word)
            continue
        package = value if equals else next(rest, "")
        if not package:
            raise LPOError("--import has no package or file after it; name one, or leave it out.")
        path = Path(package)
        named.append(str(path.resolve()) if path.suffix == ".py" else package)
    TRUSTED.set(tuple(named))
    if packages := trusted_packages():
        from lpo.envs.registry import import_package

        for package in packages:
            import_package(package)
    return left


def main(argv: Sequence[str] | None = None) -> None:
    arguments = sys.argv[1:] if argv is None else list(argv)
    on_device = any(word.split("=")[0] == "--device" for word in arguments)
    prefer_device() if on_device else prefer_host()
    speaks = SPEAKS_FLAGS.set(True)
    try:
        if not arguments or arguments[0] in ("-h", "--help"):
            print(usage(), flush=True)
            sys.exit(0 if arguments else 2)
        if arguments[0] == "--version":
            from lpo import __version__

            print(__version__)
            return
        arguments = import_trusted(arguments)
        if arguments[0] not in COMMANDS:
            hint = nearest(arguments[0], COMMANDS)
            raise LPOError(f"There is no command {arguments[0]!r}; {hint}")
        if arguments[0] in READ:
            from lpo.cli.memory import recall

            recall(arguments[1:])
        COMMANDS[arguments[0]][0](arguments[1:])
    except LPOError as error:
        print(f"lpo: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of the output has closed it, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    finally:
        SPEAKS_FLAGS.reset(speaks)
