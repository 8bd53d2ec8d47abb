"""What left the tree is in the release asset, and pages that rest on it name it."""

import re
import runpy
import tarfile
from pathlib import Path

import pytest

from lpo.report.runs import Runs

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    not (ROOT / "scripts" / "archive.py").exists(), reason="the sdist has no scripts"
)


def script() -> dict:
    return runpy.run_path(str(ROOT / "scripts" / "archive.py"))


def test_what_is_archived_is_gone():
    assert [path for path in script()["GONE"] if (ROOT / path).exists()] == []


def test_the_asset_holds_every_path_and_its_runs_can_be_read(tmp_path):
    made = script()
    if not (ROOT / ".git").exists() or not made["known"]():
        pytest.skip("this clone does not have the commit that the asset is made from")
    with tarfile.open(made["archive"](tmp_path)) as tar:
        names = tar.getnames()
        tar.extractall(tmp_path, filter="data")
    for path in [*made["GONE"], *made["AS_THEY_WERE"]]:
        assert any(re.fullmatch(rf"{made['NAME']}/{re.escape(path)}(/.*)?", x) for x in names), path
    old = tmp_path / made["NAME"] / "experiments"  # written by the first version of the format
    runs = Runs([old / "components" / "results" / "rollin.parquet"])
    assert len(runs.runs) == 10 and {run.options["bonus"] for run in runs.runs} == {"elliptic"}


def test_pages_name_the_asset_as_it_is_called():
    said = [p.name for p in (ROOT / "docs").rglob("*.md") if script()["NAME"] in p.read_text()]
    assert {"locomotion.md", "mountain-car.md", "sensitivity.md", "origin.md"} <= set(said)
    for page in (ROOT / "docs").rglob("*.md"):
        found = re.findall(r"lpo-search[\w.-]*", page.read_text())
        assert all(name.rstrip(".") == f"{script()['NAME']}.tar" for name in found), page
