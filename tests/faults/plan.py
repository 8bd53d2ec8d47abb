"""Which faults the harness tries, and on which runs."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.faults import disk, others
from tests.faults.kills import Whole, kills
from tests.faults.lives import CASES
from tests.faults.table import Result


def faults(given: Any, work: Path, rng: random.Random) -> Iterator[Result]:
    """Yields the results of the faults that the command names."""
    whole = Whole(work)
    named = [case for case in CASES if case.name in (given.cases or ())]
    few = named or disk.CASES

    def wanted(name: str) -> bool:
        return not given.faults or name in given.faults

    if wanted("kills") and given.kills:
        yield from kills(whole, given.kills, rng, named or CASES)
    if wanted("disk"):
        each = given.times * len(few)
        if disk.may_mount():
            yield from disk.full(whole, rng, each, few)
            yield from disk.read_only(whole, rng, each, few)
        else:
            print("full and read-only disks were left out: they need the right to mount",
                  file=sys.stderr)  # fmt: skip
        yield from disk.vanished(whole, rng, each, few)
    if wanted("damage"):
        yield from disk.damaged(whole, rng, given.times, few)
    if wanted("others"):
        on_host = [case for case in few if case.task != "device"]
        yield from others.environments(whole, rng, given.times)
        yield from others.writers(whole, rng, given.times * len(on_host), on_host)
        yield from others.clocks(whole, rng, given.times * len(few), few)
    if wanted("grids"):
        from tests.faults.grids import grids  # needs Ray and pytest

        yield from grids(work, rng, given.times)
