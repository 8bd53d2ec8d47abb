"""Loggers chosen by name: what arrives, what a resumed run adds, what is said when one is away."""

import importlib
import importlib.util
import json
import struct
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lpo
from lpo.cli.train import read_command
from lpo.errors import LPOError
from lpo.files import check_folder
from lpo.runs.directory import RunDirectory
from lpo.runs.loggers import About, Batches, MLflow, Row, open_loggers
from lpo.runs.run import resume, start


def rows(*steps: int) -> list[Row]:
    return [Row(step, 0.0, {"a": float(step)}) for step in steps]


def test_rows_that_could_not_be_sent_go_with_the_next_ones():
    sent, away = [], [OSError("no route"), None]

    def send(batch):
        if error := away.pop(0):
            raise error
        sent.append(list(batch))

    batches = Batches(send, every=1000)
    batches.add(rows(1)[0])
    assert batches.flush() == "no route" and batches.rows == rows(1)
    batches.add(rows(2)[0])
    batches.close()
    assert sent == [rows(1, 2)] and batches.rows == []
    batches.close()  # a second time sends nothing
    assert len(sent) == 1


def test_rows_that_never_arrive_are_told():
    def send(batch):
        raise OSError("no route")

    batches = Batches(send, every=1000)
    batches.add(rows(1)[0])
    with pytest.warns(UserWarning, match=r"1 rows did not reach MLflow \(no route\).*lpo resume"):
        batches.close()


def test_rows_are_sent_while_training_goes_on():
    arrived = threading.Event()
    batches = Batches(lambda batch: arrived.set(), every=0.001)
    batches.add(rows(1)[0])
    assert arrived.wait(10)
    batches.close()


def test_an_id_is_made_once(tmp_path):
    run = RunDirectory(tmp_path / "run")
    assert run.id_for("wandb", lambda: "abc") == "abc"
    assert run.id_for("mlflow", lambda: "def") == "def"
    assert run.id_for("wandb", lambda: "new") == "abc"
    assert run.foreign() == []


def test_links_of_wandb_are_its_own_business(tmp_path):
    """It links its logs from another folder. The folder itself must still be none."""
    run = RunDirectory(tmp_path / "run")
    run.wandb.mkdir(parents=True)
    (run.wandb / "debug.log").symlink_to(tmp_path)
    check_folder(run.path)
    check_folder(run.path, [run.wandb])
    (run.wandb / "debug.log").unlink()
    run.wandb.rmdir()
    run.wandb.symlink_to(tmp_path)
    for parts in (None, [run.wandb]):
        with pytest.raises(LPOError, match="leads out"):
            check_folder(run.path, parts)


@pytest.mark.parametrize("text", ["[]", "{", '{"wandb": "../../x"}', '{"wandb": 3}', "[" * 100_000])
def test_a_strangers_ids_are_refused(tmp_path, text):
    run = RunDirectory(tmp_path)
    run.ids_file.write_text(text)
    with pytest.raises(LPOError, match="Delete it"):
        run.id_for("wandb", lambda: "abc")


def test_a_missing_library_is_named_before_anything_is_written(tmp_path, tiny, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "wandb" else find(name, *a)
    )
    with pytest.raises(LPOError, match=r"needs wandb; run `pip install 'lpo-rl\[wandb\]'`"):
        start(tiny(loggers=("wandb",)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_unknown_logger_is_named():
    with pytest.raises(LPOError, match="did you mean 'mlflow'"):
        lpo.LPO("CartPole-v1", loggers=["mlfow"])
    with pytest.raises(LPOError, match="one of tensorboard, wandb, mlflow"):
        lpo.configure(loggers=["mlfow"])


def test_the_command_chooses_loggers():
    def chosen(*words: str) -> tuple[str, ...]:
        return read_command(words).config.logs.loggers

    assert chosen() == ("tensorboard",) and chosen("--loggers") == ()
    assert chosen("--loggers", "wandb", "mlflow", "--seed", "1") == ("wandb", "mlflow")


@pytest.fixture
def stores(tmp_path, monkeypatch):
    """Both libraries without a network."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # those libraries' own warnings are not ours
        yield tmp_path


def logged(run: RunDirectory) -> dict[int, dict[str, float]]:
    """The numbers of metrics.jsonl by step."""
    return {row.pop("env_steps"): row for row in run.metrics()}


def in_mlflow(run: RunDirectory) -> dict[int, dict[str, float]]:
    from mlflow.tracking import MlflowClient  # pyright: ignore[reportMissingImports]

    client, run_id = MlflowClient(), json.loads(run.ids_file.read_text())["mlflow"]
    found: dict[int, dict[str, float]] = {}
    for key in client.get_run(run_id).data.metrics:
        history = client.get_metric_history(run_id, key)
        assert len({m.step for m in history}) == len(history), "a row was sent twice"
        for m in history:
            if not key.startswith("time/"):
                found.setdefault(m.step, {})[key] = m.value
    return found


def records(data: bytes) -> Iterator[bytes]:
    """The records of an offline file of W&B: LevelDB's log format after a header of 7 bytes."""
    at, parts = 7, b""
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:  # the padding at the end of a block
            at += left
            continue
        _, size, kind = struct.unpack("<IHB", data[at : at + 7])
        parts += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


def in_wandb(run: RunDirectory) -> dict[int, dict[str, float]]:
    """The rows of all offline files of the run."""
    messages: Any = importlib.import_module("wandb.proto.wandb_internal_pb2")
    found: dict[int, dict[str, float]] = {}
    for file in sorted(run.wandb.glob("offline-run-*/run-*.wandb")):
        assert file.stem == "run-" + json.loads(run.ids_file.read_text())["wandb"]
        for data in records(file.read_bytes()):
            record = messages.Record()
            record.ParseFromString(data)
            if record.HasField("history"):
                items = record.history.item
                row = {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items}
                own = {k: v for k, v in row.items() if not k.startswith(("_", "time/"))}
                found.setdefault(row["_step"], {}).update(own)
    return found


def same(a: dict[int, dict[str, float]], b: dict[int, dict[str, float]]) -> None:
    assert a.keys() == b.keys()
    for step in a:
        assert a[step].keys() == b[step].keys()
        np.testing.assert_allclose(
            [a[step][k] for k in a[step]], [b[step][k] for k in a[step]], rtol=1e-12
        )


@pytest.mark.slow
def test_every_row_arrives_and_a_resumed_run_goes_on(stores, tiny):
    c = tiny(loggers=("wandb", "mlflow"))
    with start(c, Path("run")) as run:
        run.advance(800)
    run = RunDirectory("run")
    ids = run.ids_file.read_text()
    with resume(run.path).run as again:
        again.advance(1200)
    assert run.ids_file.read_text() == ids
    assert max(logged(run)) == 1200 and not run.tensorboard.exists()
    same(in_mlflow(run), logged(run))
    same(in_wandb(run), logged(run))
    assert run.foreign() == []


@pytest.mark.slow
def test_rows_lost_with_a_killed_process_are_sent_on_resume(stores, tiny, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(MLflow, "send", lambda self, rows: None)  # nothing arrives
        with start(tiny(loggers=("mlflow",)), Path("run")) as run:
            run.advance(800)
    with resume(Path("run")).run as again:
        again.advance(1200)
    same(in_mlflow(RunDirectory("run")), logged(RunDirectory("run")))


@pytest.mark.slow
def test_an_agent_takes_loggers_by_name(stores):
    with lpo.LPO(
        "CartPole-v1", loggers=["tensorboard", "mlflow"], rollout=256, eval_every=0
    ) as agent:
        agent.learn(512)
    run = RunDirectory("runs/lpo-CartPole-s0-001")
    assert any(run.tensorboard.iterdir())
    same(in_mlflow(run), {int(row.pop("env_steps")): row for row in agent.metrics})


@pytest.mark.slow
def test_a_logger_that_cannot_start_says_what_to_do(stores, tiny, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere://x")
    about = About(RunDirectory(stores / "run"), {})
    with pytest.raises(LPOError, match=r"MLflow did not start .*MLFLOW_TRACKING_URI"):
        open_loggers(["mlflow"], about)
