"""Policy covers: who acts when, what may be learned from, and PC-PG's weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo.errors import LPOError
from lpo.math import distributions
from lpo.math.distributions import ActionSpec
from lpo.math.nets import init_actor_critic
from lpo.math.normalize import init_moments
from lpo.problem import Problem
from lpo.runs.run import make_trainer
from lpo.start.cover import Cover, Lengths, draw_plan, logdet_game
from lpo.start.rollin import Known, Plans, logdet_weights, quantile
from lpo.types import Step, vector

RNG = np.random.default_rng


def test_the_geometric_length_is_the_d_samplers():
    """P(τ) = γ^(τ−1)(1−γ) and τ − 1 steps of roll-in: P(0) = ¼, P(1) = 3/16, mean γ/(1−γ) = 3."""
    rng = RNG(0)
    steps = np.array([Lengths(1.0, 0.75, 10_000).draw(rng) for _ in range(8000)])
    assert (steps == 0).mean() == pytest.approx(0.25, abs=0.02)
    assert (steps == 1).mean() == pytest.approx(3 / 16, abs=0.02)
    assert steps.mean() == pytest.approx(3.0, abs=0.2)


def test_a_geometric_length_stays_within_the_episode():
    """γ = ½ below 3 steps: 1, ½, ¼ over their sum 7/4; half the episodes have none."""
    rng = RNG(0)
    steps = [Lengths(0.5, 0.5, 3).draw(rng) for _ in range(8000)]
    share = np.bincount(steps, minlength=3) / 8000
    np.testing.assert_allclose(share, [0.5 + 0.5 * 4 / 7, 0.5 * 2 / 7, 0.5 / 7], atol=0.02)


def test_the_uniform_length_members_and_first_actions():
    rng = RNG(0)
    law = Lengths(1.0, 1.0, 5)
    plans = [draw_plan(rng, np.array([0.25, 0.75, 0.0]), law, 0.3) for _ in range(8000)]
    steps = np.bincount([p.steps for p in plans], minlength=5) / 8000
    np.testing.assert_allclose(steps, 0.2, atol=0.02)
    members = np.bincount([p.member for p in plans], minlength=3) / 8000
    np.testing.assert_allclose(members, [0.25, 0.75, 0.0], atol=0.02)
    assert np.mean([p.uniform for p in plans]) == pytest.approx(0.3, abs=0.02)


def test_an_empty_cover_rolls_nobody_in():
    assert draw_plan(RNG(0), np.zeros(4), Lengths(1.0, 0.99, 1000), 0.0) == (0, 0, False)


def test_the_game_by_hand():
    """Σ_1 = e_1e_1ᵀ, Σ_2 = e_2e_2ᵀ: log det is largest at ½, ½; a copy of Σ_1 shares its half."""
    first, second = np.diag([1.0, 0.0]), np.diag([0.0, 1.0])
    even = logdet_game(np.stack([first, second]), np.array([0.9, 0.1]))
    np.testing.assert_allclose(even, [0.5, 0.5], atol=1e-3)
    three = logdet_game(np.stack([first, first, second]), np.full(3, 1 / 3))
    np.testing.assert_allclose(three, [0.25, 0.25, 0.5], atol=1e-3)
    empty = logdet_game(np.stack([first, second, second]), np.array([0.5, 0.5, 0.0]))
    assert empty[2] == 0


def test_the_device_has_the_same_laws():
    """Shares of u at each length are those of the host's law; so are the weights of the game."""
    u = jnp.linspace(0, 1, 7000, endpoint=False)
    share = np.bincount(np.asarray(quantile(u, 0.5, 3)), minlength=3) / 7000
    np.testing.assert_allclose(share, [4 / 7, 2 / 7, 1 / 7], atol=1e-3)
    even = np.bincount(np.asarray(quantile(u, 1.0, 5)), minlength=5) / 7000
    np.testing.assert_allclose(even, 0.2, atol=1e-3)
    assert not np.asarray(quantile(u, 0.0, 5)).any()
    game = np.stack([np.diag([1.0, 0.0]), np.diag([1.0, 0.0]), np.diag([0.0, 1.0])])
    third = np.full(3, 1 / 3, np.float32)
    found = logdet_weights(jnp.asarray(game, jnp.float32), jnp.asarray(third))
    np.testing.assert_allclose(found, logdet_game(game, third), atol=1e-4)


@pytest.mark.slow
def test_a_roll_in_on_the_device_by_hand():
    """Two worlds: one rolls in for two steps, one begins with a uniform action."""
    dist = distributions.make(ActionSpec((-1.0,), (1.0,)))
    problem = Problem(vector(3), dist, 2, 10, 100, 8, 0.9, 10.0)
    start = Cover(size=2, share=1.0, first_uniform=0.5).make(problem).on_device
    assert start is not None
    net = init_actor_critic(jax.random.key(0), 3, 1, jnp.full(1, -20.0), (4,), 1)
    known, plans = start.init(jax.random.key(1), 2, net, init_moments(3))
    bias = lambda value: net._replace(  # noqa: E731
        policy=tuple(layer._replace(w=layer.w * 0, b=layer.b * 0 + value) for layer in net.policy)
    )
    known, _ = start.update(known, bias(0.0), init_moments(3), None, jax.random.key(2))
    known, said = start.update(known, bias(0.3), init_moments(3), None, jax.random.key(2))
    assert said["start/members"] == 2 and said["start/effective_members"] == pytest.approx(2)
    plans = Plans(jnp.array([1, 0]), jnp.array([2, 0]), jnp.array([False, True]))
    obs, own, key = jnp.zeros((2, 3)), jnp.full((2, 1), 7.0), jax.random.key(3)
    seen = []
    for _ in range(3):
        action = np.asarray(start.act(known, plans, obs, own, key))[:, 0]
        plans, learn = start.follow(known, plans, jnp.zeros(2, bool), key)
        seen.append((round(float(action[0]), 3), bool(abs(action[1]) <= 1), learn.tolist()))
    assert seen == [  # without weights the member's action is its last bias, 0.3
        (0.3, True, [False, False]),
        (0.3, False, [False, True]),
        (7.0, False, [True, True]),
    ]
    plans, _ = start.follow(known, plans, jnp.array([True, False]), key)
    assert 0 <= plans.remaining[0] < 10 and plans.remaining[1] == 0
    full = known
    for i in range(30):  # a full cover keeps some of the newcomers, and always has two members
        full, said = start.update(full, bias(float(i)), init_moments(3), None, jax.random.key(i))
    assert isinstance(full, Known) and said["start/members"] == 2 and full.seen == 32


def cover_config(tiny, **overrides):
    return tiny(
        algo="ppo", start="cover", rollout=24, num_envs=1, batch_size=2, eval_every=0,
        threads=None, cover_size=2, **overrides,
    )  # fmt: skip


def constant(trainer, value):
    """Make the policy's mean action ``value`` and its spread nil."""
    params = jax.tree.map(jnp.zeros_like, trainer.state.params)
    last = params.policy[-1]._replace(b=jnp.full_like(params.policy[-1].b, value))
    params = params._replace(
        policy=(*params.policy[:-1], last), log_std=jnp.full_like(params.log_std, -20.0)
    )
    trainer.state = trainer.state._replace(params=params)


def join(trainer):
    s = trainer.state
    trainer.start_state, metrics = trainer.parts.start.update(
        trainer.start_state, s.params, s.moments, trainer.buffer, RNG(0)
    )
    return metrics


def test_the_member_rolls_in_then_the_policy_acts_and_only_that_is_learned(tiny, countdown):
    """Episodes of 6 steps, roll-ins uniform below 4, member acts −1 and the policy ½."""
    c = cover_config(tiny, rollin_length="uniform", rollin_horizon=4)
    trainer = make_trainer(c, lambda: countdown(6))
    constant(trainer, -1.0)
    assert join(trainer)["start/members"] == 1
    constant(trainer, 0.5)
    trainer.collect(24)  # the first episode began before there was a member
    assert not trainer.buffer.valid[6:24].all()
    lengths = set()
    for _ in range(6):
        rollout, rows, _ = trainer.collect(10**6)
        action = rollout.action[:rows, 0, 0].round(3)
        assert set(action[rollout.valid[:rows, 0]]) <= {0.5}
        assert set(action[~rollout.valid[:rows, 0]]) <= {-1.0}
        for begin in range(0, rows, 6):  # 24 steps are four whole episodes
            assert rollout.obs[begin, 0, 0] == 0  # each begins at the environment's reset
            own = rollout.valid[begin : begin + 6, 0]
            lengths.add(6 - int(own.sum()))
            assert (np.diff(own.astype(int)) >= 0).all()  # roll-in first, then the policy
    assert lengths == {0, 1, 2, 3}


def test_a_uniform_first_action_is_not_learned_from(tiny, countdown):
    c = cover_config(tiny, rollin_length="uniform", rollin_horizon=1, first_uniform=1.0)
    trainer = make_trainer(c, lambda: countdown(6))
    constant(trainer, -1.0)
    join(trainer)
    constant(trainer, 0.5)
    trainer.collect(24)
    rollout, _, _ = trainer.collect(10**6)
    first = rollout.action[:24:6, 0, 0]
    assert not rollout.valid[:24:6].any() and rollout.valid[:24].sum() == 20
    assert (np.abs(first) <= 1).all() and len(set(first.tolist())) == 4


def test_a_step_that_only_resets_uses_up_no_roll_in(tiny, countdown):
    trainer = make_trainer(cover_config(tiny), lambda: countdown(6))
    join(trainer)
    trainer.start_state.remaining[:] = 2
    actor, state = trainer.parts.start.sample(trainer.start_state, trainer.policy(), RNG(0))
    no, yes = np.zeros(1, bool), np.ones(1, bool)
    obs = np.zeros((1, 1))
    for valid, left in ((no, 2), (yes, 1), (yes, 0)):
        own = actor.follow(Step(obs, np.zeros(1), no, no, obs, valid))
        assert not own.any() and state.remaining[0] == left
    assert actor.follow(Step(obs, np.zeros(1), no, no, obs, yes)).all()


def test_new_episodes_after_a_resume_have_no_old_plans(tiny, countdown):
    """An environment that cannot be restored begins at its reset, where no roll-in is under way."""
    before, after = (make_trainer(cover_config(tiny), lambda: countdown(6)) for _ in range(2))
    join(before)
    before.start_state.remaining[:] = 2
    before.start_state.uniform[:] = True
    whole = before.arrays()
    after.restore(whole)
    assert after.start_state.remaining == [2]
    after.restore({name: x for name, x in whole.items() if not name.startswith("env/")})
    assert after.start_state.remaining == [0] and not after.start_state.uniform.any()
    assert after.start_state.seen == 1  # its members stay


def test_a_full_cover_is_a_uniform_sample_of_all_policies(tiny, countdown):
    trainer = make_trainer(cover_config(tiny), lambda: countdown(6))
    start, s = trainer.parts.start, trainer.state
    kept = np.zeros(8)
    for trial in range(400):
        state, rng = trainer.start_state, RNG(trial)
        for i in range(8):
            params = s.params._replace(log_std=jnp.full(1, i, jnp.float32))
            state, _ = start.update(state, params, s.moments, trainer.buffer, rng)
        kept[state.members.log_std[:, 0].astype(int)] += 1
    np.testing.assert_allclose(kept / 400, 2 / 8, atol=0.09)


def test_uniform_actions_cover_their_space():
    box = distributions.make(ActionSpec(low=(-1.0, 0.0), high=(1.0, 4.0)))
    x = box.uniform(RNG(0), 4000)
    np.testing.assert_allclose(x.mean(0), [0, 2], atol=0.1)
    pair = distributions.make(ActionSpec(nvec=(2, 3)))
    y = pair.uniform(RNG(0), 3000)
    assert set(y[:, 0]) == {0, 1} and set(y[:, 1]) == {0, 1, 2}
    with pytest.raises(LPOError, match="no bounds"):
        distributions.make(ActionSpec(low=(-np.inf,), high=(1.0,))).uniform(RNG(0), 1)


def test_a_cover_refuses_what_cannot_be(tiny, countdown):
    with pytest.raises(LPOError, match=r"pass rollin_horizon\."):
        make_trainer(cover_config(tiny, rollin_length="uniform"), lambda: countdown(6))
    with pytest.raises(LPOError, match="gamma_ext 1"):
        make_trainer(cover_config(tiny, gamma_ext=1.0), lambda: countdown(6))
