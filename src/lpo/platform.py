"""Variables of the environment: settings of JAX for agents on the host, and packages to import."""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from lpo.errors import SPEAKS_FLAGS, LPOError

# The environments run on the CPU and the networks are small, so learning runs there too. More
# threads for linear algebra would cost more time than they save.
DEFAULTS = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
    "OPENBLAS_NUM_THREADS": "1",
}

# Loops whose length the GPU decides itself, as one graph: it need not ask the host at each turn.
GPU_LOOPS = "--xla_gpu_enable_command_buffer=+WHILE,+CONDITIONAL"

IMPORT = "LPO_IMPORT"  # packages that the user trusts, with commas between them
# Set by the command line: the packages of ``--import``.
TRUSTED: ContextVar[tuple[str, ...]] = ContextVar("trusted", default=())


def trusted_packages() -> list[str]:
    """Returns the packages that the user wants imported, for files that name them."""
    given = os.environ.get(IMPORT, "").split(",")
    return list(dict.fromkeys(name for name in (*given, *TRUSTED.get()) if name))


GPUS = ("/dev/nvidiactl", "/dev/kfd")  # what NVIDIA's and AMD's drivers make


def device_here() -> str:
    """Returns the value of ``--device`` that a hint should name on this machine."""
    return "gpu" if any(Path(file).exists() for file in GPUS) else "cpu"


def prefer_host() -> None:
    """Sets the variables that the user has not set. Does nothing once JAX is imported."""
    if "jax" not in sys.modules:
        for name, value in DEFAULTS.items():
            os.environ.setdefault(name, value)


def find_device(name: str) -> Any:
    """Returns a JAX device, "gpu" or "cpu". Raises LPOError where there is none of that kind.

    JAX looks for devices once. Where this library chose the CPU for it and it has not looked yet,
    it may look for a GPU too; what names no device goes on computing on the CPU.
    """
    import jax

    ours = name == "gpu" and jax.config.jax_platforms == DEFAULTS["JAX_PLATFORMS"]  # type: ignore[attr-defined]
    if ours:
        jax.config.update("jax_platforms", "cpu,cuda")
        if os.environ.get("XLA_FLAGS") == DEFAULTS["XLA_FLAGS"]:
            os.environ["XLA_FLAGS"] += f" {GPU_LOOPS}"
    try:
        return jax.devices(name)[0]
    except RuntimeError as error:
        if ours:
            jax.config.update("jax_platforms", DEFAULTS["JAX_PLATFORMS"])
        instead = "--device cpu" if SPEAKS_FLAGS.get() else 'device="cpu"'
        raise LPOError(
            f"JAX sees no {name} here ({str(error).splitlines()[0]}); install JAX with CUDA "
            f"(`pip install 'lpo-rl[gpu]' 'jax[cuda13]'`), or pass {instead}."
        ) from error


def prefer_device() -> None:
    """Sets XLA's flag for programs on a GPU, unless the user has set flags or JAX is imported."""
    if "jax" not in sys.modules:
        os.environ.setdefault("XLA_FLAGS", GPU_LOOPS)
