"""Environments: the sparse locomotion tasks as one native batch on MuJoCo.

The same physics, resets and rewards as Gymnasium's environments, bit for bit, without their
Python: one ``MjData`` per environment, ``mj_step(model, data, frame_skip)`` from as many threads
as there are cores, and one gather of all positions and velocities per batch step.

Gymnasium calls ``mj_rnePostConstraint`` after each step. It only fills ``cacc`` and the contact
forces ``cfrc_*``, which neither these tasks nor ``mj_step`` read, so it is left out here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding

from lpo.envs.angles import Angles, Periodic, chosen, described, free_hinges, turned
from lpo.envs.codec import Codec
from lpo.envs.host.physics import STATE, load_physics, mj, without_profiling
from lpo.envs.host.rng import pack_generator, unpack_generator
from lpo.envs.host.threads import Workers
from lpo.envs.specs import SparseLocomotion, declared
from lpo.errors import LPOError
from lpo.types import Step


class NativeBatch:
    """``num_envs`` copies of a sparse locomotion task; a ``BatchEnv``.

    Arrays in a ``Step`` are fresh or read-only, so a caller may keep them; ``next_obs`` is the
    same array as ``obs`` on a step where no episode ends. Actions must be finite and lie in the
    action space: MuJoCo clamps others, and reads NaN as no torque.
    """

    resumable = True

    def __init__(
        self,
        task: SparseLocomotion,
        num_envs: int,
        *,
        preset: str | None = None,
        threshold: float | None = None,
        threads: int | None = None,
        periodic: Periodic = (),
    ):
        self.task = task
        self.num_envs = num_envs
        self.threshold = task.threshold(preset, threshold)
        self._model, lean = load_physics(task.xml)
        self._dt = self._model.opt.timestep * task.frame_skip
        self._datas = [mj.MjData(self._model) for _ in range(num_envs)]
        self._bind_views()
        self._bind_health()
        self._angles = chosen(periodic, self._free_angles)
        self._set_spaces()
        self._workers = Workers(self._simulate, num_envs, threads)
        self._rngs: list[np.random.Generator] = []
        self._clock = 0  # steps of the batch; an episode's age is clock - start
        self._start = np.zeros(num_envs, np.int64)
        self._next_timeout = task.horizon
        row: dict[str, Any] = {
            "id": task.id,
            "base": task.base_id,
            "preset": self.threshold.preset,
            "quantity": self.threshold.quantity,
            "threshold": self.threshold.value,
            "horizon": task.horizon,
            "max_return": task.max_return,
            "frame_skip": task.frame_skip,
            "backend": "native",
            "lean_physics": lean,
            "threads": self._workers.threads,
            "mujoco": mj.__version__,
            **declared(task.id, (self._nq + self._nv - 1,), None),
        }
        self.description = described(row, self._angles)

    def _free_angles(self) -> Angles:
        """Returns the free hinges; observations leave out the first position, x."""
        return tuple(place - 1 for place in free_hinges(self._model) if place > 0)

    def _bind_views(self) -> None:
        """Makes views into the simulators and the flat buffer that one concatenate fills."""
        model = self._model
        self._nq, self._nv, self._nu = model.nq, model.nv, model.nu
        self._init_qpos = self._datas[0].qpos.copy()
        self._init_qvel = self._datas[0].qvel.copy()
        self._ctrl = [data.ctrl for data in self._datas]
        self._views = [view for data in self._datas for view in (data.qpos, data.qvel)]
        self._flat = np.zeros(self.num_envs * (self._nq + self._nv))
        self._state = self._flat.reshape(self.num_envs, self._nq + self._nv)
        self._actions = np.zeros((self.num_envs, self._nu))
        self._none = _read_only(np.zeros(self.num_envs, bool))
        self._all = _read_only(np.ones(self.num_envs, bool))

    def _bind_health(self) -> None:
        """Writes ``is_healthy`` as bounds on columns of the state: z, angle, and maybe the rest."""
        task = self.task
        self._healthy: tuple[slice, np.ndarray, np.ndarray] | None = None
        if task.healthy_z is None or task.healthy_angle is None:
            return
        bounds = [task.healthy_z, task.healthy_angle]
        if task.healthy_state is not None:
            bounds += [(-task.healthy_state, task.healthy_state)] * (self._nq + self._nv - 3)
        low, high = np.array(bounds).T
        self._healthy = slice(1, 1 + len(bounds)), low.copy(), high.copy()

    def _set_spaces(self) -> None:
        low, high = self._model.actuator_ctrlrange.astype(np.float32).T
        self.action_space: spaces.Box = spaces.Box(low, high, dtype=np.float32)
        size = self._nq + self._nv - 1
        plain = spaces.Box(-np.inf, np.inf, (size,), dtype=np.float64)
        self.codec = Codec(self.task.id, plain, self.action_space, self._angles)
        self.observation_space = self.codec.observation_space

    def reset(self, seed: int) -> np.ndarray:
        """Starts every environment; environment ``i`` draws from its own stream ``seed + i``."""
        self._rngs = [seeding.np_random(seed + i)[0] for i in range(self.num_envs)]
        for i in range(self.num_envs):
            self._restart(i)
        self._clock = 0
        self._start[:] = 0
        self._next_timeout = self.task.horizon
        return self._observe()

    def step(self, action: np.ndarray) -> Step:
        """Takes one step in every environment; an ended episode is followed by the next one."""
        self._take(action)
        x_before = self._state[:, 0].copy()
        with without_profiling:
            self._workers.run()
        obs = self._observe()
        reward = self._reward(x_before)
        terminated = self._terminated()
        self._clock += 1
        truncated = self._none
        if self._clock >= self._next_timeout:
            truncated = self._clock - self._start >= self.task.horizon
        next_obs = obs
        if terminated is not self._none or truncated is not self._none:
            obs = self._next_episodes(terminated | truncated)
        return Step(obs, reward, terminated, truncated, next_obs, self._all)

    def _take(self, action: np.ndarray) -> None:
        if not self._rngs:
            raise LPOError(f"{self.task.id} was stepped before it was reset; call reset(seed).")
        if np.shape(action) != self._actions.shape:
            raise LPOError(
                f"{self.task.id} got actions of shape {np.shape(action)}; pass "
                f"{self._actions.shape}, one row per environment."
            )
        self._actions[:] = action

    def _simulate(self, first: int, last: int) -> None:
        """Steps environments ``first`` to ``last - 1``; ``mj_step`` releases the GIL."""
        model, frame_skip, mj_step = self._model, self.task.frame_skip, mj.mj_step
        for i in range(first, last):
            self._ctrl[i][:] = self._actions[i]
            mj_step(model, self._datas[i], frame_skip)

    def _observe(self) -> np.ndarray:
        """Returns the observations of all simulators; they leave out x, as Gymnasium's do."""
        np.concatenate(self._views, out=self._flat)
        obs = self._state[:, 1:].copy()
        limit = self.task.clip_velocity
        if limit is not None:
            velocity = obs[:, self._nq - 1 :]
            np.maximum(velocity, -limit, out=velocity)
            np.minimum(velocity, limit, out=velocity)
        return turned(obs, self._angles)

    def _reward(self, x_before: np.ndarray) -> np.ndarray:
        x = self._state[:, 0]
        if self.threshold.quantity == "x_velocity":
            x = (x - x_before) / self._dt
        return (x > self.threshold.value).astype(np.float64)

    def _terminated(self) -> np.ndarray:
        """Returns the negation of Gymnasium's ``is_healthy``, so that NaN terminates as there."""
        if self._healthy is None:
            return self._none
        columns, low, high = self._healthy
        watched = self._state[:, columns]
        inside = watched > low
        inside &= watched < high
        return self._none if inside.all() else np.logical_not(inside.all(axis=1))

    def _next_episodes(self, done: np.ndarray) -> np.ndarray:
        """Restarts the ``done`` environments; returns what the policy sees next."""
        for i in done.nonzero()[0].tolist():
            self._restart(i)
            self._start[i] = self._clock
        self._next_timeout = int(self._start.min()) + self.task.horizon
        return self._observe()

    def _restart(self, i: int) -> None:
        """Resets environment ``i`` as Gymnasium's ``reset_model`` does: same draws, same order."""
        data, rng, noise = self._datas[i], self._rngs[i], self.task.reset_noise
        mj.mj_resetData(self._model, data)
        data.qpos[:] = self._init_qpos + rng.uniform(low=-noise, high=noise, size=self._nq)
        if self.task.velocity_noise == "normal":
            data.qvel[:] = self._init_qvel + noise * rng.standard_normal(self._nv)
        else:
            data.qvel[:] = self._init_qvel + rng.uniform(low=-noise, high=noise, size=self._nv)
        mj.mj_forward(self._model, data)

    def get_state(self) -> dict[str, np.ndarray]:
        """Returns simulators with their warm starts, ages of the episodes, random streams."""
        if not self._rngs:
            raise LPOError(f"{self.task.id} has no state before its first reset; call reset(seed).")
        physics = np.zeros((self.num_envs, mj.mj_stateSize(self._model, STATE)))
        for row, data in zip(physics, self._datas, strict=True):
            mj.mj_getState(self._model, data, row, STATE)
        return {
            "physics": physics,
            "elapsed": self._clock - self._start,
            "rng": np.stack([pack_generator(rng) for rng in self._rngs]),
        }

    def set_state(self, state: dict[str, np.ndarray]) -> np.ndarray:
        """Returns to a state of ``get_state``; the steps after it are the same to the bit."""
        size = mj.mj_stateSize(self._model, STATE)
        physics = np.ascontiguousarray(state["physics"], dtype=np.float64)
        if physics.shape != (self.num_envs, size):
            raise LPOError(
                f"The saved simulators of {self.task.id} have shape {physics.shape} and this batch "
                f"needs {(self.num_envs, size)}; resume with the num_envs and the mujoco version "
                "of the run that saved them."
            )
        for row, data in zip(physics, self._datas, strict=True):
            mj.mj_setState(self._model, data, row, STATE)
        self._rngs = [unpack_generator(row) for row in state["rng"]]
        self._clock = 0
        self._start = -np.asarray(state["elapsed"], dtype=np.int64)
        self._next_timeout = int(self._start.min()) + self.task.horizon
        return self._observe()

    def close(self) -> None:
        """Stops the threads."""
        self._workers.close()


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
