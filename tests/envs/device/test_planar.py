"""The physics of planar bodies in one kernel is MuJoCo's, from any pose and in any batch."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from lpo.envs.device.physics import Body, load_model, stepper
from lpo.envs.host.physics import mj, plain_model, random_pose
from lpo.envs.specs import HALF_CHEETAH, HOPPER, LOCOMOTION
from lpo.errors import LPOError

planar = pytest.importorskip("lpo.envs.device.planar_physics")

# A kernel compiles in seconds; the hopper's has all kinds of contacts, the others are slow tests.
SLOW = {task.id: [pytest.mark.slow] for task in LOCOMOTION.values() if task is not HOPPER}
TASKS = [pytest.param(t, id=t.id, marks=SLOW.get(t.id, [])) for t in LOCOMOTION.values()]
PARTED = -0.08  # limbs that overlap by more cross each other, and then no direction parts them


def draw(model: Any, worlds: int) -> tuple[np.ndarray, ...]:
    """Poses of all kinds, fast ones, and controls beyond their limits."""
    rng = np.random.default_rng(0)
    qpos = np.stack([random_pose(model, rng) for _ in range(worlds)])
    qpos[:, 0] = 0.0
    qvel = rng.normal(0, 3, (worlds, model.nv))
    ctrl = rng.uniform(-1.5, 1.5, (worlds, model.nu))
    return tuple(x.astype(np.float32) for x in (qpos, qvel, ctrl))


class InC:
    """What C makes of each world in ``steps`` physics steps."""

    def __init__(self, model: Any, steps: int, qpos: Any, qvel: Any, ctrl: Any):
        worlds, data = len(qpos), mj.MjData(model)
        self.after = np.empty((worlds, model.nq + model.nv))
        self.touching = np.zeros(worlds, int)
        self.limbs, self.crossed = (np.zeros(worlds, bool) for _ in range(2))
        for i in range(worlds):
            mj.mj_resetData(model, data)
            data.qpos[:], data.qvel[:], data.ctrl[:] = qpos[i], qvel[i], ctrl[i]
            for _ in range(steps):
                mj.mj_step(model, data)
                own = [c.dist for c in data.contact if c.geom1 != 0]  # 0 is the floor
                self.limbs[i] |= bool(own)
                self.crossed[i] |= any(dist < PARTED for dist in own)
                self.touching[i] = max(self.touching[i], data.ncon)
            self.after[i] = np.concatenate([data.qpos, data.qvel])

    def errors(self, found: Any) -> np.ndarray:
        """Of each world, in units of the largest number of its state, which may be a speed."""
        ours = np.concatenate([found.qpos, found.qvel], axis=1)
        return np.abs(ours - self.after).max(1) / np.abs(self.after).max(1)


@pytest.mark.parametrize("task", TASKS)
def test_a_step_from_any_pose_is_that_of_c(task):
    model = plain_model(task.xml)
    qpos, qvel, ctrl = draw(model, 400)
    c = InC(model, task.frame_skip, qpos, qvel, ctrl)
    found = jax.jit(stepper(Body(task.xml, task.frame_skip)))(qpos, qvel, np.zeros_like(qvel), ctrl)
    error = c.errors(found)[~c.crossed]
    assert np.median(error) < 1e-6
    assert error.max() < 1e-4
    assert not np.asarray(found.overflow).any()
    assert c.touching[~c.crossed].max() >= 4
    assert (c.limbs & ~c.crossed).sum() > 20 or task is not HOPPER  # its limbs meet each other


def test_a_world_has_the_same_bits_in_any_batch():
    model = plain_model(HALF_CHEETAH.xml)
    qpos, qvel, ctrl = draw(model, 70)
    step = jax.jit(stepper(Body(HALF_CHEETAH.xml, HALF_CHEETAH.frame_skip)))
    many = step(qpos, qvel, np.zeros_like(qvel), ctrl)
    for part in (slice(7, 8), slice(30, 63)):
        some = step(qpos[part], qvel[part], np.zeros_like(qvel[part]), ctrl[part])
        for whole, cut in zip(many, some, strict=True):
            np.testing.assert_array_equal(np.asarray(whole)[part], cut)


@pytest.mark.slow
def test_where_the_solver_starts_changes_nothing_but_rounding():
    model = plain_model(HALF_CHEETAH.xml)
    qpos, qvel, ctrl = draw(model, 50)
    step = jax.jit(stepper(Body(HALF_CHEETAH.xml, 1)))
    start = np.random.default_rng(1).normal(0, 100, qvel.shape).astype(np.float32)
    ours, other = step(qpos, qvel, np.zeros_like(qvel), ctrl), step(qpos, qvel, start, ctrl)
    error = np.abs(np.asarray(ours.qvel) - np.asarray(other.qvel)).max(1)
    assert (error / np.abs(ours.qvel).max(1)).max() < 1e-4


def test_a_broken_world_does_not_touch_its_neighbours():
    model = plain_model(HALF_CHEETAH.xml)
    qpos, qvel, ctrl = draw(model, 40)
    step = jax.jit(stepper(Body(HALF_CHEETAH.xml, HALF_CHEETAH.frame_skip)))
    whole = step(qpos, qvel, np.zeros_like(qvel), ctrl)
    qpos[3, 4], qvel[5, 0], qvel[8, 2] = np.nan, np.inf, 1e30
    found = step(qpos, qvel, np.zeros_like(qvel), ctrl)
    others = np.setdiff1d(np.arange(40), [3, 5, 8])
    assert np.array_equal(np.asarray(found.qpos)[others], np.asarray(whole.qpos)[others])
    assert not np.isfinite(np.asarray(found.qpos)[[3, 5]]).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.opt.__setattr__("cone", mj.mjtCone.mjCONE_ELLIPTIC), "pyramids of friction"),
        (lambda m: m.opt.__setattr__("density", 1000.0), "no friction in joints"),
        (lambda m: m.dof_frictionloss.__setitem__(3, 1.0), "no friction in joints"),
        (lambda m: m.jnt_axis.__setitem__(4, [1.0, 0.0, 0.0]), "hinges about y"),
        (lambda m: m.geom_pos.__setitem__((2, 1), 0.1), "bodies in the plane y = 0"),
        (lambda m: m.geom_solimp.__setitem__((1, 4), 3.0), "impedances of one kind"),
        (lambda m: m.actuator_biastype.__setitem__(0, 1), "motors at joints"),
        (lambda m: m.actuator_ctrllimited.__setitem__(0, 0), "motors at joints"),
        (lambda m: m.jnt_actfrclimited.__setitem__(4, 1), "motors at joints"),
        (lambda m: m.geom_condim.__setitem__(3, 6), "pyramids of friction"),
        (lambda m: m.geom_priority.__setitem__(3, 1), "no named, excluded or preferred"),
        (lambda m: m.geom_quat.__setitem__(0, [0.9, 0.1, 0.0, 0.0]), "one floor at z = 0"),
        (lambda m: m.geom_quat.__setitem__(4, [0.9, 0.4, 0.0, 0.0]), "bodies in the plane y = 0"),
        (lambda m: m.body_ipos.__setitem__((2, 1), 0.1), "bodies in the plane y = 0"),
        (lambda m: m.opt.__setattr__("disableflags", 1 << 5), "all of MuJoCo's forces"),
        (lambda m: m.body_gravcomp.__setitem__(2, 1.0), "all of MuJoCo's forces"),
        (lambda m: m.geom_solimp.__setitem__((1, 2), 0.0), "impedances of one kind"),
    ],
)
def test_a_model_with_more_than_its_equations_is_refused(change, words):
    model = load_model.__wrapped__(HALF_CHEETAH.xml)
    planar.constants(model, 5)
    change(model)
    with pytest.raises(LPOError, match=rf"needs {words}.*choose the simulator 'warp'"):
        planar.constants(model, 5)


@pytest.mark.parametrize("xml", ["ant.xml", "swimmer.xml"])
def test_other_bodies_are_refused(xml):
    with pytest.raises(LPOError, match="The simulator 'planar' needs"):
        planar.constants(plain_model(xml), 5)


def test_numbers_are_read_from_the_model():
    """Nothing of the three models is built in: one with other numbers moves as it does in C."""
    model = load_model.__wrapped__(HOPPER.xml)
    model.body_mass[1], model.body_inertia[2], model.opt.gravity[2] = 7.0, 0.2, -5.0
    model.dof_damping[4], model.jnt_stiffness[3], model.qpos_spring[3] = 3.0, 20.0, -1.0
    model.geom_friction[:, 0], model.geom_solref[:, 0], model.actuator_gear[:, 0] = 0.3, 0.05, 90.0
    qpos, qvel, ctrl = draw(model, 200)
    c = InC(model, 4, qpos, qvel, ctrl)
    found = jax.jit(planar.stepper_of(model, 4))(qpos, qvel, np.zeros_like(qvel), ctrl)
    assert np.median(c.errors(found)) < 1e-6
    assert c.errors(found)[~c.crossed].max() < 1e-4
