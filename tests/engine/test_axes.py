"""Options marked as axes: one compiled program takes them as arrays, with the same results."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo.config import configure, leaves
from lpo.engine.learner import Space, assemble, init_state, learn, problem_of
from lpo.engine.rollout import empty_rollout
from lpo.errors import LPOError
from lpo.math.distributions import ActionSpec
from lpo.options import fields_of, with_tracers

SPACE = Space(3, ActionSpec(low=(-1.0, -1.0), high=(1.0, 1.0)), 20)
ROWS = ("lpo", "pcpg", "eniac-original", "ppo")
HOST = ("threshold", "seed", "log_std_init")  # read before the learner: task, keys, first state


def small(algo):
    sizes = {} if algo == "ppo" else {"gamma_int": 0.9}
    return configure(algo, num_envs=2, rollout=16, batch_size=8, epochs=2, hidden=[8], **sizes)


def rollout(seed=0):
    rng = np.random.default_rng(seed)
    data = empty_rollout(8, 2, 3, 2)
    for field in (data.obs, data.next_obs, data.action, data.last_obs):
        field[:] = rng.standard_normal(field.shape)
    data.reward[:] = rng.random(data.reward.shape) < 0.3
    data.terminated[:] = rng.random(data.reward.shape) < 0.1
    data.valid[:] = True
    return jax.tree.map(jnp.asarray, data)


def first_state(c):
    return init_state(assemble(c, problem_of(c, SPACE)), 0)


def learned(c, state):
    parts = assemble(c, problem_of(c, SPACE))
    for seed in range(2):
        state, metrics = learn(parts, state, rollout(seed))
    return state.params, metrics


def changed(c, path, value):
    """``c`` with a traced value at ``path``; nothing is checked."""
    part = getattr(c, path[0])
    if len(path) == 3:
        inner = with_tracers(getattr(part, path[1]), {path[2]: value})
        copy = object.__new__(type(part))
        for field in dataclasses.fields(part):
            object.__setattr__(copy, field.name, getattr(part, field.name))
        object.__setattr__(copy, path[1], inner)
    else:
        copy = with_tracers(part, {path[1]: value})
    new = object.__new__(type(c))
    for field in dataclasses.fields(c):
        object.__setattr__(new, field.name, getattr(c, field.name))
    object.__setattr__(new, path[0], copy)
    return new


AXES = sorted(
    {
        (algo, leaf.short)
        for algo in ROWS
        for leaf in leaves(small(algo))
        if leaf.option.axis and leaf.short not in HOST
        and (algo == "lpo" or leaf.group == "bonus")
    }
)  # fmt: skip


def test_the_marked_options_are_many():
    assert len({short for _, short in AXES}) >= 15


@pytest.mark.parametrize(("algo", "short"), AXES)
def test_an_axis_can_be_traced_and_gives_the_same_numbers(algo, short):
    c = small(algo)
    leaf = next(leaf for leaf in leaves(c) if leaf.short == short)
    values = [leaf.value, leaf.value * 0.5 + 0.01]

    state = first_state(c)
    together = jax.jit(jax.vmap(lambda value: learned(changed(c, leaf.path, value), state)))(
        jnp.array(values, jnp.float32)
    )
    for i, value in enumerate(values):
        alone = jax.jit(partial(learned, changed(c, leaf.path, value)))(state)
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=2e-2, atol=2e-3)


def test_what_decides_shapes_is_no_axis():
    c = small("lpo")
    assert not fields_of(type(c.network))["hidden"].axis
    with pytest.raises(LPOError, match="cannot be an axis"):
        with_tracers(c.ppo, {"batch_size": 3})
