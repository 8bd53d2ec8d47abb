"""Sweeps: many runs as one compiled program on a device.

Runs that differ in their seeds and in axes alone (``Axis``) share a program; others make groups of
their own. A group that does not fit into the memory is halved. Every run has an ordinary run
directory; the state of a group lies beside them in ``device/``, from which a killed group goes on.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from lpo import config
from lpo.config import axes_of, flat, host_only
from lpo.engine.device import Group, Program, defines_success, host
from lpo.envs.angles import Drift
from lpo.envs.device import make_device
from lpo.envs.device.base import DeviceEnv
from lpo.envs.spaces import to_dict
from lpo.errors import LPOError, named
from lpo.math import trees
from lpo.math.distributions import ActionSpec
from lpo.runs import checkpoint
from lpo.runs.checkpoint import Checkpoint
from lpo.runs.directory import RunDirectory, log_digest
from lpo.runs.unit import SmallRewards
from lpo.runs.verdict import Recent
from lpo.sweep import claims
from lpo.sweep.claims import acting
from lpo.sweep.grid import Grid, Item
from lpo.sweep.local import stop_flag
from lpo.sweep.plan import clear, held, read_plan, standing, write_plan

Device = Literal["gpu", "cpu"]
STATES = "device"  # the folder of the groups' states
KEPT = 2  # states of a group that stay
SPARING = 5  # a state is that of all runs, and their logs are read again for its digests


def choose_device(name: Device) -> Any:
    """Returns the JAX device. Raises LPOError where there is none of that kind."""
    try:
        return jax.devices(name)[0]
    except RuntimeError as error:
        raise LPOError(
            f"JAX sees no {name} here ({str(error).splitlines()[0]}); install JAX with CUDA "
            "(`pip install 'lpo-rl[gpu]' 'jax[cuda13]'`), or pass --device cpu."
        ) from error


def sweep_on_device(grid: Grid, root: Path, device: Device, quiet: bool = False) -> int:
    """Runs a grid, group by group. Returns the exit status: 0, or 130 when it was stopped."""
    choose_device(device)  # refuse before anything is written
    refuse_host_only(grid.items)
    return carry_out(grid, root, device, quiet)


def resume_on_device(
    root: Path, device: Device, steps: int | None = None, quiet: bool = False
) -> int:
    """Goes on with the runs of a directory that was started with ``--device``, up to ``steps``."""
    choose_device(device)
    grid = read_plan(root)
    if steps is not None:
        grid = Grid(grid.name, [item._replace(until=steps) for item in grid.items])
    found = [standing(root, item) for item in grid.items]
    if all(s.state == "done" for s in found):
        reached = min((s.env_steps for s in found), default=0)
        print(f"{root} is complete at {reached} steps; pass --steps to continue.")
        return 0
    return carry_out(grid, root, device, quiet)


def carry_out(grid: Grid, root: Path, device: Device, quiet: bool) -> int:
    """Writes the plan of a grid and runs what is left of it. Returns the exit status."""
    with held(root):
        write_plan(root, grid)
        if not run_on_device(root, grid, device, quiet):
            print(f"Stopped; go on with `lpo resume {root} --device {device}`.")
            return 130
    print(f"All done; look at them with `lpo report {root}`.")
    return 0


def refuse_host_only(items: Iterable[Item]) -> None:
    """Raises LPOError for an option that somebody set and that runs on a device do not have.

    A value that is empty asks for nothing: `--loggers` alone switches all loggers off.
    """
    for item in items:
        for name, leaf in host_only(item.config).items():
            if leaf.value and leaf.value != leaf.option.default:
                many = isinstance(leaf.value, tuple)
                shown = " ".join(map(str, leaf.value)) if many else leaf.value
                raise LPOError(
                    f"{named(name)} {shown} is for runs on the host, and a device has no such "
                    f"choice; leave {named(name)} out, or leave {named('device')} out."
                )


def run_on_device(root: Path, grid: Grid, device: Device, quiet: bool = False) -> bool:
    """Runs what is left of a grid in a directory that is held. Returns False if it was stopped."""
    left = {item.name for item in grid.items if standing(root, item).state != "done"}
    if not quiet:
        print(f"{grid.name}: {len(grid.items)} runs in {root}, {len(left)} to do", flush=True)
    undone = [g for g in begun_groups(root, grid.items) if left & {item.name for item in g}]
    with (
        jax.default_device(choose_device(device)),
        stop_flag() as stopped,
        disk_errors(root, device),
    ):
        return all(not stopped and run_fitting(root, own, stopped, quiet) for own in undone)


@contextlib.contextmanager
def disk_errors(root: Path, device: Device) -> Iterator[None]:
    """Turns an error of the disk into an LPOError that says how to go on."""
    try:
        yield
    except BrokenPipeError:  # of the reader of the output, not of the disk
        raise
    except OSError as error:
        raise LPOError(
            f"Could not write to {root} ({error.strerror or error}); free some space, and go on "
            f"with `lpo resume {root} --device {device}`: the last state is intact."
        ) from error


def begun_groups(root: Path, items: Sequence[Item]) -> list[list[Item]]:
    """Returns the groups that have a state, as they were begun, and groups of the other runs."""
    left = {item.name: item for item in items}
    begun = []
    for folder in sorted((root / STATES).glob("*")):
        names = runs_of(folder)
        if names and left.keys() >= set(names):
            begun.append([left.pop(name) for name in names])
    return begun + groups(left.values())


def runs_of(folder: Path) -> list[str]:
    """Returns the runs of the newest state in ``folder`` that can be read."""
    for path in checkpoint.candidates(folder):
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            return list(json.loads(path.with_suffix(".json").read_text())["runs"])
    return []


def groups(items: Iterable[Item]) -> list[list[Item]]:
    """Returns the runs that can share a program."""
    found: dict[str, list[Item]] = {}
    for item in items:
        axes = axes_of(item.config)
        same = {k: v for k, v in flat(item.config).items() if k not in axes and k != "algo"}
        same["until"] = item.until
        found.setdefault(json.dumps(same, sort_keys=True, default=str), []).append(item)
    return list(found.values())


def run_fitting(root: Path, items: list[Item], stopped: Sequence[int], quiet: bool = False) -> bool:
    """Runs a group; where the memory is too small, one half after the other."""
    try:
        return GroupRun(root, items, quiet).finish(stopped)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        if len(items) == 1:
            raise LPOError(
                "One run does not fit into the memory of the device; lower --num-envs, --rollout "
                "or --batch-size."
            ) from error
        half = -(-len(items) // 2)
        print(f"{len(items)} runs do not fit into the memory; trying {half} at a time", flush=True)
        halves = items[:half], items[half:]
        return all(run_fitting(root, some, stopped, quiet) for some in halves)


class Best(NamedTuple):
    """The best policies by evaluation, [R] each."""

    score: np.ndarray
    env_steps: np.ndarray
    train: Any
    sampled: np.ndarray  # sampled actions are better than the mode


class GroupRun:
    """A group of runs with their directories, from nothing or from its last state."""

    def __init__(self, root: Path, items: list[Item], quiet: bool = False):
        self.root, self.items, self.quiet = root, items, quiet
        self.envs = [make_device(item.config.task) for item in items]
        self.env: DeviceEnv = self.envs[0]
        self.config = items[0].config
        self.axes = axis_values(items, self.envs)
        self.program = Program(self.config, self.env)
        self.says_success = defines_success(self.env)
        self.runs = [RunDirectory(root / item.name) for item in items]
        self.folder = root / STATES / items[0].name
        self.goal = items[0].goal
        self.until = jnp.int32(self.goal)
        self.group: Group = self.program.init([i.config.seed for i in items], self.axes)
        self.best = Best(
            np.full(len(items), -np.inf),
            np.zeros(len(items), int),
            None,
            np.zeros(len(items), bool),
        )
        self.recent = Recent()
        self.acts = np.zeros(len(items), bool)  # of the last policies: by sampled actions
        self.seconds = 0.0
        self.saved = 0  # environment steps at the last save
        self.evaluated = 0  # and at the last evaluation
        self.drift = Drift(self.env.description["id"], np.ones(self.env.obs_size, bool))
        self.small = SmallRewards(self.config, self.env.description)
        self.restore()

    # -- files

    def restore(self) -> None:
        """Goes on from the newest sound state; makes the directories where there is none."""
        if not checkpoint.names(self.folder):
            for run, item, env in zip(self.runs, self.items, self.envs, strict=True):
                if run.reached() is not None:
                    raise LPOError(
                        f"{run} has results, and {self.folder} no state from which they could go "
                        "on; move that run away, or pass another --out."
                    )
                clear(run)
                RunDirectory.create(run.path, item.config, env.description)
                run.metrics_file.touch()
                run.timing_file.touch()
            return
        saved, problems = checkpoint.load_latest(self.folder, self.misfit)
        for problem in problems:
            print(f"warning: {problem}", flush=True)
        tree = trees.unflatten("group", self.tree(), saved.arrays)
        self.group = tree["group"]
        best = host(tree["best"])
        kept = saved.arrays
        none = np.zeros(len(self.items), bool)  # what states from before do not have
        sampled = kept.get("best/sampled", none)
        self.best = Best(kept["best/score"], kept["best/env_steps"], best, sampled)
        self.recent = Recent(kept.get("best/recent", ()))
        self.acts = kept.get("best/acts", none)
        self.seconds = saved.record["seconds"]
        self.evaluated = saved.record.get("evaluated", self.reached())  # older ones: just then
        for file, length in zip(self.logs(), saved.record["logs"], strict=True):
            with open(file, "ab") as log:
                log.truncate(min(length, log.tell()))  # a damaged log may be too short

    def logs(self) -> list[Path]:
        return [file for run in self.runs for file in (run.metrics_file, run.timing_file)]

    def misfit(self, saved: Checkpoint) -> str | None:
        """Returns what is wrong with the logs up to a state, or None."""
        stated = zip(self.logs(), saved.record["logs"], saved.record["log_sha256"], strict=True)
        for path, length, sha256 in stated:
            if log_digest(path, length) != sha256:
                return f"{path} is damaged."
        return None

    def tree(self) -> dict[str, Any]:
        best = host(acting(self.group)) if self.best.train is None else self.best.train
        return {"group": self.group, "best": best}

    def save(self) -> None:
        sizes = [file.stat().st_size for file in self.logs()]
        sums = [log_digest(file, size) for file, size in zip(self.logs(), sizes, strict=True)]
        reached = int(np.asarray(self.group.moving.env_steps).max())
        arrays = trees.flatten("group", self.tree())
        arrays |= {"best/score": self.best.score, "best/env_steps": self.best.env_steps}
        arrays |= {"best/sampled": self.best.sampled, "best/acts": self.acts}
        if self.recent.kept:
            arrays["best/recent"] = np.stack(list(self.recent.kept))
        record = {"logs": sizes, "log_sha256": sums, "seconds": self.seconds}
        record |= {"evaluated": self.evaluated, "runs": [item.name for item in self.items]}
        self.folder.parent.mkdir(exist_ok=True)
        checkpoint.save(self.folder, f"{reached:012d}", arrays, record)
        checkpoint.prune(self.folder, KEPT)
        self.saved = self.reached()

    def save_in_time(self) -> None:
        if self.reached() - self.saved >= self.config.checkpoints.every * SPARING:
            self.save()

    def append(self, rows: list[list[dict[str, float]]], timing: dict[str, float]) -> None:
        """Adds the rows of every run to its log."""
        for run, own in zip(self.runs, rows, strict=True):
            if not own:
                continue
            with open(run.metrics_file, "a") as log:
                log.writelines(json.dumps(row) + "\n" for row in own)
            with open(run.timing_file, "a") as log:
                log.write(json.dumps({"env_steps": own[-1]["env_steps"], **timing}) + "\n")

    def write_policies(self) -> None:
        """Gives every run its checkpoints: the last learner's state and the best policy."""
        train = host(self.group.train)
        steps = np.asarray(self.group.moving.env_steps)
        for i, run in enumerate(self.runs):
            state = jax.tree.map(lambda x, i=i: x[i], train)
            record = self.record(i, int(steps[i]), self.acts)
            arrays = trees.flatten("train", {"state": state})
            checkpoint.save(run.checkpoints, f"{int(steps[i]):012d}", arrays, record)
            if self.best.train is not None:
                own = jax.tree.map(lambda x, i=i: x[i], self.best.train)
                params = state.params._replace(policy=own["policy"], log_std=own["log_std"])
                state = state._replace(params=params, moments=own["moments"])
                arrays = trees.flatten("train", {"state": state})
                record = self.record(i, int(self.best.env_steps[i]), self.best.sampled)
                checkpoint.save(run.checkpoints, "best", arrays, record)

    def record(self, i: int, env_steps: int, sampled: np.ndarray) -> dict[str, Any]:
        best = float(self.best.score[i])
        return {
            "env_steps": env_steps,
            "acts": None if not self.recent.kept else "sampled" if sampled[i] else "mode",
            "until": self.goal,
            "best": best if math.isfinite(best) else None,
            "env": self.envs[i].description,
            "spaces": {
                "observation": to_dict(self.observed()),
                "action": to_dict(space_of(self.env.action)),
            },
            "config": config.to_dict(self.items[i].config),
            "device": True,
        }

    def observed(self) -> spaces.Space:
        """The space of an observation as the host has it, before angles become (cos, sin)."""
        if getattr(self.env, "codes", False):  # one-hot here; on the host they have names
            env = self.config.task.make(1)
            env.close()
            return env.codec.raw_observation_space
        size = self.env.obs_size - len(self.env.description.get("periodic", ()))
        return spaces.Box(-np.inf, np.inf, (size,))

    # -- training

    def finish(self, stopped: Sequence[int]) -> bool:
        """Trains to the end. Returns False where a signal stopped it, after its state was saved."""
        self.saved = self.reached()
        while not self.done():
            self.visit()
            if stopped:
                self.save()
                return False
            self.save_in_time()
        self.save()
        self.write_policies()
        return True

    def done(self) -> bool:
        return self.reached() >= self.goal

    def turns(self) -> int:
        """Policy changes between two visits of the host, by the longest rollout."""
        c = self.config
        every = c.evaluation.every or c.checkpoints.every
        return max(1, min(every, self.goal) // self.program.parts.switch.capacity)

    def reached(self) -> int:
        return int(np.asarray(self.group.moving.env_steps).min())

    def visit(self) -> None:
        """Several turns of the algorithm, and what follows them."""
        began = time.perf_counter()
        group, metrics = self.program.advance(
            self.group, self.axes, self.until, iterations=self.turns()
        )
        if overflow := self.settle(group, host(metrics), began):
            self.grow_buffers(overflow)  # the next visit takes the same turns again

    def settle(self, group: Group, metrics: dict[str, np.ndarray], began: float) -> int:
        """Takes over the state after some turns: an evaluation, logs and one line of progress.

        Returns the buffers of the physics that were too small, as bits; nothing is kept then.
        """
        before = np.asarray(self.group.moving.env_steps)
        overflow = metrics.pop("rollout/overflow").max()
        scores = {}
        if self.due(np.asarray(group.moving.env_steps).min(), before.min()):
            scores = host(self.program.evaluate(group, self.axes))
            overflow = max(overflow, scores.pop("eval/overflow").max())
        if overflow:
            return int(overflow)
        self.group = group
        if scores:
            self.evaluated = self.reached()
            self.keep_best(scores)
            if self.done():
                scores |= self.conclude(float(scores["eval/length"].mean()))
        spent = time.perf_counter() - began
        self.seconds += spent
        steps = int((np.asarray(self.group.moving.env_steps) - before).sum(dtype=int))
        rows = self.rows_of(metrics, scores)
        self.check_finite(rows)
        self.check_weights()
        self.append(rows, {"time/env_steps_per_s": steps / spent, "time/device_s": self.seconds})
        self.say(steps / spent, scores or {k: v[-1] for k, v in metrics.items()})
        self.warn(rows)
        return 0

    def due(self, now: int, before: int) -> bool:
        """Whether to evaluate: at the end, and where another visit would come too late."""
        every = self.config.evaluation.every
        late = now - self.evaluated + now - before > every
        return every > 0 and (late or now >= self.goal)

    def warn(self, rows: list[list[dict]]) -> None:
        """Warns of rewards that are too small, and of observations that grow without bound."""
        obs = self.group.moving.worlds.obs  # [R, N, O]
        size = host(jnp.sqrt((obs**2).mean(1)).max(0))
        reward = max((row["rollout/reward_max"] for own in rows for row in own), default=0.0)
        small = self.small.look(reward, self.reached())
        for message in (*self.drift.look(size, self.reached()), *small):
            print(f"warning: {message}", flush=True)

    def rows_of(self, metrics: dict[str, Any], scores: dict[str, Any]) -> list[list[dict]]:
        """The rows of every run: one for each of its policy changes, the last with the scores."""
        defined = self.says_success
        turns = len(metrics["env_steps"])
        found: list[list[dict]] = []
        for i in range(len(self.items)):
            own = []
            for k in range(turns):
                if metrics["switch/rollout_steps"][k, i] > 0:
                    row = {name: plain(x[k, i]) for name, x in metrics.items()}
                    own.append(tidy(row, defined))
            if own and scores:
                own[-1] |= tidy({name: plain(x[i]) for name, x in scores.items()}, defined)
            found.append(own)
        return found

    def keep_best(self, scores: dict[str, np.ndarray]) -> None:
        rank = self.recent.add(scores)
        self.acts = rank.sampled | (not self.config.evaluation.deterministic)
        better = rank.score >= self.best.score
        if better.any():
            self.best = self.better(better, rank.score, self.acts)

    def better(self, new: np.ndarray, score: np.ndarray, sampled: np.ndarray) -> Best:
        """Returns the best policies, with the last one where it is ``new``."""
        now = host(acting(self.group))
        old = now if self.best.train is None else self.best.train

        def pick(one: np.ndarray, other: np.ndarray) -> np.ndarray:
            return np.where(new.reshape(-1, *(1,) * (one.ndim - 1)), one, other)

        steps = np.asarray(self.group.moving.env_steps)
        return Best(
            np.where(new, score, self.best.score),
            np.where(new, steps, self.best.env_steps),
            jax.tree.map(pick, now, old),
            np.where(new, sampled, self.best.sampled),
        )

    def conclude(self, length: float) -> dict[str, np.ndarray]:
        """Tests the best policies and the last ones; the winners are the best. Returns claims."""
        found = claims.test(
            self.program, self.config.evaluation, self.axes, self.group, self.best.train, length
        )
        self.acts = found.last_sampled
        self.best = self.better(found.last, self.best.score, found.sampled)
        self.best = self.best._replace(sampled=found.sampled)
        return found.metrics | {"best/env_steps": self.best.env_steps}

    def grow_buffers(self, overflow: int) -> None:
        """Makes the program anew with larger buffers for contacts or constraints."""
        self.env = self.env.grown(overflow)  # pyright: ignore[reportAttributeAccessIssue]
        self.program = Program(self.config, self.env)
        name, sizes = self.env.description["id"], self.env.description["buffers"]
        print(f"The buffers of {name} were too small; going on with {sizes}.", flush=True)

    def check_finite(self, rows: list[list[dict]]) -> None:
        for item, own in zip(self.items, rows, strict=True):
            bad = [k for row in own for k, v in row.items() if not math.isfinite(v)]
            if bad:
                raise LPOError(
                    f"Learning of {item.name} diverged: {bad[0]} is not a finite number; lower "
                    "--learning-rate, or check the scale of the environment's rewards."
                )

    def check_weights(self) -> None:
        """Raises LPOError where NaN or an infinity has reached what the runs have learned."""
        finite = jax.tree_util.tree_flatten_with_path(all_finite(self.group.train))[0]
        for path, fine in finite:
            if not (fine := np.asarray(fine)).all():
                raise LPOError(
                    f"Learning of {self.items[int(np.argmin(fine))].name} diverged: "
                    f"{jax.tree_util.keystr(path).strip('.')} is not a finite number; lower "
                    "--learning-rate, or check the scale of the environment's rewards."
                )

    def say(self, rate: float, scores: dict[str, Any]) -> None:
        """One line for all runs."""
        if self.quiet:
            return
        returns = scores.get("eval/return", scores.get("rollout/return"))
        shown = ""
        if returns is not None and np.isfinite(returns).any():
            shown = f"return best {np.nanmax(returns):.1f} median {np.nanmedian(returns):.1f}  "
        success = scores.get("eval/success", scores.get("rollout/success"))
        if success is not None and self.says_success and np.isfinite(success).any():
            shown += f"success {np.nanmean(success):.0%}  "
        labels = dict.fromkeys(item.label for item in self.items)
        rows = f" of {', '.join(labels)}" if len(labels) < 4 else ""
        print(
            f"step {self.reached():>11,} / {self.goal:,} × {len(self.items)} runs{rows}  "
            f"{shown}{rate:,.0f} steps/s",
            flush=True,
        )


@jax.jit
def all_finite(tree: Any) -> Any:
    """Returns for every array [R, …] which runs are finite in it."""
    return jax.tree.map(lambda x: jnp.isfinite(x).reshape(len(x), -1).all(1), tree)


def axis_values(items: Sequence[Item], envs: Sequence[DeviceEnv]) -> dict[str, jax.Array]:
    """Returns the axes in which the runs differ, beside the seed: one value for each run."""
    options = [{k: leaf.value for k, leaf in axes_of(item.config).items()} for item in items]
    params = [dict(env.params) for env in envs]
    found = {}
    for name in dict.fromkeys([*options[0], *params[0]]):
        values = [(p if name in p else o)[name] for o, p in zip(options, params, strict=True)]
        if name != "seed" and any(value != values[0] for value in values):
            found[name] = jnp.array(values, jnp.float32)
    return found


def plain(value: Any) -> float | int:
    return value.item()


def tidy(row: dict[str, Any], success: bool) -> dict[str, Any]:
    """Leaves out means over no episode, and success where the task does not define it."""
    return {
        name: value
        for name, value in row.items()
        if (success or not name.endswith("success"))
        and not (name.startswith("rollout/") and not math.isfinite(value))
    }


def space_of(action: ActionSpec) -> spaces.Space:
    """Returns the Gymnasium space of a flat action."""
    if not action.nvec:
        return spaces.Box(np.array(action.low, np.float32), np.array(action.high, np.float32))
    return (
        spaces.Discrete(action.nvec[0])
        if action.scalar
        else spaces.MultiDiscrete(list(action.nvec))
    )
