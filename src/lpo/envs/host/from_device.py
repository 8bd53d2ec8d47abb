"""Environments: a device environment on the host, for one that has no Gymnasium form.

The host steps the same compiled functions as the device, so that evaluations, clips, sweeps of one
process a run and agents work for such a task too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from lpo.envs.codec import Codec
from lpo.envs.device import Task, make_device
from lpo.envs.device.base import DeviceEnv
from lpo.envs.device.worlds import Stepped, World, advance, begin
from lpo.errors import LPOError, named
from lpo.math import trees
from lpo.math.distributions import space_of
from lpo.types import Step

STRIPS, HEIGHT, WIDTH = 8, 24, 200  # of a drawing: numbers, and their pixels
FPS = 30


class HostBatch:
    """``num_envs`` worlds of a device environment; a ``BatchEnv``.

    A batch is reproduced by its seed, and a saved state goes on bit for bit.
    """

    resumable = True

    def __init__(self, task: Task, num_envs: int):
        self.env, self.num_envs = make_device(task), num_envs
        self.description = {**self.env.description, "backend": "jax"}
        self.codec = codec_of(self.env)
        self.observation_space = self.codec.observation_space
        self.action_space = self.codec.action_space
        low, high = self.env.action.low, self.env.action.high
        self._limits = (np.array(low, np.float32), np.array(high, np.float32)) if low else None
        self._compile()
        self._worlds: World | None = None

    def _compile(self) -> None:
        params = {k: jnp.asarray(v, jnp.float32) for k, v in self.env.params.items()}
        self._begin = jax.jit(jax.vmap(lambda key: begin(self.env, key, params)))
        self._advance = jax.jit(jax.vmap(lambda world, a: advance(self.env, world, a, params)))

    def reset(self, seed: int) -> np.ndarray:
        """Starts every world anew; world ``i`` draws from a key of its own."""
        key = jax.random.key(seed)
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(self.num_envs))
        worlds: World = self._begin(keys)
        self._worlds = worlds
        return np.array(worlds.obs)

    def step(self, action: np.ndarray) -> Step:
        """Takes one step in every world; an ended episode is followed by the next one."""
        if self._worlds is None:
            raise LPOError(
                f"{self.description['id']} was stepped before it was reset; call reset(seed)."
            )
        stored = np.asarray(action, np.float32).reshape(self.num_envs, -1)
        stored = stored if self._limits is None else np.clip(stored, *self._limits)
        self._worlds, out = self._stepped(self._worlds, stored)
        ended = np.asarray(out.terminated | out.truncated)
        success = None if out.success is None else np.asarray(out.success) & ended
        return Step(
            np.array(self._worlds.obs),
            np.asarray(out.reward, np.float64),
            np.asarray(out.terminated),
            np.asarray(out.truncated),
            np.array(out.next_obs),
            np.ones(self.num_envs, bool),
            success,
        )

    def _stepped(self, worlds: World, action: np.ndarray) -> tuple[World, Stepped]:
        """Takes a step; again with larger buffers where those of the physics were too small."""
        while True:
            after, out = self._advance(worlds, action)
            overflow = 0 if out.overflow is None else int(out.overflow.max())
            if not overflow:
                return after, out
            self.env = self.env.grown(overflow)  # pyright: ignore[reportAttributeAccessIssue]
            self._compile()

    def get_state(self) -> dict[str, np.ndarray]:
        return trees.flatten("worlds", self._worlds)

    def set_state(self, state: dict[str, np.ndarray]) -> np.ndarray:
        if self._worlds is None:
            self.reset(0)
        found: World = trees.unflatten("worlds", self._worlds, state)  # type: ignore[assignment]
        self._worlds = found
        return np.array(found.obs)

    def close(self) -> None:
        """Has nothing to close."""


class DrawnEnv(gymnasium.Env):
    """One world as a Gymnasium environment that is drawn.

    Where the device environment has ``draw(state)``, which returns an image [height, width, 3],
    that is the drawing. Else it is a strip for each of the first numbers that it observes.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": FPS}  # noqa: RUF012 - as Gymnasium's

    def __init__(self, task: Task):
        self.batch = HostBatch(task, 1)
        self.observation_space = self.batch.observation_space
        self.action_space = self.batch.action_space
        self.seen: list[np.ndarray] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        obs = self.batch.reset(seed or 0)[0]
        self.seen = [obs]
        return obs, {}

    def step(self, action: Any):
        step = self.batch.step(np.asarray(action)[None])
        obs = step.next_obs[0]
        self.seen.append(obs)
        return (
            obs, float(step.reward[0]), bool(step.terminated[0]), bool(step.truncated[0]), {}
        )  # fmt: skip

    def render(self) -> Any:
        draw, worlds = getattr(self.batch.env, "draw", None), self.batch._worlds
        if draw is None or worlds is None:
            return strips(self.seen)
        return np.asarray(draw(jax.tree.map(lambda x: x[0], worlds.state)), np.uint8)


def strips(seen: Sequence[np.ndarray]) -> np.ndarray:
    """Draws numbers over the last steps, each in a strip between its least and its largest."""
    rows = np.stack([obs.reshape(-1)[:STRIPS] for obs in seen])  # [T, K]
    low, high = rows.min(0), rows.max(0)
    level = (rows - low) / np.where(high > low, high - low, 1.0)
    level = level[-WIDTH:]
    image = np.full((HEIGHT * rows.shape[1], WIDTH, 3), 255, np.uint8)
    image[HEIGHT - 1 :: HEIGHT] = 200
    x = np.arange(len(level))
    for k in range(rows.shape[1]):
        y = HEIGHT * k + np.round((1 - level[:, k]) * (HEIGHT - 4)).astype(int) + 1
        for thick in (0, 1):
            image[y + thick, x] = (30, 90, 180)
    return image


def codec_of(env: DeviceEnv) -> Codec:
    """Returns the translation between what an environment observes raw and what a policy sees."""
    name, angles = env.description["id"], tuple(env.description.get("periodic", ()))
    form = getattr(env, "obs", None)
    if form is not None and form.size is None:
        raise LPOError(
            f"{name} observes {form.words}, and a device environment on the host observes one "
            f"vector; train it with {named('device')}."
        )
    raw = spaces.Box(-np.inf, np.inf, (env.obs_size - len(angles),), np.float32)
    return Codec(name, raw, space_of(env.action), angles)


def refuse_gymnasium(task: Any) -> None:
    """Raises LPOError for an option that only a Gymnasium environment has."""
    usual = {"backend": "auto", "threads": None, "env_workers": "auto", "wrapper": None,
             "step_timeout": None}  # fmt: skip
    for name, nothing in usual.items():
        if (value := getattr(task, name)) != nothing:
            raise LPOError(
                f"{task.env} is a device environment, and {named(name)} {value} is for those of "
                "Gymnasium; leave it out."
            )


def make_host(task: Any, num_envs: int) -> HostBatch:
    """Returns the batch of a task that has a device form alone."""
    refuse_gymnasium(task)
    return HostBatch(task, num_envs)


def make_drawn(task: Any) -> DrawnEnv:
    """Returns one environment of a task that has a device form alone, which is drawn."""
    refuse_gymnasium(task)
    return DrawnEnv(task)
