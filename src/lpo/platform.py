"""Settings of JAX for agents on the host, the same for the command line and for Python."""

from __future__ import annotations

import os
import sys

# The environments run on the CPU and the networks are small, so learning runs there too. More
# threads for linear algebra would cost more time than they save.
DEFAULTS = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
    "OPENBLAS_NUM_THREADS": "1",
}


def prefer_host() -> None:
    """Sets the variables that the user has not set. Does nothing once JAX is imported."""
    if "jax" not in sys.modules:
        for name, value in DEFAULTS.items():
            os.environ.setdefault(name, value)
