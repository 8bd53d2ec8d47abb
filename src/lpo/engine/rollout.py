"""Engine: rollouts on the host. The policy acts in NumPy; no step goes through JAX."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from lpo.math.distributions import Distribution
from lpo.math.nets import ActorCritic, Layer, apply_net_host
from lpo.math.normalize import Moments, normalizer_host
from lpo.types import BatchEnv, Rollout, Step


class HostPolicy:
    """A frozen policy in NumPy that normalises observations itself."""

    def __init__(self, params: ActorCritic, moments: Moments, dist: Distribution, obs_clip: float):
        self.net = tuple(Layer(np.asarray(w), np.asarray(b)) for w, b in params.policy)
        self.log_std = np.asarray(params.log_std)
        self.std = np.exp(self.log_std)
        self.mean, self.var = np.asarray(moments.mean), np.asarray(moments.var)
        self.normalize = normalizer_host(moments, obs_clip)
        self.dist, self.obs_clip = dist, obs_clip

    def sample(self, obs: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return self.dist.sample(self.outputs(obs), self.std, noise)

    def mode(self, obs: np.ndarray) -> np.ndarray:
        return self.dist.mode(self.outputs(obs))

    def act(self, obs: np.ndarray, rng: np.random.Generator, deterministic: bool) -> np.ndarray:
        """Returns the mode, or a sample with noise from ``rng``."""
        if deterministic:
            return self.mode(obs)
        return self.sample(obs, self.dist.draw(rng, (len(obs), self.dist.noise_size)))

    def like(self, params: ActorCritic, moments: Moments) -> HostPolicy:
        """Returns a policy for the same actions with other networks and statistics."""
        return HostPolicy(params, moments, self.dist, self.obs_clip)

    def follow(self, step: Step) -> np.ndarray:
        """Returns which rows [N] may be learned from: every real step."""
        return step.valid

    def outputs(self, obs: np.ndarray) -> np.ndarray:
        return apply_net_host(self.net, self.normalize(obs))


def empty_rollout(steps: int, num_envs: int, obs_size: int, action_size: int) -> Rollout:
    """Returns the buffer that every rollout of a run fills from the first row on."""
    shape = (steps, num_envs)
    return Rollout(
        obs=np.zeros((*shape, obs_size), np.float32),
        action=np.zeros((*shape, action_size), np.float32),
        reward=np.zeros(shape, np.float32),
        terminated=np.zeros(shape, bool),
        truncated=np.zeros(shape, bool),
        next_obs=np.zeros((*shape, obs_size), np.float32),
        valid=np.zeros(shape, bool),
        start=np.zeros(shape, bool),
        taken=np.zeros(shape, bool),
        last_obs=np.zeros((num_envs, obs_size), np.float32),
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


def collect(
    env: BatchEnv,
    actor: Any,
    dist: Distribution,
    buffer: Rollout,
    rows: range,
    obs: np.ndarray,
    rng: np.random.Generator,
    episodes: Episodes,
) -> np.ndarray:
    """Line 6 of Algorithm 7: runs π and fills ``rows`` of the buffer.

    Returns the observations after them. ``actor`` is the policy, or a roll-in and then the policy
    (``lpo.start``).
    """
    noise = dist.draw(rng, (len(rows), env.num_envs, dist.noise_size))
    rewards, real = np.empty((len(rows), env.num_envs)), np.empty((len(rows), env.num_envs), bool)
    success: np.ndarray | None = None
    to_env, start = dist.to_env, episodes.length == 0
    for i, t in enumerate(rows):
        buffer.obs[t] = obs
        action = actor.sample(buffer.obs[t], noise[i])
        step = env.step(to_env(action))
        buffer.action[t] = action
        buffer.reward[t] = step.reward
        buffer.terminated[t] = step.terminated
        buffer.truncated[t] = step.truncated
        buffer.next_obs[t] = step.next_obs
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
