"""How JAX runs for agents on the host: the same for the command line and for Python."""

from __future__ import annotations

import os
import sys

# Small networks: threads of the linear algebra cost more than they bring, and the host steps.
DEFAULTS = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
    "OPENBLAS_NUM_THREADS": "1",
}


def prefer_host() -> None:
    """Sets what the user left open, as long as JAX is not yet loaded."""
    if "jax" not in sys.modules:
        for name, value in DEFAULTS.items():
            os.environ.setdefault(name, value)
