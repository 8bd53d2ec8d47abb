"""Device environments: MuJoCo's physics for many worlds at once.

Two simulators step the same models:

- ``planar``  MuJoCo's equations for bodies in a plane: one kernel an env step
- ``warp``    MuJoCo Warp, called from JAX: one call, and on a GPU one CUDA graph, an env step

What decides a world's future is small (`Simulated`); everything else that a simulator keeps is
scratch memory. A simulator takes all worlds in one call, however many `jax.vmap` lie around it.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int

from lpo.envs.host.physics import mj, plain_model, touching_pairs
from lpo.errors import LPOError

SIMULATORS = {
    "planar": "lpo.envs.device.planar_physics",
    "warp": "lpo.envs.device.warp_physics",
}
ROWS, CONTACTS = 1, 2  # bits of ``Simulated.overflow``
CONTACTS_OF_A_PAIR = 2  # of a capsule and a plane, or of two capsules


class Simulated(NamedTuple):
    """A world, or worlds, after an env step."""

    qpos: Float[Array, "*W Q"]
    qvel: Float[Array, "*W V"]
    warmstart: Float[Array, "*W V"]  # accelerations, where the next solve begins
    overflow: Int[Array, "*W"]  # ROWS | CONTACTS where a buffer was too small, else 0


class Buffers(NamedTuple):
    """The largest number of contacts, and of rows of constraints, in a world.

    Contacts of all worlds share one buffer, so that its overflow is seen by all of them.
    """

    contacts: int
    rows: int

    def grown(self, overflow: int) -> Buffers:
        """Returns buffers of twice the size where ``overflow`` says so."""
        return Buffers(
            self.contacts * (2 if overflow & CONTACTS else 1),
            self.rows * (2 if overflow & ROWS else 1),
        )


class Body(NamedTuple):
    """What a simulator is made from."""

    xml: str  # model file shipped with Gymnasium
    frame_skip: int
    simulator: str = "planar"
    deterministic: bool = False  # the same bits in each run: planar always, warp at a price
    buffers: Buffers | None = None  # None: large enough for every pose

    @property
    def model(self) -> Any:
        return load_model(self.xml)

    @property
    def sizes(self) -> Buffers:
        return largest(self.model) if self.buffers is None else self.buffers


@functools.cache
def load_model(xml: str) -> Any:
    """Returns Gymnasium's model, loaded once."""
    return plain_model(xml)


def largest(model: Any) -> Buffers:
    """Returns buffers that no pose can overflow: every pair in contact, every joint at its limit.

    A pyramid of friction has 2(d − 1) rows for a contact of d dimensions, and one row for d = 1.
    """
    pairs = touching_pairs(model)
    known = {int(mj.mjtGeom.mjGEOM_PLANE), int(mj.mjtGeom.mjGEOM_CAPSULE)}
    if not set(model.geom_type.tolist()) <= known or model.opt.cone != mj.mjtCone.mjCONE_PYRAMIDAL:
        raise LPOError(
            "The size of the contact buffers is known for planes and capsules with pyramids of "
            "friction only; pass buffers=Buffers(contacts, rows)."
        )
    dims = [max(model.geom_condim[first], model.geom_condim[second]) for first, second in pairs]
    contact_rows = sum(CONTACTS_OF_A_PAIR * max(1, 2 * (int(dim) - 1)) for dim in dims)
    rows = contact_rows + int(model.jnt_limited.sum()) + int((model.dof_frictionloss > 0).sum())
    return Buffers(CONTACTS_OF_A_PAIR * len(pairs), rows)


def simulate(
    body: Body,
    qpos: Float[Array, " Q"],
    qvel: Float[Array, " V"],
    warmstart: Float[Array, " V"],
    ctrl: Float[Array, " U"],
) -> Simulated:
    """Takes ``frame_skip`` physics steps in one world."""
    alone = (x[None] for x in (qpos, qvel, warmstart, ctrl))
    return jax.tree.map(lambda x: x[0], stepper(body)(*alone))


@functools.cache
def stepper(body: Body) -> Callable[..., Simulated]:
    """Returns the function that steps W worlds; `jax.vmap` over it makes W larger."""
    if body.simulator not in SIMULATORS:
        raise LPOError(
            f"There is no simulator {body.simulator!r}; choose one of {', '.join(SIMULATORS)}."
        )
    if body.buffers is not None and body.simulator == "planar":
        raise LPOError("planar has no buffers; leave them out, or choose the simulator 'warp'.")
    try:
        module = importlib.import_module(SIMULATORS[body.simulator])
    except ImportError as error:
        raise LPOError(
            f"The simulator {body.simulator!r} cannot be loaded ({error}); "
            "run pip install 'lpo-rl[gpu]'."
        ) from error
    return flat(module.make(body))


def flat(many: Callable[..., Simulated]) -> Callable[..., Simulated]:
    """Returns ``many`` such that each `jax.vmap` over it becomes more worlds of one call."""
    called = jax.custom_batching.custom_vmap(many)

    @called.def_vmap
    def more(size: int, mapped: list[bool], *arrays: Array) -> tuple[Simulated, Simulated]:
        rows = [
            (x if is_mapped else jnp.broadcast_to(x, (size, *x.shape))).reshape(-1, x.shape[-1])
            for x, is_mapped in zip(arrays, mapped, strict=True)
        ]
        after = called(*rows)
        shaped = jax.tree.map(lambda x: x.reshape(size, -1, *x.shape[1:]), after)
        return shaped, jax.tree.map(lambda _: True, after)

    return called
