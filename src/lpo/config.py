"""The configuration of a run: one frozen dataclass, checked with remedies, JSON in and out.

Field docstrings are the help texts of the command line. Values are the paper's (App. G) or, where
the paper is silent, SB3's, on which it was built.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from lpo.errors import LPOError

DEFAULT_ENV = "lpo/SparseHopper-v0"


@dataclass(frozen=True)
class Config:
    algo: str = "lpo"
    """Algorithm: a row of `lpo list` (lpo, lpo-s, eniac, rnd, pcpg, eniac-original, ppo)."""
    env: str = DEFAULT_ENV
    """Gymnasium id, for instance lpo/SparseHopper-v0."""
    steps: int = 200_000
    """Environment steps of the whole run, all environments together."""
    seed: int = 0
    """Seed of every random stream of the run."""
    num_envs: int = 8
    """Environments stepped as one batch."""
    threshold: str | None = None
    """Sparse locomotion: a preset (half, hard, unit, position, position-far) or a speed in m/s."""
    env_kwargs: str | None = None
    """Further keyword arguments of the environment, as a JSON object."""
    backend: Literal["auto", "native", "gymnasium"] = "auto"
    """native: batched MuJoCo (sparse locomotion); gymnasium: any other; auto picks."""
    threads: int | None = None
    """Threads that step native environments; by default the usable cores."""

    rollout: int = 2048
    """N: steps of a rollout, all environments together (of the first one when rollouts grow)."""
    growth_iterations: int | None = None
    """K of the growth (1+1/K)^k; by default solved from the step budget."""
    switch: Literal["every", "growth", "sensitivity"] | None = None
    """When the policy may change; by default the algorithm's own."""
    switch_tau: float = 0.07
    """τ: the policy changes when the data are worth e^τ times what they were (log det of Ẑ)."""
    switch_largest: int | None = None
    """Largest rollout of the sensitivity switch, in steps; by default 4 times --rollout."""
    switch_memory: int = 50_000
    """Half-life of the data in Ẑ, in environment steps (0: they never fade)."""
    switch_factor: float = 4.0
    """C·log(N𝒩/δ) of Algorithm 2: a sample enters Ẑ with about this times its sensitivity."""
    features: Literal["fourier", "network", "critic", "product"] = "fourier"
    """Features of (s,a): random Fourier, a frozen random network, Fourier over the critic, or
    s ⊗ a (exact for finite tasks)."""
    num_features: int = 256
    """Number of those features (of a product it is given)."""
    feature_bandwidth: float = 1.0
    """Width of the Gaussian kernel of Fourier features, in units of the spread of the inputs."""
    start: Literal["reset", "cover"] | None = None
    """Where episodes begin: at the reset, or after a roll-in of a past policy; by default the
    algorithm's own."""
    cover_size: int = 32
    """Past policies kept for roll-ins (of more, a uniform sample)."""
    cover_weights: Literal["uniform", "logdet"] = "uniform"
    """Mixture of the past policies: even, or by PC-PG's log-det game."""
    rollin_share: float = 0.5
    """Share of the episodes that begin with a roll-in (the others begin at the reset)."""
    rollin_length: Literal["geometric", "uniform"] = "geometric"
    """Steps of a roll-in: geometric with --gamma-ext (the paper's d-sampler), or uniform."""
    rollin_horizon: int | None = None
    """Longest roll-in + 1; by default the environment's time limit."""
    first_uniform: float = 0.0
    """Chance that the action after a roll-in is uniform instead of the policy's."""
    gamma_ext: float = 0.99
    """Discount of the reward stream."""
    gamma_int: float = 0.999
    """Discount of the bonus stream."""
    gae_lambda: float = 0.95
    """λ of both advantage estimates."""
    alpha: float = 2.0
    """Weight of the reward advantage in Â = α Â_ext + β Â_int."""
    beta: float = 1.0
    """Weight of the bonus advantage."""
    learning_rate: float = 1e-4
    """Adam's step size for policy and critics."""
    batch_size: int = 32
    """Minibatch of the PPO update (paper: 32 on Hopper, 16 on Walker2d and HalfCheetah)."""
    epochs: int = 10
    """Passes over a rollout per policy change."""
    clip: float = 0.2
    """PPO's clipping range of the probability ratio."""
    value_coef: float = 0.5
    """Weight of each value loss."""
    entropy_coef: float = 0.0
    """Weight of the entropy term."""
    max_grad_norm: float = 0.5
    """Largest global norm of a gradient."""
    adam_eps: float = 1e-5
    """Adam's ε."""
    hidden: tuple[int, ...] = (64, 64)
    """Hidden layers of the policy and of each critic (tanh)."""
    log_std_init: float = 0.0
    """Initial log standard deviation of Gaussian actions."""
    normalize_obs: bool = True
    """Normalise observations by a running mean and variance, clipped to ±10."""
    normalize_advantage: bool = True
    """Normalise advantages within each minibatch."""

    bonus: Literal["none", "rnd", "elliptic", "width"] | None = None
    """What is novel: nothing, RND, the width of features, or a width network; by default the
    algorithm's own."""
    bonus_inputs: Literal["sa", "next", "s"] | None = None
    """What the bonus reads: (s,a), s′ or s; by default the algorithm's own."""
    bonus_shape: Literal["raw", "indicator", "lpo"] | None = None
    """Of a width ω: ω itself, ENIAC's 1{ω ≥ β}/(1−γ), or LPO's eq. (E5); by default the
    algorithm's own (the indicator of its paper for pcpg and eniac-original, else ω)."""
    bonus_threshold: float = 0.1
    """β of that width: (s,a) is known when ω < β."""
    bonus_epsilon: float = 1.0
    """ε of the width of features: how far functions may differ on the data, in all."""
    intrinsic_episodic: bool = False
    """Let bonus returns end with the episode (by default they cross resets)."""
    predictor_learning_rate: float = 1e-4
    """Adam's step size for the distilled network f, or for the width network."""
    predictor_passes: int = 1
    """Passes of f (or the width network) over each rollout."""
    predictor_batch_size: int = 64
    """Minibatch for f (or the width network)."""
    predictor_hidden: tuple[int, ...] = (64, 64)
    """Hidden layers of f and f′ (or the width network; relu)."""
    predictor_features: int = 64
    """Output width of f and f′."""

    eval_every: int = 10_000
    """Environment steps between evaluations (0: none)."""
    eval_episodes: int = 5
    """Episodes of an evaluation, stepped as one batch."""
    eval_deterministic: bool = True
    """Evaluate the mode of the policy instead of a sample."""
    eval_max_steps: int = 10_000
    """Longest episode of an evaluation, for environments without a time limit."""
    checkpoint_every: int = 20_000
    """Environment steps between checkpoints (the end always gets one)."""
    keep_checkpoints: int = 3
    """How many of the latest checkpoints stay; the best by evaluation stays too."""


# Options that do nothing without the part they belong to; a row names the parts it has.
PARTS: dict[str, tuple[str, ...]] = {
    "bonus": ("gamma_int", "beta", "alpha", "bonus_inputs", "intrinsic_episodic"),
    "predictor": (
        "predictor_learning_rate",
        "predictor_passes",
        "predictor_batch_size",
        "predictor_hidden",
    ),
    "distillation": ("predictor_features",),
    "width": ("bonus_shape", "bonus_threshold"),
    "elliptic width": ("bonus_epsilon",),
    "growth": ("growth_iterations",),
    "sensitivity": ("switch_tau", "switch_largest", "switch_memory", "switch_factor"),
    "cover": (
        "cover_size",
        "cover_weights",
        "rollin_share",
        "rollin_length",
        "rollin_horizon",
        "first_uniform",
    ),
    "features": ("features", "num_features", "feature_bandwidth"),
}

_NOT_OF_FEATURES = {
    "network": ("feature_bandwidth",),
    "product": ("feature_bandwidth", "num_features"),
}
_POSITIVE = (
    "steps", "num_envs", "rollout", "batch_size", "epochs", "learning_rate", "max_grad_norm",
    "adam_eps", "predictor_learning_rate", "predictor_batch_size", "predictor_features",
    "eval_episodes", "eval_max_steps", "checkpoint_every", "keep_checkpoints", "clip",
    "switch_tau", "switch_factor", "num_features", "feature_bandwidth", "bonus_threshold",
    "bonus_epsilon", "cover_size",
)  # fmt: skip
_NOT_NEGATIVE = (
    "seed",
    "eval_every",
    "value_coef",
    "entropy_coef",
    "alpha",
    "beta",
    "predictor_passes",
    "switch_memory",
)
_UNIT = ("gamma_ext", "gamma_int", "gae_lambda", "first_uniform", "rollin_share")


def validate(c: Config) -> Config:
    """Refuse impossible numbers, each with its remedy."""

    def refuse(name: str, rule: str) -> None:
        flag = "--" + name.replace("_", "-")
        raise LPOError(f"{flag} is {getattr(c, name)}, but must be {rule}; pass such a value.")

    for field in dataclasses.fields(c):
        value = getattr(c, field.name)
        if isinstance(value, float) and not math.isfinite(value):
            refuse(field.name, "a finite number")
    for name in _POSITIVE:
        if getattr(c, name) <= 0:
            refuse(name, "greater than 0")
    for name in _NOT_NEGATIVE:
        if getattr(c, name) < 0:
            refuse(name, "0 or more")
    for name in _UNIT:
        if not 0 <= getattr(c, name) <= 1:
            refuse(name, "between 0 and 1")
    for name in ("growth_iterations", "threads", "rollin_horizon"):
        if getattr(c, name) is not None and getattr(c, name) < 1:
            refuse(name, "1 or more")
    for name in ("hidden", "predictor_hidden"):
        if not getattr(c, name) or min(getattr(c, name)) < 1:
            refuse(name, "one or more layer sizes of at least 1")
    if c.seed >= 2**32:
        refuse("seed", "below 2**32")
    if c.num_envs > c.rollout:
        raise LPOError(
            f"A rollout of {c.rollout} steps cannot feed {c.num_envs} environments; "
            "lower --num-envs or raise --rollout."
        )
    if c.batch_size < 2:
        refuse("batch_size", "2 or more, since advantages are normalised within a minibatch")
    if c.batch_size > c.rollout:
        raise LPOError(
            f"A minibatch of {c.batch_size} is larger than a rollout of {c.rollout} steps; "
            "lower --batch-size or raise --rollout."
        )
    check_components(c)
    env_kwargs(c)
    return c


def check_components(c: Config) -> None:
    """Options of the switch and of the features that go together."""
    if c.num_features % 2:
        raise LPOError(f"--num-features is {c.num_features}; pass an even number (cos and sin).")
    if c.switch_largest is not None and c.switch_largest < c.rollout:
        raise LPOError(
            f"The largest rollout is {c.switch_largest} and the smallest {c.rollout}; "
            "raise --switch-largest or lower --rollout."
        )
    if c.bonus_shape not in (None, "raw") and c.gamma_ext == 1:
        raise LPOError(
            f"The {c.bonus_shape} bonus is a multiple of 1/(1−γ) and --gamma-ext is 1; "
            "lower it, or use --bonus-shape raw."
        )
    for name in _NOT_OF_FEATURES.get(c.features, ()):
        if getattr(c, name) != getattr(Config, name):
            raise LPOError(
                f"--{name.replace('_', '-')} has no effect on {c.features} features; leave it out, "
                "or choose --features fourier."
            )


def env_kwargs(c: Config) -> dict[str, Any]:
    """The JSON object of --env-kwargs."""
    if c.env_kwargs is None:
        return {}
    try:
        value = json.loads(c.env_kwargs)
    except json.JSONDecodeError as error:
        raise LPOError(
            f"--env-kwargs is not JSON ({error}); pass an object such as '{{\"size\": 5}}'."
        ) from error
    if not isinstance(value, dict):
        raise LPOError("--env-kwargs must be a JSON object such as '{\"size\": 5}'; pass one.")
    return value


# The paper's values per environment (App. G); everything else is in the defaults above.
ENV_PRESETS: dict[str, dict[str, Any]] = {
    "lpo/SparseHopper-v0": {"batch_size": 32},
    "lpo/SparseWalker2d-v0": {"batch_size": 16},
    "lpo/SparseHalfCheetah-v0": {"batch_size": 16},
}

# Named starting points: `paper` is the default; the others change what their line says.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "sb3": {"num_envs": 1, "normalize_obs": False, "learning_rate": 3e-4, "batch_size": 64},
}
PRESET_HELP = {
    "paper": "the paper's table, batch size by environment",
    "sb3": "stable-baselines3's PPO defaults: one environment, no observation normalisation",
}


def preset(name: str, env: str) -> Config:
    """The configuration that the flags start from."""
    if name not in PRESETS:
        raise LPOError(f"No preset is called {name!r}; choose one of {', '.join(PRESETS)}.")
    values = {"env": env, **(ENV_PRESETS.get(env, {})), **PRESETS[name]}
    return Config(**values)


def with_overrides(c: Config, values: dict[str, Any]) -> Config:
    """``dataclasses.replace`` that names the nearest option when one is misspelt."""
    names = [f.name for f in dataclasses.fields(Config)]
    for name in values:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = (
                f"did you mean {near[0]!r}?" if near else "see `lpo train --help` for all of them."
            )
            raise LPOError(f"There is no option {name!r}; {hint}")
    return dataclasses.replace(c, **values)


def to_json(c: Config) -> str:
    return json.dumps(dataclasses.asdict(c), indent=2) + "\n"


def from_json(text: str, source: str) -> Config:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise LPOError(
            f"{source} is not a configuration ({error}); pass the config.json of a run."
        ) from error
    return from_dict(values, source)


def from_dict(values: Any, source: str) -> Config:
    """A configuration from what JSON holds, with every name and type checked."""
    if not isinstance(values, dict):
        raise LPOError(f"{source} is not a configuration; pass the config.json of a run.")
    values = dict(values)
    for name in ("hidden", "predictor_hidden"):
        if isinstance(values.get(name), list):
            values[name] = tuple(values[name])
    config = with_overrides(Config(), values)
    _check_types(config, source)
    return config


def _check_types(c: Config, source: str) -> None:
    """JSON and TOML know no dataclass: a string where a number belongs is caught here."""
    for name, hint in get_type_hints(Config).items():
        value = getattr(c, name)
        if not _fits(value, hint):
            raise LPOError(
                f"{source}: {name} is {value!r}, but must be {_in_words(hint)}; correct the file."
            )


def _fits(value: Any, hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(v, get_args(hint)[0]) for v in value)
    if get_origin(hint) is not None:  # a union
        return any(_fits(value, choice) for choice in get_args(hint))
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else hint)


def _in_words(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return f"one of {', '.join(get_args(hint))}"
    if get_origin(hint) is tuple:
        return f"a list of {get_args(hint)[0].__name__}"
    if get_origin(hint) is not None:
        return _in_words(get_args(hint)[0])
    return f"{'an' if hint is int else 'a'} {hint.__name__}"


def read(path: Path) -> Config:
    try:
        return from_json(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise LPOError(f"Cannot read {path} ({error}); pass the config.json of a run.") from error
