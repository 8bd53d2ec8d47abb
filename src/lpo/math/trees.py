"""Pytrees as named arrays, the form in which checkpoints hold them."""

from __future__ import annotations

from typing import TypeVar

import jax
import numpy as np

from lpo.errors import LPOError

T = TypeVar("T")
INNER = ".novelty.life"  # part of a name that older checkpoints lack: a bonus had one state


def flatten(prefix: str, tree: object) -> dict[str, np.ndarray]:
    """Returns a pytree as named arrays: ``prefix.params.policy[0].w`` and so on."""
    leaves = jax.tree_util.tree_flatten_with_path(jax.device_get(tree))[0]
    return {prefix + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def unflatten(prefix: str, like: T, arrays: dict[str, np.ndarray]) -> T:
    """Returns the pytree shaped as ``like`` with the named arrays in it."""
    paths, treedef = jax.tree_util.tree_flatten_with_path(like)
    leaves = []
    for path, leaf in paths:
        name = prefix + jax.tree_util.keystr(path)
        old = arrays.get(name.replace(INNER, ""))
        found = arrays.get(name, old)
        if found is None or found.shape != np.shape(leaf) or found.dtype != leaf.dtype:
            raise LPOError(
                f"The checkpoint does not fit its configuration at {name}; "
                "resume with the config.json that the run was started with."
            )
        leaves.append(found)
    return treedef.unflatten(jax.device_put(leaves))  # nothing to compile, unlike jnp.asarray


def not_finite(tree: object) -> str | None:
    """Returns the name of the first array of a pytree that holds NaN or an infinity, or None."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if not np.isfinite(np.asarray(leaf)).all():
            return jax.tree_util.keystr(path).strip(".")
    return None
