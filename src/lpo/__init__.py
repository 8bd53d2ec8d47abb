"""Exploration for sparse-reward reinforcement learning: the LPO paper as a library."""

from typing import TYPE_CHECKING, Any

import lpo.envs as _envs  # noqa: F401 - registers lpo/Sparse*-v0 with Gymnasium

__version__ = "0.1.0"
__all__ = ["ENIAC", "LPO", "PPO", "RND", "Config", "LPOError", "__version__"]

if TYPE_CHECKING:
    from lpo.agent import ENIAC, LPO, PPO, RND
    from lpo.config import Config
    from lpo.errors import LPOError


def __getattr__(name: str) -> Any:
    """Import on first use, so that `import lpo` and `lpo list` stay quick."""
    from importlib import import_module

    homes = {"Config": "lpo.config", "LPOError": "lpo.errors"}
    if name in __all__:
        return getattr(import_module(homes.get(name, "lpo.agent")), name)
    raise AttributeError(f"module 'lpo' has no attribute {name!r}")
