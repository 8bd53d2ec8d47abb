"""Counts as a width: b = 1/√N(z), for observations that recur (codes, whole numbers).

For the class of all functions over distinct inputs the width at z is √(β/N(z)).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import annotated_types as at
import jax.numpy as jnp
from jax import Array

from lpo.bonus.base import Bonus, BonusPart, one
from lpo.bonus.compose import ScaledOptions
from lpo.math.features import Inputs, Reader
from lpo.math.hashing import hash_keys, hashed
from lpo.options import Rare, Short, options
from lpo.problem import Problem
from lpo.types import Rollout

Bits = Annotated[int, at.Ge(1), at.Le(28)]


@BonusPart.kinds.add
@options
class Visits(ScaledOptions):
    """Counts by hash: b = 1/√(1 + N), N the visits before this rollout."""

    kind: ClassVar[str] = "visits"
    inputs: Annotated[Inputs, Short("bonus_inputs")] = "next"
    """What the bonus reads: (s,a), s′ or s."""
    bits: Annotated[Rare[Bits], Short("visit_bits")] = 20
    """Bits of the hash: there are 2^bits counters."""

    def novelty(self, problem: Problem) -> Bonus:
        return visits(problem.reader(self.inputs, problem.cells), self.bits)


class VisitState(NamedTuple):
    keys: Array  # [D] of the hash
    visits: Array  # [2^bits]


def visits(reader: Reader, bits: int) -> Bonus:
    """Returns the bonus on what ``reader`` reads."""
    size, read = reader

    def cell(state: VisitState, rollout: Rollout) -> Array:
        return (hashed(state.keys, read(rollout)) >> (32 - bits)).astype(jnp.int32)

    def init(key: Array) -> VisitState:
        return VisitState(hash_keys(key, size), jnp.zeros(1 << bits))

    def score(state: VisitState, rollout: Rollout):
        b = rollout.valid / jnp.sqrt(1 + state.visits[cell(state, rollout)])
        return b[None], state, {}

    def update(state: VisitState, rollout: Rollout, key: Array):
        """Line 10 of Algorithm 7: counts D_k."""
        met = state.visits.at[cell(state, rollout)].add(rollout.valid)
        return state._replace(visits=met), {"bonus/cells": (met > 0).sum()}

    return Bonus(1, init, score, update)


@BonusPart.kinds.add
@options
class Constant(ScaledOptions):
    """1 everywhere, so that what counts is the episode alone (with --episode)."""

    kind: ClassVar[str] = "constant"

    def novelty(self, problem: Problem) -> Bonus:
        return one()
