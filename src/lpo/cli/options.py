"""Command line: the options of the commands, except those of `lpo train` and `lpo theory`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from lpo.cli.parser import Positional
from lpo.options import Count, PositiveInt, options

Actions = Literal["own", "mode", "sampled"]


@options
class ResumeOptions:
    """Continue a run from its newest checkpoint, bit for bit as if it had never stopped."""

    run: Positional[Path]
    """Run directory."""
    steps: PositiveInt | None = None
    """Total environment steps to train up to (default: the steps the run was meant to reach)."""
    device: Literal["host", "gpu", "cpu"] = "host"
    """For runs that were started with --device: the device that continues them."""
    quiet: bool = False
    """Show no progress."""


@options
class EvalOptions:
    """Evaluate the policy of a run on new episodes."""

    run: Positional[Path]
    """Run directory, or a file of `Agent.save`."""
    episodes: PositiveInt = 20
    """Number of episodes."""
    seed: Count = 1_000_003
    """Seed of the episodes."""
    checkpoint: Literal["best", "last"] = "best"
    """Policy to take from a run directory: the best by evaluation, or the last."""
    actions: Actions = "own"
    """mode: the most likely actions. sampled: actions drawn from the policy. own: what the policy
    does by default, which is the better of the two in the evaluations of its run."""


@options
class RenderOptions:
    """Write a video of the policy of a run playing (no screen needed)."""

    run: Positional[Path]
    """Run directory, or a file of `Agent.save`."""
    out: Path | None = None
    """Video file, .mp4 or .gif (default: RUN/policy.mp4)."""
    steps: PositiveInt = 500
    """Largest length of the video, in environment steps."""
    seed: Count = 0
    """Seed of the episode."""
    checkpoint: Literal["best", "last"] = "best"
    """Policy to take from a run directory: the best by evaluation, or the last."""
    actions: Actions = "own"
    """mode: the most likely actions. sampled: actions drawn from the policy. own: what the policy
    does by default, which is the better of the two in the evaluations of its run."""


@options
class ExportOptions:
    """Write the policy of a run for other programs: an ONNX file that acts without lpo."""

    run: Positional[Path]
    """Run directory, or a file of `Agent.save`."""
    onnx: bool = True
    """Write an ONNX file, which is the only format. The file takes the most likely action."""
    out: Path | None = None
    """File to write (default: RUN/policy.onnx)."""
    checkpoint: Literal["best", "last"] = "best"
    """Policy to take from a run directory: the best by evaluation, or the last."""


@options
class CardOptions:
    """Write a folder for a model hub: weights, a card with score and options, curve and clip."""

    run: Positional[Path]
    """Run directory."""
    out: Path | None = None
    """Folder to write (default: RUN/card)."""
    episodes: PositiveInt = 20
    """Episodes of the score."""
    seed: Count = 1_000_003
    """Seed of the episodes."""
    checkpoint: Literal["best", "last"] = "best"
    """Policy to take from the run: the best by evaluation, or the last."""
    clip: bool = True
    """Include a clip (needs EGL or OSMesa for MuJoCo)."""


@options
class PlotOptions:
    """Draw learning curves of runs as a PNG; runs that differ only in the seed share a line."""

    runs: Positional[tuple[Path, ...]]
    """Run directories, directories of sweeps, or packed files."""
    metric: str = "eval/return"
    """Metric to draw (see `metrics.jsonl`)."""
    out: Path | None = None
    """PNG file (default: curve.png in the run, or in the current directory for several)."""


@options
class SweepOptions:
    """Run a grid of runs, one process per core; after an interruption it continues."""

    grid: Positional[Path]
    """TOML file: name, algos, envs, seeds, steps, thresholds, overrides, variants."""
    out: Path | None = None
    """Directory of the sweep (default: runs/NAME)."""
    workers: PositiveInt | None = None
    """Number of processes, each on its own core (default: one for each usable core). With --device:
    programs that share the device (default: one after the other)."""
    ray: str | None = None
    """Run on the Ray cluster at this address; --out must be on storage that all nodes share."""
    device: Literal["host", "gpu", "cpu"] = "host"
    """host: one process for each run; gpu or cpu: many runs in one compiled program."""
    plan: bool = False
    """Only show the runs and how far they are."""


@options
class TuneOptions:
    """Search for good options with Optuna; after an interruption it continues."""

    grid: Positional[Path]
    """TOML file of a grid, with the tables [search] and [tune]."""
    out: Path | None = None
    """Directory of the search (default: runs/NAME)."""
    workers: PositiveInt | None = None
    """Number of processes, each on its own core (default: one for each usable core)."""
    ray: str | None = None
    """Run on the Ray cluster at this address; --out must be on storage that all nodes share."""
    device: Literal["host", "gpu", "cpu"] = "host"
    """host: one process for each run; gpu or cpu: many runs in one compiled program."""


@options
class ReportOptions:
    """Make an HTML page of runs: curves with intervals, comparisons, clips, options, numbers."""

    runs: Positional[tuple[Path, ...]]
    """Run directories, directories of sweeps, or packed files."""
    out: Path | None = None
    """Directory of the report (default: report/ in the sweep, or in the current directory)."""
    title: str | None = None
    """Title of the page (default: the name of the first directory or file)."""
    reference: str | None = None
    """Label that the others are compared with (default: lpo, or else the first label)."""
    clips: bool = True
    """Include clips of the best policies (needs EGL or OSMesa)."""


@options
class DoctorOptions:
    """Say why runs failed, and what to try."""

    runs: Positional[tuple[Path, ...]]
    """Run directories, directories of sweeps, or packed files."""


@options
class PackOptions:
    """Pack runs into one small Parquet file that `lpo report` and `lpo plot` read."""

    runs: Positional[tuple[Path, ...]]
    """Run directories, directories of sweeps, or packed files."""
    out: Path
    """Name of the packed file; it must end in .parquet."""
    policies: bool = True
    """Include the best policy of each cell, so that a report can draw clips."""
    metrics: tuple[str, ...] = ()
    """Keep only metrics whose names begin so, for example: eval rollout/reward_rate. By default all
    metrics that a report uses."""


@options
class ListOptions:
    """Show algorithms, parts, environments with their thresholds, and presets."""

    env: str | None = None
    """Show what this task observes, how it acts, and which network it gets."""
    network: str | None = None
    """With --env: another network than the one that fits the observation."""


class TheoryOptions:
    """Run the paper's Algorithms 1 to 6 on a small MDP with exact values."""
