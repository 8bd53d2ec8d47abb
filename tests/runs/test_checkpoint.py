"""Checkpoints: whole or not there, and never trusted without their checksum."""

import hashlib
import json
import os

import jax.numpy as jnp
import numpy as np
import pytest

from lpo.errors import LPOError
from lpo.math import trees
from lpo.runs import checkpoint

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
