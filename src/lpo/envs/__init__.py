"""Environments: one door, ``make_batch``, to every kind of environment the engine can learn on."""

from __future__ import annotations

from lpo.envs.make import make_batch, make_single
from lpo.envs.registry import describe, find_spec, import_package, register_envs

__all__ = ["describe", "find_spec", "import_package", "make_batch", "make_single", "register_envs"]

register_envs()
