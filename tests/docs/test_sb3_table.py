"""The table of docs/sb3.md is the one that its script prints of the packed runs."""

import runpy
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "experiments" / "sb3" / "run.py"
pytestmark = pytest.mark.skipif(
    not SCRIPT.exists(), reason="packed results are in the repository, not in the sdist"
)


def test_the_table_is_that_of_the_packed_runs(capsys):
    runpy.run_path(str(SCRIPT))["table"]()
    rows = capsys.readouterr().out.strip().split("\n")
    page = (ROOT / "docs" / "sb3.md").read_text(encoding="utf-8")
    assert len(rows) == 12
    assert all(row in page for row in rows)
