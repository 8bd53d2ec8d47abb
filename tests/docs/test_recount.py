"""Counts over several sweeps stand on the pages as their script makes them."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


PAGES = {
    "lock": "results/lock",
    "controls": "results/lock",
    "stalls": "results/sensitivity",
}


@pytest.mark.parametrize("table", PAGES)
def test_the_table_is_that_of_the_script(table):
    script = runpy.run_path(str(ROOT / "experiments" / "recount.py"))
    assert script["TABLES"][table]() in (ROOT / "docs" / f"{PAGES[table]}.md").read_text()
