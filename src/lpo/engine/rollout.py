"""Engine: rollouts on the host. The policy acts in NumPy; no step goes through JAX."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any, NamedTuple

import jax
import numpy as np

from lpo.errors import LPOError
from lpo.math.distributions import Distribution, masked
from lpo.math.nets import ActorCritic, Layer, apply_net_host
from lpo.network import Sight
from lpo.types import MASK, BatchEnv, Obs, ObsSpec, Rollout, Step


class HostPolicy:
    """A frozen policy in NumPy that sees observations as the environment gives them.

    Where it has a memory, ``begin`` clears it for a number of environments, and ``forget`` says in
    which of them the next observation begins an episode.
    """

    def __init__(self, params: ActorCritic, moments: Any, dist: Distribution, sight: Sight):
        self.net = tuple(Layer(np.asarray(w), np.asarray(b)) for w, b in params.policy)
        self.log_std = np.asarray(params.log_std)
        self.std = np.exp(self.log_std)
        self.body, self.moments = params.body, jax.tree.map(np.asarray, moments)
        self.see = sight.observer.host(self.moments)
        self.features = sight.body.host(params.body)
        self.dist, self.sight = dist, sight
        self.edges = (0, *np.cumsum(dist.factors).tolist())
        self.begin(0)

    def begin(self, num_envs: int) -> None:
        """Begins episodes in ``num_envs`` environments."""
        self.memory = self.sight.body.memory(num_envs)
        self.begins = np.ones(num_envs, bool)

    def forget(self, start: np.ndarray) -> None:
        """Says in which environments [N] the next observation is the first of an episode."""
        self.begins = start

    def sample(self, obs: Obs, noise: np.ndarray) -> np.ndarray:
        return self.dist.sample(self.outputs(obs), self.std, noise)

    def mode(self, obs: Obs) -> np.ndarray:
        return self.dist.mode(self.outputs(obs))

    def act(self, obs: Obs, rng: np.random.Generator, deterministic: bool) -> np.ndarray:
        """Returns the mode, or a sample with noise from ``rng``."""
        if deterministic:
            return self.mode(obs)
        return self.sample(obs, self.dist.draw(rng, (count(obs), self.dist.noise_size)))

    def like(self, params: ActorCritic, moments: Any) -> HostPolicy:
        """Returns a policy for the same actions with other networks and statistics."""
        return HostPolicy(params, moments, self.dist, self.sight)

    def follow(self, step: Step) -> np.ndarray:
        """Returns which rows [N] may be learned from: every real step."""
        return step.valid

    def outputs(self, obs: Obs) -> np.ndarray:
        """Returns what the distribution is made of; a memory takes a step."""
        seen = self.see(self.sight.view(obs))
        self.memory, features = self.features(self.memory, seen, self.begins)
        outputs = apply_net_host(self.net, features)
        return masked(outputs, checked(obs, self.edges), np.where) if self.sight.masked else outputs


def count(obs: Obs) -> int:
    """Returns the number of observations of a batch."""
    return len(next(iter(obs.values())) if isinstance(obs, dict) else obs)


def checked(obs: Obs, edges: tuple[int, ...]) -> np.ndarray:
    """Returns the marks of what is allowed [N, P], of which each factor lies between two ``edges``.

    Raises LPOError where nothing is allowed.
    """
    allowed = obs[MASK]
    some = np.logical_and.reduce(
        [allowed[:, first:last].any(axis=1) for first, last in itertools.pairwise(edges)]
    )
    if not some.all():
        i = int(np.argmin(some))
        raise LPOError(
            f"Environment {i} allows no action in its {MASK}; allow at least one for each factor, "
            "and end an episode where there is nothing to choose."
        )
    return allowed


def empty_rollout(steps: int, num_envs: int, obs: ObsSpec, action_size: int) -> Rollout:
    """Returns the buffer that every rollout of a run fills from the first row on."""
    shape = (steps, num_envs)
    return Rollout(
        obs=obs.empty(*shape),
        action=np.zeros((*shape, action_size), np.float32),
        reward=np.zeros(shape, np.float32),
        terminated=np.zeros(shape, bool),
        truncated=np.zeros(shape, bool),
        next_obs=obs.empty(*shape),
        valid=np.zeros(shape, bool),
        start=np.zeros(shape, bool),
        taken=np.zeros(shape, bool),
        last_obs=obs.empty(num_envs),
    )


class Episode(NamedTuple):
    ret: float
    length: int
    success: bool | None = None  # None where the environment does not report it


class Episodes:
    """Returns and lengths of the current episodes, and of those that ended."""

    def __init__(self, num_envs: int, window: int = 100):
        self.ret = np.zeros(num_envs)
        self.length = np.zeros(num_envs, np.int64)
        self.ended: list[Episode] = []  # since the last call of take()
        self.recent: deque[Episode] = deque(maxlen=window)

    def add(
        self,
        reward: np.ndarray,
        done: np.ndarray,
        valid: np.ndarray,
        success: np.ndarray | None = None,
    ) -> None:
        """Adds steps [T, N], from one end of an episode to the next, since ends are rare."""
        reward = np.where(valid, reward, 0.0)
        begin = np.zeros(len(self.ret), np.int64)
        for t, i in np.argwhere(done):  # in the order of time
            self._count(i, slice(begin[i], t + 1), reward, valid)
            said = None if success is None else bool(success[t, i])
            self.ended.append(Episode(float(self.ret[i]), int(self.length[i]), said))
            self.ret[i], self.length[i], begin[i] = 0.0, 0, t + 1
        for i, first in enumerate(begin):
            self._count(i, slice(first, None), reward, valid)

    def _count(self, i: int, steps: slice, reward: np.ndarray, valid: np.ndarray) -> None:
        self.ret[i] += reward[steps, i].sum()
        self.length[i] += valid[steps, i].sum()

    def take(self) -> list[Episode]:
        ended, self.ended = self.ended, []
        self.recent.extend(ended)
        return ended

    def get_state(self) -> dict[str, np.ndarray]:
        recent = np.array([e[:2] for e in self.recent], np.float64).reshape(-1, 2)
        state = {"ret": self.ret.copy(), "length": self.length.copy(), "recent": recent}
        if any(e.success is not None for e in self.recent):
            state["success"] = np.array([bool(e.success) for e in self.recent])
        return state

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self.ret, self.length = state["ret"].copy(), state["length"].copy()
        said = state.get("success", [None] * len(state["recent"]))
        self.recent.clear()
        self.recent.extend(
            Episode(float(r), int(n), None if s is None else bool(s))
            for (r, n), s in zip(state["recent"], said, strict=True)
        )


def row(obs: Obs, t: int) -> Obs:
    """Returns the observations of row ``t``."""
    return {path: x[t] for path, x in obs.items()} if isinstance(obs, dict) else obs[t]


def write(into: Obs, t: int, obs: Obs) -> None:
    """Writes observations into row ``t``."""
    if isinstance(into, dict):
        for path, x in into.items():
            x[t] = obs[path]
    else:
        into[t] = obs


def collect(
    env: BatchEnv,
    actor: Any,
    policy: HostPolicy,
    buffer: Rollout,
    rows: range,
    obs: Obs,
    rng: np.random.Generator,
    episodes: Episodes,
) -> Obs:
    """Line 6 of Algorithm 7: runs π and fills ``rows`` of the buffer.

    Returns the observations after them. ``actor`` is ``policy``, or a roll-in and then the policy
    (``lpo.start``).
    """
    dist = policy.dist
    noise = dist.draw(rng, (len(rows), env.num_envs, dist.noise_size))
    rewards, real = np.empty((len(rows), env.num_envs)), np.empty((len(rows), env.num_envs), bool)
    success: np.ndarray | None = None
    to_env, start = dist.to_env, episodes.length == 0
    for i, t in enumerate(rows):
        write(buffer.obs, t, obs)
        policy.forget(start)
        action = actor.sample(row(buffer.obs, t), noise[i])
        step = env.step(to_env(action))
        buffer.action[t] = action
        buffer.reward[t] = step.reward
        buffer.terminated[t] = step.terminated
        buffer.truncated[t] = step.truncated
        write(buffer.next_obs, t, step.next_obs)
        buffer.valid[t] = actor.follow(step)
        buffer.start[t], buffer.taken[t] = start, step.valid
        start = np.where(step.valid, step.terminated | step.truncated, start)
        rewards[i], real[i] = step.reward, step.valid
        if step.success is not None:
            success = np.zeros_like(real) if success is None else success
            success[i] = step.success
        obs = step.obs
    steps = slice(rows.start, rows.stop)
    episodes.add(rewards, buffer.terminated[steps] | buffer.truncated[steps], real, success)
    return obs
