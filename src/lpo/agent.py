"""The Python face: ``LPO("lpo/SparseHopper-v0").learn(200_000)``, then predict, save and load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from lpo import algorithms, config
from lpo.engine.rollout import HostPolicy
from lpo.envs.codec import Codec
from lpo.envs.faults import Misfit
from lpo.errors import LPOError
from lpo.runs import checkpoint
from lpo.runs.log import MemoryLog
from lpo.runs.run import Callback, Run, count_of, make_trainer, stopping_on_signals


class Agent:
    """An algorithm of the table with SB3's verbs: learn, predict, save, load."""

    algo = "lpo"

    def __init__(self, env: Any = config.DEFAULT_ENV, *, eval_env: Any = None, **options: Any):
        """``env``: a Gymnasium id, an Env, a function that makes one, or a VectorEnv.

        ``options`` are the fields of `lpo.Config` (and ``preset``, a named starting point).
        """
        name = env if isinstance(env, str) else "custom"
        base = config.preset(options.pop("preset", "paper"), name)
        options = {"algo": self.algo, **count_of(env), **options}
        self._sources = (None if isinstance(env, str) else env, eval_env)
        self.config = config.validate(config.with_overrides(base, options))
        algorithms.refuse_idle_options(self.config)
        self._run: Run | None = None
        self._policy: HostPolicy | None = None
        self._rng = np.random.default_rng(self.config.seed)

    @property
    def run(self) -> Run:
        """The run behind the agent; made when it is first needed."""
        if self._run is None:
            self._run = Run(make_trainer(self.config, *self._sources), MemoryLog())
            self._run.until = 0
        return self._run

    @property
    def env_steps(self) -> int:
        return self.run.env_steps

    @property
    def metrics(self) -> list[dict[str, float]]:
        """One row per policy change of this session; names as in the metric glossary."""
        return self.run.log.rows  # pyright: ignore[reportAttributeAccessIssue]

    def learn(self, steps: int, callback: Callback | None = None) -> Agent:
        """Train for ``steps`` more environment steps.

        ``callback(env_steps, metrics)`` is called after every policy change; False from it stops.
        The first call fixes the growth schedule (it is solved from its step budget).
        """
        if steps < 1:
            raise LPOError(f"learn was asked for {steps} steps; pass 1 or more.")
        if self._run is None:
            self.config = config.with_overrides(self.config, {"steps": steps})
        run = self.run
        run.until = run.env_steps + steps
        with stopping_on_signals(run):
            run.advance(callback)
        self._policy = None
        if run.stop_requested:
            run.stop_requested = False
            raise KeyboardInterrupt
        return self

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, Any]:
        """Actions for one observation or a batch, as the environment takes them."""
        if self._policy is None:
            self._policy = self.run.trainer.policy()
        codec = self.run.trainer.env.codec
        obs, batched = batch_observation(codec, observation)
        if deterministic:
            action = self._policy.mode(obs)
        else:
            noise = self._policy.dist.draw(self._rng, (len(obs), self._policy.dist.noise_size))
            action = self._policy.sample(obs, noise)
        action = codec.action(self._policy.dist.to_env(action))
        return (action if batched else action[0]), state

    def save(self, path: str | Path) -> Path:
        """Write ``path``.safetensors and ``path``.json: everything, so that learning can go on."""
        path = Path(path)
        run = self.run
        record = run.record(seconds=run.trainer.seconds)
        return checkpoint.save(path.parent, path.with_suffix("").name, run.trainer.arrays(), record)

    @classmethod
    def load(
        cls, path: str | Path, env: Any = None, *, eval_env: Any = None, which: str = "best"
    ) -> Agent:
        """An agent from ``save``, or from the best or last checkpoint of a run directory."""
        path = Path(path)
        saved = load_agent_checkpoint(path, which)
        c = config.from_dict(saved.record["config"], str(path))
        if env is None and c.env == "custom":
            raise LPOError(
                f"{path} was trained on an environment object; pass it as env= to load the agent."
            )
        agent = cls.__new__(cls)
        agent.algo = c.algo
        agent._sources = (None if env is None or isinstance(env, str) else env, eval_env)
        agent.config = c if not isinstance(env, str) else config.with_overrides(c, {"env": env})
        agent._run, agent._policy = None, None
        agent._rng = np.random.default_rng(c.seed)
        agent.run.trainer.restore(saved.arrays)
        agent.run.until = agent.run.env_steps
        return agent


def load_agent_checkpoint(path: Path, which: str) -> checkpoint.Checkpoint:
    """``which`` of a run directory: "best" by evaluation (the last if there was none) or "last"."""
    folder = path / "checkpoints"
    if which not in ("best", "last"):
        raise LPOError(f"There is no {which!r} checkpoint; choose best or last.")
    if folder.is_dir():
        best = folder / "best.safetensors"
        is_best = which == "best" and best.exists()
        return checkpoint.load(best) if is_best else checkpoint.load_latest(folder)[0]
    return checkpoint.load(path.with_suffix(".safetensors"))


def batch_observation(codec: Codec, observation: Any) -> tuple[np.ndarray, bool]:
    """Flat float32 rows of what the user passed, and whether it was a batch."""
    try:
        return codec.observation(observation)[None].astype(np.float32), False
    except (Misfit, ValueError, TypeError, KeyError, IndexError):
        pass  # not one observation: a batch, as vector environments stack it
    try:
        rows = [codec.observation(x) for x in iterate(codec.raw_observation_space, observation)]
        return np.stack(rows).astype(np.float32), True
    except (Misfit, ValueError, TypeError, KeyError, IndexError) as error:
        raise LPOError(
            f"predict got an observation that does not fit ({error}); pass one of "
            f"{codec.raw_observation_space}, or a batch of them."
        ) from error


def iterate(space: spaces.Space, batch: Any) -> list[Any]:
    """The observations of a batch as the vector environments of Gymnasium and SB3 stack them."""
    if isinstance(space, spaces.Dict):
        parts = {k: iterate(s, batch[k]) for k, s in space.items()}
        size = len(next(iter(parts.values())))
        return [{k: v[i] for k, v in parts.items()} for i in range(size)]
    if isinstance(space, spaces.Tuple):
        return list(zip(*(iterate(s, b) for s, b in zip(space, batch, strict=True)), strict=True))
    return list(batch)


class LPO(Agent):
    """RND width on (s,a), growing rollouts (Algorithm 7)."""

    algo = "lpo"


class ENIAC(Agent):
    """LPO's bonus with constant rollouts, as the paper re-implemented it."""

    algo = "eniac"


class RND(Agent):
    """Random network distillation on s′."""

    algo = "rnd"


class PPO(Agent):
    """No bonus."""

    algo = "ppo"
