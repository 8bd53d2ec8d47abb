"""Command line: `lpo theory` and `lpo theory compare`.

`theory` runs one algorithm on one MDP and prints samples, switches and gaps. `compare` runs a grid
over algorithms, MDPs and seeds and writes a table and figures.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from lpo.cli.parser import Listed, parse
from lpo.options import Count, NonNegative, Positive, PositiveInt, Unit, fields_of, options
from lpo.theory.algorithms import Options
from lpo.theory.compare import cells, parse_mdp
from lpo.theory.constants import READINGS, Constants, bill
from lpo.theory.mdp import MDP
from lpo.theory.runner import ALGORITHMS, CLASSES, function_class, run, summary
from lpo.theory.zoo import MAKERS


@options
class Shared(Options):
    """Options of one run and of a grid of them."""

    M: PositiveInt = 1000
    """Trajectories per dataset, the same for all algorithms that use one."""


@options
class TheoryOptions(Shared):
    """Run one algorithm on one MDP with exact values and print samples, switches and gaps."""

    mdp: Annotated[str, Listed(tuple(MAKERS))] = "deepsea:8"
    """Name, name:size or name:size,option=value, as in linear:20,bias=0.1."""
    algorithm: Annotated[str, Listed(tuple(ALGORITHMS))] = "lpo"
    """Which algorithm to run."""
    N: PositiveInt = 10_000
    """Outer iterations: d-samples, or episodes of the value-based methods."""
    seed: Count = 0
    """Seed of all random numbers."""
    constants: Literal["practical", "theory"] = "practical"
    """Run with practical constants, or only print the constants of the proofs."""
    K: PositiveInt = 20
    """Inner iterations."""
    eta: Positive = 30.0
    """NPG step size."""
    n0: Positive = 1.0
    """A tabular pair is known after this many copies in the sampled set (epsilon / beta^2)."""
    factor: Positive = 1.0
    """The C*log factor of S-Sampling."""
    width_bonus: NonNegative = 0.02
    """Coefficient of the width bonus (2 in the paper)."""
    kappa: NonNegative = 2.0
    """Inner iterations that reuse one dataset, with --reuse kappa."""
    delta: Unit = 0.1
    """Failure probability."""
    target: Positive = 0.1
    """Suboptimality that --constants theory is computed for."""
    gamma: Unit | None = None
    """Discount (default: that of the MDP)."""
    function_class: Annotated[str, Listed(tuple(CLASSES))] = ""
    """Function class (default: linear if the MDP has features, else box)."""
    seconds: Positive = 600.0
    """Time limit: stop at the first policy change after this many seconds."""
    json: bool = False
    """Print one JSON object instead of a table."""


@options
class CompareOptions(Shared):
    """Run every algorithm on every MDP over seeds; write runs, table and figures.

    Options of the algorithms are those of the policy-gradient methods.
    """

    mdps: Annotated[tuple[str, ...], Listed(tuple(MAKERS))] = (
        "deepsea:8", "riverswim:6", "linear:20",
    )  # fmt: skip
    """Name, name:size or name:size,option=value, as in linear:20,bias=0.1."""
    algorithms: Annotated[tuple[str, ...], Listed(tuple(ALGORITHMS))] = tuple(
        a for a in ALGORITHMS if a != "lpo-always"
    )
    """Algorithms to run."""
    seeds: PositiveInt = 3
    """Number of seeds: 0 to seeds-1."""
    N: PositiveInt = 10_000
    """d-samples of the policy-gradient methods."""
    episodes: PositiveInt = 3000
    """Episodes of the value-based methods."""
    seconds: Positive = 120.0
    """Time limit of one run."""
    processes: PositiveInt | None = None
    """Number of runs at a time, each on its own core (default: all cores)."""
    out: Path = Path("runs/theory-compare")
    """Output folder. A grid that is started again in it runs only what is missing."""


def theory(o: TheoryOptions) -> int:
    """Runs one algorithm, or prints the proofs' constants; returns the exit status."""
    mdp = parse_mdp(o.mdp, **({} if o.gamma is None else {"gamma": o.gamma}))
    if o.constants == "theory":
        F = function_class(mdp)
        figures = asdict(Constants.theory(mdp, F, o.N, o.delta, o.target))
        size = getattr(F, "dim", F.num_pairs)
        figures |= {
            f"trajectories, {reading}": bill(
                mdp.gamma, size, mdp.num_actions, o.target, o.delta, reading
            ).trajectories
            for reading in READINGS
        }
        note = "The proofs' constants; no run is feasible with them (see docs/proofs.md)."
        show(f"{mdp.name}: Constants.theory()", figures, o.json, note)
        return 0
    constants = practical(mdp, o)
    trace = run(o.algorithm, mdp, constants, o.seed, readings(o), o.seconds, F=o.function_class)
    figures = {"algorithm": o.algorithm, "constants": constants.kind, "critic": o.critic}
    late = f"Stopped by the time limit at iteration {trace.iterations}."
    note = "" if trace.iterations >= o.N else late
    show(f"{o.algorithm} on {mdp.name}", figures | summary(trace), o.json, note)
    return 0


def readings(o: Shared) -> Options:
    """Returns the options of the algorithms alone."""
    return Options(**{name: getattr(o, name) for name in fields_of(Options)})


def practical(mdp: MDP, o: TheoryOptions) -> Constants:
    return Constants.practical(
        mdp, o.N, o.delta, n0=o.n0, factor=o.factor, width_bonus=o.width_bonus, K=o.K, eta=o.eta,
        kappa=o.kappa, M=o.M,
    )  # fmt: skip


def compare(o: CompareOptions) -> int:
    """Runs the grid, then writes its table and figures; returns the exit status."""
    from lpo.report.theory import write
    from lpo.sweep.theory import run_grid

    grid = cells(o.algorithms, o.mdps, o.seeds, o.N, o.episodes, o.M, o.seconds, readings(o))
    rows = run_grid(grid, o.out, o.processes, f"lpo theory compare --out {shlex.quote(str(o.out))}")
    if isinstance(rows, int):
        return rows
    print(write(rows, o.out))
    print("\nwritten: " + ", ".join(str(p) for p in sorted(o.out.glob("[!.]*.*"))))
    return 0


def show(title: str, figures: dict[str, Any], as_json: bool, note: str = "") -> None:
    """Prints figures as one JSON object, or as a table with a note below it."""
    if as_json:
        print(json.dumps(figures))
        return
    print(title)
    for name, x in figures.items():
        if isinstance(x, dict):
            x = ", ".join(f"{k}: {v if v is not None else 'not reached'}" for k, v in x.items())
        print(f"  {name:18s} {x:.6g}" if isinstance(x, float) else f"  {name:18s} {x}")
    if note:
        print(note)


def dispatch(words: Sequence[str]) -> int:
    """`[theory flags]` or `compare [flags]`; returns the exit status."""
    if list(words[:1]) == ["compare"]:
        return compare(parse(CompareOptions, "theory compare", words[1:]))
    return theory(parse(TheoryOptions, "theory", words))
