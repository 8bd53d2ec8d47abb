"""LPO beside its peers in a controlled setting: same n0, L, b_w, K, η, M, N, estimator.

    python experiments/theory/compare.py        # resumes; writes results/compare/

Constants are `Constants.practical()` for all; value-based methods have bonus scale .1 everywhere.
Budgets, seeds and ε were fixed before the first run; nothing is tuned to an algorithm.
"""

from __future__ import annotations

from pathlib import Path

from study import pack_lines, unpack_lines

from lpo.report.theory import write
from lpo.sweep.theory import run_grid
from lpo.theory.algorithms import Options
from lpo.theory.compare import cells

OUT = Path(__file__).parent / "results" / "compare"
LINES = OUT / "runs.jsonl"
NAMES = ("lpo", "lpo-patient", "eniac", "pcpg", "copoe", "lsvi-ucb", "ucbvi", "kong")
SEEDS = 5
BUDGETS = {  # MDP → N, episodes, M
    "deepsea:8": (10_000, 5000, 1000),
    "riverswim:6": (10_000, 3000, 1000),
    "linear:20": (10_000, 3000, 1000),
    "lock:5": (10_000, 20_000, 3000),
}


def main() -> int:
    grid = []
    for mdp, (N, episodes, M) in BUDGETS.items():
        grid += cells(NAMES, [mdp], SEEDS, N, episodes, M, 600.0, Options(roll_in="law"))
    unpack_lines(LINES)
    rows = run_grid(grid, OUT, processes=1, again="python experiments/theory/compare.py")
    if isinstance(rows, int):
        return rows
    print(write(rows, OUT))
    pack_lines(LINES)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
