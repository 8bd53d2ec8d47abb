"""Engine: what a life of runs asks of a trainer, on the host (R = 1) or on a device (R runs).

``lpo.engine.host.Trainer`` and ``lpo.engine.device.GroupTrainer`` are the two that there are.
Metrics are numbers where there is one run, and arrays [R] where there are R.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from lpo.config import Config
from lpo.errors import LPOError, named

Acts = Literal["mode", "sampled"]
Row = dict[str, float]
Scores = dict[str, Any]


class Turn(NamedTuple):
    """What happened until a trainer came back: one policy change, or several."""

    rows: list[list[Row]]  # of each run: the metrics of its policy changes, and their env_steps
    steps: int  # of the environments of all runs
    size: np.ndarray | None  # [O] of the numbers of an observation; None: it is no vector
    states: tuple[Any, np.ndarray] | None = None  # [T, N, …], and which were learned from


class Trainer(Protocol):
    """R runs in memory: environments, learners, episodes under way."""

    config: Config  # of the first run
    seconds: dict[str, float]  # spent on each part of the work
    runs: int

    @property
    def steps(self) -> np.ndarray:
        """The environment steps of every run."""
        ...

    @property
    def description(self) -> dict[str, Any]:
        """What the task says of itself."""
        ...

    @property
    def unbounded(self) -> np.ndarray:
        """Which numbers [O] of an observation have no bounds."""
        ...

    @property
    def ways(self) -> tuple[Acts, ...]:
        """The ways of acting that an evaluation plays; none where there are no evaluations."""
        ...

    def turn(self, until: int) -> Turn:
        """Collects and learns. Raises LPOError where a number is not finite; nothing is kept."""
        ...

    def due(self, before: int, evaluated: int) -> bool:
        """Whether to evaluate after a turn from ``before``; ``evaluated`` is the last time."""
        ...

    def evaluate(self) -> Scores:
        """Returns the metrics of the current policies."""
        ...

    def policy(self) -> Any:
        """Returns what the current policies need to act."""
        ...

    def play(
        self, policy: Any, ways: Sequence[Acts], occasions: range
    ) -> Mapping[Acts, Mapping[str, Any]]:
        """Returns means over new episodes, and as ``sampled`` whether actions were sampled.

        Equal occasions have equal seeds.
        """
        ...

    def choose(self, which: np.ndarray, new: Any, old: Any) -> Any:
        """Returns the policies ``new`` for the runs that ``which`` marks, ``old`` for others."""
        ...

    def about(self, run: int) -> dict[str, Any]:
        """Returns what a checkpoint says of a run: task, spaces and configuration."""
        ...

    def shown(self, rows: list[list[Row]]) -> Scores:
        """Returns the newest metrics, as a callback gets them."""
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns everything that decides the rest of the runs, as named arrays."""
        ...

    def restore(self, arrays: dict[str, np.ndarray], seconds: dict[str, float]) -> None:
        """Goes on from ``arrays``, bit for bit."""
        ...

    def close(self) -> None:
        """Closes the environments."""
        ...


def crossed(before: int, after: int, every: int) -> bool:
    """Returns whether a multiple of ``every`` lies in (before, after]; 0 means never."""
    return every > 0 and after // every > before // every


def diverged(what: str, wrong: str) -> LPOError:
    """Returns the error for a number that is not finite."""
    return LPOError(
        f"Training diverged {what} ({wrong} is NaN or infinite). The last valid state was kept. "
        f"Lower {named('learning_rate')}, or check the scale of the environment's rewards."
    )
