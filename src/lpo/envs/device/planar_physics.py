"""Device environments: physics of planar bodies in one kernel, where a thread steps a world.

MuJoCo Warp takes a hundred kernels for a physics step, and a GPU waits between them. The bodies of
the locomotion tasks live in a plane and have few joints, so that one thread can take all steps of
an env step by itself (`planar_step.h`). The equations are MuJoCo's, and so are the numbers, which
`Planar` reads from its model. The same state gives the same bits in any batch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import jax.numpy as jnp
import numpy as np
import warp
from jax import Array

from lpo.envs.device.physics import Body, Simulated, load_model
from lpo.envs.host.physics import mj, touching_pairs
from lpo.errors import LPOError

wp: Any = warp  # types of kernels are made at run time, which no type checker can follow
wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)  # no line for each kernel
BLOCK = 32  # threads; a GPU has more places for blocks than a group has worlds
LEAST_IMPEDANCE, MOST_IMPEDANCE = 1e-4, 0.9999  # MuJoCo's mjMINIMP and mjMAXIMP
TOLERANCE = 1e-8  # of the solver, as in MuJoCo's models
IMPEDANCE = """
struct Impedance {
    float k, b, least, most, width, mid;
    CUDA_CALLABLE float at(float pos) const {
        float far = (pos < 0.0f ? -pos : pos) / width;
        float part = far >= 1.0f ? 1.0f : far < mid ? far * far / mid
                   : 1.0f - (1.0f - far) * (1.0f - far) / (1.0f - mid);
        return least + part * (most - least);
    }
};
"""


def make(body: Body) -> Callable[..., Simulated]:
    """Returns the function that steps W worlds."""
    return _of_body(body.xml, body.frame_skip)


@functools.cache
def _of_body(xml: str, steps: int) -> Callable[..., Simulated]:
    return stepper_of(load_model(xml), steps)


def stepper_of(model: Any, steps: int) -> Callable[..., Simulated]:
    """Returns the function that takes ``steps`` physics steps of ``model`` in W worlds."""
    text = files("lpo.envs.device").joinpath("planar_step.h").read_text()
    rows = wp.array(dtype=float, ndim=2)

    def step(world, qpos, qvel, warmstart, ctrl, qpos_after, qvel_after, warmstart_after): ...

    arrays = step.__code__.co_varnames[1:8]
    step.__annotations__ = {"world": int} | dict.fromkeys(arrays, rows)
    native = wp.func_native(constants(model, steps) + text)(step)

    def planar(qpos, qvel, warmstart, ctrl, qpos_after, qvel_after, warmstart_after):
        native(wp.tid(), qpos, qvel, warmstart, ctrl, qpos_after, qvel_after, warmstart_after)

    planar.__annotations__ = dict.fromkeys(arrays, rows)
    kernel = wp.kernel(planar, enable_backward=False, module="unique")
    call = wp.jax_kernel(kernel, num_outputs=3, block_dim=BLOCK)

    def many(qpos: Array, qvel: Array, warmstart: Array, ctrl: Array) -> Simulated:
        worlds, sizes = qpos.shape[0], dict.fromkeys(arrays[4:], qpos.shape)
        after = call(qpos, qvel, warmstart, ctrl, launch_dims=worlds, output_dims=sizes)
        return Simulated(*after, overflow=jnp.zeros(worlds, jnp.int32))

    return many


def constants(model: Any, steps: int) -> str:
    """Returns the numbers of a planar model as C++. Raises LPOError where it is not planar."""
    _check(model)
    on_floor, pairs = [], []
    for first, second in touching_pairs(model):
        floor = model.geom_type[first] == mj.mjtGeom.mjGEOM_PLANE
        (on_floor if floor else pairs).append((first, second))
    ints = {
        "NV": model.nv,
        "NU": model.nu,
        "NB": model.nbody - 1,
        "NS": len(_slides(model)),
        "NE": 2 * len(on_floor),
        "NP": len(pairs),
        "NC": 2 * len(on_floor) + 2 * len(pairs),
        "STEPS": steps,
        "STAGES": 1 if model.opt.integrator == mj.mjtIntegrator.mjINT_EULER else 4,
    }
    floats = {
        "TIMESTEP": model.opt.timestep,
        "GRAVITY_X": model.opt.gravity[0],
        "GRAVITY_Z": model.opt.gravity[2],
        "SCALE": 1 / (model.stat.meaninertia * model.nv),
        "TOLERANCE": TOLERANCE,
    }
    pairs = pairs or [(0, 0)]  # a table of C++ cannot be empty; NP counts
    tables = _bodies(model) | _dofs(model) | _ends(model, on_floor) | _pairs(model, pairs)
    limit = _impedance(model, model.jnt_solref[0], model.jnt_solimp[0])
    lines = [f"constexpr int {name} = {value};" for name, value in ints.items()]
    lines += [f"constexpr float {name} = {_number(value)};" for name, value in floats.items()]
    lines += [_table(name, np.asarray(values)) for name, values in tables.items()]
    return IMPEDANCE + "\n".join([*lines, f"const Impedance LIMIT_IMP = {limit};"]) + "\n"


def _bodies(model: Any) -> dict[str, Any]:
    """Returns the tree of the bodies without the world, each with its hinge."""
    hinges = [_joints(model, b)[-1] for b in range(1, model.nbody)]
    parent, mass = model.body_parentid[1:] - 1, model.body_mass[1:]
    above = np.eye(len(parent), dtype=int)  # [b, c]: b is c, or hangs from it
    for b, p in enumerate(parent):
        above[b] |= above[p] if p >= 0 else 0
    return {
        "int PARENT": parent,
        "int HINGE": hinges,
        "bool ABOVE": above,
        "float PLACE_X": model.body_pos[1:, 0],
        "float PLACE_Z": model.body_pos[1:, 2],
        "float JOINT_X": model.jnt_pos[hinges, 0],
        "float JOINT_Z": model.jnt_pos[hinges, 2],
        "float SIGN": model.jnt_axis[hinges, 1],
        "float MASS": mass,
        "float BRANCH": above.T @ mass,
        "float MID_X": model.body_ipos[1:, 0],
        "float MID_Z": model.body_ipos[1:, 2],
        "float INERTIA": [_inertia(model, b) for b in range(1, model.nbody)],
    }


def _dofs(model: Any) -> dict[str, Any]:
    """Returns the joints, which have one degree of freedom each, and their motors."""
    slides = _slides(model)
    return {
        "float SLIDE_X": model.jnt_axis[slides, 0],
        "float SLIDE_Z": model.jnt_axis[slides, 2],
        "float REST": model.qpos0,
        "float SPRING": model.qpos_spring,
        "float STIFFNESS": model.jnt_stiffness.reshape(model.nv),
        "float DAMPING": model.dof_damping.reshape(model.nv),
        "float ARMATURE": model.dof_armature,
        "float DOF_WEIGHT": model.dof_invweight0,
        "bool LIMITED": model.jnt_limited,
        "float LEAST": model.jnt_range[:, 0],
        "float MOST": model.jnt_range[:, 1],
        "float LIMIT_MARGIN": model.jnt_margin,
        "int DRIVES": model.actuator_trnid[:, 0],
        "float GEAR": model.actuator_gear[:, 0] * model.actuator_gainprm[:, 0],
        "float LOW": model.actuator_ctrlrange[:, 0],
        "float HIGH": model.actuator_ctrlrange[:, 1],
    }


def _ends(model: Any, on_floor: list[tuple[int, int]]) -> dict[str, Any]:
    """Returns both ends of each capsule that may touch the floor."""
    twice = [pair for pair in on_floor for _ in range(2)]
    places = [_on_body(model, geom, side) for _, geom in on_floor for side in (1, -1)]
    return _touching(model, "END", twice) | {
        "int END_BODY": [model.geom_bodyid[geom] - 1 for _, geom in twice],
        "float END_X": [x for x, _ in places],
        "float END_Z": [z for _, z in places],
        "float END_RADIUS": [model.geom_size[geom, 0] for _, geom in twice],
    }


def _pairs(model: Any, pairs: list[tuple[int, int]]) -> dict[str, Any]:
    """Returns the middles and the half axes of capsules that may touch each other."""
    middles = np.array([[_on_body(model, geom, 0) for geom in pair] for pair in pairs])
    halves = np.array([[_on_body(model, geom, 1) for geom in pair] for pair in pairs]) - middles
    return _touching(model, "PAIR", pairs) | {
        "int PAIR_BODY": [[model.geom_bodyid[geom] - 1 for geom in pair] for pair in pairs],
        "float PAIR_RADIUS": [[model.geom_size[geom, 0] for geom in pair] for pair in pairs],
        "float PAIR_X": middles[..., 0],
        "float PAIR_Z": middles[..., 1],
        "float PAIR_UX": halves[..., 0],
        "float PAIR_UZ": halves[..., 1],
    }


def _touching(model: Any, kind: str, pairs: list[tuple[int, int]]) -> dict[str, Any]:
    """Returns what MuJoCo makes of the numbers of two shapes that touch."""
    weight = model.body_invweight0[model.geom_bodyid, 0]
    found: dict[str, list[Any]] = {"float MARGIN": [], "float WEIGHT": [], "float FRICTION": []}
    found |= {"bool ROUGH": [], "Impedance IMP": []}
    for first, second in pairs:
        both = [first, second]
        found["float MARGIN"].append((model.geom_margin - model.geom_gap)[both].sum())
        found["float WEIGHT"].append(weight[both].sum())
        found["float FRICTION"].append(model.geom_friction[both, 0].max())
        found["bool ROUGH"].append(int(model.geom_condim[both].max() > 1))
        share = model.geom_solmix[both] / model.geom_solmix[both].sum()
        of = _impedance(model, share @ model.geom_solref[both], share @ model.geom_solimp[both])
        found["Impedance IMP"].append(of)
    return {name.replace(" ", f" {kind}_"): values for name, values in found.items()}


def _impedance(model: Any, solref: np.ndarray, solimp: np.ndarray) -> str:
    """Returns stiffness, damping and the five numbers of MuJoCo's impedance as C++."""
    least, most = np.clip(solimp[:2], LEAST_IMPEDANCE, MOST_IMPEDANCE)
    time, ratio = max(solref[0], 2 * model.opt.timestep), solref[1]
    k, b = 1 / (most * time * ratio) ** 2, 2 / (most * time)
    mid = np.clip(solimp[3], LEAST_IMPEDANCE, MOST_IMPEDANCE)
    return "{" + ", ".join(map(_number, (k, b, least, most, solimp[2], mid))) + "}"


def _joints(model: Any, body: int) -> list[int]:
    return np.flatnonzero(model.jnt_bodyid == body).tolist()


def _slides(model: Any) -> list[int]:
    return _joints(model, 1)[:-1]


def _on_body(model: Any, geom: int, side: float) -> np.ndarray:
    """Returns (x, z) in the body's frame of a capsule's middle (``side`` 0) or of its ends (±1)."""
    turn = np.zeros(9)
    mj.mju_quat2Mat(turn, model.geom_quat[geom])
    axis = turn.reshape(3, 3)[:, 2] * model.geom_size[geom, 1]
    return (model.geom_pos[geom] + side * axis)[[0, 2]]


def _inertia(model: Any, body: int) -> float:
    """Returns the inertia about y."""
    turn = np.zeros(9)
    mj.mju_quat2Mat(turn, model.body_iquat[body])
    return float(turn.reshape(3, 3)[1] ** 2 @ model.body_inertia[body])


def _check(model: Any) -> None:
    """Raises LPOError where `planar_step.h` lacks an equation that the model needs."""
    slides = model.jnt_type == mj.mjtJoint.mjJNT_SLIDE
    first = [len(_joints(model, b)) == 1 for b in range(2, model.nbody)]
    pairs = touching_pairs(model)
    touching = np.unique(pairs).astype(int)
    floor = model.geom_type == mj.mjtGeom.mjGEOM_PLANE
    capsules = touching[model.geom_type[touching] == mj.mjtGeom.mjGEOM_CAPSULE]
    fine = {
        "slides and then one hinge in the first body, one hinge in each other": all(first)
        and not slides[3:].any()
        and _joints(model, 1) == [*np.flatnonzero(slides), int(slides.sum())],
        "hinges about y, slides within y = 0": (np.abs(model.jnt_axis[~slides, 1]) == 1).all()
        and not model.jnt_axis[slides, 1].any(),
        "bodies in the plane y = 0, not turned": not model.body_pos[:, 1].any()
        and not model.geom_pos[:, 1].any()
        and not model.body_ipos[:, 1].any()
        and not model.body_quat[:, 1:].any()
        and not model.geom_quat[capsules][:, [1, 3]].any(),
        "one floor at z = 0 and capsules": floor.sum() == 1
        and any(floor[a] for a, _ in pairs)
        and len(capsules) == len(touching) - 1
        and (model.geom_bodyid[capsules] > 0).all()
        and not model.geom_pos[floor].any()
        and not model.geom_quat[floor][:, 1:].any(),
        "pyramids of friction": model.opt.cone == mj.mjtCone.mjCONE_PYRAMIDAL
        and model.opt.impratio == 1
        and set(model.geom_condim.tolist()) <= {1, 3},
        "no named, excluded or preferred contacts": not (model.npair or model.nexclude)
        and (model.geom_priority == model.geom_priority[0]).all(),
        "Euler, or Runge and Kutta": model.opt.integrator
        in (mj.mjtIntegrator.mjINT_EULER, mj.mjtIntegrator.mjINT_RK4),
        "impedances of one kind": (model.jnt_solref == model.jnt_solref[0]).all()
        and (model.jnt_solimp == model.jnt_solimp[0]).all()
        and (model.geom_solref > 0).all()
        and (model.jnt_solref > 0).all()
        and (model.geom_solimp[:, 4] == 2).all()
        and (model.jnt_solimp[:, 4] == 2).all()
        and (model.geom_solimp[:, 2] > 0).all()
        and (model.jnt_solimp[:, 2] > 0).all(),
        "at most 64 joints and rows of contacts": model.nv + 6 * len(pairs) <= 64,
        "motors at joints, with limits of their controls alone": model.actuator_ctrllimited.all()
        and (model.actuator_trntype == mj.mjtTrn.mjTRN_JOINT).all()
        and (model.actuator_gaintype == mj.mjtGain.mjGAIN_FIXED).all()
        and not (model.actuator_biastype.any() or model.actuator_dyntype.any())
        and not (model.actuator_forcelimited.any() or model.jnt_actfrclimited.any()),
        "all of MuJoCo's forces and no others": not (
            model.opt.disableflags or model.opt.enableflags or model.body_gravcomp.any()
        ),
        "no friction in joints, tendons, other constraints, wind or water": not (
            model.dof_frictionloss.any() or model.ntendon or model.neq
        )
        and model.opt.density == 0
        and model.opt.viscosity == 0,
    }
    missing = [what for what, holds in fine.items() if not holds]
    if missing:
        raise LPOError(
            f"The simulator 'planar' needs {'; '.join(missing)}; choose the simulator 'warp'."
        )


def _number(value: Any) -> str:
    return f"{float(value)!r}f"


def _table(name: str, values: np.ndarray) -> str:
    """Returns an array of C++."""
    kind, label = name.split()
    write = {"float": _number, "Impedance": str}.get(kind, lambda value: str(int(value)))

    def nested(part: Any) -> str:
        return "{" + ", ".join(map(nested, part)) + "}" if np.ndim(part) else write(part)

    shape = "".join(f"[{size}]" for size in values.shape)
    return f"const {kind} {label}{shape} = {nested(values)};"
