"""Environments: Gymnasium's MuJoCo models, and how to step them at less cost.

Three things that ``mj_step`` does for these models change no bit of its result and together take
two fifths of its time:

- The Python bindings install a clock that MuJoCo reads some thirty times a step, to fill the
  profile in ``MjData.timer``. ``without_profiling`` takes it out while our batches are stepped.
- The solver looks for independent islands of constraints. One kinematic tree has at most one.
- The broad phase of the collision search sorts all geoms to find candidates, although only a few
  pairs can touch. Naming those pairs in the model skips it.

The lean model is used only if it proves bit-equal to Gymnasium's on a set of random states, many
of them in deep contact, each time it is loaded; otherwise Gymnasium's model is stepped as it is.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import threading
import warnings
from typing import Any, NamedTuple

import gymnasium.envs
import mujoco
import numpy as np

mj: Any = mujoco  # compiled bindings, which no type checker can look into
STATE = mj.mjtState.mjSTATE_INTEGRATION  # all that mj_step reads, warm start included


class Physics(NamedTuple):
    """A compiled model and whether it is the lean one."""

    model: Any
    lean: bool


def load_physics(xml: str) -> Physics:
    """Returns Gymnasium's model ``xml``, lean where that is exact."""
    path, plain = _path(xml), plain_model(xml)
    # Versions of MuJoCo differ in whether a contact's margin is the sum of its geoms' margins or
    # the larger of them; a named pair has to spell it out, so each rule is tried.
    for margin in (np.add, np.maximum):
        lean = lean_model(path, plain, margin)
        if lean is not None and same_physics(plain, lean):
            return Physics(lean, True)
    return Physics(plain, False)


def plain_model(xml: str) -> Any:
    """Returns Gymnasium's model ``xml`` as it is."""
    return _compile(mj.MjSpec.from_file(_path(xml)))


def _path(xml: str) -> str:
    return os.path.join(gymnasium.envs.__path__[0], "mujoco", "assets", xml)


class WithoutProfiling(contextlib.AbstractContextManager[None]):
    """A context in which MuJoCo reads no clock and ``MjData.timer`` stands still.

    It may be entered again, and by several threads; the last one to leave puts the clock back. A
    clock that the user installed with ``mujoco.set_mjcb_time`` is left in place.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0  # how many contexts are open
        self._clock: int | None = None  # the address of the clock that was taken out
        self._callback = _clock_address()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1 and self._callback is not None and mj.get_mjcb_time() is None:
                self._clock = self._callback.value
                self._callback.value = None

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._callback is not None and self._clock is not None:
                if self._callback.value is None:  # else the user has installed another one since
                    self._callback.value = self._clock
                self._clock = None


def _clock_address() -> ctypes.c_void_p | None:
    """Returns MuJoCo's global ``mjcb_time``, or None where the platform does not show it.

    By ctypes because the bindings have no call for it: ``set_mjcb_time(None)`` means their own
    clock, and a Python function in its place would take the GIL thirty times a step.
    """
    try:
        library = ctypes.CDLL(mj._functions.__file__)
        return ctypes.c_void_p.in_dll(library, "mjcb_time")
    except (OSError, ValueError, AttributeError):
        return None  # the results are the same, only slower


without_profiling = WithoutProfiling()


def lean_model(path: str, plain: Any, margin: np.ufunc) -> Any | None:
    """Returns the model with its possible contacts named and islands off; None if impossible."""
    if plain.ntree != 1:
        return None
    spec = mj.MjSpec.from_file(path)
    names = [geom.name for geom in spec.geoms]
    if len(set(names)) != plain.ngeom or "" in names:
        return None
    for first, second in touching_pairs(plain):
        _name_pair(spec, plain, first, second, margin)
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = 0
    model = _compile(spec)
    if hasattr(mj.mjtDisableBit, "mjDSBL_ISLAND"):  # older versions look for none by default
        model.opt.disableflags |= int(mj.mjtDisableBit.mjDSBL_ISLAND)
    return model


def touching_pairs(model: Any) -> list[tuple[int, int]]:
    """Returns the geoms that MuJoCo lets collide: masks agree, and not parent and child."""
    contype, conaffinity = model.geom_contype, model.geom_conaffinity
    pairs = []
    for first, second in itertools.combinations(range(model.ngeom), 2):
        body, other = model.geom_bodyid[first], model.geom_bodyid[second]
        masks = (contype[first] & conaffinity[second]) | (contype[second] & conaffinity[first])
        child_of_body = model.body_parentid[other] == body and body != 0
        child_of_other = model.body_parentid[body] == other and other != 0
        if masks and body != other and not child_of_body and not child_of_other:
            pairs.append((first, second))
    return pairs


def _name_pair(spec: Any, plain: Any, first: int, second: int, margin: np.ufunc) -> None:
    """Adds one named pair; NaN tells the compiler to combine the geoms' own parameters."""
    pair = spec.add_pair(geomname1=plain.geom(first).name, geomname2=plain.geom(second).name)
    pair.condim = int(max(plain.geom_condim[first], plain.geom_condim[second]))
    pair.margin = float(margin(plain.geom_margin[first], plain.geom_margin[second]))
    pair.gap = float(margin(plain.geom_gap[first], plain.geom_gap[second]))
    pair.friction = [np.nan] * 5
    pair.solref = [np.nan] * 2
    pair.solimp = [np.nan] * 5


def same_physics(plain: Any, other: Any, states: int = 200) -> bool:
    """Returns whether a few steps from random states give the same bits in both models."""
    rng = np.random.default_rng(0)
    datas = [(model, mj.MjData(model)) for model in (plain, other)]
    for _ in range(states):
        qpos, qvel = random_pose(plain, rng), rng.normal(size=plain.nv)
        ctrl = rng.uniform(-1, 1, plain.nu)
        ends = []
        for model, data in datas:
            mj.mj_resetData(model, data)
            data.qpos[:], data.qvel[:], data.ctrl[:] = qpos, qvel, ctrl
            mj.mj_step(model, data, 3)
            end = np.empty(mj.mj_stateSize(model, STATE))
            mj.mj_getState(model, data, end, STATE)
            ends.append(end.tobytes())
        if ends[0] != ends[1]:
            return False
    return True


def random_pose(model: Any, rng: np.random.Generator) -> np.ndarray:
    """Returns a pose in the floor or above it, at any tilt, with joints all over their ranges."""
    low, high = model.jnt_range.T
    qpos = model.qpos0 + rng.uniform(-1.5, 1.5, model.nq)
    qpos[1] = model.qpos0[1] + rng.uniform(-1.5, 0.3)
    return np.where(model.jnt_limited, rng.uniform(1.1 * low, 1.1 * high), qpos)


def _compile(spec: Any) -> Any:
    with warnings.catch_warnings():  # Gymnasium's half cheetah uses a deprecated attribute
        warnings.filterwarnings("ignore", message=".*settotalmass.*")
        return spec.compile()
