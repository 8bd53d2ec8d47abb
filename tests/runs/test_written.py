"""What a run has written: its options, checkpoints and labels, and a run of an earlier version."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import lpo.cli
from lpo import LPO, Policy, cli
from lpo.config import configure, flat, to_dict, to_json
from lpo.errors import LPOError
from lpo.math import trees
from lpo.report.doctor import examine
from lpo.report.main import Clips, make_report
from lpo.report.runs import Runs
from lpo.report.tables import option_rows, short_task
from lpo.runs import checkpoint
from lpo.runs.directory import RunDirectory
from lpo.runs.record import PLAN, label_of
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


# -- Checkpoints: whole or not there, and never trusted without their checksum

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "scalar": np.array(7, np.int32), "b": np.ones(2, bool)}


def test_round_trip(tmp_path):
    checkpoint.save(tmp_path, "0001", ARRAYS, {"env_steps": 5})
    saved = checkpoint.load(tmp_path / "0001.safetensors")
    assert saved.record["env_steps"] == 5
    assert set(saved.arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert saved.arrays[name].dtype == array.dtype and saved.arrays[name].shape == array.shape
        np.testing.assert_array_equal(saved.arrays[name], array)


def test_a_flipped_bit_is_noticed_and_the_one_before_is_used(tmp_path):
    for name in ("0001", "0002"):
        checkpoint.save(tmp_path, name, ARRAYS, {"name": name})
    path = tmp_path / "0002.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(LPOError, match="checksum"):
        checkpoint.load(path)
    saved, problems = checkpoint.load_latest(tmp_path)
    assert saved.record["name"] == "0001" and "checksum" in problems[0]


def test_half_a_pair_does_not_count(tmp_path):
    checkpoint.save(tmp_path, "0001", ARRAYS, {})
    (tmp_path / "0002.safetensors").write_bytes(b"cut off")
    (tmp_path / ".0002.json.tmp").write_text("{")
    assert checkpoint.names(tmp_path) == ["0001"]


def test_foreign_files_are_refused(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"not safetensors")
    record = {"format": 2, "sha256": hashlib.sha256(b"not safetensors").hexdigest()}
    record["record_sha256"] = checkpoint.digest(record)
    (tmp_path / "x.json").write_text(json.dumps(record))
    with pytest.raises(LPOError, match="not a safetensors file"):
        checkpoint.load(tmp_path / "x.safetensors")
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(LPOError, match="format"):
        checkpoint.load(tmp_path / "x.safetensors")
    with pytest.raises(LPOError, match="Cannot read"):
        checkpoint.load(tmp_path / "missing.safetensors")


def test_pruning_keeps_the_latest_and_the_best(tmp_path):
    for i in range(5):
        checkpoint.save(tmp_path, f"{i:04d}", ARRAYS, {})
    checkpoint.save(tmp_path, "best", ARRAYS, {})
    checkpoint.prune(tmp_path, 2)
    left = sorted(p.name for p in tmp_path.iterdir())
    assert left == ["0003.json", "0003.safetensors", "0004.json", "0004.safetensors",
                    "best.json", "best.safetensors"]  # fmt: skip


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "file"
    checkpoint.write_atomically(path, b"old")

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        checkpoint.write_atomically(path, b"new")
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["file"]


def test_trees_come_back_and_other_shapes_are_refused():
    tree = {"x": (jnp.ones(3), jnp.int32(4))}
    named = trees.flatten("t", tree)
    back = trees.unflatten("t", tree, named)
    np.testing.assert_array_equal(back["x"][0], np.ones(3))
    with pytest.raises(LPOError, match="does not fit"):
        trees.unflatten("t", {"x": (jnp.ones(4), jnp.int32(4))}, named)


# -- What a report reads of a run that its sweep has named


def test_a_label_follows_the_plan_of_the_sweep(tmp_path):
    """The plan is parsed once for each time that it was written."""
    config = json.dumps(to_dict(configure("lpo")))
    assert label_of(tmp_path / "a", config) == "lpo"  # no plan: the algorithm
    for second, label in enumerate(("first", "second"), start=1):
        plan = tmp_path / PLAN
        plan.write_text(json.dumps({"runs": [{"name": "a", "label": label}]}))
        os.utime(plan, (second, second))
        assert label_of(tmp_path / "a", config) == label
    assert label_of(tmp_path / "b", config) == "lpo"  # not in the plan


@pytest.mark.parametrize(
    ("task", "short"),
    [
        ("lpo/SparseHopper-v0 (half: x_velocity > 0.74 m/s)", "SparseHopper (half)"),
        ("dm_control/cartpole-swingup_sparse-v0", "cartpole-swingup_sparse"),
        ("CombinationLock-v0 (length=10)", "CombinationLock (length=10)"),
    ],
)
def test_a_task_is_shown_without_namespace_version_and_threshold(task, short):
    assert short_task(task) == short


# -- A run directory of an earlier version still loads, resumes and reports

SOURCE = Path(__file__).parents[1] / "data" / "run-0.2"


@pytest.fixture
def run(tmp_path):
    return Path(shutil.copytree(SOURCE, tmp_path / "run"))


@pytest.mark.slow
def test_it_resumes_to_where_it_was(run, capsys):
    before = RunDirectory(run).metrics()
    lpo.cli.main(["resume", str(run), "--quiet"])
    after = RunDirectory(run).metrics()
    assert [row["env_steps"] for row in after] == [row["env_steps"] for row in before]
    assert [row["switch/count"] for row in after] == [row["switch/count"] for row in before]
    first = next(i for i, row in enumerate(before) if row["env_steps"] > 824)
    assert before[:first] == after[:first]
    # The first rollout after the checkpoint; later ones may differ by rounding on another machine.
    for name in ("bonus/raw_mean", "value/ext_target", "policy/entropy", "bonus/scale"):
        assert after[first][name] == pytest.approx(before[first][name], rel=1e-3, abs=1e-5), name
    assert RunDirectory(run).reached() == 1200
    assert "1,200 steps" in capsys.readouterr().out


def test_its_policy_and_its_agent_load(run):
    obs = np.linspace(-1, 1, 11)
    policy, agent = Policy.load(run, "last"), LPO.load(run, checkpoint="last")
    a, b = (player.predict(obs, deterministic=True)[0] for player in (policy, agent))
    np.testing.assert_array_equal(a, b)
    assert policy.env_steps == agent.env_steps == 824 and a.shape == (3,)


def test_it_is_reported(run, tmp_path):
    (found,) = Runs([run]).runs
    assert found.options["beta"] == 3.0 and found.label == "lpo"
    assert found.options["ppo_learning_rate_end"] == 1.0  # which no class has now
    lpo.cli.main(["report", str(run), "--no-clips", "--out", str(tmp_path / "report")])
    assert "SparseHopper" in (tmp_path / "report" / "index.html").read_text()
