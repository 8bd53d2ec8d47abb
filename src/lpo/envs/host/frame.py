"""Environments: the arrays of a batch in one piece of memory that several processes see.

The memory has no name: it is a file that only open descriptors lead to. It is gone with the last
process that has it open, however that process ended, so there is nothing to clean up.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any, NamedTuple

import numpy as np

from lpo.envs.codec import Rows

UNSAID, FAILED, SUCCEEDED = -1, 0, 1  # what the last information of an episode says of success
ALIGNED = 64  # bytes: where each array begins


class Frame(NamedTuple):
    """One step of ``N`` environments, as the processes that step them leave it."""

    action: np.ndarray  # [N, *A]
    seed: np.ndarray  # [N] of the next episode
    obs: np.ndarray  # [N, *O] what the policy sees next
    next_obs: np.ndarray  # [N, *O] the true s'
    reward: np.ndarray  # [N]
    terminated: np.ndarray  # [N]
    truncated: np.ndarray  # [N]
    success: np.ndarray  # [N] UNSAID, FAILED or SUCCEEDED
    since: np.ndarray  # [N] when the call that is under way began, by the monotonic clock; else 0


def layout(num_envs: int, obs: Rows, action: Rows) -> Frame:
    """Returns a shape and a dtype for each array."""
    one = (num_envs,)
    seen: Any = (num_envs, *obs.shape), obs.dtype
    done: Any = (num_envs, *action.shape), action.dtype
    flag, real = (one, np.dtype(bool)), (one, np.dtype(np.float64))
    rows: Any = done, (one, np.dtype(np.int64)), seen, seen, real, flag, flag
    return Frame(*rows, (one, np.dtype(np.int8)), real)  # type: ignore[arg-type]


def shared_file(size: int) -> int:
    """Returns the descriptor of ``size`` bytes of shared memory."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("lpo-envs")
    else:  # a file without a name
        with tempfile.TemporaryFile() as opened:
            file = os.dup(opened.fileno())
    os.truncate(file, size)
    return file


def size_of(shapes: Frame) -> int:
    return sum(_room(shape, dtype) for shape, dtype in shapes)


def mapped(file: int, shapes: Frame) -> Frame:
    """Returns the arrays of ``layout`` in the memory of ``file``."""
    memory, place, arrays = mmap.mmap(file, size_of(shapes)), 0, []
    for shape, dtype in shapes:
        arrays.append(np.frombuffer(memory, dtype, int(np.prod(shape)), place).reshape(shape))
        place += _room(shape, dtype)
    return Frame(*arrays)


def _room(shape: tuple[int, ...], dtype: np.dtype) -> int:
    return -(-int(np.prod(shape)) * dtype.itemsize // ALIGNED) * ALIGNED
