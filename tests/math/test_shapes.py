"""The shapes in our signatures are checked: a wrong one is found where it enters."""

import importlib
import inspect
import pkgutil
from typing import get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import TypeCheckError

import lpo.math
from lpo.math.advantage import ACROSS, ENDS, Trajectory, streams_gae
from lpo.math.distributions import ActionSpec, make
from lpo.math.minibatch import shuffled
from lpo.math.nets import init_actor_critic, values
from lpo.math.normalize import Moments, init_moments, normalize, normalizer_host, update_moments

MODULES = [
    importlib.import_module(f"lpo.math.{m.name}") for m in pkgutil.iter_modules(lpo.math.__path__)
]


def trajectory(streams: int, steps: int, envs: int) -> Trajectory:
    zeros, flags = jnp.zeros((streams, steps, envs)), jnp.zeros((steps, envs), bool)
    return Trajectory(zeros, zeros, zeros, jnp.zeros((streams, envs)), flags, flags, ~flags)


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_every_annotation_can_be_read(module):
    """jaxtyping leaves out, without a word, what it cannot read."""
    ours = [x for x in vars(module).values() if getattr(x, "__module__", "") == module.__name__]
    for thing in ours:
        if inspect.isclass(thing) or inspect.isfunction(thing):
            get_type_hints(thing, include_extras=True)


def test_every_function_says_all_its_types():
    for module in MODULES:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__:
                signature = inspect.signature(function)
                said = {p.annotation for p in signature.parameters.values()}
                assert inspect.Parameter.empty not in {*said, signature.return_annotation}, name


def test_right_shapes_pass():
    out = streams_gae(trajectory(2, 3, 4), jnp.ones(2), jnp.ones(2), jnp.array([ENDS, ACROSS]))
    assert out.shape == (2, 3, 4)


@pytest.mark.parametrize(
    "call",
    [
        lambda: streams_gae(trajectory(2, 3, 4), jnp.ones((2, 1)), jnp.ones(2), jnp.ones(2, int)),
        lambda: streams_gae(trajectory(2, 3, 4), jnp.ones(2), jnp.ones(2), jnp.ones(2)),
        lambda: streams_gae(trajectory(2, 3, 4), jnp.ones(2), 0.9, jnp.ones(2, int)),  # pyright: ignore[reportArgumentType]
        lambda: update_moments(init_moments(3), jnp.zeros((5, 2)), jnp.ones(5)),
        lambda: update_moments(init_moments(3), jnp.zeros((5, 3)), jnp.ones(4)),
        lambda: normalize(init_moments(3), jnp.zeros((5, 2)), 5.0),
        lambda: normalize(init_moments(3), np.zeros((5, 3)), 5.0),  # pyright: ignore[reportArgumentType]
        lambda: normalizer_host(init_moments(3), 5.0)(np.zeros((4, 2, 3), np.float32)),
        lambda: shuffled(jax.random.key(0), jnp.ones((2, 3), bool), 2),
        lambda: shuffled(jax.random.PRNGKey(0), jnp.ones(3, bool), 2),  # an old key is an array
        lambda: make(ActionSpec((0.0,), (1.0,))).entropy(jnp.zeros((2, 1)), jnp.zeros(2)),
        lambda: make(ActionSpec(nvec=(2,))).entropy(jnp.zeros((2, 2)), jnp.zeros(1)),
    ],
)
def test_wrong_shapes_and_kinds_are_refused(call):
    with pytest.raises(TypeCheckError):
        call()


@pytest.mark.parametrize(
    ("field", "array"),
    [
        ("value", jnp.zeros((2, 3, 5))),
        ("valid", jnp.ones((3, 5), bool)),
        ("valid", jnp.ones((3, 4))),
        ("reward", np.zeros((2, 3, 4))),
    ],
)
def test_fields_of_an_argument_are_checked(field, array):
    x = trajectory(2, 3, 4)._replace(**{field: array})
    with pytest.raises(TypeCheckError):
        streams_gae(x, jnp.ones(2), jnp.ones(2), jnp.array([ENDS, ACROSS]))


def test_fields_are_checked_against_the_other_arguments_and_each_other():
    uneven = Moments(jnp.float32(1), jnp.zeros(3), jnp.ones(2))
    with pytest.raises(TypeCheckError):
        normalize(uneven, jnp.zeros((5, 3)), 5.0)


def test_layers_of_a_network_have_lengths_of_their_own():
    params = init_actor_critic(jax.random.key(0), 3, 2, jnp.zeros(2), (8, 4), 2)
    assert values(params.critics, jnp.zeros((5, 6, 3))).shape == (2, 5, 6)
    wrong = params.critics[0]._replace(b=jnp.zeros((2, 7)))
    with pytest.raises(TypeCheckError):
        values((wrong, *params.critics[1:]), jnp.zeros((5, 3)))


def test_a_row_does_not_meet_a_matrix_by_accident():
    with pytest.raises(ValueError, match="rank_promotion"):
        jnp.add(jnp.zeros((3, 3)), jnp.zeros(3))
