"""The numbers in docs/results.md are those of the committed runs."""

import runpy
from pathlib import Path

import pytest

from lpo.report.runs import Runs
from lpo.report.tables import cell_rows, stream_rows, write_markdown

ROOT = Path(__file__).parents[2]


REPORTS = {
    "figure1/results/half": 60,
    "figure1/results/hard": 40,
    "ablations/results/parts": 100,
    "ablations/results/reasons": 70,
    "ablations/results/control": 10,
    "ablations/results/posture": 30,
    "ablations/results/works": 32,
    "ablations/results/peer": 8,
    "figure2/results/steps10k": 90,
    "figure2/results/steps200k": 90,
}
OTHERWISE = {
    f"ablations/results/{name}" for name in ("reasons", "control", "posture", "peer")
}  # below


@pytest.mark.parametrize("results", REPORTS)
def test_the_tables_of_the_page_are_those_of_the_runs(results, tmp_path):
    page = (ROOT / "docs" / "results.md").read_text()
    found = Runs([ROOT / "experiments" / results])
    assert len(found.runs) == REPORTS[results] and all(run.finished for run in found.runs)
    write_markdown(cell_rows(found), stream_rows(found), tmp_path)
    assert (tmp_path / "cells.md").read_text() in page or results in OTHERWISE
    for name in ("cells.md", "streams.md"):
        kept = ROOT / "experiments" / results / "report" / "data" / name
        assert kept.read_text() == (tmp_path / name).read_text()


@pytest.mark.parametrize(
    ("which", "rows"), [("tasks", 24), ("cost", 5), ("lock", 21), ("cover", 7)]
)
def test_the_tables_of_the_components_are_those_of_their_script(which, rows):
    page = (ROOT / "docs" / "results.md").read_text()
    script = runpy.run_path(str(ROOT / "experiments" / "components" / "table.py"))
    text = script["TABLES"][which]()
    assert text.count("\n") == rows + 1 and text in page


def test_the_jumps_of_the_bonus_are_those_of_their_script():
    page = (ROOT / "docs" / "results.md").read_text()
    script = runpy.run_path(str(ROOT / "experiments" / "figure1" / "steady.py"))
    assert script["table"]() in page


def test_the_reasons_of_the_stall_are_those_of_their_scripts():
    page = (ROOT / "docs" / "results.md").read_text()
    script = runpy.run_path(str(ROOT / "experiments" / "ablations" / "reasons.py"))
    table = script["table"]
    for text in (
        table("reasons", "control", "posture"),
        table("works", "peer"),
        script["pairs"](),
        script["words"](),
        script["figure1"](),
    ):
        assert text in page
    figure1 = ROOT / "experiments" / "figure1"
    posture = runpy.run_path(str(figure1 / "posture.py"))
    cells = posture["read"](figure1 / "results" / "posture-ablations.csv", "task")
    assert posture["summary"](cells) in page


def test_pages_show_figures_that_are_there():
    for page in (ROOT / "docs").rglob("*.md"):
        for part in page.read_text().split("](")[1:]:
            target = part.split(")")[0]
            if "experiments/" in target and not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
