"""Trees, masks and memory in compiled programs of many runs."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo import LPOError
from lpo.config import configure
from lpo.engine.device import Program
from lpo.envs.device.base import Transition, check
from lpo.math.distributions import ActionSpec
from lpo.types import MASK, Leaf, ObsSpec

SMALL: dict[str, Any] = {
    "num_envs": 4, "rollout": 64, "batch_size": 32, "epochs": 2, "hidden": (16,),
    "image_features": 8, "eval_episodes": 3,
}  # fmt: skip
FORM = ObsSpec((
    ("camera", Leaf((12, 12, 1), "uint8", "image")),
    ("time", Leaf((1,))),
    (MASK, Leaf((3,), "int8", "mask")),
))  # fmt: skip


@dataclass(frozen=True)
class Lamp:
    """A bright row in a picture; of three actions the one that was taken last is shut."""

    form: ObsSpec | None = FORM
    obs_size = 1
    action = ActionSpec(nvec=(3,), scalar=True)
    horizon = 9
    description = {"id": "Lamp-v0", "backend": "device"}  # noqa: RUF012
    params = {}  # noqa: RUF012

    @property
    def obs(self):
        return self.form

    def see(self, state):
        row, shut, t = state
        camera = jnp.where(jnp.arange(12)[:, None, None] == row, 255, 0).astype(jnp.uint8)
        open_ = (jnp.arange(3) != shut).astype(jnp.int8)
        tree = {"camera": jnp.broadcast_to(camera, (12, 12, 1)), MASK: open_}
        return tree | {"time": jnp.float32(t)[None] / 9}

    def reset(self, key, params):
        state = (jax.random.randint(key, (), 0, 12), jnp.int32(-1), jnp.int32(0))
        return state, self.see(state)

    def step(self, state, action, key, params):
        row, shut, t = state
        a = action[0].astype(jnp.int32)
        wrong = a == shut  # never, if the mask is heeded
        after = ((row + a) % 12, a, t + 1)
        reward = jnp.where(wrong, -100.0, (after[0] == 0) * 1.0)
        return Transition(after, self.see(after), reward, jnp.zeros((), bool))


def group_of(env: Any, seeds: int = 2, **options: Any):
    program = Program(configure("default", **(SMALL | options)), env)
    group = program.init(range(seeds), {})
    return program, group


@pytest.mark.slow
@pytest.mark.parametrize("network", ["auto", "gru"])
def test_trees_and_masks_on_a_device(network):
    """Images stay bytes, shut actions are never taken, and runs are those that they are alone."""
    check(Lamp())
    program, group = group_of(Lamp(), network=network)
    until = jnp.int32(1000)
    walk = jax.jit(program.collect)(group, {}, until)
    assert walk.buffer.obs["camera"].dtype == jnp.uint8
    assert walk.buffer.obs["camera"].shape[3:] == (12, 12, 1)
    group, metrics = program.advance(group, {}, until, 2)
    assert float(metrics["rollout/reward_max"].max()) <= 1
    assert float(jax.device_get(metrics["rollout/return"]).min()) >= 0
    scores = program.evaluate(group, {})
    assert float(scores["eval/return"].min()) >= 0
    assert float(scores["eval/sampled_return"].min()) >= 0
    alone, lone = group_of(Lamp(), 1, network=network)
    lone, _ = alone.advance(lone, {}, until, 2)
    both = (jax.tree.leaves(x.train.params) for x in (lone, group))
    for one, many in zip(*both, strict=True):
        np.testing.assert_allclose(one[0], many[0], rtol=1e-3, atol=1e-4)


def test_a_form_that_is_not_kept():
    wrong = Leaf((12, 12, 2), "uint8", "image")
    with pytest.raises(LPOError, match="observation camera"):
        check(Lamp(ObsSpec((("camera", wrong), *FORM.leaves[1:]))))
    with pytest.raises(LPOError, match="return a dict of camera, depth"):
        check(Lamp(ObsSpec((FORM.leaves[0], ("depth", Leaf((1,)))))))
