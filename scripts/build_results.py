"""Build the reports of all packed sweeps, and the figures that the docs show.

    python scripts/build_results.py              # build/reports/NAME/index.html, figures/, data/
    python scripts/build_results.py --figures    # and the figures of docs/figures anew
    python scripts/build_results.py --only figure1-half ablations-works

A page shows ``figures/NAME/FILE.svg``: FILE of the report NAME, or a figure that a script of
experiments/ draws. Figures of the theory are drawn by experiments/theory.
"""

from __future__ import annotations

import argparse
import re
import runpy
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from lpo.report.main import Clips, make_report
from lpo.report.runs import Runs

ROOT = Path(__file__).parents[1]
REPORTS, FIGURES = ROOT / "build" / "reports", ROOT / "docs" / "figures"
SHOWN = re.compile(r"figures/([\w-]+/[\w.-]+\.svg)")


class Report(NamedTuple):
    name: str
    title: str
    sources: tuple[str, ...]  # GROUP/SWEEP, for experiments/GROUP/results/SWEEP.parquet
    reference: str | None = None

    def files(self) -> list[Path]:
        parts = (source.split("/") for source in self.sources)
        return [ROOT / "experiments" / a / "results" / f"{b}.parquet" for a, b in parts]


ALL = (
    Report("figure1-half", "Figure 1, thresholds half", ("figure1/half",)),
    Report("figure1-hard", "Figure 1, thresholds hard", ("figure1/hard",)),
    Report("figure1-seeds64", "Figure 1, 64 seeds", ("figure1/seeds64",), "lpo"),
    Report("figure1-turned", "Figure 1, (cos, sin) of angles", ("figure1/turned",), "lpo"),
    Report("figure1-switch", "When the policy changes", ("figure1/switch",), "lpo"),
    Report("figure1-readings", "Growth by environment steps", ("figure1/readings",)),
    Report("figure2-10k", "Figure 2, 10,000 steps", ("figure2/steps10k",), "lpo-norm"),
    Report("figure2-device", "Figure 2, 256 seeds", ("figure2/device10k",), "lpo-norm"),
    Report("device-host", "40 runs on the host", ("device/agreement-host",)),
    Report("device-gpu", "The same on a GPU", ("device/agreement-gpu",)),
    Report("device-planar", "The same as one program", ("device/agreement-planar",)),
    Report("default-first", "README's first command, 32 seeds", ("default/first",), "lpo-w"),
    Report(
        "default-confirm",
        "The default on new tasks",
        ("default/confirm", "default/locomotion", "figure1/seeds64"),
        "default",
    ),
    Report("default-dense", "The default where the reward is dense", ("default/dense",), "default"),
    Report("default-ablate", "The default without an ingredient", ("default/ablate",), "default"),
    Report("default-fade", "How the bonus fades", ("default/fade",), "d"),
    Report("default-lost", "A lock that is opened and lost", ("default/lost",)),
    Report("default-hard", "SparseHalfCheetah at hard", ("default/hard",), "default"),
    Report("default-long", "Both bodies at hard, 10M steps", ("default/long",), "default"),
    Report("default-again", "The default on other seeds", ("default/again",), "again"),
    Report("default-others", "The default on tasks by others", ("default/others",), "default"),
    Report("default-units", "A success that pays .1 or 100", ("default/units",), "default"),
    Report("default-pairs", "A bonus on (s,a) on nine other tasks", ("default/pairs",), "eniac"),
    Report("default-before", "The default before it", ("default/before",), "before"),
    Report("default-lock10", "Every row on a lock", ("default/lock10",), "lpo"),
    Report("figure2-200k", "Figure 2, 200,000 steps", ("figure2/steps200k",), "lpo-norm"),
    Report(
        "components-locomotion",
        "lpo-s beside figure 1",
        ("components/locomotion", "figure1/half", "components/control"),
        "lpo-s",
    ),
    Report("components-deepsea", "DeepSea with 20 rows", ("components/deepsea",), "lpo-s"),
    Report(
        "components-lock",
        "The bidirectional lock",
        ("components/lock5", "components/lock10", "components/lock15"),
        "pcpg",
    ),
    Report(
        "components-lock-controls",
        "What opens a lock: roll-in, ramp and s′",
        tuple(f"components/lock{length}-controls" for length in (5, 10, 15)),
        "pcpg-reset",
    ),
    Report("components-rollin", "Roll-in in half of the episodes or all", ("components/rollin",)),
    Report("components-features", "Features of pcpg's bonus", ("components/features",)),
    Report("components-width", "Training of the width network", ("components/width",)),
    Report(
        "ablations-parts",
        "Ablations: one thing at a time away from lpo",
        ("ablations/parts",),
        "lpo",
    ),
    Report(
        "ablations-reasons",
        "Why SparseHalfCheetah stalls: one suspect at a time",
        ("ablations/reasons",),
        "lpo",
    ),
    Report(
        "ablations-control",
        "The unchanged cheetah, stepped by Gymnasium",
        ("ablations/control",),
    ),
    Report(
        "ablations-posture",
        "Why cheetahs tumble: three changed tasks",
        ("ablations/posture",),
    ),
    Report(
        "ablations-works",
        "What makes SparseHalfCheetah work: the angle modulo a turn",
        ("ablations/works",),
        "lpo",
    ),
    Report("ablations-peer", "ENIAC with the angle modulo a turn", ("ablations/peer",)),
)


def build(report: Report) -> Path:
    """Write the page, the figures and the data of a report."""
    command = "python scripts/build_results.py"
    out = REPORTS / report.name
    return make_report(
        Runs(report.files()), out, report.title, command, report.reference, Clips({})
    )


def draw_others() -> None:
    """Draw the figures that belong to no report, each beside those of the report it stands with."""
    posture = runpy.run_path(str(ROOT / "experiments" / "figure1" / "posture.py"))
    for report, name, by in (
        ("figure1-half", "posture", "label"),
        ("ablations-reasons", "posture-ablations", "task"),
        ("ablations-works", "posture-works", "task"),
        ("default-long", "posture-lambda", "label"),
    ):
        cells = posture["read"](posture["RESULTS"] / f"{name}.csv", by)
        posture["draw"](REPORTS / report / "figures", name, cells)
    reasons = runpy.run_path(str(ROOT / "experiments" / "ablations" / "reasons.py"))
    reasons["draw"](REPORTS / "ablations-reasons" / "figures")
    sys.path.insert(0, str(ROOT / "experiments" / "default"))
    picture = runpy.run_path(str(ROOT / "experiments" / "default" / "picture.py"))
    picture["curves"](REPORTS / "default-confirm" / "figures")
    picture["front"](REPORTS / "default-confirm" / "figures")
    picture["curves"](REPORTS / "default-others" / "figures", picture["OTHERS"])
    picture["ablation"](REPORTS / "default-ablate" / "figures")
    stories = runpy.run_path(str(ROOT / "experiments" / "default" / "stories.py"))
    stories["draw"](REPORTS / "default-first" / "figures")


def shown() -> set[str]:
    """List the figures of reports that pages show, as NAME/FILE.svg."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = {name for page in pages for name in SHOWN.findall(page.read_text(encoding="utf-8"))}
    return {name for name in found if name.split("/")[0] in {report.name for report in ALL}}


def refresh() -> None:
    """Copy what pages show to docs/figures."""
    for name in sorted(shown()):
        report, file = name.split("/")
        (FIGURES / report).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPORTS / report / "figures" / file, FIGURES / name)
        print(FIGURES / name)


def main() -> None:
    parser = argparse.ArgumentParser(description="Reports and figures of the packed sweeps")
    parser.add_argument("--figures", action="store_true", help="refresh docs/figures too")
    names = [report.name for report in ALL]
    parser.add_argument("--only", nargs="+", choices=names, help="these reports only")
    options = parser.parse_args()
    if options.figures and options.only:
        parser.error("--figures needs all reports; leave --only out")
    for report in ALL:
        if not options.only or report.name in options.only:
            print(build(report), flush=True)
    if not options.only:
        draw_others()
    if options.figures:
        refresh()


if __name__ == "__main__":
    main()
