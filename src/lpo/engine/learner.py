"""Engine: learning from a rollout, lines 7 to 10 of Algorithm 7, the same on host and device."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lpo.bonus import Bonus, Streams, Weigh
from lpo.bonus.base import scored
from lpo.config import CheckpointOptions, Config, EvaluationOptions, LogOptions, all_ours
from lpo.envs.task import TaskOptions
from lpo.math import distributions, ppo
from lpo.math.advantage import Trajectory, estimates
from lpo.math.descent import PLAIN, Adam, Compute
from lpo.math.distributions import Distribution
from lpo.math.nets import ActorCritic, NetworkOptions, init_actor_critic, values
from lpo.math.normalize import Moments, init_moments, normalize, update_moments
from lpo.problem import Problem
from lpo.start import Start
from lpo.switch import Switch
from lpo.types import Rollout

STREAMS = ("ext", "int")
# One random stream per component: a new component does not change the streams of the others.
NETS, BONUS_INIT, PPO_ORDER, BONUS_ORDER, ACT, EVAL, SWITCH, START, ROLL_IN, WORLDS = range(10)
TEST = 10


class TrainState(NamedTuple):
    """Everything that learning changes: arrays only, so it can be saved, jitted and vmapped."""

    seed: Array
    iteration: Array  # k
    params: ActorCritic
    opt: Any
    pace: Array  # [] part of the learning rate
    moments: Moments  # of the observations
    bonus: Any
    weigh: Any


class Prepared(NamedTuple):
    """The inputs of the update, made from a rollout, and the statistics that it changed."""

    batch: ppo.Batch
    advantages: Array  # [S, T, N]
    returns: Array  # [S, T, N]
    errors: Array  # [S, T, N] returns − V
    moments: Moments
    bonus: Any
    weigh: Any
    metrics: dict[str, Array]


class Parts(NamedTuple):
    """The parts of an algorithm as functions, made from their options."""

    dist: Distribution
    bonus: Bonus
    weigh: Weigh
    switch: Switch
    start: Start
    streams: Streams
    network: NetworkOptions
    update: ppo.PPOOptions
    adam: Adam
    compute: Compute
    obs_size: int
    observe: Callable[[Moments, Array, Array], Moments]


def assemble(c: Config, problem: Problem) -> Parts:
    """Returns the parts of a configuration for a problem."""
    return Parts(
        dist=problem.dist,
        bonus=c.bonus.make(problem),
        weigh=c.bonus.weigh(),
        switch=c.switch.make(problem),
        start=c.start.make(problem),
        streams=c.bonus.streams(c.ppo.gamma_ext, c.ppo.gae_lambda),
        network=c.network,
        update=c.ppo,
        adam=ppo.adam_of(c.ppo),
        compute=problem.compute,
        obs_size=problem.obs_size,
        observe=update_moments if c.network.normalize_obs else lambda moments, x, weight: moments,
    )


def component_key(state: TrainState, component: int) -> Array:
    key = jax.random.fold_in(jax.random.key(state.seed), component)
    return jax.random.fold_in(key, state.iteration)


def host_rng(seed: int, component: int, step: int) -> np.random.Generator:
    """Returns a counter-based random stream. The step is its state, so nothing must be saved."""
    key = np.array([seed, component], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, step]))


def init_state(p: Parts, seed: int | Array) -> TrainState:
    key = jax.random.key(seed)
    params = init_actor_critic(
        jax.random.fold_in(key, NETS),
        p.obs_size,
        p.dist.num_outputs,
        jnp.full(p.dist.num_log_std, p.network.log_std_init, jnp.float32),
        p.network.hidden,
        len(p.streams.gammas),
        p.network.value_gain,
    )
    return TrainState(
        seed=jnp.uint32(seed),
        iteration=jnp.int32(0),
        params=params,
        opt=p.adam.optim().init(params),
        pace=jnp.float32(1),
        moments=init_moments(p.obs_size),
        bonus=p.bonus.init(jax.random.fold_in(key, BONUS_INIT)),
        weigh=p.weigh.init(),
    )


def prepare(p: Parts, state: TrainState, rollout: Rollout) -> Prepared:
    """Lines 7 and 8 of Algorithm 7: both advantages, each with its γ, and Â = α Â_ext + β Â_int."""
    params, valid = state.params, rollout.valid.reshape(-1)
    apply = p.compute.apply
    rows = lambda x: x.reshape(len(valid), -1)  # noqa: E731
    # Probabilities of the actions taken need the observation statistics that the policy acted with.
    # Everything that learns uses the statistics that include this rollout; the next rollout will
    # act with these.
    acted = apply(params.policy, normalize(state.moments, rollout.obs, p.network.obs_clip))
    log_prob = p.dist.log_prob(acted, params.log_std, rollout.action)
    moments = p.observe(state.moments, rows(rollout.obs), valid)
    seen = lambda x: normalize(moments, x, p.network.obs_clip)  # noqa: E731
    obs = seen(rollout.obs)
    b, bonus_state, metrics = scored(p.bonus, state.bonus, rollout)
    trajectory = Trajectory(
        reward=jnp.concatenate([rollout.reward[None], b]),
        value=values(params.critics, obs, apply),
        next_value=values(params.critics, seen(rollout.next_obs), apply),
        last_value=values(params.critics, seen(rollout.last_obs), apply),
        terminated=rollout.terminated,
        truncated=rollout.truncated,
        valid=rollout.valid,
    )
    streams = p.streams
    critics = streams.lambdas.at[0].set(p.update.value_lambda)  # λ of the returns that they learn
    a, errors, returns = estimates(
        trajectory, streams.gammas, streams.lambdas, critics, streams.ends
    )
    weights, weigh_state, weighed = p.weigh.update(state.weigh, p.streams, a, rollout)
    batch = ppo.Batch(
        obs=rows(obs),
        action=rows(rollout.action),
        log_prob=rows(log_prob),
        advantage=rows(jnp.tensordot(weights, a, axes=1)),
        returns=rows(jnp.moveaxis(returns, 0, -1)),
    )
    return Prepared(batch, a, returns, errors, moments, bonus_state, weigh_state, metrics | weighed)


def learn(p: Parts, state: TrainState, rollout: Rollout) -> tuple[TrainState, dict[str, Array]]:
    """Lines 7 to 10 of Algorithm 7, in one compiled call for rollouts of every length."""
    ready = prepare(p, state, rollout)
    params, opt, stats = ppo.update(  # line 9
        state.params,
        state.opt,
        ready.batch,
        rollout.valid.reshape(-1),
        component_key(state, PPO_ORDER),
        dist=p.dist,
        adam=p.adam._replace(learning_rate=state.pace * p.adam.learning_rate),
        coefficients=ppo.coefficients(p.update),
        epochs=p.update.epochs,
        batch_size=p.update.batch_size,
        compute=p.compute,
    )
    least_noise = p.network.log_std_min + p.dist.log_unit
    params = params._replace(log_std=jnp.maximum(params.log_std, least_noise))
    bonus, fitted = p.bonus.update(  # line 10
        ready.bonus, rollout, component_key(state, BONUS_ORDER)
    )
    metrics = {**ready.metrics, **fitted, **summary(params, stats, ready, rollout)}
    metrics["policy/pace"] = state.pace
    pace = ppo.next_pace(state.pace, stats["kl"], p.update.kl_target)
    state = TrainState(
        state.seed,
        state.iteration + 1,
        params,
        opt,
        pace,
        ready.moments,
        bonus,
        ready.weigh,
    )
    return state, metrics


class Space(NamedTuple):
    """What the environment decides, as a hashable value: compiled programs are cached by it."""

    obs_size: int
    action: distributions.ActionSpec
    horizon: int | None


def problem_of(c: Config, space: Space, compute: Compute = PLAIN) -> Problem:
    """Returns the problem that the parts of ``c`` are made for."""
    return Problem(
        obs_size=space.obs_size,
        dist=distributions.make(space.action),
        num_envs=c.task.num_envs,
        horizon=space.horizon,
        steps=c.steps,
        rollout=c.switch.rollout,
        gamma=c.ppo.gamma_ext,
        obs_clip=c.network.obs_clip,
        compute=compute,
    )


def compiled(c: Config, space: Space) -> tuple[Parts, Any]:
    """Returns the parts and jitted ``learn``; runs that differ in the seed share one program."""
    same = dataclasses.replace(
        c,
        seed=0,
        task=TaskOptions(num_envs=c.task.num_envs),
        evaluation=EvaluationOptions(),
        checkpoints=CheckpointOptions(),
        logs=LogOptions(),
    )
    if not all_ours(c):  # the user may have edited a function of the part since the last call
        return _compiled.__wrapped__(same, space)
    return _compiled(same, space)


@lru_cache(maxsize=16)
def _compiled(c: Config, space: Space) -> tuple[Parts, Any]:
    parts = assemble(c, problem_of(c, space))
    return parts, jax.jit(partial(learn, parts))


def largest_reward(rollout: Rollout) -> Array:
    """Returns the largest reward of the steps that count; 0 where none does."""
    largest = jnp.where(rollout.valid, rollout.reward, -jnp.inf).max()
    return jnp.where(rollout.valid.any(), largest, 0.0)


def summary(
    params: ActorCritic, stats: dict[str, Array], ready: Prepared, rollout: Rollout
) -> dict[str, Array]:
    """Returns the metrics of the update: of the policy, and of the reward and bonus streams."""
    count = jnp.maximum(rollout.valid.sum(), 1)
    metrics = {
        "policy/loss": stats["policy_loss"],
        "policy/entropy": stats["entropy"],
        "policy/kl": stats["kl"],
        "policy/clip_fraction": stats["clip_fraction"],
        "policy/log_std": params.log_std.sum() / max(params.log_std.size, 1),
        "rollout/learned_steps": rollout.valid.sum(),  # fewer than collected where a cover rolls in
        "rollout/reward_rate": (rollout.valid & (rollout.reward > 0)).sum() / count,
        "rollout/reward_max": largest_reward(rollout),
    }
    streams = zip(
        STREAMS, ready.advantages, ready.returns, ready.errors, stats["value_losses"], strict=False
    )
    for name, a_s, r_s, error, loss in streams:
        mean = (r_s * rollout.valid).sum() / count
        spread = ((r_s - mean) ** 2 * rollout.valid).sum() / count
        metrics[f"value/{name}_loss"] = loss
        metrics[f"value/{name}_target"] = mean
        unexplained = (error**2).sum() / count  # before the update
        metrics[f"value/{name}_explained"] = 1 - unexplained / jnp.maximum(spread, 1e-8)
        metrics[f"advantage/{name}_rms"] = jnp.sqrt((a_s**2).sum() / count)
    return metrics
