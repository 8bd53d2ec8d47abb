"""The bonus at the paper's size: what its width part and the pessimistic critic buy.

    python experiments/theory/bonus.py           # table of the packed runs
    python experiments/theory/bonus.py --run     # runs what is missing first

20 seeds. The coefficient is that of ω/β on known states: 2 in the paper, .02 in the practical
constants; 0 leaves the indicator alone. The critic takes back half of the bonus (the paper's, which
makes it pessimistic) or all of it. The exact critic has no error that pessimism could guard
against, so there are rows with few trajectories, M = 100, too. Sizes were set in a pilot with one
seed.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import NamedTuple

from study import Run, Study, markdown, said

from lpo.theory.algorithms import Critic, Options
from lpo.theory.compare import Cell

SEEDS, N = 20, 1000
MDPS = ("deepsea:5", "riverswim:4", "linear:6,num_states=18,num_actions=3")
COEFFICIENTS: dict[Critic, tuple[float, ...]] = {"exact": (0, 0.02, 0.2, 2), "sampled": (0, 0.2, 2)}
SHARES = {0.5: "half", 1.0: "whole"}


class Line(NamedTuple):
    critic: Critic
    mdp: str
    coefficient: float
    share: float

    def cell(self, seed: int) -> Cell:
        options = Options(critic=self.critic, roll_in="law", bonus_share=self.share)
        M = 100 if self.critic == "sampled" else 1
        constants = (("width_bonus", float(self.coefficient)),)
        return Cell("lpo", self.mdp, seed, N, M, 600.0, options, constants)


LINES = [  # without a width bonus the share changes nothing
    Line(critic, mdp, coefficient, share)
    for critic, coefficients in COEFFICIENTS.items()
    for mdp, coefficient, share in product(MDPS, coefficients, SHARES)
    if coefficient or share == 0.5
]


def table(runs: list[Run]) -> str:
    found = {run.cell: run for run in runs}
    rows = []
    for line in LINES:
        mine = [found[line.cell(seed)] for seed in range(SEEDS)]
        late, whole = (
            said([r[name] for r in mine]) for name in ("relative_gap_late", "relative_gap_mixture")
        )
        share = SHARES[line.share] if line.coefficient else "–"
        switches = said([r["switches"] for r in mine], 0)
        name = line.mdp.split(",")[0]
        rows.append([line.critic, name, f"{line.coefficient:g}", share, late, whole, switches])
    head = ["critic", "MDP", "coefficient", "bonus in Q̂", "late gap / V*", "mixture gap / V*",
            "switches"]  # fmt: skip
    return markdown(head, rows)


STUDY = Study("bonus", [line.cell(seed) for line in LINES for seed in range(SEEDS)], table)

if __name__ == "__main__":
    raise SystemExit(STUDY.main(Path(__file__).parent))
