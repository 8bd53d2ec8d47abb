"""Sweeps: a search for good options with Optuna, over the same grids, processes and devices.

A trial is one choice of the searched options. It has all the runs of the grid (algorithms ×
environments × seeds), and its score is the mean of theirs. The runs of all trials lie in one
directory as those of a sweep do. Optuna's journal lies beside them, and a search that was stopped
goes on from both.
"""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from lpo import files
from lpo.errors import LPOError, nearest
from lpo.options import Count, PositiveInt, options
from lpo.report.runs import ending
from lpo.runs.directory import RunDirectory
from lpo.sweep.board import Board, shown
from lpo.sweep.grid import Grid, Item, expand
from lpo.sweep.jobs import TrainingJob
from lpo.sweep.main import places, run_jobs
from lpo.sweep.plan import held, write_plan

JOURNAL = "tune.jsonl"
EVERY = 2.0  # seconds between looks at the logs of running trials
BATCH = 8  # trials at a time on a cluster or a device, unless the file says otherwise


@options
class Settings:
    """The table ``[tune]`` of a grid."""

    trials: PositiveInt = 20
    """Trials of the whole search."""
    metric: str = "eval/return"
    """Metric that is compared: its final value as in a report, mean over all runs of a trial."""
    direction: Literal["maximize", "minimize"] = "maximize"
    """Whether more of it is better."""
    prune: bool = True
    """End a trial early where its metric is worse than the median of the others at that point."""
    startup: Count = 5
    """Trials that are drawn at random and run to their end before anything is learned from them."""
    at_once: PositiveInt | None = None
    """Trials that run together (default: as many as fill the workers)."""
    seed: Count = 0
    """Seed of the search."""


@options
class Range:
    """Numbers between two ends; whole ones if both ends are."""

    low: int | float
    """Lower end."""
    high: int | float
    """Upper end."""
    log: bool = False
    """Search on a logarithmic scale."""

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.log and self.low <= 0):
            raise LPOError(
                f"A range from {self.low} to {self.high} cannot be searched; let low be less than "
                "high, and above 0 if log is true."
            )

    def suggest(self, trial: Any, name: str) -> Any:
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(name, self.low, self.high, log=self.log)
        return trial.suggest_float(name, float(self.low), float(self.high), log=self.log)


class Choice(NamedTuple):
    """Any of some values."""

    values: list[Any]

    def suggest(self, trial: Any, name: str) -> Any:
        texts = [json.dumps(value) for value in self.values]
        return json.loads(trial.suggest_categorical(name, texts))


class Search(NamedTuple):
    """What a file asks for."""

    grid: dict[str, Any]  # as `lpo sweep` takes it
    space: dict[str, Range | Choice]
    settings: Settings
    device: bool = False  # its runs are for a device

    def items(self, number: int, values: dict[str, Any]) -> list[Item]:
        """Returns the runs of a trial."""
        overrides = {**self.grid.get("overrides", {}), **values}
        label = f"t{number:04d}"
        found = expand({**self.grid, "overrides": overrides}, self.device).items
        return [Item(f"{label}-{item.name}", label, item.config) for item in found]

    def first(self) -> list[Item]:
        """Returns the runs with the first value of each searched option."""
        ways = self.space.items()
        return self.items(0, {n: e.low if isinstance(e, Range) else e.values[0] for n, e in ways})


def read_search(path: Path, device: bool = False) -> Search:
    """Returns the search in a TOML file. Raises LPOError where it is none."""
    try:
        values = tomllib.loads(files.read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise LPOError(f"Cannot read {path} ({error}); pass the TOML file of a search.") from error
    try:
        return search_of(values, device)
    except LPOError as error:
        raise LPOError(f"{path}: {error}") from None


def search_of(values: dict[str, Any], device: bool = False) -> Search:
    space, settings = values.pop("search", None), values.pop("tune", {})
    if not isinstance(space, dict) or not space or not isinstance(settings, dict):
        raise LPOError("A search needs a table `[search]` with the options to try; add one.")
    entries = {name: parse(name, entry) for name, entry in space.items()}
    search = Search(values, entries, Settings(**settings), device)
    twice = next((name for name in entries if name in values.get("overrides", {})), None)
    if twice is not None:
        raise LPOError(f"{twice} is in [search] and in [overrides]; leave one out.")
    search.first()  # refuses a wrong option before anything starts
    return search


def parse(name: str, entry: Any) -> Range | Choice:
    if isinstance(entry, list) and entry:
        return Choice(entry)
    if isinstance(entry, dict):
        for key in entry.keys() - {"low", "high", "log"}:
            raise LPOError(f"[search] {name} has no {key!r}; {nearest(key, Range.__annotations__)}")
        return Range(**entry)
    raise LPOError(
        f"[search] {name} is {entry!r}; write a list of values, or {{ low = …, high = … }}."
    )


def load_optuna() -> Any:
    try:
        import optuna
        import optuna.storages.journal
    except ImportError as error:
        raise LPOError("`lpo tune` needs Optuna; run `pip install 'lpo-rl[tune]'`.") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def open_study(root: Path, search: Search) -> Any:
    """Returns the study of ``root``, new or as it was left."""
    optuna, s = load_optuna(), search.settings
    root.mkdir(parents=True, exist_ok=True)
    backend = optuna.storages.journal.JournalFileBackend(str(root / JOURNAL))
    storage = optuna.storages.JournalStorage(backend)
    try:
        done = len(optuna.load_study(study_name="lpo", storage=storage).trials)
    except KeyError:
        done = 0
    pruner = optuna.pruners.MedianPruner(n_startup_trials=s.startup, n_warmup_steps=1)
    return optuna.create_study(
        study_name="lpo",
        storage=storage,
        load_if_exists=True,
        direction=s.direction,
        sampler=optuna.samplers.TPESampler(seed=s.seed + done, n_startup_trials=s.startup),
        pruner=pruner if s.prune else optuna.pruners.NopPruner(),
    )


class Running:
    """A trial with its runs."""

    def __init__(self, study: Any, trial: Any, root: Path, search: Search):
        self.study, self.trial, self.root, self.metric = study, trial, root, search.settings.metric
        self.values = {name: entry.suggest(trial, name) for name, entry in search.space.items()}
        self.items = search.items(trial.number, self.values)
        self.pruned = False

    def curves(self) -> list[np.ndarray]:
        """Returns the steps and values of the metric that each run has logged: two rows."""
        found = []
        for item in self.items:
            run = RunDirectory(self.root / item.name)
            rows = run.metrics() if run.metrics_file.exists() else []
            rows = [(row["env_steps"], row[self.metric]) for row in rows if self.metric in row]
            found.append(np.array(rows, float).reshape(-1, 2).T)
        return found

    def report(self) -> None:
        """Tells Optuna every mean over all runs that is new; it may then give the trial up."""
        known = self.study.trials[self.trial.number].intermediate_values
        for step, values in enumerate(zip(*(y for _, y in self.curves()), strict=False)):
            if step not in known:
                self.trial.report(float(np.mean(values)), step)
                self.pruned = self.pruned or self.trial.should_prune()

    def score(self) -> float | None:
        """Returns the mean over runs of their last values; None where a run has logged none."""
        curves = self.curves()
        if not all(curve.size for curve in curves):
            return None
        return float(np.mean([ending(*curve) for curve in curves]))


class TrialBoard(Board):
    """The board of a sweep that also watches the metric of the trials and gives some up."""

    def __init__(
        self, title: str, jobs: Sequence[TrainingJob], workers: int, trials: list[Running]
    ):
        super().__init__(title, jobs, workers)
        self.trials = {item.name: trial for trial in trials for item in trial.items}
        self.looked = time.monotonic()

    def refresh(self) -> None:
        super().refresh()
        if time.monotonic() - self.looked > EVERY:
            self.looked = time.monotonic()
            for trial in dict.fromkeys(self.trials.values()):
                trial.report()

    def gives_up(self, name: str) -> bool:
        return self.trials[name].pruned


def tune(file: Path, out: Path | None, workers: int | None, ray: str | None, device: str) -> int:
    """Searches. Returns the exit status: 0, 1 if no trial ended well, 130 if it was stopped."""
    search = read_search(file, device != "host")
    load_optuna()  # refuse before anything is written
    if device != "host" and (ray is not None or workers is not None):
        raise LPOError("--device runs in one process; leave --workers and --ray out.")
    if ray is not None and workers is not None:
        raise LPOError("--workers is for this machine and --ray for a cluster; leave one out.")
    if device != "host":
        from lpo.sweep.device import refuse_host_only

        refuse_host_only(search.first())
    root = out or Path("runs") / str(search.grid["name"])
    cores = places(workers) if ray is None and device == "host" else []
    number = len(search.items(0, {}))
    batch = search.settings.at_once or (max(1, len(cores) // number) if cores else BATCH)
    with held(root, plan=JOURNAL) as lock:
        (root / JOURNAL).touch()
        study = open_study(root, search)
        while trials := next_trials(study, root, search, batch):
            grid = Grid(str(search.grid["name"]), all_items(study, search))
            write_plan(root, grid)
            with ended_by(study, trials) as states:
                if device == "host":
                    finished = on_processes(root, grid.name, trials, cores, ray, lock, states)
                else:
                    finished = on_device(root, grid.name, trials, device)
            if not finished:
                print(f"Stopped; continue with the same `lpo tune {file}`.")
                return 130
    return conclude(study, search, root)


def next_trials(study: Any, root: Path, search: Search, number: int) -> list[Running]:
    """Returns trials that were left running, and then new ones."""
    optuna = load_optuna()
    left = [t for t in study.trials if t.state == optuna.trial.TrialState.RUNNING]
    old = [optuna.trial.Trial(study, t._trial_id) for t in left]
    fresh = min(number, search.settings.trials - len(study.trials)) if not old else 0
    new = [study.ask() for _ in range(max(fresh, 0))]
    return [Running(study, trial, root, search) for trial in old + new]


def all_items(study: Any, search: Search) -> list[Item]:
    """Returns the runs of all trials so far: the plan of the directory."""
    found = []
    for trial in study.trials:
        values = {
            name: json.loads(trial.params[name])
            if isinstance(entry, Choice)
            else trial.params[name]
            for name, entry in search.space.items()
            if name in trial.params
        }
        found += search.items(trial.number, values)
    return found


@contextmanager
def ended_by(study: Any, trials: list[Running]) -> Iterator[dict[str, str]]:
    """Yields a table for the states of runs, and then tells Optuna how the trials ended.

    A trial with a run that is not at its end stays open, and the next call goes on with it.
    """
    states: dict[str, str] = {}
    yield states
    optuna = load_optuna()
    for trial in trials:
        seen = {states.get(item.name, "done") for item in trial.items}
        trial.report()
        score = trial.score()
        if seen == {"done"} and score is not None:
            study.tell(trial.trial, score)
        elif trial.pruned:
            study.tell(trial.trial, state=optuna.trial.TrialState.PRUNED)
        elif "failed" in seen or seen == {"done"}:
            study.tell(trial.trial, state=optuna.trial.TrialState.FAIL)


def on_processes(
    root: Path,
    name: str,
    trials: list[Running],
    cores: Sequence[int | None],
    ray: str | None,
    lock: Any,
    states: dict[str, str],
) -> bool:
    """Runs trials on the cores of this machine or on a cluster. Returns False if it was stopped."""
    jobs = [TrainingJob(root, item) for trial in trials for item in trial.items]
    board = TrialBoard(name, jobs, len(cores), trials)
    left = [job for job in jobs if board.tracks[job.name].state != "done"]
    for trial in trials:
        shown_values = ", ".join(f"{k} {v}" for k, v in trial.values.items())
        print(f"trial {trial.trial.number}: {shown_values}", flush=True)
    with shown(board):
        finished = run_jobs(root, left, cores, ray, board, lock)
    states |= {name: track.state for name, track in board.tracks.items()}
    return finished


def on_device(root: Path, name: str, trials: list[Running], device: str) -> bool:
    """Runs trials in as few programs as they need; they end together, and none is given up."""
    from lpo.sweep.device import run_on_device

    items = [item for trial in trials for item in trial.items]
    return run_on_device(root, Grid(name, items), "gpu" if device == "gpu" else "cpu")


def conclude(study: Any, search: Search, root: Path) -> int:
    """Prints the best trials."""
    optuna, metric = load_optuna(), search.settings.metric
    done = study.get_trials(states=[optuna.trial.TrialState.COMPLETE])
    best = sorted(done, key=lambda t: t.value, reverse=search.settings.direction == "maximize")
    counts = {s.name: sum(t.state == s for t in study.trials) for s in optuna.trial.TrialState}
    ended = ", ".join(f"{n} {name.lower()}" for name, n in counts.items() if n)
    print(f"{len(study.trials)} trials: {ended}")
    for trial in best[:5]:
        values = ", ".join(
            f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in trial.params.items()
        )
        print(f"t{trial.number:04d}  {metric} {trial.value:.4g}  {values}")
    if not best:
        print("No trial ended well; see the logs of its runs.")
        return 1
    print(f"Look at the runs with `lpo report {root}`.")
    return 0
