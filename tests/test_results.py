"""The numbers in docs/results.md are those of the committed runs."""

import runpy
from pathlib import Path

import pytest

from lpo.report.runs import Runs
from lpo.report.tables import cell_rows

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("results", "runs"),
    [
        ("figure1/results/half", 60),
        ("figure2/results/steps10k", 90),
        ("figure2/results/steps200k", 90),
    ],
)
def test_the_tables_of_the_page_are_the_reports(results, runs):
    page = (ROOT / "docs" / "results.md").read_text()
    found = Runs([ROOT / "experiments" / results])
    assert len(found.runs) == runs and all(run.finished for run in found.runs)
    for row in cell_rows(found):
        task = row["task"].removeprefix("lpo/").split("-v0")[0]
        line = (
            f"| {task} | `{row['label']}` | {row['runs']} | {row['final_iqm']:z.1f} "
            f"| {row['low']:z.1f} – {row['high']:z.1f} | {row['best']:z.1f} |"
        )
        assert line in page


@pytest.mark.parametrize(("which", "rows"), [("tasks", 20), ("cost", 5), ("lock", 21)])
def test_the_tables_of_the_components_are_those_of_their_script(which, rows):
    page = (ROOT / "docs" / "results.md").read_text()
    script = runpy.run_path(str(ROOT / "experiments" / "components" / "table.py"))
    text = script["TABLES"][which]()
    assert text.count("\n") == rows + 1 and text in page


def test_pages_show_figures_that_are_there():
    for page in (ROOT / "docs").rglob("*.md"):
        for part in page.read_text().split("](")[1:]:
            target = part.split(")")[0]
            if "experiments/" in target and not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
