"""Options marked as axes: one compiled program takes them as arrays, with the same results."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo.config import Config, axes_of, configure, with_axes, with_options
from lpo.engine.learner import Space, assemble, init_state, learn, problem_of
from lpo.engine.rollout import empty_rollout
from lpo.errors import LPOError
from lpo.math.distributions import ActionSpec
from lpo.options import fields_of, with_tracers
from lpo.types import vector

SPACE = Space(vector(3), ActionSpec(low=(-1.0, -1.0), high=(1.0, 1.0)), 20)
BEFORE = (
    "threshold",
    "seed",
    "log_std_init",
    "value_gain",
)  # read before the learner: task, keys, first state


def small(algo: str, **more: Any) -> Config:
    sizes: dict[str, Any] = {} if algo == "ppo" else {"gamma_int": 0.9}
    sizes |= more
    return configure(algo, num_envs=2, rollout=16, batch_size=8, epochs=1, hidden=[8], **sizes)


def axes(c: Config) -> dict[str, Any]:
    return {short: leaf for short, leaf in axes_of(c).items() if short not in BEFORE}


def rollout(seed: int):
    rng = np.random.default_rng(seed)
    data = empty_rollout(8, 2, vector(3), 2)
    for field in (data.obs, data.next_obs, data.action, data.last_obs):
        field[:] = rng.standard_normal(field.shape)
    data.reward[:] = rng.random(data.reward.shape) < 0.3
    data.terminated[:] = rng.random(data.reward.shape) < 0.1
    data.valid[:] = True
    return jax.tree.map(jnp.asarray, data)


def learned(c: Config, state):
    parts = assemble(c, problem_of(c, SPACE))
    state, metrics = learn(parts, state, rollout(0))
    return state.params, metrics


@pytest.mark.slow
def test_the_noise_of_a_policy_has_a_smallest_size():
    """Two steps of Adam with a rate of 10⁻⁴ move log σ = −1 by about .0002 at the most."""
    found = {}
    for least in (-20.0, -2.0, -0.5):
        c = small("ppo", log_std_init=-1.0, log_std_min=least)
        params, _ = learned(c, init_state(assemble(c, problem_of(c, SPACE)), 0))
        found[least] = np.asarray(params.log_std)
    np.testing.assert_array_equal(found[-2.0], found[-20.0])
    np.testing.assert_allclose(found[-20.0], -1, atol=0.00025)
    assert (found[-20.0] != -1).all() and (found[-0.5] == -0.5).all()


@pytest.mark.slow
def test_the_smallest_noise_is_in_units_of_a_small_action():
    """Actions in ±.1 and ±1: log σ is not below −.5 + log .1 and −.5."""
    c = small("ppo", log_std_init=-3.0, log_std_min=-0.5)
    parts = assemble(c, problem_of(c, SPACE._replace(action=ActionSpec((-0.1, -1.0), (0.1, 1.0)))))
    state, _ = learn(parts, init_state(parts, 0), rollout(0))
    np.testing.assert_allclose(state.params.log_std, [-0.5 + np.log(0.1), -0.5], rtol=1e-6)


@pytest.mark.parametrize(
    ("algo", "parts", "least"),
    [
        pytest.param("lpo", {}, 12, marks=pytest.mark.slow),
        pytest.param(
            "lpo", {"scale": "size", "weighing": "sized-fading"}, 16, marks=pytest.mark.slow
        ),
        pytest.param("pcpg", {}, 14, marks=pytest.mark.slow),
        pytest.param("eniac-original", {}, 13, marks=pytest.mark.slow),
    ],
)
def test_axes_are_traced_together_and_give_the_same_numbers(algo, parts, least):
    """Two runs of one program, the second with every axis changed, against each run alone."""
    c = small(algo, **parts)
    found = axes(c)
    assert len(found) >= least
    others = {short: leaf.value * 0.5 + 0.01 for short, leaf in found.items()}
    state = init_state(assemble(c, problem_of(c, SPACE)), 0)

    def run(values):
        return learned(with_axes(c, values), state)

    both = {k: jnp.array([found[k].value, others[k]], jnp.float32) for k in found}
    together = jax.jit(jax.vmap(run))(both)
    for i, alone_c in enumerate((c, with_options(c, others))):
        alone = jax.jit(partial(learned, alone_c))(state)
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-2, atol=1e-3)
    policies = [np.asarray(together[0].policy[0].w[i]) for i in range(2)]
    assert np.abs(policies[0] - policies[1]).max() > 0  # the axes do something


def test_what_decides_shapes_is_no_axis():
    c = small("lpo")
    assert not fields_of(type(c.network))["hidden"].axis
    with pytest.raises(LPOError, match="cannot be an axis"):
        with_tracers(c.ppo, {"batch_size": 3})


@pytest.mark.slow
def test_the_pace_scales_the_learning_rate_and_follows_the_target():
    """Half the pace is half the rate, to the bit. A target far below the KL lowers the next one."""
    c = small("ppo", learning_rate=0.01, kl_target=1e-6)
    state = init_state(assemble(c, problem_of(c, SPACE)), 0)
    slow, _ = learned(c, state._replace(pace=jnp.float32(0.5)))
    half, _ = learned(with_options(c, {"learning_rate": 0.005}), state)
    jax.tree.map(np.testing.assert_array_equal, slow, half)
    parts = assemble(c, problem_of(c, SPACE))
    state, metrics = learn(parts, state, rollout(0))
    assert float(metrics["policy/kl"]) > 1e-5 and float(metrics["policy/pace"]) == 1
    assert float(state.pace) == pytest.approx(1 / 1.5)
