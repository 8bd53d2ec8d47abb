"""Training, the only file that knows the order: ``iterate`` and ``learn`` are Algorithm 7."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lpo import algorithms
from lpo.bonus import Bonus
from lpo.config import Config, validate
from lpo.engine.evaluate import evaluate, success_rate
from lpo.engine.rollout import Episode, Episodes, HostPolicy, collect, empty_rollout
from lpo.errors import LPOError
from lpo.math import distributions, ppo, trees
from lpo.math.advantage import Trajectory, streams_gae
from lpo.math.distributions import Distribution
from lpo.math.nets import ActorCritic, apply_net, init_actor_critic, values
from lpo.math.normalize import Moments, init_moments, normalize, update_moments
from lpo.start import Start
from lpo.switch import Look, Switch
from lpo.types import BatchEnv, Rollout

STREAMS = ("ext", "int")
OBS_CLIP = 10.0
# one random stream per component: adding one leaves the others alone
NETS, BONUS_INIT, PPO_ORDER, BONUS_ORDER, ACT, EVAL, SWITCH, START, ROLL_IN = range(9)


class TrainState(NamedTuple):
    """Everything that learning changes: arrays only, so it can be saved, jitted and vmapped."""

    seed: Array
    iteration: Array  # k
    params: ActorCritic
    opt: Any
    moments: Moments  # of the observations
    bonus: Any


class Prepared(NamedTuple):
    """A rollout turned into what the update reads, and the statistics it moved on the way."""

    batch: ppo.Batch
    advantages: Array  # [S, T, N]
    returns: Array  # [S, T, N]
    moments: Moments
    bonus: Any
    metrics: dict[str, Array]


class Parts(NamedTuple):
    """An algorithm assembled: the configuration ends here, below there are arrays and functions."""

    dist: Distribution
    bonus: Bonus
    switch: Switch
    start: Start
    gammas: Array  # [S] streams: reward first, then the bonus if there is one
    weights: Array  # [S] α, β
    episodic: Array  # [S]
    gae_lambda: float
    obs_size: int
    obs_clip: float
    observe: Callable  # (moments, rows, weight) → moments
    optim: Any
    coefficients: ppo.Losses
    epochs: int
    batch_size: int
    hidden: tuple[int, ...]
    log_std_init: float


def assemble(c: Config, problem: algorithms.Problem) -> Parts:
    """The row of ``c.algo`` with the numbers of ``c``."""
    bonus, switch, start = algorithms.make(c, problem)
    streams = 1 + bonus.num_streams
    return Parts(
        dist=problem.dist,
        bonus=bonus,
        switch=switch,
        start=start,
        gammas=jnp.array([c.gamma_ext, c.gamma_int][:streams]),
        weights=jnp.array([c.alpha, c.beta] if bonus.num_streams else [1.0]),
        episodic=jnp.array([True, c.intrinsic_episodic][:streams]),
        gae_lambda=c.gae_lambda,
        obs_size=problem.obs_size,
        obs_clip=OBS_CLIP if c.normalize_obs else float("inf"),
        observe=update_moments if c.normalize_obs else lambda moments, x, weight: moments,
        optim=ppo.optimizer(c.learning_rate, c.max_grad_norm, c.adam_eps),
        coefficients=ppo.Losses(c.clip, c.value_coef, c.entropy_coef, c.normalize_advantage),
        epochs=c.epochs,
        batch_size=c.batch_size,
        hidden=c.hidden,
        log_std_init=c.log_std_init,
    )


def component_key(state: TrainState, component: int) -> Array:
    key = jax.random.fold_in(jax.random.key(state.seed), component)
    return jax.random.fold_in(key, state.iteration)


def host_rng(seed: int, component: int, step: int) -> np.random.Generator:
    """A counter-based stream: nothing to save, the step is the state."""
    key = np.array([seed, component], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, step]))


def init_state(p: Parts, seed: int) -> TrainState:
    key = jax.random.key(seed)
    params = init_actor_critic(
        jax.random.fold_in(key, NETS),
        p.obs_size,
        p.dist.num_outputs,
        jnp.full(p.dist.num_log_std, p.log_std_init, jnp.float32),
        p.hidden,
        len(p.gammas),
    )
    return TrainState(
        seed=jnp.uint32(seed),
        iteration=jnp.int32(0),
        params=params,
        opt=p.optim.init(params),
        moments=init_moments(p.obs_size),
        bonus=p.bonus.init(jax.random.fold_in(key, BONUS_INIT)),
    )


def prepare(p: Parts, state: TrainState, rollout: Rollout) -> Prepared:
    """Lines 7 and 8: both advantages with their own γ, and Â = α Â_ext + β Â_int."""
    params, valid = state.params, rollout.valid.reshape(-1)
    rows = lambda x: x.reshape(len(valid), -1)  # noqa: E731
    # Behaviour probabilities belong to the statistics that acted; everything that learns sees
    # those that include this rollout, which are also the ones the next rollout acts with.
    acted = apply_net(params.policy, normalize(state.moments, rollout.obs, p.obs_clip))
    log_prob = p.dist.log_prob(acted, params.log_std, rollout.action)
    moments = p.observe(state.moments, rows(rollout.obs), valid)
    obs = normalize(moments, rollout.obs, p.obs_clip)
    b, bonus_state, metrics = p.bonus.score(state.bonus, rollout)
    trajectory = Trajectory(
        reward=jnp.concatenate([rollout.reward[None], b]),
        value=values(params.critics, obs),
        next_value=values(params.critics, normalize(moments, rollout.next_obs, p.obs_clip)),
        last_value=values(params.critics, normalize(moments, rollout.last_obs, p.obs_clip)),
        terminated=rollout.terminated,
        truncated=rollout.truncated,
        valid=rollout.valid,
    )
    a = streams_gae(trajectory, p.gammas, p.gae_lambda, p.episodic)
    returns = a + trajectory.value
    batch = ppo.Batch(
        obs=rows(obs),
        action=rows(rollout.action),
        log_prob=rows(log_prob),
        advantage=rows(jnp.tensordot(p.weights, a, axes=1)),
        returns=rows(jnp.moveaxis(returns, 0, -1)),
    )
    return Prepared(batch, a, returns, moments, bonus_state, metrics)


def learn(p: Parts, state: TrainState, rollout: Rollout) -> tuple[TrainState, dict[str, Array]]:
    """Lines 7 to 10 of Algorithm 7, one compiled call whatever the length of the rollout."""
    ready = prepare(p, state, rollout)
    params, opt, stats = ppo.update(  # line 9
        state.params,
        state.opt,
        ready.batch,
        rollout.valid.reshape(-1),
        component_key(state, PPO_ORDER),
        dist=p.dist,
        optim=p.optim,
        coefficients=p.coefficients,
        epochs=p.epochs,
        batch_size=p.batch_size,
    )
    bonus, fitted = p.bonus.update(  # line 10
        ready.bonus, rollout, component_key(state, BONUS_ORDER)
    )
    metrics = {**ready.metrics, **fitted, **summary(params, stats, ready, rollout)}
    state = TrainState(state.seed, state.iteration + 1, params, opt, ready.moments, bonus)
    return state, metrics


@lru_cache(maxsize=16)
def compiled(
    c: Config, obs_size: int, spec: distributions.ActionSpec, horizon: int | None
) -> tuple[Parts, Any]:
    """Parts and jitted ``learn``; trainers that differ in the seed only share one compilation."""
    parts = assemble(c, algorithms.Problem(obs_size, distributions.make(spec), horizon))
    return parts, jax.jit(partial(learn, parts))


def summary(
    params: ActorCritic, stats: dict[str, Array], ready: Prepared, rollout: Rollout
) -> dict[str, Array]:
    """What a run logs about its four streams: reward, bonus and their two values."""
    count = jnp.maximum(rollout.valid.sum(), 1)
    metrics = {
        "policy/loss": stats["policy_loss"],
        "policy/entropy": stats["entropy"],
        "policy/kl": stats["kl"],
        "policy/clip_fraction": stats["clip_fraction"],
        "policy/log_std": params.log_std.sum() / max(params.log_std.size, 1),
        "rollout/learned_steps": rollout.valid.sum(),  # fewer than collected where a cover rolls in
        "rollout/reward_rate": (rollout.valid & (rollout.reward > 0)).sum() / count,
    }
    streams = zip(STREAMS, ready.advantages, ready.returns, stats["value_losses"], strict=False)
    for name, a_s, r_s, loss in streams:
        mean = (r_s * rollout.valid).sum() / count
        spread = ((r_s - mean) ** 2 * rollout.valid).sum() / count
        metrics[f"value/{name}_loss"] = loss
        metrics[f"value/{name}_target"] = mean
        # Â = target − V before the update, so its second moment is what V left unexplained
        residual = (a_s**2).sum() / count
        metrics[f"value/{name}_explained"] = 1 - residual / jnp.maximum(spread, 1e-8)
        metrics[f"advantage/{name}_rms"] = jnp.sqrt(residual)
    return metrics


def run_name(c: Config) -> str:
    short = c.env.split("/")[-1].rsplit("-", 1)[0]
    return f"{c.algo}-{short}-s{c.seed}"


class Trainer:
    """A run in memory: environments, the learner and its state, episodes under way."""

    def __init__(self, c: Config, env: BatchEnv, eval_env: BatchEnv | None = None):
        self.config = validate(c)
        self.env, self.eval_env = env, eval_env
        obs_size, spec = env.observation_space.shape[0], distributions.action_spec(env.action_space)
        horizon = env.description.get("horizon")
        self.parts, self.learn = compiled(replace(c, seed=0), obs_size, spec, horizon)
        self.state = init_state(self.parts, c.seed)
        key_switch, key_start = (
            jax.random.fold_in(jax.random.key(c.seed), part) for part in (SWITCH, START)
        )
        self.switch_state = self.parts.switch.init(key_switch)
        self.start_state = self.parts.start.init(
            key_start, env.num_envs, self.state.params, self.state.moments
        )
        self.env_steps = 0
        self.episodes = Episodes(env.num_envs)
        self.obs = env.reset(c.seed).astype(np.float32)
        rows = -(-self.parts.switch.capacity // env.num_envs)
        self.buffer = empty_rollout(rows, env.num_envs, obs_size, self.parts.dist.action_size)
        self.max_return: float | None = env.description.get("max_return")
        self.seconds = {"rollout": 0.0, "switch": 0.0, "learn": 0.0, "eval": 0.0}

    def policy(self) -> HostPolicy:
        s = self.state
        return HostPolicy(s.params, s.moments, self.parts.dist, self.parts.obs_clip)

    def iterate(self, until: int) -> dict[str, float]:
        """One turn of Algorithm 7: collect D_k until the switch fires, then learn from it."""
        start, looking = time.perf_counter(), self.seconds["switch"]
        rollout, rows, looked = self.collect(until)
        middle = time.perf_counter()
        acted, rng = self.state, host_rng(self.config.seed, START, self.env_steps)
        self.state, metrics = self.learn(acted, rollout)
        self.start_state, covered = self.parts.start.update(
            self.start_state, acted.params, acted.moments, rollout, rng
        )
        metrics |= looked | covered
        metrics = {k: float(v) for k, v in jax.device_get(metrics).items()}
        self.seconds["rollout"] += middle - start - (self.seconds["switch"] - looking)
        self.seconds["learn"] += time.perf_counter() - middle
        self.check_finite(metrics)
        metrics["switch/count"] = int(self.state.iteration)
        metrics["switch/rollout_steps"] = rows * self.env.num_envs
        metrics.update(self.score("rollout", self.episodes.take()))
        return metrics

    def collect(self, until: int) -> tuple[Rollout, int, dict[str, Array]]:
        """Lines 5 and 6: run π until the switch says that there is something to learn."""
        policy, switch, start = self.policy(), self.parts.switch, self.parts.start
        num_envs = self.env.num_envs
        row, fire, metrics = 0, False, {}
        while not fire and row < len(self.buffer.valid) and self.env_steps < until:
            wait = min(int(switch.wait(self.switch_state)), until - self.env_steps)
            stop = min(row + -(-wait // num_envs), len(self.buffer.valid))
            rng, rng_start = (
                host_rng(self.config.seed, part, self.env_steps) for part in (ACT, ROLL_IN)
            )
            actor, self.start_state = start.sample(self.start_state, policy, rng_start)
            rows = range(row, stop)
            self.obs = collect(
                self.env, actor, policy.dist, self.buffer, rows, self.obs, rng, self.episodes
            ).astype(np.float32)
            self.env_steps += (stop - row) * num_envs
            self.buffer.valid[stop:] = False
            rollout = self.buffer._replace(last_obs=self.obs)
            look = Look(rollout, rows, self.state.params, self.state.moments)
            began = time.perf_counter()
            fire, self.switch_state, metrics = switch.update(self.switch_state, look)
            row, fire = stop, bool(fire)
            self.seconds["switch"] += time.perf_counter() - began
        return self.buffer._replace(last_obs=self.obs), row, metrics

    def score(self, prefix: str, episodes: list[Episode]) -> dict[str, float]:
        if not episodes:
            return {}
        return {
            f"{prefix}/return": float(np.mean([e.ret for e in episodes])),
            f"{prefix}/length": float(np.mean([e.length for e in episodes])),
            f"{prefix}/success": success_rate(episodes, self.max_return),
            f"{prefix}/episodes": len(episodes),
        }

    def evaluate(self) -> dict[str, float]:
        assert self.eval_env is not None
        start = time.perf_counter()
        c = self.config
        seed = int(host_rng(c.seed, EVAL, self.env_steps).integers(2**31))
        episodes = evaluate(
            self.eval_env, self.policy(), seed, c.eval_deterministic, c.eval_max_steps
        )
        self.seconds["eval"] += time.perf_counter() - start
        return self.score("eval", episodes)

    def check_finite(self, metrics: dict[str, float]) -> None:
        bad = [name for name, value in metrics.items() if not np.isfinite(value)]
        if bad:
            raise LPOError(
                f"Learning diverged at step {self.env_steps}: {bad[0]} is not a finite number; "
                "lower --learning-rate, or check the scale of the environment's rewards."
            )

    def tree(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "switch": self.switch_state,
            "start": self.start_state,
            "obs": self.obs,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that decides the rest of the run, as named arrays."""
        tree = self.tree()
        groups = {"episodes": self.episodes.get_state()}
        if self.env.resumable:
            groups["env"] = self.env.get_state()
        named = {f"{g}/{k}": np.asarray(v) for g, s in groups.items() for k, v in s.items()}
        steps = np.array(self.env_steps, np.int64)
        return trees.flatten("train", tree) | named | {"env_steps": steps}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Return to ``arrays``; what follows is bit-equal to what followed them.

        Where the environments cannot return (``resumable`` is False), new episodes begin.
        """
        tree = trees.unflatten("train", self.tree(), arrays)
        self.state, self.switch_state = tree["state"], tree["switch"]
        self.start_state = jax.tree.map(np.asarray, tree["start"])
        self.env_steps = int(arrays["env_steps"])

        def group(name: str) -> dict[str, np.ndarray]:
            return {k.split("/", 1)[1]: v for k, v in arrays.items() if k.startswith(f"{name}/")}

        if group("env"):  # else the environments have just begun new episodes
            self.env.set_state(group("env"))
            self.episodes.set_state(group("episodes"))
            self.obs = np.asarray(tree["obs"])
