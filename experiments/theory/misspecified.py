"""What a wrong class costs: gap against ε_bias, policy-gradient beside value-based methods.

    python experiments/theory/misspecified.py           # table and figure of the packed runs
    python experiments/theory/misspecified.py --run     # runs what is missing first

Five families of MDPs whose features are wrong by a severity that is set, 20 seeds, the practical
constants for all, with K = 10. The sizes were set in a pilot of one to three seeds. Severities .1
and .6 of `linear` and `decoy` were added after a first look, for the fit of the powers.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
from study import Run, Study, markdown, mean, said, slope, spoken

from lpo.report.figures import colors, panel
from lpo.theory.algorithms import Options
from lpo.theory.compare import Cell, parse_mdp
from lpo.theory.runner import VALUE_BASED

SEEDS, MEASURED, N, M, EPOCH, EPISODES, K = 20, 5, 800, 200, 25, 500, (("K", 10),)
FAMILIES = {  # name → MDP with {} for the severity, severities
    "aliased": ("aliased:3,severity={}", (0, 0.03, 0.1, 0.3)),
    "linear": ("linear:6,num_states=18,num_actions=3,bias={}", (0, 0.1, 0.3, 0.6, 0.9)),
    "decoy": ("decoy:6,severity={}", (0, 0.1, 0.3, 0.6, 0.9)),
    "corridor": ("corridor:12,severity={}", (1, 6, 12)),
    "keyless": ("keyless:2,severity={}", (0, 1)),
}
POLICY = ("lpo", "eniac", "pcpg", "copoe")
VALUE = ("lsvi-ucb", "kong", "ucbvi")
CRITICS = ("exact", "sampled")
Found = dict[tuple[str, str, str], list[Run]]
SHOWN = [("lpo", "exact"), ("lpo", "sampled"), ("eniac", "sampled"), ("lsvi-ucb", ""), ("kong", "")]


def grid() -> list[Cell]:
    cells = []
    for spec, severities in FAMILIES.values():
        for severity, seed in product(severities, range(SEEDS)):
            mdp = spec.format(severity)
            for name, critic in product(POLICY, CRITICS):
                measure = name == "lpo" and critic == "exact" and seed < MEASURED
                options = Options(critic=critic, roll_in="law", transfer=measure)
                cells.append(Cell(name, mdp, seed, N, M, 600.0, options, K, epoch=EPOCH))
            cells += [Cell(name, mdp, seed, EPISODES, M, 600.0) for name in VALUE]
    return cells


def group(runs: list[Run]) -> Found:
    """The runs by MDP, algorithm and critic; value-based methods have no critic."""
    found: Found = {}
    for run in runs:
        name, critic = run.cell.algorithm, run.cell.options.critic
        key = run.cell.mdp, name, "" if name in VALUE_BASED else critic
        found.setdefault(key, []).append(run)
    return found


def gaps(found: Found, mdp: str, name: str, critic: str) -> list[float]:
    return [r["relative_gap_late"] for r in found[mdp, name, critic]]


def bias(found: Found, mdp: str) -> float:
    """ε_bias at the end of LPO's runs with the exact critic, the mean of the measured seeds."""
    each = [r["transfer_last"] for r in found[mdp, "lpo", "exact"]]
    return float(np.mean([x for x in each if x is not None]))


def table(found: Found, critic: str) -> str:
    """Late gaps of the policy-gradient methods with that critic; the value-based ones have none."""
    names = (*POLICY, *VALUE) if critic == "sampled" else POLICY
    lines = []
    for family, (spec, severities) in FAMILIES.items():
        for severity in severities:
            mdp = spec.format(severity)
            critics = ["" if name in VALUE else critic for name in names]
            each = [said(gaps(found, mdp, *who)) for who in zip(names, critics, strict=True)]
            lines.append([family, f"{severity:g}", tiny(bias(found, mdp)), *each])
    return markdown(["family", "severity", "ε_bias", *names], lines)


def tiny(x: float) -> str:
    return "0" if x < 1e-20 else f"{x:.2g}"


def powers(found: Found) -> str:
    """The power of ε_bias with which V* − V grows, and how far below B.10's bound it stays."""
    lines = []
    for family in ("aliased", "linear", "decoy"):
        spec, severities = FAMILIES[family]
        wrong = [spec.format(s) for s in severities if s]
        x = np.array([bias(found, mdp) for mdp in wrong])
        line = [family]
        for name, critic in SHOWN:
            y = np.array([losses(found, mdp, name, critic) for mdp in wrong])
            line.append(spoken(slope(x, np.maximum(y, 1e-9))))
        made = [parse_mdp(mdp) for mdp in wrong]
        bound = [2 * np.sqrt(2 * m.num_actions * e) / (1 - m.gamma)
                 for m, e in zip(made, x, strict=True)]  # fmt: skip
        lost = [np.mean(losses(found, mdp, "lpo", "exact")) for mdp in wrong]
        line.append(f"{np.max(np.array(lost) / bound):.2f}")
        lines.append(line)
    head = ["family", *(f"{n} ({c})" if c else n for n, c in SHOWN), "largest loss / bound of B.10"]
    return markdown(head, lines)


def losses(found: Found, mdp: str, name: str, critic: str) -> list[float]:
    """V* − V of the late policies, not divided by V*."""
    return [r["relative_gap_late"] * r["optimal_value"] for r in found[mdp, name, critic]]


def tables(runs: list[Run]) -> str:
    found = group(runs)
    return "\n\n".join([table(found, "sampled"), table(found, "exact"), powers(found)])


def draw(runs: list[Run], out: Path) -> None:
    names = [("lpo", "sampled"), ("eniac", "sampled"), ("copoe", "sampled"),
             ("lsvi-ucb", ""), ("kong", ""), ("ucbvi", "")]  # fmt: skip
    color, found = colors([n for n, _ in names]), group(runs)
    with panel(out, "misspecified", height=9.0, rows=len(FAMILIES)) as axes:
        for ax, (family, (spec, severities)) in zip(axes, FAMILIES.items(), strict=True):
            x = np.arange(len(severities))
            for i, (name, critic) in enumerate(names):
                e = [mean(gaps(found, spec.format(s), name, critic)) for s in severities]
                y = np.array([point.value for point in e])
                ends = np.array([[p.value - p.low, p.high - p.value] for p in e]).T
                ax.errorbar(x + 0.08 * (i - 2.5), y, np.maximum(ends, 0), fmt="o-", ms=3, lw=1,
                            color=color[name], label=name)  # fmt: skip
            for i, s in enumerate(severities):
                ax.annotate(f"{s:g}", (i, 0.97), xycoords=("data", "axes fraction"), fontsize=8,
                            ha="center", va="top")  # fmt: skip
            ax.set_title(f"{family} (severity above)")
            ax.set(ylabel="gap / V*", ylim=(-0.03, 0.7))
        axes[-1].set_xticks([])
        axes[0].figure.legend(*axes[0].get_legend_handles_labels(), ncols=3, fontsize=8,
                              loc="outside lower center")  # fmt: skip


STUDY = Study("misspecified", grid(), tables, draw)

if __name__ == "__main__":
    raise SystemExit(STUDY.main(Path(__file__).parent))
