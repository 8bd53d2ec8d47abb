"""Engine on a device: R runs as a trainer, which is what a life of runs asks of an engine."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from lpo import config
from lpo.config import Config, axes_of
from lpo.engine.device.program import Program
from lpo.engine.device.setting import defines_success
from lpo.engine.device.state import Group, host
from lpo.engine.learner import TrainState
from lpo.engine.trainer import Acts, Row, Scores, Turn, diverged
from lpo.envs.codec import space_of as codec_space
from lpo.envs.device import make_device
from lpo.envs.device.base import DeviceEnv
from lpo.envs.spaces import to_dict
from lpo.math import trees
from lpo.math.distributions import space_of

LATEST = 2**31 - 1  # no run takes so many steps, so the test's evaluations have their own episodes
Policies = dict[str, Any]  # what the policies of a group need to act, [R, …]


class GroupTrainer:
    """Runs that differ in their seeds and in axes alone, side by side in one program."""

    ways: tuple[Acts, ...] = ("mode", "sampled")  # an evaluation plays both

    def __init__(self, configs: Sequence[Config], names: Sequence[str]):
        self.configs, self.names, self.config = configs, names, configs[0]
        self.runs = len(configs)
        self.envs = [make_device(c.task) for c in configs]
        self.env: DeviceEnv = self.envs[0]
        self.axes = axis_values(configs, self.envs)
        self.program = Program(self.config, self.env)
        self.says_success = defines_success(self.env)
        self.group: Group = self.program.init([c.seed for c in configs], self.axes)
        self.seconds = {"device": 0.0}

    @property
    def steps(self) -> np.ndarray:
        return np.asarray(self.group.moving.env_steps).astype(int)

    @property
    def description(self) -> dict[str, Any]:
        return self.env.description

    @property
    def unbounded(self) -> np.ndarray:
        return np.ones(self.program.space.obs.size or 0, bool)

    # -- training

    def turn(self, until: int) -> Turn:
        """Several policy changes of every run, by the longest rollout."""
        began, before = time.perf_counter(), self.steps
        while True:
            group, found = self.program.advance(
                self.group, self.axes, jnp.int32(until), iterations=self.turns(until)
            )
            metrics = host(found)
            if not (overflow := int(metrics.pop("rollout/overflow").max())):
                break
            self.grow_buffers(overflow)  # the same turns again
        rows = self.rows_of(metrics)
        self.check_finite(rows)
        self.check_weights(group)
        self.group = group
        self.seconds["device"] += time.perf_counter() - began
        obs, size = group.moving.worlds.obs, None  # [R, N, O] where it is a vector
        if self.program.space.obs.size is not None:
            size = host(jnp.sqrt((obs**2).mean(1)).max(0))
        return Turn(rows, int((self.steps - before).sum()), size)

    def turns(self, until: int) -> int:
        """Policy changes of a turn, by the longest rollout."""
        c = self.config
        every = c.evaluation.every or c.checkpoints.every
        return max(1, min(every, until) // self.program.parts.switch.capacity)

    def due(self, before: int, evaluated: int) -> bool:
        """Whether another turn would come too late for the next evaluation."""
        now, every = int(self.steps.min()), self.config.evaluation.every
        return every > 0 and now - evaluated + now - before > every

    def evaluate(self) -> Scores:
        """Returns the scores [R] of the policies, by their modes and by sampled actions."""
        scores = self.scores(self.group)
        self.check_finite([[row] for row in self.of_runs(scores)])
        return scores

    def scores(self, group: Group) -> Scores:
        began = time.perf_counter()
        while True:
            found = host(self.program.evaluate(group, self.axes))
            if not (overflow := int(found.pop("eval/overflow").max())):
                break
            self.grow_buffers(overflow)
        self.seconds["device"] += time.perf_counter() - began
        return {k: v for k, v in found.items() if self.says_success or not k.endswith("success")}

    def grow_buffers(self, overflow: int) -> None:
        """Makes the program anew with larger buffers for contacts or constraints."""
        self.env = self.env.grown(overflow)  # pyright: ignore[reportAttributeAccessIssue]
        self.program = Program(self.config, self.env)
        name, sizes = self.env.description["id"], self.env.description["buffers"]
        print(f"The buffers of {name} were too small; going on with {sizes}.", flush=True)

    # -- rows

    def rows_of(self, metrics: Mapping[str, np.ndarray]) -> list[list[Row]]:
        """The rows of every run: one for each of its policy changes."""
        worked = metrics["switch/rollout_steps"] > 0  # [turns, R]
        return [
            [
                self.tidy({name: x[k, i].item() for name, x in metrics.items()})
                for k in np.flatnonzero(worked[:, i])
            ]
            for i in range(self.runs)
        ]

    def tidy(self, row: Row) -> Row:
        """Leaves out means over no episode, and success where the task does not define it."""
        return {
            name: value
            for name, value in row.items()
            if (self.says_success or not name.endswith("success"))
            and not (name.startswith("rollout/") and not math.isfinite(value))
        }

    def of_runs(self, scores: Scores) -> list[Row]:
        return [{name: x[i].item() for name, x in scores.items()} for i in range(self.runs)]

    def shown(self, rows: list[list[Row]]) -> Scores:
        """Returns the newest metrics of the runs, [R] each; not a number where one has none."""
        last = [own[-1] if own else {} for own in rows]
        names = dict.fromkeys(name for row in last for name in row)
        return {name: np.array([row.get(name, math.nan) for row in last]) for name in names}

    def check_finite(self, rows: list[list[Row]]) -> None:
        """Raises LPOError where a metric is not finite."""
        for name, own in zip(self.names, rows, strict=True):
            for row in own:
                for metric, value in row.items():
                    if not math.isfinite(value):
                        raise diverged(f"in {name} at step {int(self.steps.min())}", metric)

    def check_weights(self, group: Group) -> None:
        """Raises LPOError where NaN or an infinity has reached what the runs have learned."""
        finite = jax.tree_util.tree_flatten_with_path(all_finite(group.train))[0]
        for path, fine in finite:
            if not (fine := np.asarray(fine)).all():
                where = f"in {self.names[int(np.argmin(fine))]} at step {int(self.steps.min())}"
                raise diverged(where, jax.tree_util.keystr(path).strip("."))

    # -- policies

    def policy(self) -> Policies:
        """Returns what the policies need to act."""
        train, params = self.group.train, self.group.train.params
        return {"policy": params.policy, "log_std": params.log_std, "body": params.body,
                "moments": train.moments}  # fmt: skip

    def acting_by(self, own: Policies) -> Group:
        """Returns the group with other policies."""
        return self.group._replace(train=acting_by(self.group.train, own))

    def play(
        self, policy: Policies, ways: Sequence[Acts], occasions: range
    ) -> Mapping[Acts, Mapping[str, np.ndarray]]:
        """Returns means [R] over episodes with seeds that no evaluation of training has."""
        group, rows = self.acting_by(policy), []
        for i in occasions:
            steps = jnp.full_like(group.moving.env_steps, LATEST - i)
            rows.append(self.scores(group._replace(moving=group.moving._replace(env_steps=steps))))
        mean = {name: np.mean([row[name] for row in rows], 0) for name in rows[0]}
        episodes = {"episodes": np.full(self.runs, self.config.evaluation.episodes)}

        def named(prefix: str, sampled: float) -> dict[str, np.ndarray]:
            names = ("return", "normalized_return", "success")
            found = {n: mean[prefix + n] for n in names if f"eval/{n}" in mean}
            return {"sampled": np.full(self.runs, sampled)} | found | episodes

        return {"mode": named("eval/", 0.0), "sampled": named("eval/sampled_", 1.0)}

    def choose(self, which: np.ndarray, new: Policies, old: Policies) -> Policies:
        def pick(one: Any, other: Any) -> np.ndarray:
            one, other = np.asarray(one), np.asarray(other)
            return np.where(which.reshape(-1, *(1,) * (one.ndim - 1)), one, other)

        return jax.tree.map(pick, new, old)

    # -- files

    def arrays(self) -> dict[str, np.ndarray]:
        return trees.flatten("group", {"group": self.group})

    def restore(self, arrays: dict[str, np.ndarray], seconds: dict[str, float]) -> None:
        self.group = trees.unflatten("group", {"group": self.group}, arrays)["group"]
        self.seconds = dict(seconds)

    def about(self, run: int) -> dict[str, Any]:
        """Returns what a checkpoint says of a run."""
        return {
            "env": self.envs[run].description,
            "spaces": {
                "observation": to_dict(self.observed()),
                "action": to_dict(space_of(self.env.action)),
            },
            "config": config.to_dict(self.configs[run]),
            "device": True,
        }

    def observed(self) -> spaces.Space:
        """The space of an observation as the host has it, before angles become (cos, sin)."""
        if getattr(self.env, "codes", False):  # one-hot here; on the host they have names
            env = self.config.task.make(1)
            env.close()
            return env.codec.raw_observation_space
        form = self.program.space.obs
        if form.size is None:
            return codec_space(form)
        size = form.size - len(self.env.description.get("periodic", ()))
        return spaces.Box(-np.inf, np.inf, (size,))

    def close(self) -> None:
        """Nothing on the device needs it."""


def acting_by(train: TrainState, own: Policies) -> TrainState:
    """Returns the state of learners with other policies."""
    params = train.params._replace(**{k: v for k, v in own.items() if k != "moments"})
    return train._replace(params=params, moments=own["moments"])


@jax.jit
def all_finite(tree: Any) -> Any:
    """Returns for every array [R, …] which runs are finite in it."""
    return jax.tree.map(lambda x: jnp.isfinite(x).reshape(len(x), -1).all(1), tree)


def axis_values(configs: Sequence[Config], envs: Sequence[DeviceEnv]) -> dict[str, jax.Array]:
    """Returns the axes in which the runs differ, beside the seed: one value for each run."""
    options = [{k: leaf.value for k, leaf in axes_of(c).items()} for c in configs]
    params = [dict(env.params) for env in envs]
    found = {}
    for name in dict.fromkeys([*options[0], *params[0]]):
        values = [(p if name in p else o)[name] for o, p in zip(options, params, strict=True)]
        if name != "seed" and any(value != values[0] for value in values):
            found[name] = jnp.array(values, jnp.float32)
    return found
