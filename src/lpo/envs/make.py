"""Environments: from what the user passed to a ``BatchEnv``.

The sparse locomotion tasks are stepped natively; any other id, ``EnvSpec``, ``Env`` or function
that makes one goes through ``EpisodeBatch``; a ready ``VectorEnv`` is taken as it is. An option
that does not apply to what was passed is refused.
"""

from __future__ import annotations

import json
import numbers
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv

from lpo.envs import minigrid
from lpo.envs.angles import Periodic, chosen, free_angles
from lpo.envs.codec import is_grid
from lpo.envs.host.episodes import EpisodeBatch
from lpo.envs.host.vector import VectorBatch
from lpo.envs.registry import find_spec
from lpo.envs.single import FlatEnv
from lpo.envs.specs import LOCOMOTION, TASKS, declared
from lpo.envs.tabular import TabularEnv
from lpo.errors import LPOError
from lpo.types import BatchEnv

BACKENDS = ("auto", "native", "gymnasium")
EnvLike = str | EnvSpec | gymnasium.Env | VectorEnv | Callable[[], gymnasium.Env]


def make_batch(
    env: EnvLike,
    num_envs: int,
    *,
    preset: str | None = None,
    threshold: float | None = None,
    threads: int | None = None,
    backend: str = "auto",
    env_kwargs: dict[str, Any] | None = None,
    periodic: Periodic = (),
    step_timeout: float | None = None,
) -> BatchEnv:
    """Returns ``num_envs`` copies of ``env`` as one batch.

    ``preset`` and ``threshold`` are for the sparse locomotion tasks, ``threads`` (by default one
    per usable core) for the native backend, ``env_kwargs`` for ids made by Gymnasium. ``backend``
    ``auto`` is native where there is one and no ``env_kwargs`` are given. ``periodic`` are places
    of an observation that are angles and become (cos, sin); ``auto`` finds the free angles of
    Gymnasium's MuJoCo tasks. ``step_timeout`` are the seconds that a step or a reset may take; the
    native backend needs none.
    """
    _check_size("num_envs", num_envs)
    if threads is not None:
        _check_size("threads", threads)
    if backend not in BACKENDS:
        raise LPOError(f"There is no backend {backend!r}; choose one of {', '.join(BACKENDS)}.")
    if runs_natively(env, backend, env_kwargs):
        from lpo.envs.host.native import NativeBatch  # MuJoCo is loaded only where it is needed

        task = LOCOMOTION[_bare_id(env)]
        return NativeBatch(
            task,
            num_envs,
            preset=preset,
            threshold=threshold,
            threads=threads,
            periodic=periodic,
        )
    if threads is not None:
        raise LPOError(
            f"threads={threads} applies to the native backend, and {_id_of(env)} runs on "
            "Gymnasium's; leave threads out."
        )
    if isinstance(env, VectorEnv):
        _refuse_options(env, preset, threshold, env_kwargs)
        if env.num_envs != num_envs:
            raise LPOError(
                f"The vector environment has {env.num_envs} environments and num_envs is "
                f"{num_envs}; pass num_envs={env.num_envs}."
            )
        return VectorBatch(env, chosen(periodic, tuple), step_timeout)
    return _episode_batch(env, num_envs, preset, threshold, env_kwargs, periodic, step_timeout)


def adopted(env: Any) -> Any:
    """Returns a ``VecEnv`` of stable-baselines3 as a ``VectorEnv``; anything else as it is."""
    sb3 = sys.modules.get("stable_baselines3.common.vec_env")
    if sb3 is None or not isinstance(env, sb3.VecEnv):
        return env
    from lpo.envs.sb3 import FromVecEnv

    return FromVecEnv(env)


def observes_grid(env: Any, env_kwargs: dict[str, Any] | None = None) -> bool:
    """Returns whether ``env`` observes a small grid of codes, as MiniGrid does.

    An id is made once to see; one that cannot be made is refused later, with a reason.
    """
    if isinstance(env, str):
        kwargs = env_kwargs if isinstance(env_kwargs, dict) else {}
        with suppress(LPOError):
            return _observes_grid(env, json.dumps(kwargs, sort_keys=True, default=str))
        return False
    space = getattr(env, "single_observation_space", getattr(env, "observation_space", None))
    if isinstance(env, EnvSpec) or space is None:
        made = gymnasium.make(env) if isinstance(env, EnvSpec) else _from_factory(env)
        space = minigrid.with_codes(made).observation_space
        made.close()
    elif isinstance(env, gymnasium.Env):
        space = minigrid.with_codes(env).observation_space
    return isinstance(space, spaces.Space) and is_grid(space)


@cache
def _observes_grid(env_id: str, kwargs: str) -> bool:
    if _bare_id(env_id).startswith("lpo/"):
        return False  # ours observe real numbers
    made = _from_spec(env_id, None, None, json.loads(kwargs))
    made.close()
    return is_grid(made.observation_space)


def runs_natively(env: EnvLike, backend: str, env_kwargs: dict[str, Any] | None) -> bool:
    """Returns whether ``env`` runs on the native backend; raises if it is asked to and cannot."""
    has_native = _bare_id(env) in LOCOMOTION
    if backend == "native" and not has_native:
        raise LPOError(
            f"{_id_of(env)} has no native backend; use backend='auto', or one of the ids "
            f"{', '.join(LOCOMOTION)}."
        )
    if backend == "native" and env_kwargs:
        raise LPOError(
            f"env_kwargs {sorted(env_kwargs)} do not apply to the native {_id_of(env)}; drop them "
            "or use backend='gymnasium'."
        )
    return has_native and backend != "gymnasium" and not env_kwargs


def make_single(
    env: EnvLike,
    *,
    preset: str | None = None,
    threshold: float | None = None,
    env_kwargs: dict[str, Any] | None = None,
    periodic: Periodic = (),
) -> gymnasium.Env:
    """Returns one environment that renders to RGB arrays and has the spaces of ``make_batch``."""
    if isinstance(env, VectorEnv):
        raise LPOError(
            "A vector environment cannot be rendered one by one; pass an id, or an environment "
            "made with render_mode='rgb_array'."
        )
    if isinstance(env, str | EnvSpec):
        follow = {"camera_name": "track"} if _bare_id(env) in LOCOMOTION else {}
        kwargs = {**follow, **(env_kwargs or {}), "render_mode": "rgb_array"}
        made = _from_spec(env, preset, threshold, kwargs)
        return FlatEnv(made, chosen(periodic, partial(free_angles, made)))
    _refuse_options(env, preset, threshold, env_kwargs)
    made = minigrid.with_codes(env) if isinstance(env, gymnasium.Env) else _from_factory(env)
    if made.render_mode != "rgb_array":
        raise LPOError(
            f"{_id_of(made)} was made with render_mode={made.render_mode!r}; make it with "
            "render_mode='rgb_array'."
        )
    return FlatEnv(made, chosen(periodic, partial(free_angles, made)))


def _episode_batch(
    env: EnvLike,
    num_envs: int,
    preset: str | None,
    threshold: float | None,
    env_kwargs: dict[str, Any] | None,
    periodic: Periodic,
    step_timeout: float | None,
) -> BatchEnv:
    if isinstance(env, str | EnvSpec):
        kwargs = dict(env_kwargs or {})
        envs = [_from_spec(env, preset, threshold, kwargs) for _ in range(num_envs)]
        row = _describe(envs[0], kwargs, preset, threshold)
        angles = chosen(periodic, partial(free_angles, envs[0]))
        return EpisodeBatch(envs, row, angles, step_timeout)
    _refuse_options(env, preset, threshold, env_kwargs)
    if isinstance(env, gymnasium.Env):
        if num_envs != 1:
            raise LPOError(
                f"An instance is one environment and num_envs is {num_envs}; pass num_envs=1, or "
                "the id or a function that makes one."
            )
        made = minigrid.with_codes(env)
        angles = chosen(periodic, partial(free_angles, made))
        return EpisodeBatch([made], _describe(made, {}, None, None), angles, step_timeout)
    envs = [_from_factory(env) for _ in range(num_envs)]
    if len({id(made) for made in envs}) != num_envs:
        raise LPOError(
            "The environment function returned the same environment twice; make a new one in "
            "each call."
        )
    angles = chosen(periodic, partial(free_angles, envs[0]))
    return EpisodeBatch(envs, _describe(envs[0], {}, None, None), angles, step_timeout)


def _from_spec(
    env: str | EnvSpec, preset: str | None, threshold: float | None, kwargs: dict[str, Any]
) -> gymnasium.Env:
    """Returns an environment of Gymnasium's registry; any error of its maker becomes ours."""
    spec = find_spec(env) if isinstance(env, str) else env
    if spec.id in LOCOMOTION:
        LOCOMOTION[spec.id].threshold(preset, threshold)  # refuses before any model is loaded
        kwargs = {**kwargs, "preset": preset, "threshold": threshold}
    else:
        _refuse_options(env, preset, threshold, None)
    try:
        return minigrid.with_codes(gymnasium.make(spec, disable_env_checker=True, **kwargs))
    except LPOError:
        raise
    except Exception as error:
        raise LPOError(
            f"{spec.id} could not be made, {type(error).__name__}: {error}; install what it "
            f"needs and check env_kwargs {kwargs}."
        ) from error


def _from_factory(factory: Any) -> gymnasium.Env:
    made = factory() if callable(factory) else factory
    if not isinstance(made, gymnasium.Env):
        raise LPOError(
            f"{made!r} is not an environment; pass an id, a gymnasium.Env, a function that "
            "returns one, or a gymnasium.vector.VectorEnv."
        )
    return minigrid.with_codes(made)


def _describe(
    env: gymnasium.Env, kwargs: dict[str, Any], preset: str | None, threshold: float | None
) -> dict[str, Any]:
    spec = env.spec
    row: dict[str, Any] = {
        "id": _id_of(env),
        "horizon": spec.max_episode_steps if spec is not None else None,
        "backend": "gymnasium",
        "gymnasium": gymnasium.__version__,
    }
    if spec is not None and spec.id in LOCOMOTION:
        chosen = LOCOMOTION[spec.id].threshold(preset, threshold)
        row |= {
            "preset": chosen.preset,
            "quantity": chosen.quantity,
            "threshold": chosen.value,
        }
    if spec is not None and spec.id in TASKS:
        row["max_return"] = TASKS[spec.id].max_return
    if isinstance(env.unwrapped, TabularEnv):
        row |= _describe_table(env.unwrapped)
    row |= minigrid.describe(env)
    if spec is not None:
        row |= declared(spec.id, env.observation_space.shape, spec.reward_threshold)
    return row | ({"env_kwargs": kwargs} if kwargs else {})


def _describe_table(env: TabularEnv) -> dict[str, Any]:
    row: dict[str, Any] = {"horizon": env.horizon, "max_return": env.max_return}
    success = getattr(env.table, "success_return", None)
    return row | ({} if success is None else {"success_return": success})


def _bare_id(env: Any) -> str:
    """Returns an id without the module that Gymnasium imports first; "" for anything else."""
    return env.rpartition(":")[2] if isinstance(env, str) else ""


def _id_of(env: Any) -> str:
    """Returns the name that errors and figures use."""
    if isinstance(env, str):
        return env
    if isinstance(env, EnvSpec):
        return env.id
    spec = getattr(env, "spec", None)
    if spec is not None:
        return spec.id
    if isinstance(env, gymnasium.Env | VectorEnv):
        return type(env.unwrapped).__name__
    return getattr(env, "__name__", repr(env))


def _refuse_options(
    env: Any, preset: str | None, threshold: float | None, env_kwargs: dict[str, Any] | None
) -> None:
    for option, value in (("preset", preset), ("threshold", threshold)):
        if value is not None:
            raise LPOError(
                f"{option}={value!r} does not apply to {_id_of(env)}; leave it out, or choose one "
                f"of {', '.join(LOCOMOTION)}."
            )
    if env_kwargs:
        raise LPOError(
            f"env_kwargs {sorted(env_kwargs)} do not apply to {_id_of(env)}, which exists "
            "already; pass them where it is made."
        )


def _check_size(option: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise LPOError(f"{option} is {value!r}; pass a whole number of at least 1.")
