"""Configuration: from a row of the table, a preset and options by their short names."""

from __future__ import annotations

from typing import Any, NamedTuple

from lpo import algorithms
from lpo.config.paths import choices_of, flat, leaves, with_options
from lpo.config.run import Config
from lpo.envs.make import observes_grid
from lpo.envs.task import DEFAULT_ENV
from lpo.errors import LPOError, named


class Preset(NamedTuple):
    summary: str
    values: dict[str, Any]
    row: str = algorithms.DEFAULT  # where none is named


# The paper's values per environment (App. G); everything else is in the defaults of the parts.
ENV_VALUES: dict[str, dict[str, Any]] = {
    "lpo/SparseHopper-v0": {"batch_size": 32},
    "lpo/SparseWalker2d-v0": {"batch_size": 16},
    "lpo/SparseHalfCheetah-v0": {"batch_size": 16},
}

# Named values to start from. Without one a row has its own numbers: those of the paper's table, and
# of `algorithms.DEFAULT` those that the search found.
PRESETS = {
    "paper": Preset(
        "the paper's table, batch size by environment; of lpo if no row is named", {}, "lpo"
    ),
    "finite": Preset(
        "tables of few states, one-hot: found for locks, see experiments/components; of pcpg if no "
        "row is named",
        {
            "rollout": 4096,
            "batch_size": 128,
            "epochs": 4,
            "learning_rate": 1e-3,
            "normalize_obs": False,
            "alpha": 1.0,
            "beta": 10.0,
            "gamma_int": 0.99,
            "intrinsic_ends": "ends",
            "bonus_shape": "raw",
            "features": "product",
            "cover_weights": "logdet",
            "rollin_length": "uniform",
            "first_uniform": 0.5,
        },
        "pcpg",
    ),
    "sb3": Preset(
        "stable-baselines3's PPO defaults: one environment, no observation normalisation",
        {
            "num_envs": 1,
            "normalize_obs": False,
            "angles": (),
            "rollout": 2048,
            "learning_rate": 3e-4,
            "kl_target": 0.0,
            "batch_size": 64,
            "epochs": 10,
            "gamma_ext": 0.99,
            "gae_lambda": 0.95,
            "value_lambda": 0.95,
            "clip": 0.2,
            "value_coef": 0.5,
            "entropy_coef": 0.0,
            "max_grad_norm": 0.5,
            "adam_eps": 1e-5,
            "normalize_advantage": True,
            "advantage_floor": 0.0,
            "hidden": (64, 64),
            "log_std_init": 0.0,
            "log_std_min": -20.0,
            "value_gain": 1.0,
        },
    ),
    "grid": Preset(
        "what the default is where observations are grids of codes, for a task that flattens them",
        {},
    ),
    "gpu": Preset(
        "one big run on a GPU: 4,096 environments, large minibatches (with --device gpu)",
        {
            "num_envs": 4096,
            "rollout": 65_536,
            "batch_size": 4096,
            "epochs": 8,
            "learning_rate": 3e-4,
            "predictor_batch_size": 4096,
            "predictor_learning_rate": 3e-4,
            "steps": 50_000_000,
            "eval_every": 2_000_000,
            "checkpoint_every": 10_000_000,
        },
    ),
}


def configure(
    algo: str | None = None,
    *,
    env: str = DEFAULT_ENV,
    preset: str | None = None,
    grids: bool | None = None,
    **values: Any,
) -> Config:
    """Returns the configuration of a row, a preset and options by their short names.

    ``grids``: whether observations are grids of codes, for which the default row has other numbers;
    None: as the environment ``env`` says.
    """
    if preset is not None and preset not in PRESETS:
        raise LPOError(f"No preset is called {preset!r}; choose one of {', '.join(PRESETS)}.")
    wanted = PRESETS[preset] if preset is not None else Preset("", {})
    algo = algorithms.row_name(algo or wanted.row)
    row = algorithms.get(algo)
    if row.grids is not None:
        if grids is None:
            grids = observes_grid(env, values.get("env_kwargs"), values.get("wrapper"))
        row = row.grids if grids or preset == "grid" else row
    own = algo == algorithms.DEFAULT
    if own and wanted.row != algorithms.DEFAULT:
        raise LPOError(
            f"{algo} has numbers of its own; leave {named('preset')} {preset} out, or choose "
            f"{named('algo')} {wanted.row}."
        )
    base = Config(algo=algo, **row.parts())
    papers = ENV_VALUES.get(env, {}) if isinstance(env, str) and not own else {}
    names = {leaf.short for leaf in leaves(base)} | set(choices_of(base))
    chosen = {k: v for k, v in wanted.values.items() if k in names}  # a row has not all of them
    c = with_options(base, {**papers, **chosen, "env": env})
    return with_options(c, values)


def as_row(c: Config, algo: str) -> Config:
    """Returns the configuration of another row, with the options of ``c`` that were set.

    Options that the row does not have are left out.
    """
    new = configure(algo, env=c.task.env)
    usual, names = flat(configure(c.algo, env=c.task.env)), {leaf.short for leaf in leaves(new)}
    kept = {k: v for k, v in flat(c).items() if k in names - {"algo"} and v != usual.get(k)}
    return with_options(new, kept)
