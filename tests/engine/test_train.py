"""The engine: true final observations, reproducible streams, one compilation, known answers."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo.algorithms import ALGORITHMS
from lpo.engine.evaluate import normalized_return, success_rate
from lpo.engine.learner import Prepared, summary
from lpo.engine.rollout import Episode, empty_rollout
from lpo.envs import make_batch
from lpo.errors import LPOError
from lpo.math.nets import ActorCritic
from lpo.runs.run import make_trainer
from lpo.types import vector


def trained(config, env=None, turns=3):
    trainer = make_trainer(config, env)
    rows = [trainer.iterate(config.steps) for _ in range(turns)]
    return trainer, rows


def leaves(trainer):
    return [np.asarray(x) for x in jax.tree.leaves(trainer.tree())]


def assert_same(first, second):
    for a, b in zip(leaves(first), leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("how", ["terminated", "truncated"])
def test_rollouts_hold_the_true_final_observation(tiny, countdown, how):
    """Episodes of three steps: s′ of the third is 3, and the next observation is 0 again."""
    c = tiny(algo="ppo", rollout=8, num_envs=1, batch_size=2, eval_every=0, threads=None)
    trainer = make_trainer(c, lambda: countdown(3, how))
    rollout, rows, _ = trainer.collect(8)
    assert rows == 8
    assert rollout.obs[:8, 0, 0].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert rollout.next_obs[:8, 0, 0].tolist() == [1, 2, 3, 1, 2, 3, 1, 2]
    assert rollout.reward[:8, 0].tolist() == [1, 2, 3, 1, 2, 3, 1, 2]
    ended = getattr(rollout, how)[:8, 0].tolist()
    assert ended == [False, False, True, False, False, True, False, False]
    assert rollout.last_obs[0, 0] == 2
    assert [(e.ret, e.length) for e in trainer.episodes.take()] == [(6.0, 3), (6.0, 3)]


@pytest.mark.parametrize("mode", list(gymnasium.vector.AutoresetMode))
def test_a_ready_vector_environment_in_any_mode_gives_the_same_transitions(tiny, countdown, mode):
    vector = gymnasium.vector.SyncVectorEnv([countdown] * 2, autoreset_mode=mode)
    c = tiny(algo="ppo", rollout=24, num_envs=2, batch_size=2, eval_every=0, threads=None)
    rollout, *_ = make_trainer(c, vector).collect(24)
    seen = [
        tuple(x[t, 0, 0] for x in (rollout.obs, rollout.next_obs))
        for t in range(12)
        if rollout.valid[t, 0]
    ]
    assert seen[:6] == [(0, 1), (1, 2), (2, 3), (0, 1), (1, 2), (2, 3)]


def test_the_same_seed_gives_the_same_bits_and_another_does_not(tiny):
    first, _ = trained(tiny())
    second, _ = trained(tiny())
    other, _ = trained(tiny(seed=1))
    assert_same(first, second)
    policies = (t.state.params.policy[0].w for t in (first, other))
    assert not np.array_equal(*policies)


def test_a_bonus_leaves_policy_critic_and_actions_of_the_first_rollout_alone(tiny):
    """One random stream per component: `ppo` and `eniac` start alike and act alike."""
    ppo, eniac = (make_trainer(tiny(algo=algo)) for algo in ("ppo", "eniac"))
    for a, b in zip(ppo.state.params.policy, eniac.state.params.policy, strict=True):
        np.testing.assert_array_equal(a.w, b.w)
    for a, b in zip(ppo.state.params.critics, eniac.state.params.critics, strict=True):
        np.testing.assert_array_equal(a.w[0], b.w[0])
    np.testing.assert_array_equal(ppo.collect(1200)[0].action, eniac.collect(1200)[0].action)


def run_and_count_compilations(trainer, steps):
    """Sizes of the rollouts, and how often something was compiled after the first."""
    sizes, compilations = [], []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration_secs, **kw: (
            compilations.append(event) if "backend_compile" in event else None
        )
    )
    try:
        while trainer.env_steps < steps:
            sizes.append(trainer.iterate(steps)["switch/rollout_steps"])
            if len(sizes) == 1:
                compilations.clear()
        return sizes, len(compilations)
    finally:
        jax.monitoring.clear_event_listeners()


@pytest.mark.slow
def test_a_growing_run_compiles_once(tiny):
    c = tiny(steps=4000, eval_every=0)
    trainer = make_trainer(c)
    sizes, after_first = run_and_count_compilations(trainer, c.steps)
    assert len(set(sizes)) > 5  # it did grow
    assert sum(sizes) == c.steps
    assert after_first == 0
    assert trainer.learn._cache_size() == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "algo",
    [
        "pcpg",
        pytest.param("lpo-s", marks=pytest.mark.slow),
        pytest.param("eniac-original", marks=pytest.mark.slow),
    ],
)
def test_rollouts_of_any_size_and_roll_ins_compile_once(tiny, algo):
    trainer = make_trainer(tiny(algo=algo))
    sizes, after_first = run_and_count_compilations(trainer, 1170)  # the last look is a short one
    assert after_first == 0 and sizes[-1] != sizes[0]
    assert trainer.learn._cache_size() == 1


QUICK = ("default", "lpo")
VARIANTS = [
    pytest.param({"algo": algo}, marks=[] if algo in QUICK else pytest.mark.slow)
    for algo in ALGORITHMS
] + [
    pytest.param(
        {"algo": "ppo", "switch": "sensitivity", "features": "network", "num_features": 32},
        marks=pytest.mark.slow,
    ),
    {"algo": "ppo", "start": "cover", "cover_weights": "logdet", "first_uniform": 0.5},
]


@pytest.mark.parametrize(
    "options", VARIANTS, ids=lambda options: "-".join(map(str, options.values()))
)
def test_every_row_trains_and_restores_to_the_bit(tiny, options):
    c = tiny(**options)
    whole, _ = trained(c, turns=4)
    half, _ = trained(c, turns=2)
    arrays = half.arrays()
    rest = make_trainer(c)
    rest.restore(arrays)
    rows = [rest.iterate(c.steps) for _ in range(2)]
    assert_same(whole, rest)
    assert rest.env_steps == whole.env_steps and rows[-1]["switch/count"] == 4
    np.testing.assert_array_equal(rest.obs, whole.obs)


@pytest.mark.slow
def test_a_gymnasium_environment_restores_to_the_bit(tiny):
    c = tiny(env="MountainCarContinuous-v0", threads=None)
    whole, _ = trained(c, turns=4)
    half, _ = trained(c, turns=2)
    rest = make_trainer(c)
    rest.restore(half.arrays())
    for _ in range(2):
        rest.iterate(c.steps)
    assert_same(whole, rest)


@pytest.mark.slow
def test_a_discrete_environment_pays_what_its_episodes_last(tiny):
    trainer, rows = trained(tiny(env="CartPole-v1", threads=None))
    assert set(np.unique(trainer.buffer.action)) == {0.0, 1.0}
    ended = [row for row in rows if "rollout/return" in row]
    assert ended and all(row["rollout/return"] == row["rollout/length"] for row in ended)


@pytest.mark.slow
def test_a_continuous_environment_runs_to_its_time_limit(tiny):
    trainer, rows = trained(tiny(env="Pendulum-v1", threads=None), turns=6)
    assert len(np.unique(trainer.buffer.action)) > 100
    assert {row["rollout/length"] for row in rows if "rollout/length" in row} == {200.0}
    assert all(row["rollout/return"] < 0 for row in rows if "rollout/return" in row)


@pytest.mark.slow
def test_spaces_of_many_kinds(tiny):
    class Odd(gymnasium.Env):
        observation_space = gymnasium.spaces.Dict(
            a=gymnasium.spaces.Discrete(3), b=gymnasium.spaces.Box(-1, 1, (2, 2))
        )
        action_space = gymnasium.spaces.MultiDiscrete([2, 3], start=[0, 5])

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.observation_space.sample(), {}

        def step(self, action):
            assert self.action_space.contains(np.asarray(action)), action
            return (
                self.observation_space.sample(),
                1.0,
                False,
                bool(self.np_random.random() < 0.1),
                {},
            )

    trainer, rows = trained(tiny(threads=None, eval_every=0), Odd)
    assert trainer.state.params.policy[0].w.shape[0] == 3 + 4
    assert trainer.state.params.policy[-1].w.shape[1] == 2 + 3
    assert np.isfinite(rows[-1]["policy/loss"])


@pytest.mark.slow
def test_rewards_that_blow_up_are_reported(tiny, countdown):
    class Wild(countdown):
        def step(self, action):
            return *super().step(action)[:1], 1e38, False, False, {}

    with pytest.raises(LPOError, match=r"diverged.*Lower learning_rate"):
        trained(tiny(threads=None, eval_every=0), Wild)


def test_evaluation_leaves_training_alone(tiny):
    plain, _ = trained(tiny(eval_every=0))
    with_eval = make_trainer(tiny())
    scores = {}
    for _ in range(3):
        with_eval.iterate(1200)
        scores = with_eval.evaluate()
    assert_same(plain, with_eval)
    names = ("return", "length", "normalized_return", "success", "episodes")
    drawn = ("sampled_return", "sampled_normalized_return", "sampled_success")
    assert set(scores) == {f"eval/{name}" for name in (*names, *drawn)}


def test_a_task_may_declare_the_return_that_counts_0():
    """(ret + 500)/430 for Acrobot's −500 to −70, cut off at 0 and 1."""
    task = make_batch("Acrobot-v1", 1).description
    episodes = [Episode(ret, 1, None) for ret in (-500.0, -285.0, -70.0, -60.0)]
    assert normalized_return(episodes, task) == pytest.approx((0 + 0.5 + 1 + 1) / 4)
    assert success_rate(episodes, task) == 0.5  # Gymnasium's threshold is −100


@pytest.mark.slow
def test_budget_is_met_exactly_when_it_divides(tiny):
    c = tiny(steps=1000, eval_every=0)
    trainer = make_trainer(c)
    while trainer.env_steps < c.steps:
        trainer.iterate(c.steps)
    assert trainer.env_steps == 1000


def test_what_values_explain_is_the_error_of_the_critic_and_not_the_advantage():
    """Targets 1 and 3 have variance 1. Errors of ½ leave ¼ of it, whatever the policy's λ gives."""
    advantages, returns, errors = jnp.array([[3, -4], [1, 3], [0.5, -0.5]]).reshape(3, 1, 2, 1)
    rest: Any = None
    ready = Prepared(rest, rest, advantages, returns, errors, rest, rest, rest, {})
    rollout = empty_rollout(2, 1, vector(1), 1)._replace(valid=np.ones((2, 1), bool))
    stats = dict.fromkeys(("policy_loss", "entropy", "kl", "clip_fraction"), jnp.zeros(()))
    params = ActorCritic((), jnp.zeros(1), ())
    found = summary(params, stats | {"value_losses": jnp.zeros(1)}, ready, rollout)
    assert float(found["value/ext_explained"]) == pytest.approx(0.75)
    assert float(found["advantage/ext_rms"]) == pytest.approx(np.sqrt(12.5))
