"""Build the reports of all packed sweeps, and the figures that the docs show.

    python scripts/build_results.py              # build/reports/NAME/index.html, figures/, data/
    python scripts/build_results.py --figures    # the figures of docs/figures alone
    python scripts/build_results.py --only figure1-seeds64 default-long

A page shows ``figures/NAME/FILE.svg``: FILE of the report NAME, or a figure that a script of
experiments/ draws. Figures of the theory are drawn by experiments/theory.
"""

from __future__ import annotations

import argparse
import re
import runpy
import sys
from pathlib import Path
from typing import NamedTuple

from lpo.report import figures
from lpo.report.main import Clips, make_report, slug
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
    Report("figure1-seeds64", "Figure 1, 64 seeds", ("figure1/seeds64",), "lpo"),
    Report("figure1-turned", "Figure 1, (cos, sin) of angles", ("figure1/turned",), "lpo"),
    Report("figure1-switch", "When the policy changes", ("figure1/switch",), "lpo"),
    Report("figure1-readings", "Growth by environment steps", ("figure1/readings",)),
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
    Report("default-long", "Both bodies at hard, 10M steps", ("default/long",), "default"),
    Report("default-again", "The default on other seeds", ("default/again",), "again"),
    Report("default-others", "The default on tasks by others", ("default/others",), "default"),
    Report("default-units", "A success that pays .1 or 100", ("default/units",), "default"),
    Report("default-pairs", "A bonus on (s,a) on nine other tasks", ("default/pairs",), "eniac"),
    Report("default-lock10", "Every row on a lock", ("default/lock10",), "lpo"),
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
)


def build(report: Report) -> Path:
    """Write the page, the figures and the data of a report."""
    command = "python scripts/build_results.py"
    out = REPORTS / report.name
    return make_report(
        Runs(report.files()), out, report.title, command, report.reference, Clips({})
    )


def shown() -> set[str]:
    """List the figures of reports that pages show, as NAME/FILE.svg."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = {name for page in pages for name in SHOWN.findall(page.read_text(encoding="utf-8"))}
    return {name for name in found if name.split("/")[0] in {report.name for report in ALL}}


def draw(out: Path) -> list[Path]:
    """Draw the figures that pages show, and no others, into folders of ``out``."""
    drawn: list[Path] = []
    for report in ALL:
        names = {Path(name).stem for name in shown() if name.startswith(f"{report.name}/")}
        folder = out / report.name
        folder.mkdir(parents=True, exist_ok=True)
        if any(name.startswith("return-") for name in names):
            runs = Runs(report.files())
            for task in runs.tasks:
                if (name := slug("return", task)) in names:
                    figures.learning(runs, task, folder, name)
        drawn += [folder / f"{name}.svg" for name in names]
    sys.path.insert(0, str(ROOT / "experiments" / "default"))
    picture = runpy.run_path(str(ROOT / "experiments" / "default" / "picture.py"))
    picture["curves"](out / "default-confirm")
    picture["front"](out / "default-confirm")
    picture["curves"](out / "default-others", picture["OTHERS"])
    picture["ablation"](out / "default-ablate")
    return sorted(drawn)


def refresh() -> None:
    """Draw what pages show anew in docs/figures."""
    slim = runpy.run_path(str(ROOT / "scripts" / "slim_svg.py"))["slim"]
    for path in draw(ROOT / "build" / "figures"):
        name = path.relative_to(ROOT / "build" / "figures")
        (FIGURES / name).parent.mkdir(parents=True, exist_ok=True)
        (FIGURES / name).write_text(slim(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(FIGURES / name)


def main() -> None:
    parser = argparse.ArgumentParser(description="Reports and figures of the packed sweeps")
    parser.add_argument(
        "--figures", action="store_true", help="draw docs/figures anew, and no report"
    )
    names = [report.name for report in ALL]
    parser.add_argument("--only", nargs="+", choices=names, help="these reports only")
    options = parser.parse_args()
    if options.figures:
        refresh()
        return
    for report in ALL:
        if not options.only or report.name in options.only:
            print(build(report), flush=True)


if __name__ == "__main__":
    main()
