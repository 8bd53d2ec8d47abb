"""The table of algorithms. An algorithm is a bonus, a switch and a start over one engine.

A new algorithm is a new row. Any row can run with another part (``--bonus``, ``--switch``,
``--start``), for instance as an ablation. Rows of the paper have the paper's numbers; the default
has its own, which a search found (docs/origin.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from lpo.bonus import (
    RND,
    BonusPart,
    BySize,
    Elliptic,
    FirstVisit,
    NoBonus,
    SizedFading,
    WidthNetwork,
)
from lpo.errors import LPOError, nearest
from lpo.start import Cover, Reset, StartPart
from lpo.switch import Every, Growth, Sensitivity, SwitchPart


class Algorithm(NamedTuple):
    """A row of the table."""

    summary: str
    bonus: BonusPart
    switch: SwitchPart
    start: StartPart = Reset()
    values: Mapping[str, Any] = MappingProxyType({})  # of other options, by their short names
    grids: Algorithm | None = None  # what it is where observations are grids of codes


DEFAULT = "default"  # what runs where no row is named
ALIASES = {"lpo-w": DEFAULT}  # its name in earlier runs
OF_GRIDS = Algorithm(  # experiments/frontier/README.md: how its numbers were found
    "RND width on s′ × first visits of the episode, weighed and fading as in the default",
    RND(
        inputs="next",
        scale=BySize(),
        episode=FirstVisit(),
        ends="neutral",
        weighing=SizedFading(beta_earned=0.002, earned_share=0.01, earned_least=0.1),
        alpha=1.0,
        beta=0.25,
        gamma_int=0.99,
        learning_rate=3e-4,
    ),
    Every(rollout=4096),
    values=MappingProxyType(
        {
            "num_envs": 32,
            "gamma_ext": 0.99,
            "gae_lambda": 0.95,
            "entropy_coef": 5e-4,
            "log_std_min": -0.2,
            "learning_rate": 5e-4,
            "kl_target": 0.05,
            "batch_size": 256,
            "epochs": 4,
            "advantage_floor": 0.15,
            "value_gain": 0.0,
            "angles": "auto",
        }
    ),
)
ALGORITHMS: dict[str, Algorithm] = {
    "default": Algorithm(
        "RND width on s′, weighed in units of the reward, fading as reward is earned",
        RND(
            inputs="next",
            scale=BySize(),
            weighing=SizedFading(beta_earned=0.002, earned_share=0.01, earned_least=0.5),
            alpha=1.0,
            beta=0.25,
            gamma_int=0.997,
            learning_rate=3e-4,
        ),
        Every(rollout=4096),
        values=MappingProxyType(
            {
                "gamma_ext": 0.995,
                "gae_lambda": 0.7,
                "log_std_min": -0.2,
                "learning_rate": 3e-4,
                "kl_target": 0.02,
                "batch_size": 64,
                "advantage_floor": 0.15,
                "value_gain": 0.0,
                "angles": "auto",
            }
        ),
        grids=OF_GRIDS,
    ),
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


def row_name(name: str) -> str:
    """Returns the name that a row has in the table, where ``name`` may be an earlier one."""
    return ALIASES.get(name, name) if isinstance(name, str) else name


def get(name: str) -> Algorithm:
    """Returns a row of the table. Raises LPOError for an unknown name."""
    name = row_name(name)
    if not isinstance(name, str) or name not in ALGORITHMS:
        hint = nearest(str(name), ALGORITHMS)
        raise LPOError(f"No algorithm is called {name!r}; {hint}")
    return ALGORITHMS[name]
