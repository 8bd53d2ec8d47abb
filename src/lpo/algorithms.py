"""The table of algorithms. An algorithm is a bonus, a switch and a start over one engine.

A new algorithm is a new row. Any row can run with another part (``--bonus``, ``--switch``,
``--start``), for instance as an ablation. Rows of the paper have the paper's numbers; the default
has its own, which a search found (docs/origin.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lpo.bonus import (
    RND,
    BonusPart,
    BySize,
    Elliptic,
    FirstVisit,
    Fixed,
    NoBonus,
    NoWeighing,
    SizedFading,
    Weighing,
    WidthNetwork,
)
from lpo.envs.task import TaskOptions
from lpo.errors import LPOError, nearest
from lpo.math.ppo import PPOOptions
from lpo.network import Auto, NetworkPart
from lpo.start import Cover, Reset, StartPart
from lpo.switch import Every, Growth, Sensitivity, SwitchPart


class Algorithm(NamedTuple):
    """A row of the table."""

    summary: str
    bonus: BonusPart
    switch: SwitchPart
    start: StartPart = Reset()
    weighing: Weighing = Fixed()
    ppo: PPOOptions = PPOOptions()
    network: NetworkPart = Auto()
    task: TaskOptions = TaskOptions()
    grids: Algorithm | None = None  # what it is where observations are grids of codes

    def parts(self) -> dict[str, Any]:
        """Returns the parts of a configuration that the row states."""
        return {k: v for k, v in self._asdict().items() if k not in ("summary", "grids")}


DEFAULT = "default"  # what runs where no row is named
ALIASES = {"lpo-w": DEFAULT}  # its name in earlier runs
OF_GRIDS = Algorithm(  # experiments/frontier/README.md: how its numbers were found
    "RND width on s′ × first visits of the episode, weighed and fading as in the default",
    RND(
        inputs="next",
        scale=BySize(),
        episode=FirstVisit(),
        ends="neutral",
        gamma_int=0.99,
        learning_rate=3e-4,
    ),
    Every(rollout=4096),
    weighing=SizedFading(
        alpha=1.0, beta=0.25, beta_earned=0.002, earned_share=0.01, earned_least=0.1
    ),
    ppo=PPOOptions(
        gamma_ext=0.99,
        gae_lambda=0.95,
        entropy_coef=5e-4,
        learning_rate=5e-4,
        kl_target=0.05,
        batch_size=256,
        epochs=4,
        advantage_floor=0.15,
    ),
    network=Auto(log_std_min=-0.2, value_gain=0.0),
    task=TaskOptions(num_envs=32, periodic="auto"),
)
ALGORITHMS: dict[str, Algorithm] = {
    "default": Algorithm(
        "RND width on s′, weighed in units of the reward, fading as reward is earned",
        RND(inputs="next", scale=BySize(), gamma_int=0.997, learning_rate=3e-4),
        Every(rollout=4096),
        weighing=SizedFading(
            alpha=1.0, beta=0.25, beta_earned=0.002, earned_share=0.01, earned_least=0.5
        ),
        ppo=PPOOptions(
            gamma_ext=0.995,
            gae_lambda=0.7,
            learning_rate=3e-4,
            kl_target=0.02,
            batch_size=64,
            advantage_floor=0.15,
        ),
        network=Auto(log_std_min=-0.2, value_gain=0.0),
        task=TaskOptions(periodic="auto"),
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
    "ppo": Algorithm("no bonus, constant rollouts", NoBonus(), Every(), weighing=NoWeighing()),
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
