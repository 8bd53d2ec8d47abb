"""Engine: learning from a rollout, lines 7 to 10 of Algorithm 7, the same on host and device."""

from __future__ import annotations

import dataclasses
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lpo.bonus import Bonus, Stream, Streams, Weigh, keys, weighted
from lpo.bonus.base import scored
from lpo.config import CheckpointOptions, Config, EvaluationOptions, LogOptions, all_ours
from lpo.envs.task import TaskOptions
from lpo.math import distributions, ppo
from lpo.math.advantage import ENDS, Trajectory, estimates
from lpo.math.descent import PLAIN, Adam, Compute
from lpo.math.distributions import Distribution
from lpo.math.nets import ActorCritic, init_actor_critic, values
from lpo.network import NetworkPart, Sight, sight
from lpo.network.stretches import Watched, in_stretches, seeing, watch
from lpo.problem import Problem
from lpo.start import Start
from lpo.switch import Switch
from lpo.types import ObsSpec, Rollout

STREAMS = ("ext", "int")
# One random stream per component: a new component does not change the streams of the others.
NETS, BONUS_INIT, PPO_ORDER, BONUS_ORDER, ACT, EVAL, SWITCH, START, ROLL_IN, WORLDS = range(10)
TEST, BODY = 10, 11


class TrainState(NamedTuple):
    """Everything that learning changes: arrays only, so it can be saved, jitted and vmapped."""

    seed: Array
    iteration: Array  # k
    params: ActorCritic
    opt: Any
    pace: Array  # [] part of the learning rate
    moments: Any  # of the observations
    bonus: Any
    weigh: Any


class Prepared(NamedTuple):
    """The inputs of the update, made from a rollout, and the statistics that it changed."""

    batch: ppo.Batch
    counts: Array  # which rows of the batch are learned from
    advantages: Array  # [S, T, N]
    returns: Array  # [S, T, N]
    errors: Array  # [S, T, N] returns − V
    moments: Any
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
    network: NetworkPart
    update: ppo.PPOOptions
    adam: Adam
    compute: Compute
    sight: Sight
    see: ppo.See


def assemble(c: Config, problem: Problem) -> Parts:
    """Returns the parts of a configuration for a problem."""
    seen = sight(c.network, problem.obs)
    reward = Stream(c.ppo.gamma_ext, c.ppo.gae_lambda, c.ppo.value_lambda, ENDS)
    return Parts(
        dist=problem.dist,
        bonus=keys.made(c.bonus, problem),
        weigh=c.weighing.make(),
        switch=c.switch.make(problem),
        start=c.start.make(problem),
        streams=weighted([reward, *c.bonus.streams()], c.weighing.weights),
        network=c.network,
        update=c.ppo,
        adam=ppo.adam_of(c.ppo),
        compute=problem.compute,
        sight=seen,
        see=seeing(seen.body),
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
        p.sight.body.size,
        p.dist.num_outputs,
        jnp.full(p.dist.num_log_std, p.network.log_std_init, jnp.float32),
        p.network.hidden,
        len(p.streams.gammas),
        p.network.value_gain,
        p.sight.body.init(jax.random.fold_in(key, BODY)),
    )
    return TrainState(
        seed=jnp.uint32(seed),
        iteration=jnp.int32(0),
        params=params,
        opt=p.adam.optim().init(params),
        pace=jnp.float32(1),
        moments=p.sight.observer.init(),
        bonus=p.bonus.init(jax.random.fold_in(key, BONUS_INIT)),
        weigh=p.weigh.init(),
    )


def watched(p: Parts, state: TrainState, moments: Any, rollout: Rollout) -> Watched:
    """Returns what policy and critics read of a rollout, seen with these statistics."""
    view, see = p.sight.view, p.sight.observer.apply
    seen = (see(moments, view(x)) for x in (rollout.obs, rollout.next_obs, rollout.last_obs))
    return watch(p.sight.body, state.params.body, rollout, *seen)


def viewed(p: Parts, rollout: Rollout) -> Rollout:
    """Returns the rollout that bonuses, switches and starts read: without masks and memories."""
    see = p.sight.view
    return rollout._replace(
        obs=see(rollout.obs),
        next_obs=see(rollout.next_obs),
        last_obs=see(rollout.last_obs),
        memory=(),
    )


def prepare(p: Parts, state: TrainState, rollout: Rollout) -> Prepared:
    """Lines 7 and 8 of Algorithm 7: both advantages, each with its γ, and Â = α Â_ext + β Â_int."""
    params, valid = state.params, rollout.valid.reshape(-1)
    apply, view, observer = p.compute.apply, p.sight.view, p.sight.observer
    rows = lambda x: x.reshape(len(valid), *x.shape[2:])  # noqa: E731
    # Probabilities of the actions taken need the observation statistics that the policy acted with.
    # Everything that learns uses the statistics that include this rollout; the next rollout will
    # act with these.
    allowed = p.sight.allowed(rollout.obs)
    moments = observer.update(state.moments, jax.tree.map(rows, view(rollout.obs)), valid)
    seen = watched(p, state, moments, rollout)
    moved = bool(jax.tree.leaves(moments))  # images and codes are seen as they were
    acted = watched(p, state, state.moments, rollout).here if moved else seen.here
    outputs = distributions.masked(apply(params.policy, acted), allowed, jnp.where)
    log_prob = p.dist.log_prob(outputs, params.log_std, rollout.action)
    b, bonus_state, metrics = scored(p.bonus, state.bonus, viewed(p, rollout))
    trajectory = Trajectory(
        reward=jnp.concatenate([rollout.reward[None], b]),
        value=values(params.critics, seen.here, apply),
        next_value=values(params.critics, seen.next, apply),
        last_value=values(params.critics, seen.last, apply),
        terminated=rollout.terminated,
        truncated=rollout.truncated,
        valid=rollout.valid,
    )
    streams = p.streams
    a, errors, returns = estimates(
        trajectory, streams.gammas, streams.lambdas, streams.value_lambdas, streams.ends
    )
    weights, weigh_state, weighed = p.weigh.update(state.weigh, streams, a, rollout)
    batch = ppo.Batch(
        obs=observer.apply(moments, view(rollout.obs)),
        action=rollout.action,
        log_prob=log_prob[..., None],
        advantage=jnp.tensordot(weights, a, axes=1)[..., None],
        returns=jnp.moveaxis(returns, 0, -1),
        allowed=allowed,
    )
    if p.sight.body.stretch > 1:
        batch, counts = in_stretches(p.sight.body, rollout, seen.memories, batch)
    else:
        batch, counts = jax.tree.map(rows, batch), valid
    return Prepared(
        batch, counts, a, returns, errors, moments, bonus_state, weigh_state, metrics | weighed
    )


def learn(p: Parts, state: TrainState, rollout: Rollout) -> tuple[TrainState, dict[str, Array]]:
    """Lines 7 to 10 of Algorithm 7, in one compiled call for rollouts of every length."""
    ready = prepare(p, state, rollout)
    params, opt, stats = ppo.update(  # line 9
        state.params,
        state.opt,
        ready.batch,
        ready.counts,
        component_key(state, PPO_ORDER),
        dist=p.dist,
        adam=p.adam._replace(learning_rate=state.pace * p.adam.learning_rate),
        coefficients=ppo.coefficients(p.update),
        epochs=p.update.epochs,
        batch_size=max(p.update.batch_size // p.sight.body.stretch, 1),
        compute=p.compute,
        see=p.see,
    )
    least_noise = p.network.log_std_min + p.dist.log_unit
    params = params._replace(log_std=jnp.maximum(params.log_std, least_noise))
    bonus, fitted = p.bonus.update(  # line 10
        ready.bonus, viewed(p, rollout), component_key(state, BONUS_ORDER)
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

    obs: ObsSpec
    action: distributions.ActionSpec
    horizon: int | None


def problem_of(c: Config, space: Space, compute: Compute = PLAIN) -> Problem:
    """Returns the problem that the parts of ``c`` are made for."""
    return Problem(
        obs=space.obs,
        dist=distributions.make(space.action),
        num_envs=c.task.num_envs,
        horizon=space.horizon,
        steps=c.steps,
        rollout=c.switch.rollout,
        gamma=c.ppo.gamma_ext,
        obs_clip=c.network.obs_clip,
        compute=compute,
        plain_policy=sight(c.network, space.obs).body.plain,
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
