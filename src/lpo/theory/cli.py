"""`lpo theory` and `lpo theory compare` (theory room).

`theory` runs one algorithm on one MDP and prints what it cost and how good it is; `compare` runs a
grid over seeds and writes a table and figures. Both are plain functions for tyro.
"""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from lpo.errors import LPOError
from lpo.theory.algorithms import Options
from lpo.theory.compare import both_tables, cells, parse_mdp, run_grid
from lpo.theory.constants import Constants
from lpo.theory.mdp import MDP
from lpo.theory.runner import ALGORITHMS, function_class, run, summary

Estimator = Literal["robust", "every", "sum", "last", "alg5"]


def theory(
    mdp: str = "deepsea:8",
    algorithm: str = "lpo",
    N: int = 10_000,
    seed: int = 0,
    critic: Literal["sampled", "exact"] = "sampled",
    constants: Literal["practical", "theory"] = "practical",
    M: int = 1000,
    K: int = 20,
    eta: float = 30.0,
    n0: float = 1.0,
    factor: float = 1.0,
    width_bonus: float = 0.02,
    kappa: float = 2.0,
    delta: float = 0.1,
    target: float = 0.1,
    gamma: float | None = None,
    estimator: Estimator = "robust",
    reuse: Literal["ess", "kappa"] = "ess",
    roll_in: Literal["rollout", "law"] = "rollout",
    known: Literal["state", "pair"] = "state",
    rounding: bool = False,
    patience: float = 0.0,
    seconds: float = 600.0,
    json: bool = False,
) -> None:
    """Run one algorithm on one MDP with exact values and print samples, switches and gaps.

    Args:
        mdp: name or name:size, e.g. chain, riverswim:6, deepsea:8, lock:5, random, linear:20.
        algorithm: lpo, lpo-patient, lpo-always, eniac, pcpg, copoe, lsvi-ucb, ucbvi or kong.
        N: outer iterations (d-samples; episodes for lsvi-ucb, ucbvi and kong).
        seed: of everything random.
        critic: "exact" solves linear systems instead of sampling trajectories.
        constants: "theory" prints what the proofs ask for and runs nothing.
        M: trajectories per dataset.
        K: inner iterations.
        eta: NPG step size.
        n0: copies in the sampled set after which a tabular pair is known (epsilon / beta^2).
        factor: the C*log factor of S-Sampling.
        width_bonus: coefficient of the width bonus (2 in the paper).
        kappa: inner iterations a dataset is reused for, with --reuse kappa.
        delta: failure probability.
        target: suboptimality the theory constants are computed for.
        gamma: discount, if not the MDP's default.
        estimator: return estimator of Algorithm 5; last and alg5 are the paper's.
        reuse: resample by effective sample size, or after kappa iterations.
        roll_in: walk to the heads, or draw them from their exact law.
        known: bonus indicator on the state (eq. E5) or the pair (Alg. 1).
        rounding: round samples to the cover of eq. (E2).
        patience: switch only after this share of new additions (0: the paper; 0.05 is cheaper).
        seconds: stop at the first policy change after this long.
        json: print one JSON object instead of a table.
    """
    m = parse_mdp(mdp, **({} if gamma is None else {"gamma": gamma}))
    if constants == "theory":
        return _print_theory(m, N, delta, target, json)
    given = {"n0": n0, "factor": factor, "width_bonus": width_bonus, "K": K, "eta": eta}
    chosen = Constants.practical(m, N, delta, **given, kappa=kappa, M=M)
    readings = {"rounding": rounding, "patience": patience}
    options = Options(critic, estimator, reuse, roll_in, known, **readings)
    trace = run(algorithm, m, chosen, seed, options, seconds)
    figures = {"algorithm": algorithm, "constants": chosen.kind, "critic": critic}
    late = f"Stopped by the time limit at iteration {trace.iterations}."
    note = "" if trace.iterations >= N else late
    _show(f"{algorithm} on {m.name}", figures | summary(trace), json, note)


def _print_theory(m: MDP, N: int, delta: float, target: float, json: bool) -> None:
    figures = asdict(Constants.theory(m, function_class(m), N, delta, target))
    note = "The proofs' constants; no run is feasible with them (see docs/theory.md)."
    _show(f"{m.name}: Constants.theory()", figures, json, note)


def compare(
    mdps: tuple[str, ...] = ("deepsea:8", "riverswim:6", "linear:20"),
    algorithms: tuple[str, ...] = tuple(a for a in ALGORITHMS if a != "lpo-always"),
    seeds: int = 3,
    N: int = 10_000,
    episodes: int = 3000,
    M: int = 1000,
    critic: Literal["sampled", "exact"] = "sampled",
    estimator: Estimator = "robust",
    roll_in: Literal["rollout", "law"] = "law",
    seconds: float = 120.0,
    processes: int = 1,
    out: Path = Path("runs/theory-compare"),
) -> None:
    """Run every algorithm on every MDP over seeds; write runs, table and figures under `out`.

    Args:
        mdps: names or name:size.
        algorithms: which to run.
        seeds: seeds 0..seeds-1.
        N: d-samples of the policy-gradient methods.
        episodes: episodes of the value-based methods.
        M: trajectories per dataset, the same for all that use one.
        critic: for the policy-gradient methods.
        estimator: for the policy-gradient methods.
        roll_in: for the policy-gradient methods.
        seconds: time limit of one run.
        processes: runs at a time.
        out: folder; started again, only missing runs are done.
    """
    from rich.progress import Progress

    from lpo.theory.figures import (
        exponents,
        gap_against_samples,
        switch_curves,
        switches_against_n,
    )

    options = Options(critic=critic, estimator=estimator, roll_in=roll_in)
    grid = cells(algorithms, mdps, seeds, N, episodes, M, seconds, options)
    with Progress() as bar:
        task = bar.add_task("runs", total=len(grid))
        rows = run_grid(grid, out, processes, lambda done, _: bar.update(task, completed=done))
    text = both_tables(rows)
    (out / "table.md").write_text(text + "\n")
    gap_against_samples(rows, out / "gap.png")
    exponents(rows, out / "exponents.png")
    if curves := switch_curves(rows):
        switches_against_n(curves, out / "switches.png")
    print(text)
    print("\nwritten: " + ", ".join(str(p) for p in sorted(out.glob("*.*"))))


def _show(title: str, figures: dict, json: bool, note: str = "") -> None:
    if json:
        print(json_module.dumps(figures))
        return
    print(title)
    for name, x in figures.items():
        if isinstance(x, dict):
            x = ", ".join(f"{k}: {v if v is not None else 'not reached'}" for k, v in x.items())
        print(f"  {name:18s} {x:.6g}" if isinstance(x, float) else f"  {name:18s} {x}")
    if note:
        print(note)


def dispatch(words: Sequence[str]) -> None:
    """`[theory flags]` or `compare [flags]`."""
    import tyro

    if list(words[:1]) == ["compare"]:
        tyro.cli(compare, prog="lpo theory compare", args=words[1:])
    else:
        tyro.cli(theory, prog="lpo theory", args=words)


def main(arguments: Sequence[str] | None = None) -> int:
    """`dispatch`; a user's mistake is one sentence and exit code 2."""
    try:
        dispatch(sys.argv[1:] if arguments is None else arguments)
    except LPOError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
