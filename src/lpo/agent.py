"""The Python interface: ``LPO("lpo/SparseHopper-v0").learn(200_000)``, then predict, save, load."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, overload

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from lpo import config as configs
from lpo import elsewhere
from lpo.agents import Agents
from lpo.algorithms import row_name
from lpo.config import Config
from lpo.engine.evaluate import as_sampled, evaluate, score
from lpo.engine.rollout import Episode
from lpo.envs.make import adopted, observes_grid
from lpo.envs.registry import import_package
from lpo.envs.task import CUSTOM, DEFAULT_ENV
from lpo.errors import LPOError
from lpo.policy import Kept, Policy, load_checkpoint, recall
from lpo.runs import checkpoint
from lpo.runs.callbacks import callbacks, whole_number
from lpo.runs.checkpoint import Checkpoint
from lpo.runs.directory import RunDirectory, free_directory, short_env
from lpo.runs.loggers import About, Logger, check_installed, open_loggers
from lpo.runs.progress import shown
from lpo.runs.run import Run, count_of, make_trainer, recorded
from lpo.runs.session import stopping_on_signals
from lpo.types import BatchEnv

A = TypeVar("A", bound="Agent")


class Agent:
    """An algorithm of the table with SB3's verbs: learn, evaluate, predict, save, load, close."""

    row: ClassVar[str | None] = None  # the row of the table that LPO and PPO stand for

    @overload
    def __new__(
        cls, env: str = ..., *, device: Literal["gpu", "cpu"], seeds: Any = 1, **options: Any
    ) -> Agents: ...

    @overload
    def __new__(cls: type[A], env: Any = ..., *more: Any, **options: Any) -> A: ...

    def __new__(cls, env: Any = DEFAULT_ENV, *more: Any, **options: Any) -> Any:
        """Returns an agent, or with ``device="cpu"`` or ``"gpu"`` many of them in one program.

        ``Agent(env, device="gpu", seeds=64)`` are 64 runs; see ``lpo.agents.Agents``.
        """
        if options.get("device") is None and "seeds" not in options:
            return super().__new__(cls)
        return many(cls, env, more, options)

    def __init__(
        self,
        env: Any = DEFAULT_ENV,
        *more: Any,
        algo: str | None = None,
        preset: str | None = None,
        eval_env: Any = None,
        loggers: Sequence[Logger | str] = (),
        config: Config | None = None,
        saved: Checkpoint | None = None,
        **options: Any,
    ):
        """Makes an agent for an environment.

        Args:
            env: a Gymnasium id, an Env, a function that makes one, a VectorEnv, or a VecEnv of
                stable-baselines3.
            more: nothing; all other arguments have names.
            algo: a row of the table, for instance "lpo-s"; by default the row of the class, and
                the default for Agent itself.
            preset: named values to start from, for instance "paper"; by default those of the row.
            eval_env: an environment for evaluations, or a function that makes one, where ``env``
                is an object. What ``gymnasium.make`` returned is made again for them.
            loggers: objects with ``write(step, metrics, timing)``, or names: "tensorboard",
                "wandb", "mlflow". Named ones keep their files in a new folder in ``runs``.
            config: a whole configuration, instead of ``algo``, ``preset`` and options.
            saved: a checkpoint to continue from; see ``load``.
            options: options by the names of their flags (``batch_size=64``, ``hidden=[64, 64]``),
                and parts by name or as objects (``bonus=lpo.bonus.RND(inputs="s")``).

        Raises LPOError for wrong options, and for an environment that cannot be made.
        """
        only_named(env, more)
        env, eval_env = adopted(env), adopted(eval_env)
        if config is None and isinstance(env, str) and ":" in env:
            import_package(env)  # the caller names it
        if isinstance(options.get("wrapper"), str):
            import_package(options["wrapper"])
        grids = None if isinstance(env, str) or config else observes_grid(env)
        self.config = config or configs.configure(
            self._row(algo), env=_id(env), preset=preset, grids=grids,
            **{**count_of(env), **options},
        )  # fmt: skip
        if config is not None and (options or algo):
            raise LPOError(
                f"Agent got config= and {next(iter(options), 'algo')}= together; pass one of them."
            )
        if saved is None:
            try_out(self.config, env)
        if eval_env is None and self.config.evaluation.every:
            eval_env = made_again(env)
        self._sources = (None if isinstance(env, str) else env, eval_env)
        self._loggers = tuple(loggers)
        check_installed([x for x in self._loggers if isinstance(x, str)])
        self._rng = np.random.default_rng(self.config.seed)
        self._policy: Policy | None = None
        self._run = None if saved is None else self._make_run(saved)

    def _row(self, algo: str | None) -> str | None:
        algo = algo and row_name(algo)
        if self.row is not None and algo not in (None, self.row):
            raise LPOError(
                f"{type(self).__name__} is the row {self.row!r} and algo is {algo!r}; "
                f"use Agent(env, algo={algo!r})."
            )
        return algo or self.row

    def _make_run(self, saved: Checkpoint | None = None) -> Run:
        trainer = make_trainer(self.config, *self._sources)
        if saved is not None:
            trainer.restore(saved.arrays)
        return Run(trainer, loggers=self._open_loggers(trainer.env_steps))

    def _open_loggers(self, step: int) -> list[Logger]:
        """Returns the loggers; those that were named are made."""
        names = [x for x in self._loggers if isinstance(x, str)]
        ready = [x for x in self._loggers if not isinstance(x, str)]
        if not names:
            return ready
        c = self.config
        stem = f"{c.algo}-{short_env(c.task.env)}-s{c.seed}"
        directory = RunDirectory(free_directory(Path("runs"), stem))
        return [*ready, *open_loggers(names, About(directory, configs.flat(c), step))]

    def __repr__(self) -> str:
        steps = 0 if self._run is None else self._run.env_steps
        return (
            f"{type(self).__name__}({self.config.task.env!r}, algo={self.algo!r}, "
            f"env_steps={steps})"
        )

    @property
    def algo(self) -> str:
        return self.config.algo

    @property
    def run(self) -> Run:
        """The run behind the agent; it is made when it is first needed."""
        if self._run is None:
            self._run = self._make_run()
        return self._run

    @property
    def env_steps(self) -> int:
        return self.run.env_steps

    @property
    def metrics(self) -> list[dict[str, float]]:
        """One row of metrics for each policy change since the agent was made or loaded."""
        return self.run.rows

    def learn(
        self: A,
        total_timesteps: float | None = None,
        callback: Any = None,
        *,
        progress_bar: bool | None = None,
    ) -> A:
        """Trains for ``total_timesteps`` more environment steps, for instance ``1e6``.

        ``callback`` is a function ``(env_steps, metrics)``, called after every policy change, or
        an object with any of ``on_start(agent)``, ``on_step(env_steps, metrics)`` and
        ``on_end(agent)``. Training stops if the function or ``on_step`` returns False.
        ``progress_bar`` shows a line with return, success and speed: by default on a terminal and
        in a notebook, and with True elsewhere too, where it prints a line for each evaluation.
        The first call fixes the growth schedule: K is solved from its number of steps.
        """
        number = whole_number("total_timesteps", total_timesteps)
        calls = callbacks(callback)
        if self._run is None:
            self.config = configs.with_options(self.config, {"steps": number})
        run = self.run
        self._policy = None
        calls.on_start(self)
        until = run.env_steps + number
        with stopping_on_signals(run), shown(run, until, progress_bar) as show:
            run.advance(until, lambda step, row: (show(step, row), calls.on_step(step, row))[1])
        if run.stop_requested:
            run.stop_requested = False
            raise KeyboardInterrupt
        calls.on_end(self)
        return self

    @property
    def policy(self) -> Policy:
        """The policy as it is now; it can act and be saved by itself."""
        if self._policy is None:
            t = self.run.trainer
            self._policy = Policy(
                t.policy(), t.env.codec, self.config, t.env.description, t.env_steps, self._rng,
                self.run.acts(),
            )  # fmt: skip
        return self._policy

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool | None = None,
        action_masks: Any = None,
    ) -> tuple[np.ndarray, Any]:
        """Returns actions for one observation or a batch, as the environment takes them.

        They are the most likely ones if ``deterministic``, and sampled if not; by default the
        better of the two by the evaluations of the run, and sampled where it has none. The
        other arguments are those of ``Policy.predict``.
        """
        return self.policy.predict(observation, state, episode_start, deterministic, action_masks)

    def evaluate(
        self, episodes: int = 20, *, deterministic: bool | None = None, seed: int = 1_000_003
    ) -> dict[str, float]:
        """Returns the mean ``return`` and ``length`` of new episodes of the current policy.

        ``normalized_return`` and ``success`` are included where the task defines them. They are of
        the mode of the policy, and the same names with ``sampled_`` are of sampled actions, as in
        the metrics of training. With ``deterministic`` given, only one of the two is played.
        """
        number = whole_number("episodes", episodes)
        env, eval_env = self._sources
        source = env if eval_env is None else eval_env
        if source is not None and source is env and count_of(env):
            raise LPOError(
                "evaluate would change the environment that the agent learns on; pass eval_env= "
                "to the agent, or make it from an id or a function."
            )
        number_of = count_of(source).get("num_envs", number)
        batch = self.config.task.make(number_of, source, flat=self.config.network.flat)
        scores = self._scored(batch, number, deterministic is not False, seed)
        if deterministic is None:
            scores |= as_sampled(self._scored(batch, number, False, seed))
        if source is None or is_made(source):
            batch.close()
        return {name.removeprefix("eval/"): value for name, value in scores.items()}

    def _scored(
        self, batch: BatchEnv, number: int, deterministic: bool, seed: int
    ) -> dict[str, float]:
        longest = self.config.evaluation.max_steps
        found: list[Episode] = []
        while len(found) < number:
            found += evaluate(batch, self.policy.actor, seed + len(found), deterministic, longest)
        return score("eval", found[:number], batch.description)

    def save(self, path: str | Path) -> Path:
        """Writes the full training state to ``path``.safetensors and ``path``.json."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        run = self.run
        record = recorded(run, seconds=run.trainer.seconds)
        return checkpoint.save(path.parent, path.with_suffix("").name, run.trainer.arrays(), record)

    @classmethod
    def load(
        cls: type[A],
        path: str | Path,
        env: Any = None,
        *,
        eval_env: Any = None,
        checkpoint: Kept = "best",
        loggers: Sequence[Logger | str] = (),
        network: Any = None,
    ) -> A:
        """Returns the agent in a file of ``save``, or in the best or last checkpoint of a run.

        ``network`` is the one of your own that it was trained with.
        """
        saved = load_checkpoint(Path(path), checkpoint)
        recall(network, saved)
        if "configs" in saved.record:
            raise LPOError(f"{path} holds many agents of a device; load them with lpo.Agents.load.")
        c = configs.from_dict(saved.record.get("config"), str(path))
        if cls.row is not None and c.algo != cls.row:
            raise LPOError(
                f"{path} is a run of {c.algo!r} and {cls.__name__} is the row {cls.row!r}; load it "
                "with Agent.load."
            )
        if saved.record.get("device"):
            raise LPOError(
                f"{path} was trained on a device and holds no environments of the host; take its "
                "policy with Policy.load, or continue it with `lpo resume`."
            )
        if env is None and c.task.env == CUSTOM:
            raise LPOError(
                f"{path} was trained on an environment object; pass it as env= to load the agent."
            )
        if isinstance(env, str):
            if ":" in env:
                import_package(env)
            c = configs.with_options(c, {"env": env})
        source = c.task.env if env is None else env
        return cls(source, config=c, eval_env=eval_env, loggers=loggers, saved=saved)

    def close(self) -> None:
        """Closes loggers and environments; the policy can still act."""
        if self._run is not None:
            _ = self.policy
            self._run.close()

    def __enter__(self: A) -> A:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def many(cls: type[Agent], env: Any, more: tuple[Any, ...], options: dict[str, Any]) -> Agents:
    """Returns agents on a device. Raises LPOError for what only an agent on the host has."""
    only_named(env, more)
    device = options.pop("device", None)
    if device not in ("gpu", "cpu"):
        what = "seeds is for a device" if device is None else f"device is {device!r}"
        raise LPOError(f'{what}; pass device="gpu" or device="cpu", or leave both out.')
    for name, instead in {
        "eval_env": "evaluations play the same task there",
        "loggers": "pass a callback, and read .metrics",
        "config": "pass algo, preset and options",
        "saved": "use Agents.load",
    }.items():
        if options.pop(name, None):
            raise LPOError(f"{name} is for an agent on the host; {instead}, or leave device out.")
    if isinstance(env, str) and ":" in env:
        import_package(env)  # the caller names it
    algo = options.pop("algo", None)
    if cls.row is not None and algo not in (None, cls.row):
        raise LPOError(f"{cls.__name__} is the row {cls.row!r}; use Agent(env, algo={algo!r}).")
    return Agents(env, device=device, algo=algo or cls.row, **options)


def _id(env: Any) -> str:
    return env if isinstance(env, str) else CUSTOM


def only_named(env: Any, more: tuple[Any, ...]) -> None:
    """Raises LPOError where a policy is named, as SB3 does, or an argument has no name."""
    if isinstance(env, str) and env in elsewhere.POLICIES:
        task = repr(more[0]) if more and isinstance(more[0], str) else "env"
        raise LPOError(
            f"{env!r} is a policy of stable-baselines3, and lpo chooses the network by the "
            f"observation; write Agent({task}), or for instance Agent({task}, network='gru')."
        )
    if more:
        raise LPOError(
            f"Agent got {more[0]!r} without a name; write the name of the option before it, as in "
            'Agent(env, algo="default").'
        )


def try_out(c: Config, env: Any) -> None:
    """Raises LPOError where the task cannot be made with its options.

    An id or a function makes an environment for this, which is closed again.
    """
    if isinstance(env, str):
        c.task.check()
    if isinstance(env, gymnasium.Env | VectorEnv):
        c.task.make(env=env, flat=c.network.flat)
    else:
        c.task.make(1, None if isinstance(env, str) else env, flat=c.network.flat).close()


def is_made(source: Any) -> bool:
    """Returns whether a batch of ``source`` makes environments of its own."""
    return not isinstance(source, gymnasium.Env | VectorEnv)


def made_again(env: Any) -> Callable[[], gymnasium.Env] | None:
    """Returns what makes the environment once more for evaluations, if ``gymnasium.make`` made it.

    Warns of any other object, whose state and wrappers nobody else knows.
    """
    if is_made(env):
        return None
    spec = env.spec if isinstance(env, gymnasium.Env) else None
    if spec is not None and not spec.additional_wrappers:
        return partial(gymnasium.make, spec)
    warnings.warn(
        "The agent learns on the environment object, so it has no evaluations; pass eval_env=, "
        "or a function that makes the environment, or eval_every=0 for none.",
        stacklevel=3,
    )
    return None


class LPO(Agent):
    """RND width on (s,a), growing rollouts (Algorithm 7)."""

    row = "lpo"


class PPO(Agent):
    """No bonus."""

    row = "ppo"
