"""Environments: one door, ``make_batch``, to every kind of environment the engine can learn on."""

from __future__ import annotations

from lpo.envs.native import NativeBatch
from lpo.envs.registry import describe, find_spec, register_envs
from lpo.envs.specs import LOCOMOTION
from lpo.errors import LPOError
from lpo.types import BatchEnv

__all__ = ["describe", "find_spec", "make_batch", "register_envs"]

register_envs()


def make_batch(
    env: str,
    num_envs: int,
    *,
    preset: str | None = None,
    threshold: float | None = None,
    threads: int | None = None,
) -> BatchEnv:
    """``num_envs`` copies of the sparse task ``env`` as one batch."""
    if env not in LOCOMOTION:
        raise LPOError(f"{env!r} has no native batch; choose one of {', '.join(LOCOMOTION)}.")
    task = LOCOMOTION[env]
    return NativeBatch(task, num_envs, preset=preset, threshold=threshold, threads=threads)
