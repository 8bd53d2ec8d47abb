"""Engine: the loop of Algorithm 7 over environments on the host."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import jax
import numpy as np
from jax import Array

from lpo import config
from lpo.config import Config
from lpo.engine.evaluate import as_sampled, evaluate, means, score
from lpo.engine.learner import (
    ACT,
    EVAL,
    ROLL_IN,
    START,
    SWITCH,
    TEST,
    Space,
    TrainState,
    compiled,
    host_rng,
    init_state,
    viewed,
)
from lpo.engine.rollout import Episodes, HostPolicy, collect, empty_rollout
from lpo.engine.trainer import Acts, Row, Turn, crossed, diverged
from lpo.envs import spaces
from lpo.envs.angles import largest, unbounded
from lpo.errors import LPOError
from lpo.math import distributions, trees
from lpo.switch import Look, Rows
from lpo.types import BatchEnv, Rollout


class Trainer:
    """A run in memory: environments, the learner and its state, the current episodes."""

    runs = 1

    def __init__(self, c: Config, env: BatchEnv, eval_env: BatchEnv | None = None):
        self.config, self.env, self.eval_env = c, env, eval_env
        spec = distributions.action_spec(env.action_space)
        space = Space(env.codec.spec, spec, env.description.get("horizon"))
        self.parts, self.learn = compiled(c, space)
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
        self.obs = env.codec.spec.cast(env.reset(c.seed))
        self.memory = self.parts.sight.body.memory(env.num_envs)
        rows = -(-self.parts.switch.capacity // env.num_envs)
        self.buffer = empty_rollout(rows, env.num_envs, env.codec.spec, self.parts.dist.action_size)
        self.seconds = {"rollout": 0.0, "switch": 0.0, "learn": 0.0, "eval": 0.0}

    @property
    def steps(self) -> np.ndarray:
        return np.array(self.env_steps)

    @property
    def description(self) -> dict[str, Any]:
        return self.env.description

    @property
    def unbounded(self) -> np.ndarray:
        return unbounded(self.env.observation_space)

    @property
    def ways(self) -> tuple[Acts, ...]:
        if self.eval_env is None:
            return ()
        return ("mode", "sampled") if self.config.evaluation.deterministic else ("sampled",)

    def policy(self) -> HostPolicy:
        """Returns the current policy, with its memory of the episodes under way."""
        policy = self.policy_of(self.state)
        policy.memory = self.memory
        return policy

    def policy_of(self, state: TrainState) -> HostPolicy:
        return HostPolicy(state.params, state.moments, self.parts.dist, self.parts.sight)

    def choose(self, which: np.ndarray, new: HostPolicy, old: HostPolicy) -> HostPolicy:
        return new if which else old

    def turn(self, until: int) -> Turn:
        """One iteration, with what a life of runs asks about it."""
        before = self.env_steps
        metrics = self.iterate(until)
        row = {"env_steps": self.env_steps, **metrics}
        obs, valid = self.buffer.obs, self.buffer.valid
        size = None if self.env.codec.spec.size is None else largest(obs, valid)
        return Turn([[row]], self.env_steps - before, size, (obs, valid))

    def due(self, before: int, evaluated: int) -> bool:
        return crossed(before, self.env_steps, self.config.evaluation.every)

    def shown(self, rows: list[list[Row]]) -> Row:
        return {name: value for name, value in rows[0][-1].items() if name != "env_steps"}

    def iterate(self, until: int) -> dict[str, float]:
        """One iteration of Algorithm 7: collects D_k until the switch fires, then learns from it.

        Collecting stops at ``until`` environment steps. Returns the metrics.
        """
        start, looking = time.perf_counter(), self.seconds["switch"]
        rollout, rows, looked = self.collect(until)
        middle = time.perf_counter()
        acted, rng = self.state, host_rng(self.config.seed, START, self.env_steps)
        learned, metrics = self.learn(acted, rollout)
        self.start_state, covered = self.parts.start.update(
            self.start_state, acted.params, acted.moments, viewed(self.parts, rollout), rng
        )
        metrics |= looked | covered
        metrics = {k: float(v) for k, v in jax.device_get(metrics).items()}
        self.seconds["rollout"] += middle - start - (self.seconds["switch"] - looking)
        self.seconds["learn"] += time.perf_counter() - middle
        self.check_finite(metrics, learned)
        self.state = learned
        metrics["switch/count"] = int(self.state.iteration)
        metrics["switch/rollout_steps"] = rows * self.env.num_envs
        metrics |= score("rollout", self.episodes.take(), self.env.description)
        return metrics

    def collect(self, until: int) -> tuple[Rollout, int, dict[str, Array]]:
        """Lines 5 and 6 of Algorithm 7: runs π until the switch fires.

        Returns the rollout, the number of its rows, and the metrics of the switch.
        """
        policy, switch, start = self.policy(), self.parts.switch, self.parts.start
        num_envs = self.env.num_envs
        row, fire, metrics = 0, False, {}
        before = jax.tree.map(np.copy, self.memory)
        while not fire and row < len(self.buffer.valid) and self.env_steps < until:
            wait = min(int(switch.wait(self.switch_state)), until - self.env_steps)
            stop = min(row + -(-wait // num_envs), len(self.buffer.valid))
            rng, rng_start = (
                host_rng(self.config.seed, part, self.env_steps) for part in (ACT, ROLL_IN)
            )
            actor, self.start_state = start.sample(self.start_state, policy, rng_start)
            after = collect(
                self.env, actor, policy, self.buffer, range(row, stop), self.obs, rng, self.episodes
            )
            self.obs, self.memory = self.env.codec.spec.cast(after), policy.memory
            self.env_steps += (stop - row) * num_envs
            self.buffer.valid[stop:] = self.buffer.taken[stop:] = False
            rollout = self.buffer._replace(last_obs=self.obs)
            look = Look(viewed(self.parts, rollout), Rows(row, stop))
            began = time.perf_counter()
            fire, self.switch_state, metrics = switch.update(self.switch_state, look)
            row, fire = stop, bool(fire)
            self.seconds["switch"] += time.perf_counter() - began
        return self.buffer._replace(last_obs=self.obs, memory=before), row, metrics

    def evaluate(self) -> dict[str, float]:
        """Returns the metrics of the current policy: by its mode, and by sampled actions.

        Each has its own episodes, on separate environments.
        """
        c, policy = self.config.evaluation, self.policy_of(self.state)
        rng = host_rng(self.config.seed, EVAL, self.env_steps)
        found = self.episodes_of(policy, c.deterministic, rng.integers(2**31))
        return found | as_sampled(self.episodes_of(policy, False, rng.integers(2**31)))

    def play(
        self, policy: HostPolicy, ways: Sequence[Acts], occasions: range
    ) -> Mapping[Acts, Mapping[str, float]]:
        """Returns means over new episodes of any policy, by its mode or by sampled actions."""
        found: dict[Acts, Mapping[str, float]] = {}
        for way in ways:
            rngs = [host_rng(self.config.seed, TEST, occasion) for occasion in occasions]
            batches = (self.episodes_of(policy, way == "mode", r.integers(2**31)) for r in rngs)
            found[way] = means(batches) | {"sampled": float(way == "sampled")}
        return found

    def episodes_of(self, policy: HostPolicy, deterministic: bool, seed: Any) -> dict[str, float]:
        """Plays an episode in every environment of the evaluations."""
        assert self.eval_env is not None
        start, longest = time.perf_counter(), self.config.evaluation.max_steps
        episodes = evaluate(self.eval_env, policy, int(seed), deterministic, longest)
        self.seconds["eval"] += time.perf_counter() - start
        return score("eval", episodes, self.env.description)

    def policy_in(self, arrays: dict[str, np.ndarray]) -> HostPolicy:
        """Returns the policy in the arrays of one of this run's checkpoints."""
        s = trees.unflatten("train", {"state": self.state}, arrays)["state"]
        return self.policy_of(s)

    def recent(self) -> Row:
        """Returns the mean return and the success of the last episodes of training."""
        found = score("", self.episodes.recent, self.description)
        return {name.removeprefix("/"): value for name, value in found.items()}

    def check_finite(self, metrics: dict[str, float], learned: TrainState) -> None:
        """Raises LPOError where a number is not finite; then nothing that was learned is kept."""
        bad = [name for name, value in metrics.items() if not np.isfinite(value)]
        wrong = bad[0] if bad else trees.not_finite(learned)
        if "advantage/int_rms" in bad and "advantage/ext_rms" not in bad:
            raise LPOError(
                f"The bonus {self.config.bonus.kind!r} is NaN or infinite at step "
                f"{self.env_steps}, while all else is finite. The last valid state was kept. "
                "Correct the bonus."
            )
        if wrong is not None:
            raise diverged(f"at step {self.env_steps}", wrong)

    def about(self, run: int = 0) -> dict[str, Any]:
        """Returns what a checkpoint says of the run."""
        codec = self.env.codec
        return {
            "env": self.env.description,
            "spaces": {
                "observation": spaces.to_dict(codec.raw_observation_space),
                "action": spaces.to_dict(codec.raw_action_space),
            },
            "config": config.to_dict(self.config),
        }

    def tree(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "switch": self.switch_state,
            "start": self.start_state,
            "obs": self.obs,
            "memory": self.memory,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns everything that decides the rest of the run, as named arrays."""
        tree = self.tree()
        groups = {"episodes": self.episodes.get_state()}
        if self.env.resumable:
            groups["env"] = self.env.get_state()
        named = {f"{g}/{k}": np.asarray(v) for g, s in groups.items() for k, v in s.items()}
        steps = np.array(self.env_steps, np.int64)
        return trees.flatten("train", tree) | named | {"env_steps": steps}

    def restore(
        self, arrays: dict[str, np.ndarray], seconds: dict[str, float] | None = None
    ) -> None:
        """Restores the state in ``arrays``. The run then continues bit for bit as it did before.

        Environments that cannot be restored (``resumable`` is False) begin new episodes.
        """
        tree = trees.unflatten("train", self.tree(), arrays)
        self.state, self.switch_state = tree["state"], tree["switch"]
        self.start_state = jax.tree.map(np.asarray, tree["start"])
        self.env_steps = int(arrays["env_steps"])
        self.seconds = dict(seconds or self.seconds)

        def group(name: str) -> dict[str, np.ndarray]:
            return {k.split("/", 1)[1]: v for k, v in arrays.items() if k.startswith(f"{name}/")}

        if not group("env"):  # the environments have just begun new episodes
            self.start_state = self.parts.start.anew(self.start_state)
        else:
            self.env.set_state(group("env"))
            self.episodes.set_state(group("episodes"))
            self.obs = jax.tree.map(np.asarray, tree["obs"])
            self.memory = jax.tree.map(np.asarray, tree["memory"])

    def close(self) -> None:
        """Closes the environments, all of them even if one fails."""
        with ExitStack() as closing:
            for env in (self.env, self.eval_env):
                if (close := getattr(env, "close", None)) is not None:
                    closing.callback(close)
