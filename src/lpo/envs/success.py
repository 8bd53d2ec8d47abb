"""Environments: how an environment says that an episode succeeded.

Gymnasium's tasks of robots say ``info["success"]``, others ``info["is_success"]``, on the last
step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SUCCESS = ("is_success", "success")  # the first that is there counts


def name_in(info: Any) -> str | None:
    """Returns the entry that tells success; None where there is none."""
    return next((name for name in SUCCESS if isinstance(info, Mapping) and name in info), None)


def reported(info: Mapping[str, Any]) -> bool | None:
    """Returns whether the episode succeeded; None where ``info`` does not tell."""
    name = name_in(info)
    return None if name is None else bool(info[name])
