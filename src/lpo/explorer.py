"""A bonus beside any trainer: rollouts in, advantages out, as arrays of NumPy, JAX or torch.

Lines 7, 8 and 10 of Algorithm 7 for a trainer that is not ours. The trainer keeps its policy, its
losses and its critic of the reward; the explorer has the bonus, its critic, and the rule by which
the two advantages are weighed.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jax import Array

from lpo import config as configs
from lpo.bonus.base import scored
from lpo.engine.learner import (
    BODY,
    BONUS_INIT,
    BONUS_ORDER,
    NETS,
    PPO_ORDER,
    STREAMS,
    Parts,
    Space,
    assemble,
    problem_of,
    viewed,
)
from lpo.envs.batches import array, batches
from lpo.envs.codec import flat_action_space, is_grid
from lpo.errors import LPOError
from lpo.math import trees
from lpo.math.advantage import Trajectory, estimates
from lpo.math.distributions import action_spec
from lpo.math.minibatch import sweep
from lpo.math.nets import Net, init_actor_critic, values
from lpo.network.stretches import watch
from lpo.types import Rollout

LARGEST_BATCH = 4096  # of the default: a configuration's rollout is no shorter than its minibatch
OWN = ("bonus", "weighing")  # the parts of a configuration that the explorer has
CRITIC = (  # options of the explorer's critics, beside those of the bonus
    "adam_eps", "batch_size", "epochs", "hidden", "image_features", "learning_rate",
    "max_grad_norm", "network", "normalize_obs", "value_gain", "value_lambda",
)  # fmt: skip


class Values(NamedTuple):
    """The trainer's values of the reward stream."""

    value: Any  # [T, N] V(s_t)
    next_value: Any  # [T, N] V(s′_t), s′ the true next state
    last_value: Any  # [N] V of the observation after the last step


class Advantages(NamedTuple):
    """What the trainer learns from, as NumPy arrays."""

    advantage: np.ndarray  # [T, N] Â = w_ext Â_ext + w_int Â_int
    returns: Any  # [T, N] targets of the reward's critic; None: the trainer has them
    streams: np.ndarray  # [S, T, N] Â_ext and Â_int
    bonus: np.ndarray  # [T, N] b, divided by its scale
    metrics: dict[str, float]


class Memory(NamedTuple):
    """All that an explorer learns: arrays only."""

    seed: Array
    iteration: Array
    critics: Net  # of the streams that the explorer has a critic for
    body: Any  # what the critics share: convolutions for images, nothing for a vector
    opt: Any
    moments: Any  # of the observations, as the critics see them
    bonus: Any
    weigh: Any


class Lesson(NamedTuple):
    """What ``update`` learns from."""

    rollout: Rollout
    obs: Any  # [M, …] normalised
    targets: Array  # [M, S]


class Explorer:
    """A bonus with its own critic. ``advantages`` on each rollout, then ``update``."""

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        num_envs: int,
        *,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        reward_critic: bool = True,
        horizon: int | None = None,
        rollout: int = 0,
        seed: int = 0,
        preset: str | None = None,
        **options: Any,
    ):
        """Makes an explorer for environments with these spaces.

        Args:
            observation_space: of one environment, any space of numbers.
            action_space: of one environment.
            num_envs: N, the number of environments of a rollout.
            gamma: the trainer's discount of the reward.
            gae_lambda: the trainer's λ.
            reward_critic: whether the explorer has a critic of the reward as well. False: the
                trainer has one, and passes its values or its advantages.
            horizon: time limit of an episode, where there is one.
            rollout: steps of a rollout, all environments together, where the number is known.
            seed: of the networks and of the order of minibatches.
            preset: "grid" for the numbers of grids of codes; by default they are taken where
                observations are such grids.
            options: of the bonus (``bonus="rnd"``, ``beta=0.25``, ``episode="first-visit"``, …)
                and of the critics (``learning_rate``, ``hidden``, …), by the names of their flags.
        """
        self.num_envs, self.reward_critic = num_envs, reward_critic
        flat = flat_action_space("The environment", action_space)
        self._action_start = np.asarray(getattr(action_space, "start", 0), np.float32).reshape(-1)
        self.config = configs.configure(
            "default",
            preset=preset,
            grids=is_grid(observation_space),
            **{"value_lambda": gae_lambda, **options},
            gamma_ext=gamma,
            gae_lambda=gae_lambda,
            num_envs=num_envs,
            rollout=max(rollout, num_envs, options.get("batch_size", LARGEST_BATCH)),
            seed=seed,
        )
        check_options(self.config, options)
        self._see = batches(observation_space, self.config.network.flat)
        space = Space(self._see.spec, action_spec(flat), horizon)
        self.parts = assemble(self.config, problem_of(self.config, space))
        self.memory = init(self.parts, seed, first=0 if reward_critic else 1)
        self._ended = np.ones(num_envs, bool)
        self._lesson: Lesson | None = None
        self._estimate = jax.jit(partial(estimate, self.parts))
        self._learn = jax.jit(partial(learn, self.parts))

    def advantages(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        truncated: Any,
        *,
        last_obs: Any,
        valid: Any = None,
        start: Any = None,
        values: Values | None = None,
        advantage: Any = None,
    ) -> Advantages:
        """Lines 7 and 8 of Algorithm 7: scores a rollout and returns Â.

        Args:
            obs: [T, N, …], of the observation space; a dictionary of arrays for a Dict.
            action: [T, N, …], as the policy drew it.
            reward: [T, N], as the task gave it, without a bootstrap at time limits.
            next_obs: [T, N, …], the true next state, never the observation after a reset.
            terminated: [T, N], the task ended the episode.
            truncated: [T, N], a time limit cut the episode.
            last_obs: [N, …], the observation that the next rollout begins with.
            valid: [T, N], False where the environment only reset itself.
            start: [T, N], True where an episode begins; by default after every end.
            values: the trainer's values of the reward stream.
            advantage: [T, N], the trainer's own advantage of the reward, instead of ``values``.
        """
        given = self._given(values, advantage)
        rollout = self._rollout(
            obs, action, reward, next_obs, terminated, truncated, last_obs, valid, start
        )
        found, returns, memory, lesson = self._estimate(self.memory, rollout, given)
        found = jax.device_get(found)
        if not np.isfinite(found["streams"]).all():
            raise LPOError(
                "An advantage is NaN or infinite, and the explorer keeps its last state; check "
                "the scale of rewards and observations, and that the bonus is finite."
            )
        self.memory, self._lesson = memory, lesson
        ended = rollout.terminated | rollout.truncated
        self._ended = starts(rollout.start[0], ended, rollout.valid)[-1]
        metrics = {name: float(x) for name, x in found["metrics"].items()}
        returns = None if returns is None else np.asarray(returns)
        return Advantages(found["advantage"], returns, found["streams"], found["bonus"], metrics)

    def update(self) -> dict[str, float]:
        """Line 10 of Algorithm 7: fits the critics and the bonus to the last rollout."""
        if self._lesson is None:
            raise LPOError("There is no rollout to learn from; call advantages(…) before update().")
        memory, metrics = self._learn(self.memory, self._lesson)
        self.memory, self._lesson = memory, None
        return {name: float(x) for name, x in jax.device_get(metrics).items()}

    def state(self) -> dict[str, np.ndarray]:
        """Returns everything that decides the rest, as named arrays, for a file of any kind."""
        tree = {"memory": self.memory, "ended": self._ended}
        return trees.flatten("explorer", tree)

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restores a state of an explorer that was made with the same arguments."""
        tree = {"memory": self.memory, "ended": self._ended}
        tree = trees.unflatten("explorer", tree, arrays)
        self.memory, self._ended = tree["memory"], np.asarray(tree["ended"])
        self._lesson = None

    def _given(self, values: Values | None, advantage: Any) -> Any:
        """Returns what the trainer says of the reward stream: values, advantages [T, N] or None."""
        given = [x for x in (values, advantage) if x is not None]
        if len(given) > 1:
            raise LPOError("advantages got values= and advantage= together; pass one of them.")
        if self.reward_critic and given:
            raise LPOError(
                "The explorer has a critic of the reward itself; leave values= and advantage= out, "
                "or make it with reward_critic=False."
            )
        if not self.reward_critic and not given:
            raise LPOError(
                "The explorer has no critic of the reward; pass values= or advantage=, or make it "
                "with reward_critic=True."
            )
        return jax.tree.map(numbers, given[0]) if given else None

    def _rollout(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        truncated: Any,
        last_obs: Any,
        valid: Any,
        start: Any,
    ) -> Rollout:
        reward = numbers(reward)
        flags = {"terminated": terminated, "truncated": truncated, "valid": valid, "start": start}
        flag = {k: array(v).astype(bool) for k, v in flags.items() if v is not None}
        shape = reward.shape
        if len(shape) != 2 or shape[1] != self.num_envs:
            raise LPOError(
                f"reward has shape {shape}; pass [T, {self.num_envs}], steps by environments."
            )
        valid = flag.get("valid", np.ones(shape, bool))
        ended = flag["terminated"] | flag["truncated"]
        action = numbers(action).reshape(*shape, -1) - self._action_start
        rollout = Rollout(
            obs=self._see.read(obs),
            action=action.astype(np.float32),
            reward=reward,
            terminated=flag["terminated"] & valid,
            truncated=flag["truncated"] & valid,
            next_obs=self._see.read(next_obs),
            valid=valid,
            start=flag.get("start", starts(self._ended, ended, valid)[:-1]),
            taken=valid,
            last_obs=self._see.read(last_obs),
        )
        for name, x in rollout._asdict().items():
            if name == "memory":
                continue
            wanted = shape[1:] if name == "last_obs" else shape
            for leaf in jax.tree.leaves(x):
                if leaf.shape[: len(wanted)] != wanted:
                    raise LPOError(
                        f"{name} has shape {leaf.shape} and reward {shape}; pass both of the same "
                        "rollout."
                    )
        return rollout


def check_options(c: configs.Config, options: dict[str, Any]) -> None:
    """Raises LPOError for an option that decides what the trainer does, or that has no effect."""
    mine = {leaf.short for leaf in configs.leaves(c) if leaf.path[0] in OWN}
    mine |= {name for name, places in configs.choices_of(c).items() if places[0][0][0] in OWN}
    for name in options:
        if name not in mine and name not in CRITIC:
            raise LPOError(f"{name} is the trainer's to decide; leave it out, or set it there.")
    if c.network.remembers:
        raise LPOError(
            f"The explorer's critics have no memory, and {c.network.kind} is one; leave network "
            "out, or pass cnn."
        )


def numbers(x: Any) -> np.ndarray:
    return array(x).astype(np.float32)


def starts(before: np.ndarray, ended: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Returns on which of T + 1 rows an episode begins [T + 1, N], the next rollout's first row
    included: after an end, or on the first row that the environment moves on after it."""
    begins = [before]
    for ended_t, valid_t in zip(ended, valid, strict=True):
        begins.append(np.where(valid_t, ended_t, begins[-1]))
    return np.stack(begins)


def init(p: Parts, seed: int, first: int) -> Memory:
    """Returns the first state, with critics of the streams from ``first`` on.

    The same seed gives the critics and the bonus that a run of ours has.
    """
    key = jax.random.key(seed)
    nets = init_actor_critic(
        jax.random.fold_in(key, NETS), p.sight.body.size, p.dist.num_outputs,
        jnp.zeros(p.dist.num_log_std), p.network.hidden, len(p.streams.gammas),
        p.network.value_gain, p.sight.body.init(jax.random.fold_in(key, BODY)),
    )  # fmt: skip
    critics = jax.tree.map(lambda x: x[first:], nets.critics)
    return Memory(
        seed=jnp.uint32(seed),
        iteration=jnp.int32(0),
        critics=critics,
        body=nets.body,
        opt=p.adam.optim().init((critics, nets.body)),
        moments=p.sight.observer.init(),
        bonus=p.bonus.init(jax.random.fold_in(key, BONUS_INIT)),
        weigh=p.weigh.init(),
    )


def estimate(p: Parts, memory: Memory, rollout: Rollout, given: Any) -> tuple[Any, ...]:
    """Returns Â and its parts, the returns of the reward, the new state, and what to learn.

    ``given`` is what the trainer says of the reward stream: Values, advantages [T, N], or None.
    """
    rollout, valid = viewed(p, rollout), rollout.valid.reshape(-1)
    rows = partial(jax.tree.map, lambda x: x.reshape(len(valid), *x.shape[2:]))
    moments = p.sight.observer.update(memory.moments, rows(rollout.obs), valid)
    seen = [
        p.sight.observer.apply(moments, x)
        for x in (rollout.obs, rollout.next_obs, rollout.last_obs)
    ]
    features = watch(p.sight.body, memory.body, rollout, *seen)
    b, bonus, metrics = scored(p.bonus, memory.bonus, rollout)
    says = given if isinstance(given, Values) else Values(None, None, None)

    def valued(x: Array, said: Array | None) -> Array:
        """Returns V of the streams: what the trainer says first, then the explorer's critics."""
        own = values(memory.critics, x, p.compute.apply)
        return own if said is None else jnp.concatenate([said[None], own])

    trajectory = Trajectory(
        reward=jnp.concatenate([rollout.reward[None], b]),
        value=valued(features.here, says.value),
        next_value=valued(features.next, says.next_value),
        last_value=valued(features.last, says.last_value),
        terminated=rollout.terminated,
        truncated=rollout.truncated,
        valid=rollout.valid,
    )
    known = slice(len(trajectory.reward) - len(trajectory.value), None)
    trajectory = trajectory._replace(reward=trajectory.reward[known])
    streams = jax.tree.map(lambda x: x[known], p.streams)
    lambdas = streams.lambdas, streams.value_lambdas
    found = estimates(trajectory, streams.gammas, *lambdas, streams.ends)
    a, returns = found.advantages, found.targets[0] if known.start == 0 else None
    if known.start:
        a = jnp.concatenate([(given * rollout.valid)[None], a])
    weights, weigh, weighed = p.weigh.update(memory.weigh, p.streams, a, rollout)
    own = len(memory.critics[0].w)
    metrics = metrics | weighed | told(a, found.errors, found.targets, rollout)
    out = {
        "advantage": jnp.tensordot(weights, a, axes=1),
        "streams": a,
        "bonus": b.sum(0),
        "metrics": metrics,
    }
    targets = found.targets[len(found.targets) - own :]
    lesson = Lesson(rollout, rows(seen[0]), rows(jnp.moveaxis(targets, 0, -1)))
    memory = memory._replace(moments=moments, bonus=bonus, weigh=weigh)
    return out, returns, memory, lesson


def told(a: Array, errors: Array, targets: Array, rollout: Rollout) -> dict[str, Array]:
    """Returns the metrics of the streams, under the names that a run of ours has."""
    count = jnp.maximum(rollout.valid.sum(), 1)
    metrics = {"rollout/reward_rate": (rollout.valid & (rollout.reward > 0)).sum() / count}
    for name, a_s in zip(STREAMS, a, strict=False):
        metrics[f"advantage/{name}_rms"] = jnp.sqrt((a_s**2).sum() / count)
    for name, error, target in zip(STREAMS[len(a) - len(errors) :], errors, targets, strict=False):
        mean = (target * rollout.valid).sum() / count
        spread = ((target - mean) ** 2 * rollout.valid).sum() / count
        metrics[f"value/{name}_target"] = mean
        explained = 1 - (error**2).sum() / count / jnp.maximum(spread, 1e-8)
        metrics[f"value/{name}_explained"] = explained
    return metrics


def learn(p: Parts, memory: Memory, lesson: Lesson) -> tuple[Memory, dict[str, Array]]:
    """Fits the explorer's critics to their targets, and the bonus to the rollout."""

    def step(carry: Any, minibatch: tuple[Any, Array]) -> tuple[Any, Array]:
        nets, opt = carry
        obs, targets = minibatch
        none = jnp.zeros(len(targets), bool)

        def loss(nets: Any) -> tuple[Array, Array]:
            critics, body = nets
            features = p.sight.body.step(body, (), obs, none)[1]
            each = ((values(critics, features, p.compute.apply) - targets.T) ** 2).mean(-1)
            return p.update.value_coef * each.sum(), each

        grads, each = jax.grad(loss, has_aux=True)(nets)
        return p.compute.descend(p.adam, nets, opt, grads), each

    def order(component: int) -> Array:
        key = jax.random.fold_in(jax.random.key(memory.seed), component)
        return jax.random.fold_in(key, memory.iteration)

    valid = lesson.rollout.valid.reshape(-1)
    data, size = (lesson.obs, lesson.targets), p.update.batch_size
    nets = memory.critics, memory.body
    ((critics, body), opt), losses = sweep(
        step, (nets, memory.opt), data, valid, order(PPO_ORDER), p.update.epochs, size
    )
    bonus, metrics = p.bonus.update(memory.bonus, lesson.rollout, order(BONUS_ORDER))
    names = STREAMS[len(p.streams.gammas) - len(losses) :]
    metrics = metrics | {
        f"value/{name}_loss": loss for name, loss in zip(names, losses, strict=False)
    }
    return Memory(
        memory.seed, memory.iteration + 1, critics, body, opt, memory.moments, bonus, memory.weigh
    ), metrics
