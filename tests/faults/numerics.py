"""Numerics: tasks at the edge of float32. No NaN may reach the weights.

    python -m tests.faults.numerics --steps 1000000

trains every case on the host and on the device and prints the largest numbers that came up.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from lpo.config import Config, configure
from lpo.engine.device import Program, host
from lpo.engine.host import Trainer
from lpo.envs.codec import Codec
from lpo.envs.device.base import Transition
from lpo.envs.task import CUSTOM
from lpo.math import trees
from lpo.math.distributions import ActionSpec
from lpo.types import Step


class Edge(NamedTuple):
    """A task: a walk on a line, with the reward near its end."""

    scale: float = 1.0  # of the rewards
    noise: float = 1.0  # of the observations; 0: always the same one
    length: int = 20  # steps of an episode
    options: tuple[tuple[str, Any], ...] = ()
    row: str = "lpo"


COMMON: dict[str, Any] = dict(
    env=CUSTOM, num_envs=64, rollout=2048, batch_size=256, epochs=1, hidden=(16,), eval_every=0,
)  # fmt: skip
EDGES = {
    "rewards of 1e-8": Edge(scale=1e-8),
    "rewards of 1e8": Edge(scale=1e8),
    "constant observations": Edge(noise=0.0, row="lpo-s", options=(("num_features", 32),)),
    "bonus without variance": Edge(noise=0.0, row="rnd"),
    "bonus that is always 0": Edge(
        row="pcpg", options=(("start", "reset"), ("bonus_threshold", 1e6), ("num_features", 32))
    ),
    "episodes of one step": Edge(length=1, row="eniac"),
    "minibatches of one": Edge(
        row="ppo", options=(("batch_size", 1), ("normalize_advantage", False))
    ),
}
SPACE = spaces.Box(-1.0, 1.0, (1,), np.float32)


def config_of(edge: Edge, steps: int) -> Config:
    options: dict[str, Any] = COMMON | dict(edge.options) | {"steps": steps}
    return configure(edge.row, **options)


class Line:
    """The task as a batch on the host."""

    resumable = False
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = SPACE

    def __init__(self, edge: Edge, num_envs: int):
        self.edge, self.num_envs = edge, num_envs
        self.description = {"id": "Line", "horizon": edge.length}
        self.codec = Codec("Line", self.observation_space, SPACE)
        self.rng = np.random.default_rng(0)

    def reset(self, seed: int) -> np.ndarray:
        self.place, self.t = np.zeros(self.num_envs), np.zeros(self.num_envs, int)
        return self.look()

    def look(self) -> np.ndarray:
        seen = np.stack([self.place, self.rng.normal(size=self.num_envs)], 1)
        return (self.edge.noise * seen + 3.0 * (self.edge.noise == 0)).astype(np.float32)

    def step(self, action: np.ndarray) -> Step:
        self.place = self.place + np.clip(action[:, 0], -1, 1)
        self.t += 1
        reward = self.edge.scale * (self.place > 1.0)
        after, done = self.look(), self.t >= self.edge.length
        self.place[done], self.t[done] = 0.0, 0
        obs = np.where(done[:, None], self.look(), after)
        return Step(obs, reward, done, np.zeros_like(done), after, np.ones_like(done))

    def get_state(self) -> dict[str, np.ndarray]:
        raise NotImplementedError

    def set_state(self, state: dict[str, np.ndarray]) -> np.ndarray:
        raise NotImplementedError

    def close(self) -> None: ...


@dataclass(frozen=True)
class DeviceLine:
    """The same task for one world on the device."""

    edge: Edge
    obs_size = 2
    action = ActionSpec(low=(-1.0,), high=(1.0,))
    params = {}  # noqa: RUF012 - never written to

    @property
    def horizon(self) -> int:
        return self.edge.length

    @property
    def description(self) -> dict[str, Any]:
        return {"id": "Line", "horizon": self.edge.length, "backend": "device"}

    def look(self, place: jax.Array, key: jax.Array) -> jax.Array:
        seen = jnp.stack([place, jax.random.normal(key)])
        return self.edge.noise * seen + 3.0 * (self.edge.noise == 0)

    def reset(self, key: jax.Array, params: dict[str, Any]):
        state = (jnp.float32(0), jnp.int32(0))
        return state, self.look(state[0], key)

    def step(self, state: Any, action: jax.Array, key: jax.Array, params: dict[str, Any]):
        place, t = state[0] + action[0], state[1] + 1
        reward = jnp.float32(self.edge.scale) * (place > 1.0)
        return Transition((place, t), self.look(place, key), reward, t >= self.edge.length)


class Outcome(NamedTuple):
    """What came of a case."""

    steps: int
    wrong: str | None  # the first array or metric that is not finite
    largest: float  # of the absolute values of all weights
    loss: float  # the largest value loss


def on_host(edge: Edge, steps: int) -> Outcome:
    c = config_of(edge, steps)
    trainer = Trainer(c, Line(edge, c.task.num_envs))
    loss = 0.0
    while trainer.env_steps < steps:
        metrics = trainer.iterate(steps)  # raises where a number is not finite
        loss = max(loss, metrics["value/ext_loss"])
    return outcome(trainer.env_steps, trainer.state, loss, None)


def on_device(edge: Edge, steps: int) -> Outcome:
    c = config_of(edge, steps)
    program = Program(c, DeviceLine(edge))
    group, loss, wrong = program.init([0], {}), 0.0, None
    while int(group.moving.env_steps[0]) < steps and wrong is None:
        group, metrics = program.advance(group, {}, jnp.int32(steps), iterations=8)
        metrics = host(metrics)
        worked = metrics["switch/rollout_steps"][:, 0] > 0
        kept = {k: v[worked] for k, v in metrics.items() if not k.startswith("rollout/")}
        wrong = trees.not_finite(kept)
        loss = max(loss, float(kept["value/ext_loss"].max()))
    return outcome(int(group.moving.env_steps[0]), host(group.train), loss, wrong)


def outcome(steps: int, state: Any, loss: float, wrong: str | None) -> Outcome:
    weights = [np.abs(np.asarray(x)).max() for x in jax.tree.leaves(state.params) if x.size]
    return Outcome(steps, wrong or trees.not_finite(state), float(max(weights)), loss)


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.faults.numerics", description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--log", type=Path, help="file that every line is appended to")
    given = parser.parse_args()
    lines = ["| case | row | where | steps | not finite | largest weight | largest value loss |",
             "|---|---|---|--:|---|--:|--:|"]  # fmt: skip
    print("\n".join(lines), flush=True)
    failed = False
    for name, edge in EDGES.items():
        for where, run in (("host", on_host), ("device", on_device)):
            began, found = time.perf_counter(), run(edge, given.steps)
            wrong = found.wrong or "none"
            line = (
                f"| {name} | {edge.row} | {where} | {found.steps:,} | {wrong} | "
                f"{found.largest:.3g} | {found.loss:.3g} |"
            )
            print(line, flush=True)
            if given.log:
                with open(given.log, "a") as log:
                    log.write(line + "\n")
            failed |= found.wrong is not None
            print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
