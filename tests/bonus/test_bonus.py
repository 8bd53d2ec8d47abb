"""The bonus: normalised over time, trained on what was seen, and felt by the gradient."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import Array

from lpo.bonus import (
    RND,
    Bonus,
    BonusOptions,
    BonusPart,
    NoWeighing,
    Sized,
    Stream,
    none,
    rnd,
    scaled,
)
from lpo.bonus.eye import of_vector
from lpo.bonus.keys import narrowed
from lpo.bonus.scale import Scale, by_returns, by_size, discounted_sums
from lpo.config import configure
from lpo.engine.learner import Space, assemble, init_state, prepare, problem_of, viewed
from lpo.engine.rollout import empty_rollout
from lpo.errors import LPOError
from lpo.math import distributions, ppo
from lpo.math.distributions import ActionSpec
from lpo.math.features import Inputs, reader
from lpo.math.images import Plain
from lpo.math.nets import apply_net
from lpo.options import options
from lpo.problem import Problem
from lpo.types import Leaf, ObsSpec, vector

DIST = distributions.for_space(spaces.Box(-1.0, 1.0, (2,), np.float32))


def problem(c) -> Problem:
    n, gamma = c.task.num_envs, c.ppo.gamma_ext
    return Problem(vector(3), DIST, n, None, c.steps, c.switch.rollout, gamma, 10.0)


def make(inputs: Inputs = "sa", **overrides) -> Bonus:
    options: dict[str, Any] = dict(
        learning_rate=1e-2,
        passes=20,
        batch_size=8,
        hidden=(16,),
        num_features=4,
    )
    raw = rnd(
        of_vector(reader(inputs, Plain(3, lambda x: x), 2, DIST.features), apply_net),
        **(options | overrides),
    )
    return scaled(raw, by_returns(0.5), 2)


def rollout(steps=40, seed=0, pad=0):
    rng = np.random.default_rng(seed)
    data = empty_rollout(steps + pad, 2, vector(3), 2)
    for field in (data.obs, data.next_obs, data.action):
        field[:] = rng.standard_normal(field.shape)
    data.valid[:steps] = True
    return jax.tree.map(jnp.asarray, data)


def test_sums_run_over_time_in_each_environment():
    b = jnp.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])
    valid = jnp.array([[True, True], [True, False], [True, True]])
    last, sums = discounted_sums(jnp.array([8.0, 0.0]), b, valid, 0.5)
    # env 0: ½·8+1 = 5, ½·5+2 = 4.5, ½·4.5+4 = 6.25;  env 1: 10, passed over, ½·10+40 = 45
    np.testing.assert_allclose(sums, [[5.0, 10.0], [4.5, 10.0], [6.25, 45.0]])
    np.testing.assert_allclose(last, [6.25, 45.0])


def test_the_bonus_is_divided_by_the_spread_of_its_discounted_sums():
    bonus, data = make(), rollout()
    state = bonus.init(jax.random.key(0))
    b, after, metrics = bonus.score(state, data)
    raw = np.asarray(b[0]) * float(metrics["bonus/scale"])
    sums = np.zeros((40, 2))
    for t in range(40):
        sums[t] = raw[t] + (0.5 * sums[t - 1] if t else 0)
    assert float(metrics["bonus/scale"]) == pytest.approx(sums.std(), rel=1e-3)
    np.testing.assert_allclose(after.discounted, sums[-1], rtol=1e-4)
    assert float(metrics["bonus/raw_mean"]) == pytest.approx(raw.mean(), rel=1e-4)


def test_the_filter_goes_on_from_one_rollout_to_the_next():
    bonus = make()
    state = bonus.init(jax.random.key(0))
    _, state, _ = bonus.score(state, rollout(seed=1))
    b, after, metrics = bonus.score(state, rollout(seed=2))
    first = float(state.discounted[0])
    raw = np.asarray(b[0])[:, 0] * float(metrics["bonus/scale"])
    expected = first
    for value in raw:
        expected = 0.5 * expected + value
    assert float(after.discounted[0]) == pytest.approx(expected, rel=1e-4)


@given(gamma=st.floats(0.0, 0.9999), size=st.floats(1e-3, 1e3), num_envs=st.sampled_from([1, 8]))
@settings(max_examples=30, deadline=None)
def test_a_constant_bonus_has_a_discounted_sum_of_one(gamma, size, num_envs):
    """Scale `size`: for any γ, any number of environments and any task, b/scale = 1 − γ."""
    b = jnp.full((64 // num_envs, num_envs), size)
    scale = by_size(gamma, 100.0)
    out = scale.apply(jnp.zeros(num_envs), scale.init(), b, b > 0)
    np.testing.assert_allclose(out.bonus / (1 - gamma), 1.0, rtol=1e-3)


def test_the_recent_size_by_hand():
    """γ = ½, half-life 4 steps. First b² = 16 on 4 steps, then 1 on 4 steps, of which 2 are real.

    First: √16/(1−½) = 8, so b/scale = ½. Then the old weight is 4·√½, the mean square is
    (2√2·16 + 2)/(2√2 + 2) = 9.787, and the scale is 2·√9.787 = 6.257.
    """
    scale = by_size(0.5, 4.0)
    first = jnp.full((2, 2), 4.0)
    out = scale.apply(jnp.zeros(2), scale.init(), first, first > 0)
    np.testing.assert_allclose(out.bonus, 0.5)
    valid = jnp.array([[True, True], [False, False]])
    out = scale.apply(jnp.zeros(2), out.returns, 1.0 * valid, valid)
    assert float(out.metrics["bonus/scale"]) == pytest.approx(6.2569, rel=1e-4)
    np.testing.assert_allclose(out.bonus, valid / 6.2569, rtol=1e-4)


def scale_after(scale: Scale, sizes: list[float]) -> float:
    """The scale after 100 steps of each of these bonuses."""
    discounted, returns, found = jnp.zeros(1), scale.init(), 0.0
    for b in sizes:
        steps = jnp.full((100, 1), b)
        _, discounted, returns, metrics = scale.apply(discounted, returns, steps, steps > 0)
        found = float(metrics["bonus/scale"])
    return found


def test_a_warm_up_is_forgotten_by_size_and_kept_by_returns():
    """A bonus of 100 on 100 steps, then 1 for 20 half-lives of 100 steps, with γ = .9."""
    sizes = [100.0] + [1.0] * 20
    assert scale_after(by_size(0.9, 100.0), sizes) == pytest.approx(1 / (1 - 0.9), rel=0.01)
    assert scale_after(by_returns(0.9), sizes) > 100


def test_padding_changes_nothing():
    bonus = make()
    state = bonus.init(jax.random.key(0))
    b, plain, _ = bonus.score(state, rollout())
    padded_b, padded, _ = bonus.score(state, rollout_with_padding())
    np.testing.assert_allclose(padded_b[0, :40], b[0], rtol=1e-5)
    assert (np.asarray(padded_b[0, 40:]) == 0).all()
    np.testing.assert_allclose(padded.discounted, plain.discounted, rtol=1e-5)
    np.testing.assert_allclose(
        padded.novelty.inputs.mean, plain.novelty.inputs.mean, rtol=1e-4, atol=1e-6
    )


def rollout_with_padding():
    data = rollout()
    return jax.tree.map(
        lambda x: x if x.ndim == 2 and x.shape[0] == 2 else jnp.concatenate([x, x[:7]]), data
    )._replace(valid=jnp.arange(47)[:, None].repeat(2, 1) < 40)


def test_what_was_seen_is_less_novel_than_what_was_not():
    """Train on environment 0 alone (around +1) and score both (environment 1 is around −1)."""
    bonus, data = make(), rollout()
    places = jnp.array([[1.0], [-1.0]])
    data = data._replace(obs=places[None] + 0.3 * data.obs, action=0.3 * data.action)
    state = bonus.init(jax.random.key(0))
    before, state, _ = bonus.score(state, data)
    seen = data._replace(valid=data.valid & jnp.array([[True, False]]))
    for i in range(5):
        state, _ = bonus.update(state, seen, jax.random.key(i))
    after, _, _ = bonus.score(state, data)
    gain = np.asarray((after / before).mean((0, 1)))
    assert gain[0] < 0.3 * gain[1]


@pytest.mark.parametrize(
    ("inputs", "moves"),
    [("sa", {"obs", "action"}), ("next", {"next_obs"}), ("s", {"obs"})],
)
def test_inputs_read_what_they_say(inputs, moves):
    bonus, data = make(inputs), rollout()
    state = bonus.init(jax.random.key(0))
    base = np.asarray(bonus.score(state, data)[0])
    for field in ("obs", "action", "next_obs", "reward"):
        x = getattr(data, field)
        changed = data._replace(**{field: x.at[0].set(0.5)})
        differs = not np.array_equal(np.asarray(bonus.score(state, changed)[0]), base)
        assert differs == (field in moves)


def fixed(b: float) -> Bonus:
    """A bonus of ``b`` on every step."""
    return Bonus(
        1,
        lambda key: (),
        lambda state, r: (jnp.full((1, *r.reward.shape), b), state, {}),
        lambda state, r, key: (state, {}),
    )


@pytest.mark.slow
def test_the_bonus_reaches_the_advantage_by_the_amount_worked_out_by_hand():
    """Two steps, V = 0, γ = (½, ¼), λ = (1, ½), α = 2, β = 3, r = (0, 8), b = 1.

    Â_ext = (½·8, 8) = (4, 8);  Â_int = (1 + ¼·½, 1);  Â = 2Â_ext + 3Â_int = (11.375, 19).
    The reward's critic has a λ of ½ and learns (½·½·8, 8) = (2, 8).
    """
    gammas: dict[str, Any] = {"gamma_ext": 0.5, "gamma_int": 0.25}
    lambdas: dict[str, Any] = {"gae_lambda": 1.0, "value_lambda": 0.5, "lambda_int": 0.5}
    c = configure("lpo", num_envs=1, alpha=2.0, beta=3.0, **gammas, **lambdas)
    parts = assemble(c, problem(c))._replace(bonus=fixed(1.0))
    state = init_state(parts, 0)
    zero = jax.tree.map(jnp.zeros_like, state.params.critics)
    state = state._replace(params=state.params._replace(critics=zero))
    data = empty_rollout(2, 1, vector(3), 2)
    data.valid[:] = True
    data.reward[:] = [[0.0], [8.0]]
    ready = prepare(parts, state, jax.tree.map(jnp.asarray, data))
    np.testing.assert_allclose(ready.advantages[:, :, 0], [[4.0, 8.0], [1.125, 1.0]])
    np.testing.assert_allclose(ready.batch.advantage[:, 0], [11.375, 19.0])
    np.testing.assert_allclose(ready.batch.returns.T, [[2.0, 8.0], [1.125, 1.0]])
    streams = parts.streams._replace(weights=jnp.array([2.0, 0.0]))
    alone = parts._replace(streams=streams)
    without = prepare(alone, state, jax.tree.map(jnp.asarray, data))
    np.testing.assert_allclose(without.batch.advantage[:, 0], [8.0, 16.0])


@pytest.mark.slow
def test_the_bonus_reaches_the_gradient():
    """Where no reward was found, the policy moves with the bonus and stands still without it."""
    c = configure("lpo", normalize_advantage=False, num_envs=2)
    data = rollout()
    gradients = {}
    for b in (0.0, 1.0):
        parts = assemble(c, problem(c))._replace(bonus=fixed(b))
        state = init_state(parts, 0)
        zero = jax.tree.map(jnp.zeros_like, state.params.critics)
        params = state.params._replace(critics=zero)
        batch = prepare(parts, state._replace(params=params), data).batch
        weights = ppo.coefficients(parts.update)
        grads, _ = jax.grad(ppo.loss, has_aux=True)(params, batch, DIST, weights)
        gradients[b] = float(jnp.abs(grads.policy[-1].b).sum())
    assert gradients[0.0] == 0.0
    assert gradients[1.0] > 1e-2


@pytest.mark.slow
def test_below_the_floor_an_advantage_makes_a_step_of_its_size():
    """Ratios are 1 at first, so the gradient is linear in the normalised advantage. Its spread is
    about .01; with a floor of 1 it is divided by 1, with a floor of 0 by that spread."""
    c = configure("lpo", num_envs=2)
    parts = assemble(c, problem(c))
    state = init_state(parts, 0)
    batch = prepare(parts, state, rollout()).batch
    spread = 0.01 * batch.advantage / batch.advantage.std(ddof=1)
    small = batch._replace(advantage=spread)

    def gradient(floor: float) -> Array:
        weights = ppo.coefficients(parts.update)._replace(advantage_floor=floor, value_coef=0.0)
        grads, _ = jax.grad(ppo.loss, has_aux=True)(state.params, small, DIST, weights)
        return grads.policy[-1].w

    np.testing.assert_allclose(gradient(1.0), 0.01 * gradient(0.0), rtol=1e-3, atol=1e-6)


def test_none_adds_no_stream():
    b, _, metrics = none().score(none().init(jax.random.key(0)), rollout())
    assert b.shape == (0, 40, 2) and metrics == {}


# -- A bonus that reads some parts of an observation

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
    """Two rollouts that differ in the other part have the same bonus, once one is known."""
    options: dict[str, Any] = {"num_envs": 2, "rollout": 16, "batch_size": 8, "bonus": bonus}
    c = configure("default", bonus_keys=["arm"], **options)
    p = assemble(c, problem_of(c, Space(form, ActionSpec(nvec=(2,), scalar=True), 20)))
    rng, found, state = np.random.default_rng(0), [], None
    key: Any = jax.random.key(0)
    arm = rng.standard_normal((8, 2, 3 if form is PARTS else 2)).astype(np.float32)
    for shade in (0, 200):
        data = empty_rollout(8, 2, form, 1)
        data.valid[:] = True
        for x in (data.obs, data.next_obs):
            if form is PARTS:
                x[..., :3], x[..., 3:] = arm, shade
            else:
                x["arm"][:], x["eye"][:] = arm, shade
        rollout = jax.tree.map(jnp.asarray, data)
        if not found:
            state, _ = p.bonus.update(p.bonus.init(key), viewed(p, rollout), key)
        b, _, _ = p.bonus.score(state, viewed(p, rollout))
        found.append(np.asarray(b))
    assert found[0].any()
    np.testing.assert_array_equal(*found)


def test_names_that_are_not_there():
    with pytest.raises(LPOError, match="bonus_keys has no part 'amr' to read; did you mean 'arm'"):
        narrowed(TREE, ("amr",))
    with pytest.raises(LPOError, match="names parts of a Dict, and the task observes 3 numbers"):
        narrowed(vector(3), ("arm",))


def streams_of_before(self, gamma, lambda_):
    return gamma, lambda_


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"alpha": 1.0}, "Former has alpha, but the weights are options of the run"),
        ({"weighing": Sized()}, "Former has weighing, but the weights are"),
        ({"weigh": lambda self: None}, "Former has weigh, but the weights are"),
        ({"streams": streams_of_before}, r"Former\.streams takes more than self"),
    ],
)
def test_a_bonus_of_the_former_contract_is_refused(stated, words):
    """Its weights would be ignored in silence."""
    with pytest.raises(LPOError, match=words):
        type("Former", (BonusOptions,), stated)


@pytest.mark.parametrize(
    ("name", "words"), [("alpha", r"Agent\(env, alpha=2"), ("weighing", "weighing='sized'")]
)
def test_weights_that_are_named_in_the_bonus_are_sent_to_the_run(name, words):
    with pytest.raises(LPOError, match=f"RND has no option '{name}'; it is .* run, .*{words}"):
        RND(**{name: 1.0})  # pyright: ignore[reportArgumentType]


def test_a_bonus_without_a_stream_of_its_own_is_not_weighed(monkeypatch):
    """So its run has the weighing of a run without a bonus."""
    monkeypatch.setattr(BonusPart.kinds, "defined", {})

    @options
    class Silent(BonusPart):
        kind: ClassVar[str] = "silent"

        def streams(self) -> tuple[Stream, ...]:
            return ()

    assert isinstance(configure(bonus=Silent()).weighing, NoWeighing)
    assert not isinstance(configure("ppo", bonus=RND()).weighing, NoWeighing)
