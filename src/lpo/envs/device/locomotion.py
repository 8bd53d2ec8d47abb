"""Device environments: the sparse locomotion tasks and the tasks of Gymnasium below them.

Observations, resets, ends and rewards are those of `lpo.envs.host.native` and of Gymnasium; the
physics is in float32. Two differences keep float32 from mattering more than it must:

- Physics does not depend on x, so each env step begins at x = 0, and x is summed up outside: a
  velocity is as exact at 300 m as at the start.
- A state that is not finite, or beyond MuJoCo's bound, becomes the model's first one, as in
  ``mj_step``; the end of the episode is decided before that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Bool, Float

from lpo.envs.angles import Angles, free_hinges
from lpo.envs.device.base import Transition
from lpo.envs.device.describe import describe
from lpo.envs.device.physics import Body, Buffers, simulate, stepper
from lpo.envs.host.physics import mj
from lpo.envs.specs import (
    HALF_CHEETAH,
    HOPPER,
    LOCOMOTION,
    WALKER2D,
    SparseLocomotion,
    Threshold,
    declared,
)
from lpo.errors import LPOError
from lpo.math.distributions import ActionSpec

TOO_LARGE = 1e10  # MuJoCo's mjMAXVAL
PAYS = {  # of Gymnasium's tasks: the reward of a healthy step, the cost of a squared action
    HOPPER.id: (1.0, 1e-3),
    WALKER2D.id: (1.0, 1e-3),
    HALF_CHEETAH.id: (0.0, 0.1),
}


class Pose(NamedTuple):
    """The state of a world."""

    qpos: Float[Array, " Q"]
    qvel: Float[Array, " V"]
    warmstart: Float[Array, " V"]


class Moved(NamedTuple):
    """What a reward may look at after a step."""

    speed: Float[Array, ""]
    x: Float[Array, ""]
    action: Float[Array, " A"]
    fallen: Bool[Array, ""]


@dataclass(frozen=True)
class Locomotion:
    """A sparse locomotion task. Environments that differ in their threshold only are equal."""

    id: str
    threshold: Threshold = field(compare=False)  # a parameter of the program, not a part of it
    simulator: str = "planar"
    deterministic: bool = False
    buffers: Buffers | None = None  # None: large enough for every pose

    @property
    def same_bits(self) -> bool:
        """Whether the same state always gives the same bits; ``planar`` cannot do otherwise."""
        return self.deterministic or self.simulator == "planar"

    @property
    def task(self) -> SparseLocomotion:
        return LOCOMOTION[self.id]

    @property
    def body(self) -> Body:
        task = self.task
        return Body(task.xml, task.frame_skip, self.simulator, self.deterministic, self.buffers)

    @property
    def obs_size(self) -> int:
        return self.body.model.nq + self.body.model.nv - 1

    @property
    def free_angles(self) -> Angles:
        """The free hinges; observations leave out the first position, x."""
        return tuple(place - 1 for place in free_hinges(self.body.model) if place > 0)

    @property
    def action(self) -> ActionSpec:
        low, high = self.body.model.actuator_ctrlrange.T.tolist()
        return ActionSpec(tuple(low), tuple(high))

    @property
    def horizon(self) -> int:
        return self.task.horizon

    @property
    def params(self) -> dict[str, Any]:
        """The threshold, and whether it is one of position (1) or of velocity (0)."""
        by_position = float(self.threshold.quantity == "x_position")
        return {"threshold": self.threshold.value, "by_position": by_position}

    @property
    def description(self) -> dict[str, Any]:
        task = self.task
        return {
            "id": task.id,
            "base": task.base_id,
            "preset": self.threshold.preset,
            "quantity": self.threshold.quantity,
            "threshold": self.threshold.value,
            "horizon": task.horizon,
            "max_return": task.max_return,
            "frame_skip": task.frame_skip,
            "backend": "device",
            "simulator": self.simulator,
            "deterministic": self.same_bits,
            "buffers": self.body.sizes._asdict(),
            "mujoco": mj.__version__,
            "jax": jax.__version__,
            **declared(task.id, (self.obs_size,), None),
        }

    def grown(self, overflow: int) -> Locomotion:
        """Returns the environment with larger buffers, after an ``overflow`` of a transition.

        A state holds no buffers, so the worlds go on from where they were.
        """
        return replace(self, buffers=self.body.sizes.grown(overflow))

    def reset(self, key: Array, params: dict[str, Any]) -> tuple[Pose, Float[Array, " O"]]:
        """Returns a pose near the model's own, by Gymnasium's law."""
        key_qpos, key_qvel = jax.random.split(key)
        model, noise = self.body.model, self.task.reset_noise
        qpos = _even(key_qpos, model.nq, noise) + jnp.asarray(model.qpos0, jnp.float32)
        if self.task.velocity_noise == "normal":
            qvel = noise * jax.random.normal(key_qvel, (model.nv,), jnp.float32)
        else:
            qvel = _even(key_qvel, model.nv, noise)
        pose = Pose(qpos, qvel, jnp.zeros_like(qvel))
        return pose, self._observe(pose)

    def step(
        self, state: Pose, action: Float[Array, " A"], key: Array, params: dict[str, Any]
    ) -> Transition:
        """Takes ``frame_skip`` physics steps under one action."""
        after = simulate(self.body, state.qpos.at[0].set(0.0), state.qvel, state.warmstart, action)
        moved = after.qpos[0]
        pose = Pose(after.qpos.at[0].add(state.qpos[0]), after.qvel, after.warmstart)
        terminated = ~self._healthy(pose)
        speed = moved / (self.body.model.opt.timestep * self.task.frame_skip)
        reward = self._reward(Moved(speed, pose.qpos[0], action, terminated), params)
        pose = self._mended(pose)
        return Transition(pose, self._observe(pose), reward, terminated, overflow=after.overflow)

    def _observe(self, pose: Pose) -> Float[Array, " O"]:
        limit = self.task.clip_velocity
        qvel = pose.qvel if limit is None else jnp.clip(pose.qvel, -limit, limit)
        return jnp.concatenate([pose.qpos[1:], qvel])

    def _reward(self, moved: Moved, params: dict[str, Any]) -> Float[Array, ""]:
        quantity = jnp.where(params["by_position"] > 0, moved.x, moved.speed)
        return (quantity > params["threshold"]).astype(jnp.float32)

    def _healthy(self, pose: Pose) -> Bool[Array, ""]:
        """Returns Gymnasium's ``is_healthy``, which is false for NaN; always true without one."""
        task = self.task
        if task.healthy_z is None or task.healthy_angle is None:
            return jnp.ones((), bool)
        bounds = [task.healthy_z, task.healthy_angle]
        state = jnp.concatenate([pose.qpos[1:], pose.qvel])
        if task.healthy_state is not None:
            bounds += [(-task.healthy_state, task.healthy_state)] * (state.size - 2)
        low, high = np.array(bounds, np.float32).T
        watched = state[: len(bounds)]
        return ((watched > low) & (watched < high)).all()

    def _mended(self, pose: Pose) -> Pose:
        fine = jnp.stack([(jnp.abs(part) < TOO_LARGE).all() for part in pose]).all()
        first = jnp.asarray(self.body.model.qpos0, jnp.float32)
        rest = Pose(first, jnp.zeros_like(pose.qvel), jnp.zeros_like(pose.warmstart))
        return jax.tree.map(lambda own, other: jnp.where(fine, own, other), pose, rest)


@dataclass(frozen=True)
class Dense(Locomotion):
    """Gymnasium's own task: the speed, and what health pays, less the cost of the action."""

    def _reward(self, moved: Moved, params: dict[str, Any]) -> Float[Array, ""]:
        healthy, cost = PAYS[self.id]
        return moved.speed + jnp.where(moved.fallen, 0.0, healthy) - cost * (moved.action**2).sum()

    @property
    def params(self) -> dict[str, Any]:
        return {}

    @property
    def description(self) -> dict[str, Any]:
        sizes = {"simulator": self.simulator, "deterministic": self.same_bits}
        sizes |= {"buffers": self.body.sizes._asdict(), "mujoco": mj.__version__}
        return describe(self.task.base_id, self.obs_size, {}) | sizes


def _even(key: Array, size: int, noise: float) -> Float[Array, " N"]:
    return jax.random.uniform(key, (size,), jnp.float32, -noise, noise)


def locomotion(
    task: SparseLocomotion,
    threshold: float | str | None = None,
    simulator: str = "planar",
    deterministic: bool = False,
    buffers: dict[str, int] | None = None,
) -> Locomotion:
    """Returns ``task`` on the device; ``threshold`` is a preset's name or a speed in m/s."""
    preset, speed = (threshold, None) if isinstance(threshold, str) else (None, threshold)
    sizes = None if buffers is None else checked(buffers)
    env = Locomotion(task.id, task.threshold(preset, speed), simulator, deterministic, sizes)
    stepper(env.body)  # raises where it cannot be loaded
    return env


def dense(
    task: SparseLocomotion,
    simulator: str = "planar",
    deterministic: bool = False,
    buffers: dict[str, int] | None = None,
) -> Dense:
    """Returns the task of Gymnasium below ``task`` on the device."""
    env = locomotion(task, None, simulator, deterministic, buffers)
    return Dense(**{f.name: getattr(env, f.name) for f in fields(env)})


def checked(buffers: dict[str, int]) -> Buffers:
    """Returns the sizes that a user gave. Raises LPOError where they are none."""
    try:
        sizes = Buffers(**buffers)
        assert all(isinstance(size, int) and size > 0 for size in sizes)
    except (TypeError, AssertionError) as error:
        raise LPOError(
            f"The buffers of the physics are {buffers!r}; pass two positive numbers, for instance "
            '{"contacts": 16, "rows": 70}, or leave them out.'
        ) from error
    return sizes


sparse_hopper = partial(locomotion, HOPPER)
sparse_walker2d = partial(locomotion, WALKER2D)
sparse_half_cheetah = partial(locomotion, HALF_CHEETAH)
hopper = partial(dense, HOPPER)
walker2d = partial(dense, WALKER2D)
half_cheetah = partial(dense, HALF_CHEETAH)
