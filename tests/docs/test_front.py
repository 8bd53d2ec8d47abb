"""The front pages: README is short, what it names is there, and numbers have a leading zero."""

import re
from pathlib import Path

import gymnasium
import pytest
from PIL import Image, ImageSequence

import lpo  # noqa: F401 - registers the tasks

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
NAMES = (
    "index",
    "quickstart",
    "tutorial",
    "practice",
    "from-sb3",
    "cli",
    "metrics",
    "sweeps",
    "tune",
)
PLAIN = ["README.md", *(f"docs/{name}.md" for name in NAMES)]
PLAIN += [f"docs/algorithms/{path.name}" for path in (ROOT / "docs" / "algorithms").glob("*.md")]
VENV, PIP = "python3 -m venv .venv", ".venv/bin/pip install -q"
TRY = f"{VENV} && {PIP} . && .venv/bin/lpo train"
TEST = f"{VENV} && {PIP} -e '.[dev]' -c constraints.txt && .venv/bin/pytest"
BARE = re.compile(r"(?<![\w.])-?\.\d+")  # .93, which should be 0.93


def test_readme_is_short_and_has_both_commands():
    lines = README.splitlines()
    assert len(lines) <= 120
    assert TRY in lines[:20] and TEST in lines


@pytest.mark.parametrize("page", PLAIN)
def test_numbers_have_a_leading_zero(page):
    assert BARE.findall((ROOT / page).read_text()) == []


def test_a_bare_number_is_found():
    assert BARE.findall("it has .93 [.92, 0.94], −.2 in .venv, v1.2.3 and a.5") == [
        ".93",
        ".92",
        ".2",
    ]


def test_files_that_readme_names_are_there():
    """Links are checked by test_site.py; these are the pictures in HTML and the names in code."""
    shown = re.findall(r'src="([^"]+)"', README)
    named = re.findall(r"`((?:docs|experiments|scripts)/[\w/.-]*|[A-Z]+\.md)`", README)
    assert shown and [name for name in shown + named if not (ROOT / name).exists()] == []


def test_pictures_of_readme_are_small():
    pictures = re.findall(r"docs/figures/[\w/.-]+", README)
    assert {Path(name).suffix for name in pictures} == {".gif", ".svg"}
    for name in pictures:
        assert (ROOT / name).stat().st_size <= (400_000 if name.endswith(".gif") else 60_000), name


def test_the_clip_lasts_five_seconds():
    """SparseHopper has 125 steps a second, and every tenth is shown: 12.5 frames a second."""
    (name,) = re.findall(r"docs/figures/[\w/.-]+\.gif", README)
    with Image.open(ROOT / name) as gif:
        delays = [frame.info["duration"] for frame in ImageSequence.Iterator(gif)]
    assert delays == [80] * 63


def test_a_random_policy_falls_after_22_steps_of_which_one_in_25_pays():
    """What README and the quick start say of SparseHopper."""
    env = gymnasium.make("lpo/SparseHopper-v0")
    env.action_space.seed(0)
    rewards = []
    for seed in range(100):
        env.reset(seed=seed)
        ended = False
        while not ended:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            rewards.append(float(reward))
            ended = terminated or truncated
    assert len(rewards) / 100 == pytest.approx(22, abs=2)
    assert len(rewards) / sum(rewards) == pytest.approx(25, abs=3)
    for page in ("README.md", "docs/quickstart.md"):
        said = " ".join((ROOT / page).read_text().split())
        assert re.search(r"falls after (about )?22 steps, and about one (step )?in 25 pays", said)
