"""Classes beyond the linear one, on MDPs where a linear class must fail.

    python experiments/theory/classes.py           # table of the packed runs
    python experiments/theory/classes.py --run     # runs what is missing first

LPO with the sampled critic, 20 seeds, K = 10, N = 1000, M = 500, set in a pilot with one seed. The
classes see the same raw features; the box sees the pair alone and is the tabular reference.
"""

from __future__ import annotations

from pathlib import Path

from study import Run, Study, markdown, said

from lpo.theory.algorithms import Options
from lpo.theory.compare import Cell

SEEDS, N, M = 20, 1000, 500
ROWS = [
    *(("comb", name) for name in ("linear", "kernel", "neural", "finite", "box")),
    *(("dial", name) for name in ("linear", "glm", "finite", "box")),
]


def cell(mdp: str, name: str, seed: int) -> Cell:
    options = Options(roll_in="law")
    return Cell("lpo", mdp, seed, N, M, 600.0, options, (("K", 10),), function_class=name)


def grid() -> list[Cell]:
    return [cell(*row, seed) for row in ROWS for seed in range(SEEDS)]


def table(runs: list[Run]) -> str:
    found = {run.cell: run for run in runs}
    lines = []
    for mdp, name in ROWS:
        mine = [found[cell(mdp, name, seed)] for seed in range(SEEDS)]
        gaps = [[r[key] for r in mine] for key in ("relative_gap_late", "relative_gap_mixture")]
        solved = sum(r["relative_gap_late"] <= 0.03 for r in mine)
        counts = [said([r[key] for r in mine], 0) for key in ("switches", "distinct")]
        lines.append([mdp, name, f"{solved}/{SEEDS}", *map(said, gaps), *counts])
    head = ["MDP", "class", "late gap ≤ 0.03", "late gap / V*", "mixture gap / V*", "switches",
            "distinct pairs"]  # fmt: skip
    return markdown(head, lines)


STUDY = Study("classes", grid(), table)

if __name__ == "__main__":
    raise SystemExit(STUDY.main(Path(__file__).parent))
