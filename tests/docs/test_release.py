"""The release: what is published, by whom, and what it says of itself."""

import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RELEASE = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_a_tag_publishes_without_a_password():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert RELEASE[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true
    jobs = RELEASE["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["needs"] == "build" and "permissions" not in jobs["build"]
    assert RELEASE["permissions"] == {"contents": "read"}
    assert "secrets." not in text and "password:" not in text
    assert any("check_release.py" in str(step) for step in jobs["build"]["steps"])


def test_what_is_uploaded_is_what_was_tried():
    upload = RELEASE["jobs"]["build"]["steps"][-1]["with"]["path"]
    assert (
        upload == "build/release/dist" and "dist" in (ROOT / "scripts/check_release.py").read_text()
    )


def test_the_citation_is_of_this_version():
    assert CITATION["version"] == PROJECT["version"] and CITATION["license"] == PROJECT["license"]
    assert "Online Sensitivity Sampling" in CITATION["references"][0]["title"]


def test_the_workflow_tries_every_python_that_is_named():
    named = {c.split(" :: ")[-1] for c in PROJECT["classifiers"] if c.count(" :: 3.")}
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    assert named == set(jobs["all"]["strategy"]["matrix"]["python"])
    assert {"3.13", "3.14"} == set(jobs["newest"]["strategy"]["matrix"]["python"])


def test_how_to_report_a_weakness_is_said():
    text = (ROOT / "SECURITY.md").read_text()
    assert "Report a vulnerability" in text and "docs/trust.md" in text
