"""Exploration for stable-baselines3: a callback, and the user's algorithm stays as it is.

    model = PPO("MlpPolicy", "MountainCar-v0").learn(300_000, callback=Explore())

SB3 computes GAE before it calls ``on_rollout_end``. By then its advantages are those of the reward,
with the bootstrap at time limits, and its returns are the reward's targets. Both are right, so the
callback leaves the returns alone and writes Â = w_ext Â_ext + w_int Â_int over the advantages. The
second advantage has its own critic, discount and λ; the true s′ of an ended episode is the
``terminal_observation`` of the infos, and rewards are taken before SB3 adds the bootstrap to them.

For tasks of ours as a ``VecEnv``, see ``lpo.envs.sb3``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lpo.errors import LPOError
from lpo.platform import prefer_host

try:
    from stable_baselines3.common.callbacks import (  # pyright: ignore[reportMissingImports]
        BaseCallback,
    )
    from stable_baselines3.common.on_policy_algorithm import (  # pyright: ignore[reportMissingImports]
        OnPolicyAlgorithm,
    )
    from stable_baselines3.common.vec_env import (  # pyright: ignore[reportMissingImports]
        VecNormalize,
        unwrap_vec_normalize,
    )
except ImportError as error:
    raise LPOError("lpo.sb3 needs `pip install 'lpo-rl[sb3]'`.") from error

prefer_host()

from lpo import config as configs  # noqa: E402
from lpo.explorer import Explorer  # noqa: E402
from lpo.runs import checkpoint  # noqa: E402


class Explore(BaseCallback):
    """Adds an exploration bonus to SB3's PPO and A2C, and to RecurrentPPO and MaskablePPO."""

    def __init__(
        self,
        *,
        preset: str | None = None,
        seed: int | None = None,
        verbose: int = 0,
        **options: Any,
    ):
        """Makes the callback; pass it to ``model.learn(callback=…)``, alone or in a list.

        Args:
            preset: "grid" for the numbers of grids of codes; they are the default where
                observations are such grids.
            seed: of the bonus; by default the model's.
            verbose: as in every callback of SB3.
            options: of the bonus (``bonus="rnd"``, ``beta=0.25``, ``episode="first-visit"``, …)
                and of its critic (``learning_rate``, ``hidden``, …). By default those of the row
                ``default`` of lpo.
        """
        super().__init__(verbose)
        self._options = {"preset": preset, **options}
        self._seed = seed
        self._saved: dict[str, np.ndarray] | None = None
        self._shape: tuple[Any, ...] = ()
        self.explorer: Explorer | None = None
        self._rows: list[dict[str, Any]] = []
        self._now: Any = None  # the observations that the next step begins with, as the bonus sees

    def _init_callback(self) -> None:
        model = self.model
        if not isinstance(model, OnPolicyAlgorithm):
            raise LPOError(
                f"Explore needs advantages, and {type(model).__name__} has none; use PPO, A2C, "
                "RecurrentPPO or MaskablePPO."
            )
        self._norm = normalizer(self.training_env)
        space = self._norm.venv.observation_space if self._norm else model.observation_space
        self._space = space
        shape = (space, model.action_space, model.n_envs)
        if self.explorer is not None and shape != self._shape:
            raise LPOError(
                "Explore has learned on other spaces or another number of environments; make a "
                "new one for this model."
            )
        self._shape = shape
        if self.explorer is None:
            self.explorer = self._made(model, space)

    def _made(self, model: Any, space: Any) -> Explorer:
        explorer = Explorer(
            space,
            model.action_space,
            model.n_envs,
            gamma=model.gamma,
            gae_lambda=model.gae_lambda,
            reward_critic=False,
            horizon=horizon_of(self.training_env),
            rollout=model.n_steps * model.n_envs,
            seed=(model.seed or 0) if self._seed is None else self._seed,
            **self._options,
        )
        if self._saved is not None:
            explorer.restore(self._saved)
        return explorer

    def _on_rollout_start(self) -> None:
        self._rows = []
        self._now = self._norm.get_original_obs() if self._norm else self.model._last_obs

    def _on_step(self) -> bool:
        now = self.locals
        infos, dones = now["infos"], np.asarray(now["dones"], bool)
        cut = np.array([bool(info.get("TimeLimit.truncated")) for info in infos]) & dones
        after = self._norm.get_original_obs() if self._norm else now["new_obs"]
        true = copied(after)  # s′; an ended episode's is in the infos
        for i in dones.nonzero()[0]:
            put(true, int(i), self._original(infos[i]["terminal_observation"]))
        norm = unwrap_vec_normalize(self.training_env)
        reward = now["rewards"] if norm is None else norm.get_original_reward()
        self._rows.append(
            {
                "obs": copied(self._now),
                "action": np.array(now["actions"]),
                "reward": np.array(reward),  # a copy: SB3 adds V(s′) to it at a time limit
                "next_obs": true,
                "terminated": dones & ~cut,
                "truncated": cut,
                "start": np.array(self.model._last_episode_starts, bool),
            }
        )
        self._now = after
        return True

    def _original(self, obs: Any) -> Any:
        """Returns an observation without VecNormalize, in the type that the task has."""
        if self._norm is None:
            return obs
        return typed(self._norm.unnormalize_obs(obs), self._space)

    def _on_rollout_end(self) -> None:
        assert self.explorer is not None
        buffer = self.model.rollout_buffer  # pyright: ignore[reportAttributeAccessIssue]
        rollout = {name: stacked([row[name] for row in self._rows]) for name in self._rows[0]}
        found = self.explorer.advantages(**rollout, last_obs=self._now, advantage=buffer.advantages)
        buffer.advantages[:] = found.advantage  # returns stay: they are the reward's targets
        for name, value in (found.metrics | self.explorer.update()).items():
            self.logger.record(name, value)
        self._rows = []

    def save(self, path: str | Path) -> None:
        """Writes options and state beside the model: ``path``.safetensors and ``path``.json."""
        if self.explorer is None:
            raise LPOError("Explore has learned nothing yet; call learn before save.")
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {"config": configs.to_dict(self.explorer.config)}
        checkpoint.save(path.parent, path.name, self.explorer.state(), record)

    def restore(self, path: str | Path) -> Explore:
        """Reads a state that ``save`` wrote, into a callback with the same options; returns it."""
        saved = checkpoint.load(Path(path))
        self._saved = saved.arrays
        if self.explorer is not None:
            self.explorer.restore(saved.arrays)
        return self


def normalizer(env: Any) -> Any:
    """Returns the VecNormalize whose observations the bonus undoes, or None where there is none."""
    norm = unwrap_vec_normalize(env)
    if norm is None or not norm.norm_obs:
        return None
    if not isinstance(env, VecNormalize):
        raise LPOError(
            f"{type(env).__name__} is around VecNormalize, so that the bonus cannot see the task's "
            "own observations; put VecNormalize outermost (around images as "
            "VecNormalize(VecTransposeImage(env))), or pass norm_obs=False to it."
        )
    return norm


def horizon_of(env: Any) -> int | None:
    """Returns the time limit of the environments, where they tell it."""
    try:
        spec = env.get_attr("spec")[0]
    except (AttributeError, NotImplementedError):
        return None
    return getattr(spec, "max_episode_steps", None)


def copied(obs: Any) -> Any:
    if isinstance(obs, dict):
        return {key: np.array(x) for key, x in obs.items()}
    return np.array(obs)


def put(obs: Any, i: int, row: Any) -> None:
    """Writes the observation of environment ``i``."""
    if isinstance(obs, dict):
        for key in obs:
            obs[key][i] = row[key]
    else:
        obs[i] = row


def typed(obs: Any, space: Any) -> Any:
    """Returns an observation in its space's type; whole numbers are rounded."""
    if isinstance(obs, dict):
        return {key: typed(x, space[key]) for key, x in obs.items()}
    x = np.asarray(obs)
    return (np.rint(x) if space.dtype.kind in "iu" else x).astype(space.dtype)


def stacked(rows: list[Any]) -> Any:
    if isinstance(rows[0], dict):
        return {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    return np.stack(rows)
