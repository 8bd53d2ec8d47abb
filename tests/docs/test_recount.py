"""Counts over several sweeps stand on the pages as their script makes them."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("table", "page"), [("cheetah", "locomotion"), ("lock", "lock")])
def test_the_table_is_that_of_the_script(table, page):
    script = runpy.run_path(str(ROOT / "experiments" / "recount.py"))
    assert script["TABLES"][table]() in (ROOT / "docs" / "results" / f"{page}.md").read_text()
