"""Packed runs: what goes in comes out, and nothing damaged or foreign gets through."""

import hashlib
import json
import struct
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from lpo.errors import LPOError
from lpo.runs import store
from lpo.runs.record import Record
from lpo.runs.store import About

ABOUT = About("tiny", "0" * 40, {"lpo": "0.1.0"}, "made by hand")
TASK = '{"id": "Toy-v0", "max_return": 10.0}'
ROWS = [
    {"env_steps": 100, "eval/return": 1 / 3, "switch/count": 1, "policy/kl": 0.5},
    {"env_steps": 200, "rollout/reward_rate": 0.0, "switch/count": 2},
    {"env_steps": 300, "rollout/reward_rate": 0.25, "switch/count": 3, "bonus/scale": 2.0},
    {"env_steps": 400, "rollout/reward_rate": 0.5, "switch/count": 4},
    {"env_steps": 500, "rollout/reward_rate": 0.5, "switch/count": 5},
]
TIMING = [{"env_steps": 100 * i, "time/learn_s": float(i), "time/eval_s": 0.1} for i in (1, 2, 3)]


def record(tmp_path, name="a", **changes):
    counts = np.arange(8).reshape(2, 2, 2)
    axes = [{"name": "x", "low": 0.0, "high": 1.0}, {"name": "y", "low": 0.0, "high": 1.0}]
    values = {"config": '{"seed": 0}', "task": TASK, "rows": ROWS, "timing": TIMING}
    values |= {"visits": (axes, counts)} | changes
    return Record(tmp_path / name, "lpo", **values)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tiny.parquet"
    store.write(path, [record(tmp_path), record(tmp_path, "b", visits=None)], ABOUT)
    return path


def rewrite(path, change_table=lambda t: t, change_about=lambda a: a):
    """The file with other content and the old checksums."""
    about = json.loads(parquet.ParquetFile(path).metadata.metadata[b"lpo"])
    table = change_table(parquet.read_table(path))
    with parquet.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"lpo": json.dumps(change_about(about))})


def refused(path) -> str:
    with pytest.raises(LPOError) as raised:
        store.read(path)
    text = str(raised.value)
    assert str(path) in text and text.endswith(("pack the runs again.", "lpo-rl[report]'`."))
    assert "\n" not in text.strip()
    return text


def test_a_packed_run_keeps_what_a_report_reads(file, tmp_path):
    """Evaluations, the first reward and the end; the first and the last time; all visits."""
    (run, other), about = store.read(file)
    assert run.rows == [
        {"env_steps": 100, "eval/return": 1 / 3, "switch/count": 1},
        {"env_steps": 300, "rollout/reward_rate": 0.25, "switch/count": 3, "bonus/scale": 2.0},
        {"env_steps": 500, "rollout/reward_rate": 0.5, "switch/count": 5},
    ]
    assert run.timing == [TIMING[0], TIMING[2]]
    assert (run.name, run.label, run.config, run.task) == ("a", "lpo", '{"seed": 0}', TASK)
    packed = record(tmp_path).visits
    assert run.visits is not None and packed is not None and run.visits[0] == packed[0]
    assert run.visits[1].tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    assert run.packed and run.path == file / "a" and run.policy is None
    assert other.visits is None and other.rows == run.rows
    assert about == ABOUT


def test_the_file_can_be_read_without_lpo(file):
    """Columns are plain lists with null where a row has no value; the metadata are JSON."""
    table = parquet.read_table(file)
    assert table.num_rows == 2
    row = table.to_pylist()[0]
    assert row["env_steps"] == [100, 300, 500]
    assert row["rollout/reward_rate"] == [None, 0.25, 0.5]
    assert row["time/learn_s"] == [1.0, 3.0] and row["time/env_steps"] == [100, 300]
    assert row["visits/counts"] == list(range(8)) and json.loads(row["visits"])["shape"] == [2] * 3
    assert "policy" in row and "policy/kl" not in row
    assert str(table.schema.field("policy").type) == "binary"
    stated = json.loads(parquet.ParquetFile(file).metadata.metadata[b"lpo"])
    assert stated["format"] == 1 and stated["commit"] == "0" * 40
    assert parquet.ParquetFile(file).metadata.row_group(0).column(0).compression == "ZSTD"


def test_the_checksum_by_hand(tmp_path):
    """Name, length and bytes of every column, in the order of the names."""
    path = tmp_path / "one.parquet"
    rows = [{"env_steps": 7, "eval/return": 2.5}]
    store.write(path, [record(tmp_path, rows=rows, timing=[], visits=None)], ABOUT)
    parts = {
        "config": b'{"seed": 0}', "env_steps": struct.pack("<q", 7),
        "eval/return": struct.pack("<d", 2.5), "label": b"lpo", "name": b"a",
        "task": TASK.encode(),
    }  # fmt: skip
    data = b"".join(f"{key} {len(value)} ".encode() + value for key, value in parts.items())
    assert parquet.read_table(path)["sha256"].to_pylist() == [hashlib.sha256(data).hexdigest()]


def test_the_same_runs_make_the_same_bytes(file, tmp_path):
    again = tmp_path / "again.parquet"
    store.write(again, [record(tmp_path), record(tmp_path, "b", visits=None)], ABOUT)
    assert again.read_bytes() == file.read_bytes()
    store.write(again, store.read(file).records, ABOUT)  # a packed file, packed
    assert again.read_bytes() == file.read_bytes()


def test_a_policy_is_kept(tmp_path):
    path = tmp_path / "p.parquet"
    store.write(path, [record(tmp_path, policy=b"\x00weights")], ABOUT)
    assert store.read(path).records[0].policy == b"\x00weights"


def set_column(name, values):
    def change(table):
        kind = table.schema.field(name).type
        return table.set_column(table.column_names.index(name), name, pa.array(values, kind))

    return change


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("eval/return", [[0.4, None, None], [1 / 3, None, None]]),
        ("label", ["ppo", "lpo"]),
        ("config", ['{"seed": 1}', '{"seed": 0}']),
        ("visits/counts", [list(range(1, 9)), None]),
        ("time/learn_s", [[1.0, 4.0], [1.0, 3.0]]),
        ("policy", [b"x", None]),
    ],
)
def test_a_changed_value_is_noticed(file, name, values):
    rewrite(file, set_column(name, values))
    assert "checksum of the run a does not match" in refused(file)


def test_changed_metadata_and_lost_runs_are_noticed(file):
    whole = file.read_bytes()
    rewrite(file, change_about=lambda about: about | {"commit": "1" * 40})
    assert "its own checksum does not match" in refused(file)
    file.write_bytes(whole)
    rewrite(file, change_table=lambda table: table.slice(0, 1))
    assert "its own checksum does not match" in refused(file)
    file.write_bytes(whole)
    rewrite(file, change_about=lambda about: about | {"format": 2})
    assert "its format is 2, not 1" in refused(file)


def test_foreign_files_are_refused(file, tmp_path):
    whole = file.read_bytes()
    other = tmp_path / "other.parquet"
    for data in (b"", b"PAR1", b"hello", whole[:-1], whole[: len(whole) // 2], whole[10:]):
        other.write_bytes(data)
        refused(other)
    parquet.write_table(pa.table({"x": [1]}), other)
    assert "it has no b'lpo'" in refused(other)
    other.write_bytes(whole)
    rewrite(other, lambda table: table.drop_columns(["config"]))
    refused(other)
    other.write_bytes(whole)
    rewrite(other, lambda table: table.append_column("more", pa.array([1, 2])))
    assert "its column more is of type int64" in refused(other)
    refused(tmp_path / "missing.parquet")


@pytest.mark.parametrize("lost", ["visits/counts", "name", "env_steps", "label", "task"])
def test_right_checksums_over_half_a_run_are_refused(tmp_path, lost):
    row = store.columns_of(record(tmp_path))
    del row[lost]
    path = tmp_path / "half.parquet"
    path.write_bytes(store.encoded([row | {"sha256": store.digest(row)}], ABOUT))
    refused(path)


def test_no_flipped_byte_gets_through(file):
    whole, read = file.read_bytes(), store.read(file)
    rng = np.random.default_rng(0)
    noticed = 0
    for place in rng.choice(len(whole), 300, replace=False):
        data = bytearray(whole)
        data[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(bytes(data))
        try:
            found = store.read(file)
        except LPOError:
            noticed += 1
            continue
        assert found.about == read.about
        for a, b in zip(found.records, read.records, strict=True):
            assert store.columns_of(a).keys() == store.columns_of(b).keys()
            assert store.digest(store.columns_of(a)) == store.digest(store.columns_of(b)), place
    assert noticed > 150  # the others lie in what nobody reads


def test_pyarrow_is_asked_for_by_name(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(LPOError, match=r"pip install 'lpo-rl\[report\]'"):
        store.read(file)


def test_what_cannot_be_packed_is_refused_and_nothing_is_lost(file, tmp_path):
    whole = file.read_bytes()
    with pytest.raises(LPOError, match="Two runs are called a; pack each sweep"):
        store.write(file, [record(tmp_path), record(tmp_path)], ABOUT)
    with pytest.raises(LPOError, match="let the runs go on"):
        store.write(file, [], ABOUT)
    assert file.read_bytes() == whole
    with pytest.raises(LPOError, match=r"ends in \.parquet"):
        store.pack([file], tmp_path / "small", {})
    with pytest.raises(LPOError, match="pass another --out"):
        store.write(file / "below.parquet", [record(tmp_path)], ABOUT)
    with pytest.raises(LPOError, match="No run was given"):
        store.load([])


def write_sweep(root):
    """Two runs, the second of which has logged nothing yet."""
    for name, rows in (("x-s0", ROWS), ("x-s1", [])):
        (root / name).mkdir(parents=True)
        (root / name / "config.json").write_text('{"seed": 0}')
        (root / name / "task.json").write_text(TASK)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (root / name / "metrics.jsonl").write_text(lines + '{"env_steps": 9')  # cut by a kill
    plan = {"name": "swept", "runs": [{"name": f"x-s{i}", "label": "x"} for i in (0, 1)]}
    (root / "sweep.json").write_text(json.dumps(plan))
    return root


def test_a_sweep_is_packed_with_where_it_comes_from(tmp_path):
    out = tmp_path / "new" / "swept.parquet"
    number, note = store.pack([write_sweep(tmp_path / "swept")], out, {})
    assert number == 1 and note == "Runs left out because they have no return yet: 1."
    (run,), about = store.read(out)
    assert (run.label, run.name) == ("x", "x-s0")
    assert about.name == "swept" and {"python", "lpo", "jax", "mujoco"} <= about.versions.keys()
    assert about.commit is None or len(about.commit.removesuffix("-dirty")) == 40


def test_only_the_metrics_that_are_asked_for_are_kept(file, tmp_path):
    out = tmp_path / "few.parquet"
    store.pack([file], out, {}, ["eval", "switch/c"])
    (run, _), about = store.read(out)
    assert run.rows == [
        {"env_steps": 100, "eval/return": 1 / 3, "switch/count": 1},
        {"env_steps": 300, "switch/count": 3},
        {"env_steps": 500, "switch/count": 5},
    ]
    assert run.timing == [TIMING[0], TIMING[2]] and about.name == "few"
    with pytest.raises(LPOError, match="No metric begins with 'evil'; choose of eval/return,"):
        store.pack([file], out, {}, ["evil"])


def test_directories_and_files_are_read_together(file, tmp_path):
    found = store.load([write_sweep(tmp_path / "swept"), file, file, tmp_path / "swept" / "x-s0"])
    assert [run.name for run in found] == ["x-s0", "x-s1", "a", "b"]
    assert [run.packed for run in found] == [False, False, True, True]


def test_a_policy_is_packed_with_its_run_and_outlives_packing_again(tmp_path):
    sweep = write_sweep(tmp_path / "swept")
    out, again = tmp_path / "p.parquet", tmp_path / "q.parquet"
    store.pack([sweep], out, {sweep / "x-s0": b"weights", sweep / "x-s1": b"of a run left out"})
    assert [run.policy for run in store.read(out).records] == [b"weights"]
    store.pack([out], again, {})
    assert [run.policy for run in store.read(again).records] == [b"weights"]
