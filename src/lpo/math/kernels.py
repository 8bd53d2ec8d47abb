"""Which kernels a device computes with: plain code, or ours for GPUs of NVIDIA."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from lpo.math.descent import PLAIN, Compute


def compute_here() -> Compute:
    """Returns how to compute on the default device."""
    [device] = jnp.zeros(()).devices()  # the default one, however it was chosen
    return compute_on(device)


def compute_on(device: Any) -> Compute:
    """Returns kernels for an NVIDIA GPU that multiplies in TF32, and plain code elsewhere."""
    if "cuda" not in device.client.platform_version.lower() or float(device.compute_capability) < 8:
        return PLAIN
    try:
        from lpo.math.fused import Fused  # where there is no GPU, Pallas need not be imported
        from lpo.math.fused_adam import FusedAdam
    except ImportError:  # a JAX without Pallas on Triton
        return PLAIN
    return Compute(Fused(), FusedAdam())
