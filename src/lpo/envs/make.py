"""Environments: from what the user passed to a ``BatchEnv``.

The sparse locomotion tasks are stepped natively; any other id, ``EnvSpec``, ``Env`` or function
that makes one goes through ``EpisodeBatch``; a ready ``VectorEnv`` is taken as it is. An option
that does not apply to what was passed is refused.
"""

from __future__ import annotations

import json
import numbers
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache, partial
from typing import Any, Literal

import gymnasium
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv

from lpo.envs import minigrid
from lpo.envs.angles import Periodic, chosen, free_angles
from lpo.envs.codec import Codec, is_grid
from lpo.envs.host.episodes import EpisodeBatch
from lpo.envs.host.stepper import LocalStepper, Stepper
from lpo.envs.host.threads import usable_cores
from lpo.envs.host.vector import VectorBatch
from lpo.envs.host.workers import WorkerStepper
from lpo.envs.maker import Maker, distinct, from_factory, id_of, refuse_options
from lpo.envs.pools import FromEnvPool, drawn_as, is_pool
from lpo.envs.registry import find_spec, wrapper_name
from lpo.envs.single import FlatEnv
from lpo.envs.specs import LOCOMOTION, TASKS, declared
from lpo.envs.tabular import TabularEnv
from lpo.errors import LPOError, named
from lpo.types import BatchEnv

BACKENDS = ("auto", "native", "gymnasium")
EnvLike = str | EnvSpec | gymnasium.Env | VectorEnv | Callable[[], gymnasium.Env]
EnvWorkers = int | Literal["auto"]


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
    env_workers: EnvWorkers = "auto",
    wrapper: str | None = None,
    flat: bool = True,
) -> BatchEnv:
    """Returns ``num_envs`` copies of ``env`` as one batch.

    ``preset`` and ``threshold`` are for the sparse locomotion tasks, ``threads`` (by default one
    per usable core) for the native backend, ``env_kwargs`` for ids made by Gymnasium. ``backend``
    ``auto`` is native where there is one and no ``env_kwargs`` are given. ``periodic`` are places
    of an observation that are angles and become (cos, sin); ``auto`` finds the free angles of
    Gymnasium's MuJoCo tasks. ``step_timeout`` are the seconds that a step or a reset may take; the
    native backend needs none. ``env_workers`` processes step Gymnasium's environments; 0: this one.
    ``wrapper`` is ``module:function``, which wraps each of Gymnasium's environments. ``flat`` is
    False where the network reads small grids of codes as images.
    """
    _check_size("num_envs", num_envs)
    if threads is not None:
        _check_size("threads", threads)
    if backend not in BACKENDS:
        raise LPOError(f"There is no backend {backend!r}; choose one of {', '.join(BACKENDS)}.")
    if runs_natively(env, backend, env_kwargs, wrapper):
        from lpo.envs.host.native import NativeBatch  # MuJoCo is loaded only where it is needed

        _refuse_workers(env, env_workers, "native, and stepped by threads")
        task = LOCOMOTION[_bare_id(env)]
        return NativeBatch(
            task,
            num_envs,
            preset=preset,
            threshold=threshold,
            threads=threads,
            periodic=periodic,
        )
    if is_pool(env):
        _refuse_workers(env, env_workers, "stepped by the threads of EnvPool")
        _refuse_wrapper(env, wrapper)
        refuse_options(env, preset, threshold, None)
        env = FromEnvPool(env, num_envs, threads or len(usable_cores()), dict(env_kwargs or {}))
        return VectorBatch(env, chosen(periodic, tuple), step_timeout, flat)
    if threads is not None:
        raise LPOError(
            f"threads={threads} applies to the native backend, and {id_of(env)} runs on "
            "Gymnasium's; leave threads out."
        )
    if isinstance(env, VectorEnv):
        _refuse_workers(env, env_workers, "a vector environment, which steps itself")
        _refuse_wrapper(env, wrapper)
        refuse_options(env, preset, threshold, env_kwargs)
        if env.num_envs != num_envs:
            raise LPOError(
                f"The vector environment has {env.num_envs} environments and num_envs is "
                f"{num_envs}; pass num_envs={env.num_envs}."
            )
        return VectorBatch(env, chosen(periodic, tuple), step_timeout, flat)
    maker = maker_of(env, num_envs, preset, threshold, env_kwargs, wrapper)
    return _episode_batch(maker, num_envs, periodic, step_timeout, env_workers, flat)


def _refuse_workers(env: EnvLike, env_workers: EnvWorkers, why: str) -> None:
    if env_workers not in (0, "auto"):
        raise LPOError(f"{id_of(env)} is {why}; leave {named('env_workers')} {env_workers} out.")


def _refuse_wrapper(env: EnvLike, wrapper: str | None) -> None:
    if wrapper is not None:
        raise LPOError(
            f"{id_of(env)} is made of many environments at once, which {named('wrapper')} "
            f"{wrapper} cannot wrap; leave it out, or pass the id of one environment."
        )


def adopted(env: Any) -> Any:
    """Returns a ``VecEnv`` of stable-baselines3 as a ``VectorEnv``; anything else as it is."""
    sb3 = sys.modules.get("stable_baselines3.common.vec_env")
    if sb3 is None or not isinstance(env, sb3.VecEnv):
        return env
    from lpo.envs.sb3 import FromVecEnv

    return FromVecEnv(env)


def observes_grid(
    env: Any, env_kwargs: dict[str, Any] | None = None, wrapper: str | None = None
) -> bool:
    """Returns whether ``env`` observes a small grid of codes, as MiniGrid does.

    An id is made once to see; one that cannot be made is refused later, with a reason.
    """
    if isinstance(env, str):
        kwargs = env_kwargs if isinstance(env_kwargs, dict) else {}
        with suppress(LPOError):
            given = json.dumps(kwargs, sort_keys=True, default=str)
            return _observes_grid(env, given, wrapper_name(wrapper))
        return False
    space = getattr(env, "single_observation_space", getattr(env, "observation_space", None))
    if isinstance(env, EnvSpec) or space is None:
        made = gymnasium.make(env) if isinstance(env, EnvSpec) else from_factory(env)
        space = minigrid.with_codes(made).observation_space
        made.close()
    elif isinstance(env, gymnasium.Env):
        space = minigrid.with_codes(env).observation_space
    return isinstance(space, spaces.Space) and is_grid(space)


@cache
def _observes_grid(env_id: str, kwargs: str, wrapper: str | None) -> bool:
    if _bare_id(env_id).startswith("lpo/"):
        return False  # ours observe real numbers
    if is_pool(env_id):
        with closing(FromEnvPool(env_id, 1, 1, json.loads(kwargs))) as pool:
            return is_grid(pool.single_observation_space)
    made = maker_of(env_id, 1, None, None, json.loads(kwargs), wrapper)()
    made.close()
    return is_grid(made.observation_space)


def runs_natively(
    env: EnvLike,
    backend: str,
    env_kwargs: dict[str, Any] | None,
    wrapper: str | None = None,
) -> bool:
    """Returns whether ``env`` runs on the native backend; raises if it is asked to and cannot."""
    has_native = _bare_id(env) in LOCOMOTION
    if backend == "native" and not has_native:
        raise LPOError(
            f"{id_of(env)} has no native backend; use backend='auto', or one of the ids "
            f"{', '.join(LOCOMOTION)}."
        )
    if backend == "native" and env_kwargs:
        raise LPOError(
            f"env_kwargs {sorted(env_kwargs)} do not apply to the native {id_of(env)}; drop them "
            "or use backend='gymnasium'."
        )
    if backend == "native" and wrapper is not None:
        raise LPOError(
            f"{named('wrapper')} {wrapper} cannot wrap the native {id_of(env)}; leave it out, or "
            "use backend='gymnasium'."
        )
    return has_native and backend != "gymnasium" and not env_kwargs and wrapper is None


def make_single(
    env: EnvLike,
    *,
    preset: str | None = None,
    threshold: float | None = None,
    env_kwargs: dict[str, Any] | None = None,
    periodic: Periodic = (),
    wrapper: str | None = None,
    flat: bool = True,
) -> gymnasium.Env:
    """Returns one environment that renders to RGB arrays and has the spaces of ``make_batch``."""
    if isinstance(env, VectorEnv):
        raise LPOError(
            "A vector environment cannot be rendered one by one; pass an id, or an environment "
            "made with render_mode='rgb_array'."
        )
    if is_pool(env):
        env = drawn_as(env)
    if isinstance(env, str | EnvSpec):
        follow = {"camera_name": "track"} if _bare_id(env) in LOCOMOTION else {}
        kwargs = {**follow, **(env_kwargs or {}), "render_mode": "rgb_array"}
        made = drawn(maker_of(env, 1, preset, threshold, kwargs, wrapper), id_of(env))
        return FlatEnv(made, chosen(periodic, partial(free_angles, made)), flat)
    made = maker_of(env, 1, preset, threshold, env_kwargs, wrapper)()
    if made.render_mode != "rgb_array":
        raise LPOError(
            f"{id_of(made)} was made with render_mode={made.render_mode!r}; make it with "
            "render_mode='rgb_array'."
        )
    return FlatEnv(made, chosen(periodic, partial(free_angles, made)), flat)


def drawn(maker: Maker, name: str) -> gymnasium.Env:
    """Returns an environment that draws. Raises LPOError where it was not written to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*render_mode")  # of Gymnasium; ours is below
        try:
            made = maker()
        except LPOError as error:
            if isinstance(error.__cause__, TypeError) and "render_mode" in str(error):
                raise LPOError(
                    f"{name} cannot be drawn: its environment takes no render_mode. Let it take "
                    "render_mode='rgb_array', and return an image from render()."
                ) from None
            raise
    return made


def _episode_batch(
    maker: Maker,
    num_envs: int,
    periodic: Periodic,
    step_timeout: float | None,
    env_workers: EnvWorkers,
    flat: bool,
) -> EpisodeBatch:
    """Returns environments that are stepped one after another, or by processes."""
    first = maker()
    row = _describe(first, maker.kwargs, maker.preset, maker.threshold)
    name, angles = str(row["id"]), chosen(periodic, partial(free_angles, first))
    codec = Codec(name, first.observation_space, first.action_space, angles, flat)
    resumable = not (first.spec is not None and first.spec.nondeterministic)
    hire = _hire(maker, num_envs, codec, name, env_workers, step_timeout)
    if hire is not None and env_workers != "auto":
        first.close()
        return EpisodeBatch(hire(), codec, row, resumable=resumable)
    envs = distinct([first, *(maker() for _ in range(num_envs - 1))])
    here = LocalStepper(envs, codec, name, step_timeout)
    return EpisodeBatch(here, codec, row, resumable=resumable, hire=hire)


def _hire(
    maker: Maker,
    num_envs: int,
    codec: Codec,
    name: str,
    env_workers: EnvWorkers,
    step_timeout: float | None,
) -> Callable[[], Stepper] | None:
    """Returns what starts the processes; None where there can, or shall, be none."""
    number = min(len(usable_cores()) if env_workers == "auto" else env_workers, num_envs)
    if number == 0 or (env_workers == "auto" and number == 1) or os.name != "posix":
        return None
    words = maker.in_words()
    if words is not None:
        return partial(WorkerStepper, num_envs, codec, name, words, number, step_timeout)
    if env_workers == "auto":
        return None
    raise LPOError(
        f"{name} cannot be made in another process, so {named('env_workers')} {env_workers} cannot "
        "step it; pass an id, or a function that a module has by name, or leave "
        f"{named('env_workers')} out."
    )


def maker_of(
    env: EnvLike,
    num_envs: int,
    preset: str | None,
    threshold: float | None,
    env_kwargs: dict[str, Any] | None,
    wrapper: str | None,
) -> Maker:
    """Returns what makes one environment of a batch. Raises LPOError where an option is wrong."""
    if isinstance(env, str | EnvSpec):
        spec = find_spec(env) if isinstance(env, str) else env
        return Maker(spec, preset, threshold, dict(env_kwargs or {}), wrapper)
    refuse_options(env, preset, threshold, env_kwargs)
    if isinstance(env, gymnasium.Env) and num_envs != 1:
        raise LPOError(
            f"An instance is one environment and num_envs is {num_envs}; pass num_envs=1, or "
            "the id or a function that makes one."
        )
    return Maker(env, wrapper=wrapper)  # type: ignore[arg-type] - what is neither is refused when it is called


def _describe(
    env: gymnasium.Env, kwargs: dict[str, Any], preset: str | None, threshold: float | None
) -> dict[str, Any]:
    spec = env.spec
    row: dict[str, Any] = {
        "id": id_of(env),
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


def _check_size(option: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise LPOError(f"{option} is {value!r}; pass a whole number of at least 1.")
