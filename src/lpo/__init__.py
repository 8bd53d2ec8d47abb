"""Exploration for sparse-reward reinforcement learning: the LPO paper as a library."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import lpo.envs as _envs  # noqa: F401 - registers lpo/Sparse*-v0 with Gymnasium
from lpo.platform import prefer_host

try:
    __version__ = version("lpo-rl")  # stated in pyproject.toml
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0+unknown"

if TYPE_CHECKING:
    from lpo.agent import LPO, PPO, Agent
    from lpo.agents import Agents
    from lpo.config import Config, configure
    from lpo.errors import LPOError
    from lpo.policy import Policy
    from lpo.runs.directory import RunDirectory

__all__ = [
    "LPO",
    "PPO",
    "Agent",
    "Agents",
    "Config",
    "LPOError",
    "Policy",
    "RunDirectory",
    "__version__",
    "configure",
]
_HOMES = {
    "Agents": "lpo.agents",
    "Config": "lpo.config",
    "configure": "lpo.config",
    "LPOError": "lpo.errors",
    "Policy": "lpo.policy",
    "RunDirectory": "lpo.runs.directory",
}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Imports on first use, so that `import lpo` and `lpo list` stay quick."""
    if name in __all__:
        prefer_host()
        return getattr(import_module(_HOMES.get(name, "lpo.agent")), name)
    raise AttributeError(f"module 'lpo' has no attribute {name!r}")
