"""Options as a file states them: of our classes by their short names, others by their place."""

import json

import pytest
from hypothesis import given, settings

from lpo import cli
from lpo.config import configure, flat, to_dict, to_json
from lpo.errors import LPOError
from lpo.report.doctor import examine
from lpo.report.main import Clips, make_report
from lpo.report.runs import Runs
from lpo.report.tables import option_rows
from lpo.runs.written import options_of
from tests.report.test_report import write_run
from tests.test_config import configurations


@given(configurations())
@settings(max_examples=60, deadline=None)
def test_options_are_those_that_the_classes_would_read(c):
    lists = lambda o: {k: list(v) if isinstance(v, tuple) else v for k, v in o.items()}  # noqa: E731
    assert options_of(to_json(c), "here") == lists(flat(c))


def removed(seed: int) -> dict:
    """A configuration with a bonus, a group and options that no version of this package has."""
    c = to_dict(configure("lpo", steps=3000, seed=seed))
    c["bonus"] = {"kind": "curiosity", "learning_rate": 0.5, "features": {"kind": "blots", "n": 3}}
    c["ppo"]["trust"] = 0.25
    c["memory"] = {"length": 7}
    return c


def test_what_no_class_has_is_named_by_its_place():
    found = options_of(json.dumps(removed(0)), "here")
    assert found["bonus"] == "curiosity" and found["features"] == "blots"
    assert found["bonus_learning_rate"] == 0.5 and found["bonus_n"] == 3
    assert found["ppo_trust"] == 0.25 and found["memory_length"] == 7
    assert found["learning_rate"] == configure("lpo").ppo.learning_rate  # which is PPO's


def test_the_flat_files_of_the_first_version_are_options_as_they_stand():
    old = {"algo": "ppo", "bonus": None, "beta": 2.0, "hidden": [8], "intrinsic_episodic": True}
    assert options_of(json.dumps(old), "here") == {
        "algo": "ppo", "bonus": "none", "beta": 2.0, "hidden": [8], "intrinsic_ends": "ends",
    }  # fmt: skip


def test_runs_of_a_part_that_was_removed_are_packed_tabled_diagnosed_and_reported(tmp_path):
    for seed in range(2):
        run = write_run(tmp_path / "swept" / f"s{seed}", [0.0, 1.0, 2.0], algo="lpo", seed=seed)
        (run / "config.json").write_text(json.dumps(removed(seed)))
    other = write_run(tmp_path / "swept" / "ppo", [0.0, 1.0, 2.0], algo="ppo")
    cli.main(["pack", str(tmp_path / "swept"), "--out", str(tmp_path / "old.parquet")])
    runs = Runs([tmp_path / "old.parquet"])
    differing, shared = option_rows(runs)
    assert {"option": "bonus", "lpo": "curiosity", "ppo": "none"} in differing
    assert {"option": "memory_length", "lpo": "7", "ppo": "–"} in differing
    page = make_report(runs, tmp_path / "report", "old", "", None, Clips({}))
    assert "curiosity" in page.read_text()
    assert examine([tmp_path / "old.parquet"])[1].startswith("why    ")
    assert other.exists() and {"option": "rollout", "value": "2048"} in shared


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "is not a configuration"),
        ("{", "is not a configuration"),
        ('{"algo": "lpo", "steps": "many", "seed": 0}', "has steps 'many'"),
        ('{"algo": 3, "steps": 1, "seed": 0}', "has algo 3"),
    ],
)
def test_what_is_not_a_configuration_is_refused(text, said, tmp_path):
    run = write_run(tmp_path / "run", [1.0, 2.0])
    (run / "config.json").write_text(text)
    with pytest.raises(LPOError, match="config") as raised:
        Runs([run])
    assert said in str(raised.value) and str(raised.value).endswith(".")
