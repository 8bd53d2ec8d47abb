"""The table of algorithms. An algorithm is a bonus, a switch and a start over one engine.

A new algorithm is a new row. Any row can run with another part (``--bonus``, ``--switch``,
``--start``), for instance as an ablation.
"""

from __future__ import annotations

from typing import NamedTuple

from lpo.bonus import RND, BonusPart, Elliptic, NoBonus, WidthNetwork
from lpo.errors import LPOError, nearest
from lpo.start import Cover, Reset, StartPart
from lpo.switch import Every, Growth, Sensitivity, SwitchPart


class Algorithm(NamedTuple):
    """A row of the table."""

    summary: str
    bonus: BonusPart
    switch: SwitchPart
    start: StartPart = Reset()


ALGORITHMS: dict[str, Algorithm] = {
    "lpo": Algorithm("RND width on (s,a), growing rollouts", RND(), Growth()),
    "lpo-s": Algorithm(
        "RND width on (s,a), switching by online sensitivity sampling", RND(), Sensitivity()
    ),
    "eniac": Algorithm("RND width on (s,a), constant rollouts", RND(), Every()),
    "rnd": Algorithm(
        "random network distillation on s′, constant rollouts", RND(inputs="next"), Every()
    ),
    "pcpg": Algorithm(
        "kernel width on (s,a) as an indicator, constant rollouts, policy cover with roll-in",
        Elliptic(shape="indicator"),
        Every(),
        Cover(),
    ),
    "eniac-original": Algorithm(
        "width network on (s,a) as an indicator, constant rollouts, policy cover with roll-in",
        WidthNetwork(shape="indicator"),
        Every(),
        Cover(),
    ),
    "ppo": Algorithm("no bonus, constant rollouts", NoBonus(), Every()),
}


def get(name: str) -> Algorithm:
    """Returns a row of the table. Raises LPOError for an unknown name."""
    if not isinstance(name, str) or name not in ALGORITHMS:
        hint = nearest(str(name), ALGORITHMS)
        raise LPOError(f"No algorithm is called {name!r}; {hint}")
    return ALGORITHMS[name]
