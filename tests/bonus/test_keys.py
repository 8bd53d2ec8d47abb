"""A bonus that reads some parts of an observation."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo.bonus.keys import narrowed
from lpo.config import configure
from lpo.engine.learner import Space, assemble, problem_of, viewed
from lpo.engine.rollout import empty_rollout
from lpo.errors import LPOError
from lpo.math.distributions import ActionSpec
from lpo.types import Leaf, ObsSpec, vector

PARTS = vector(6, (("arm/angle", 2), ("arm/speed", 1), ("clock", 3)))
TREE = ObsSpec((("eye", Leaf((40, 40, 3), "uint8", "image")), ("arm", Leaf((2,)))))


def test_columns_and_leaves_by_name():
    x = jnp.arange(12.0).reshape(2, 6)
    for keys, expected in ((("arm",), [0, 1, 2]), (("arm/speed", "clock"), [2, 3, 4, 5])):
        spec, view = narrowed(PARTS, keys)
        assert spec.size == len(expected)
        np.testing.assert_array_equal(view(x), x[:, jnp.array(expected)])
    spec, view = narrowed(TREE, ("arm",))
    assert spec.size == 2 and view({"eye": 0, "arm": 1}) == 1


@pytest.mark.parametrize("form", [PARTS, TREE], ids=["vector", "tree"])
@pytest.mark.parametrize("bonus", ["visits", pytest.param("rnd", marks=pytest.mark.slow)])
def test_what_is_not_named_does_not_count(form, bonus):
    """Two rollouts that differ in the other part have the same bonus."""
    options: dict[str, Any] = {"num_envs": 2, "rollout": 16, "batch_size": 8, "bonus": bonus}
    c = configure("default", bonus_keys=["arm"], **options)
    p = assemble(c, problem_of(c, Space(form, ActionSpec(nvec=(2,), scalar=True), 20)))
    rng, found = np.random.default_rng(0), []
    arm = rng.standard_normal((8, 2, 3 if form is PARTS else 2)).astype(np.float32)
    for shade in (0, 9):
        data = empty_rollout(8, 2, form, 1)
        data.valid[:] = True
        for x in (data.obs, data.next_obs):
            if form is PARTS:
                x[..., :3], x[..., 3:] = arm, shade
            else:
                x["arm"][:], x["eye"][:] = arm, shade
        rollout = jax.tree.map(jnp.asarray, data)
        b, _, _ = p.bonus.score(p.bonus.init(jax.random.key(0)), viewed(p, rollout))
        found.append(np.asarray(b))
    assert found[0].any()
    np.testing.assert_array_equal(*found)


def test_names_that_are_not_there():
    with pytest.raises(LPOError, match="bonus_keys has no part 'amr' to read; did you mean 'arm'"):
        narrowed(TREE, ("amr",))
    with pytest.raises(LPOError, match="names parts of a Dict, and the task observes 3 numbers"):
        narrowed(vector(3), ("arm",))
