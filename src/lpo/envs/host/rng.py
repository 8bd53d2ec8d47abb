"""Environments: NumPy generators as arrays, so that a checkpoint needs no pickle."""

from __future__ import annotations

import numpy as np

_MASK = (1 << 64) - 1


def pack_generator(rng: np.random.Generator) -> np.ndarray:
    """Returns the whole state of a PCG64 generator as six ``uint64``."""
    state = rng.bit_generator.state
    words = []
    for number in (state["state"]["state"], state["state"]["inc"]):
        words += [number >> 64, number & _MASK]
    return np.array([*words, state["has_uint32"], state["uinteger"]], dtype=np.uint64)


def unpack_generator(words: np.ndarray) -> np.random.Generator:
    """Returns the generator that ``pack_generator`` packed."""
    high, low, inc_high, inc_low, has_uint32, uinteger = (int(word) for word in words)
    bits = np.random.PCG64()
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": high << 64 | low, "inc": inc_high << 64 | inc_low},
        "has_uint32": has_uint32,
        "uinteger": uinteger,
    }
    return np.random.Generator(bits)
