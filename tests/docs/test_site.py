"""Links of the pages lead somewhere, and the site builds without a warning."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("experiments/**/README.md"),
    ROOT / "benchmarks" / "README.md",
]
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def links(text: str) -> list[str]:
    return [link for link in LINK.findall(CODE.sub("", text)) if "://" not in link]


def anchors(text: str) -> set[str]:
    """Names of the headings as repository browsers and MyST make them."""
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text))
    return {word.strip().replace(" ", "-") for word in words}


def dead_links(page: Path) -> list[str]:
    dead = []
    for link in links(prose(page)):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        found = target.exists() and (not anchor or anchor in anchors(prose(target)))
        dead += [] if found else [link]
    return dead


def test_a_dead_link_and_a_dead_anchor_are_found(tmp_path):
    other, page = tmp_path / "other.md", tmp_path / "page.md"
    other.write_text("# Why `lpo` stalls: a look\n")
    good = "[a](other.md) [b](other.md#why-lpo-stalls-a-look) [c](https://x.y) `[d](code.md)`"
    page.write_text(f"{good} [e](gone.md) [f](other.md#gone) [g](#gone)\n```\n[h](fence.md)\n```\n")
    assert dead_links(page) == ["gone.md", "other.md#gone", "#gone"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert dead_links(page) == []


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    command = ["-m", "sphinx", "-W", "--keep-going", "-q", "docs", str(tmp_path)]
    built = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "index.html").exists()
