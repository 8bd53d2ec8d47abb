"""Faults in short: what the harness does at length, and the mends that it led to."""

import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from lpo.errors import LPOError
from lpo.math import trees
from lpo.runs import checkpoint
from lpo.runs.directory import RunDirectory
from lpo.runs.journal import Journal
from lpo.runs.run import make_trainer, resume, start
from lpo.sweep.device import begun_groups
from lpo.sweep.grid import Item
from tests.faults import numerics
from tests.faults.table import Result, table

OLD, NEW = {"a": np.zeros(3)}, {"a": np.ones(3)}


def test_the_table_counts():
    results = [Result("kill", "x", False, True), Result("kill", "y", True, False)]
    assert table(results).splitlines()[2:] == ["| kill | 2 | 1 | 1 |", "| all | 2 | 1 | 1 |"]


@pytest.mark.parametrize(("renames", "left"), [(0, OLD), (1, NEW)])
def test_a_checkpoint_that_was_being_replaced_is_the_old_or_the_new_one(
    tmp_path, monkeypatch, renames, left
):
    checkpoint.save(tmp_path, "best", OLD, {"score": 1})
    done, replace = [], os.replace

    def killed(*paths):
        if len(done) == renames:
            raise KeyboardInterrupt  # no handler of ours runs, as at a kill
        done.append(replace(*paths))

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(tmp_path, "best", NEW, {"score": 2})
    saved = checkpoint.load(tmp_path / "best.safetensors")
    np.testing.assert_array_equal(saved.arrays["a"], left["a"])
    assert saved.record["score"] == 1 + (left is NEW)


def test_flipped_bits_of_a_record_are_noticed(tmp_path):
    record = checkpoint.save(tmp_path, "1", OLD, {"best": 0.25, "x": "é"}).with_suffix(".json")
    data = record.read_bytes()
    same = json.loads(data)
    for i in range(0, 8 * len(data), 5):
        changed = bytearray(data)
        changed[i // 8] ^= 1 << i % 8
        record.write_bytes(bytes(changed))
        try:
            assert checkpoint.load(record).record == same  # a blank between two words
        except LPOError:
            continue


def test_a_kill_while_old_checkpoints_are_deleted_leaves_nothing_behind(tmp_path):
    for name in ("01", "02", "03"):
        checkpoint.save(tmp_path, name, OLD, {})
    (tmp_path / "01.json").unlink()  # killed here
    checkpoint.prune(tmp_path, 2)
    assert sorted({p.stem for p in tmp_path.iterdir()}) == ["02", "03"]


def test_a_damaged_log_leads_to_the_checkpoint_before_it(tmp_path):
    for name in ("01", "02"):
        checkpoint.save(tmp_path, name, OLD, {"name": name})
    found, problems = checkpoint.load_latest(
        tmp_path, lambda saved: "The log is damaged." if saved.record["name"] == "02" else None
    )
    assert found.record["name"] == "01"
    assert problems == ["The log is damaged. Trying the checkpoint before it."]
    found, problems = checkpoint.load_latest(tmp_path, lambda saved: "It is damaged.")
    assert found.record["name"] == "02" and "newest valid one" in problems[-1]


def test_a_log_that_is_too_short_is_not_filled_up(tmp_path):
    run = RunDirectory(tmp_path)
    run.metrics_file.write_bytes(b'{"env_steps": 1}\n')
    with open(run.metrics_file, "ab") as file:
        journal = Journal([run], [file], [500, 0])
        journal.write([[{"env_steps": 2}]], {})
        journal.close()
    assert [row["env_steps"] for row in run.metrics()] == [1, 2]
    assert b"\0" not in run.metrics_file.read_bytes()


def test_a_directory_that_a_kill_left_half_made_is_made_again(tmp_path, tiny):
    run = RunDirectory.create(tmp_path / "run", tiny(), {"id": "x"})
    run.config_file.unlink()  # killed before it was written
    assert RunDirectory.create(tmp_path / "run", tiny(), {"id": "x"}).exists
    run.config_file.unlink()
    (tmp_path / "run" / "thesis.tex").write_text("all my work")
    with pytest.raises(LPOError, match="not empty"):
        RunDirectory.create(tmp_path / "run", tiny(), {"id": "x"})


def test_a_group_stays_together_when_some_of_its_runs_are_done(tmp_path, tiny):
    items = [Item(name, name, tiny(seed=i)) for i, name in enumerate("abc")]
    (tmp_path / "device").mkdir()
    checkpoint.save(tmp_path / "device" / "b", "01", OLD, {"runs": ["b", "c"]})
    names = [[item.name for item in group] for group in begun_groups(tmp_path, items)]
    assert names == [["b", "c"], ["a"]]


def test_weights_that_are_not_finite_are_not_kept(tiny):
    trainer = make_trainer(tiny(eval_every=0))
    good = trainer.state
    policy = jax.tree.map(lambda x: np.asarray(x) * np.nan, good.params.policy)
    bad = good._replace(params=good.params._replace(policy=policy))
    trainer.learn = lambda state, rollout: (bad, {"policy/loss": 0.0})
    with pytest.raises(LPOError, match=r"params\.policy\[0\]\.w is NaN or infinite"):
        trainer.iterate(1200)
    assert trainer.state is good and trees.not_finite(trainer.state) is None


@pytest.mark.slow
def test_a_run_killed_before_its_first_checkpoint_begins_again(tmp_path, tiny):
    with start(tiny(steps=600), tmp_path / "whole") as run:
        run.advance(600)
    with start(tiny(steps=600), tmp_path / "cut") as run:
        run.trainer.iterate(600)  # and no more
    found = resume(tmp_path / "cut")
    assert "begins again" in found.problems[0] and found.until == 600
    with found.run as run:
        run.advance(found.until)
    for name in ("metrics.jsonl", "checkpoints/000000000600.safetensors"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="timers that kill, and mounts")
def test_the_harness_in_short(tmp_path):
    words = "kills disk damage --kills 12 --times 1 --cases ppo-finite".split()  # noqa: SIM905
    ended = subprocess.run(
        [sys.executable, "-m", "tests.faults", *words, "--work", str(tmp_path)],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    total = ended.stdout.splitlines()[-1].split("|")
    assert int(total[2]) >= 30 and int(total[3]) == 0 and total[4] == total[2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rewards of 1e8", "minibatches of one"])
def test_numbers_stay_finite(name):
    found = numerics.on_host(numerics.EDGES[name], 10_000)
    assert found.wrong is None and found.steps >= 10_000
