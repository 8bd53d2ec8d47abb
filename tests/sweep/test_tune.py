"""A search with Optuna: what a file asks for, scores and pruning by hand, a kill, the device."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

optuna = pytest.importorskip("optuna")

from lpo import cli  # noqa: E402
from lpo.errors import LPOError  # noqa: E402
from lpo.report.runs import Runs  # noqa: E402
from lpo.sweep import tune  # noqa: E402

GRID = """
name = "sea"
algos = ["lpo"]
envs = ["lpo/DeepSea-v0"]
seeds = 2
steps = 640

[overrides]
env_kwargs = { size = 4 }
num_envs = 4
rollout = 160
batch_size = 16
epochs = 1
eval_every = 160
eval_episodes = 1
checkpoint_every = 160

[search]
learning_rate = { low = 1e-4, high = 1e-2, log = true }
hidden = [[8], [4, 4]]

[tune]
trials = 3
startup = 1
"""


def write(tmp_path, text=GRID):
    (tmp_path / "g.toml").write_text(text)
    return tmp_path / "g.toml"


def test_a_file_says_what_to_search(tmp_path):
    search = tune.read_search(write(tmp_path))
    assert search.space["learning_rate"] == tune.Range(low=1e-4, high=1e-2, log=True)
    assert search.settings == tune.Settings(trials=3, startup=1)
    items = search.items(7, {"learning_rate": 0.5, "hidden": [3]})
    assert [item.name for item in items] == [f"t0007-lpo-DeepSea-v0-s{s}" for s in (0, 1)]
    assert {item.label for item in items} == {"t0007"}
    c = items[1].config
    assert (c.seed, c.ppo.learning_rate, c.network.hidden) == (1, 0.5, (3,))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[search]", "[find]", "needs a table `\\[search\\]`"),
        ("learning_rate = {", "learning_rat = {", "no run of the grid reads"),
        ("low = 1e-4", "low = 1.0", "cannot be searched; let low be less"),
        ("low = 1e-4", "low = -1.0", "above 0 if log"),
        ("low = 1e-4", "least = 1e-4", "has no 'least'"),
        ("low = 1e-4", "low = 'a'", "low must be .*, got 'a'"),
        ("hidden = [[8], [4, 4]]", "hidden = 8", "write a list of values"),
        ("hidden = [[8], [4, 4]]", "batch_size = [8]", r"in \[search\] and in \[overrides\]"),
        ("trials = 3", "trials = 0", "trials must be a whole number of at least 1, got 0"),
        ("trials = 3", "trails = 3", "did you mean 'trials'"),
        ("seeds = 2", "seeds = 0", "add `seeds = …`"),
        ("[tune]", "[tune", "pass the TOML file"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, old, new, words):
    with pytest.raises(LPOError, match=words):
        tune.read_search(write(tmp_path, GRID.replace(old, new)))


def test_optuna_is_asked_for_by_name(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SystemExit):
        cli.main(["tune", str(write(tmp_path)), "--out", str(tmp_path / "o")])
    assert "pip install 'lpo-rl[tune]'" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def log(root, trial, *curves):
    """Writes the evaluations of the runs of a trial."""
    for item, curve in zip(trial.items, curves, strict=True):
        (root / item.name).mkdir(exist_ok=True)
        rows = [{"env_steps": 160 * (i + 1), "eval/return": x} for i, x in enumerate(curve)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (root / item.name / "metrics.jsonl").write_text(text)


def test_scores_and_pruning_by_hand(tmp_path):
    search = tune.read_search(write(tmp_path))
    study = tune.open_study(tmp_path, search)
    (first,) = tune.next_trials(study, tmp_path, search, 1)
    log(tmp_path, first, [0.0] * 3 + [1, 2, 3, 4, 8], [0.0, 4.0])
    with tune.ended_by(study, [first]) as states:
        states |= {item.name: "done" for item in first.items}
    done = study.trials[0]
    assert done.value == (5.0 + 4.0) / 2  # of the last quarter: 3, 4 and 8, and 4
    assert done.intermediate_values == {0: 0.0, 1: 2.0}  # as far as both runs are
    (second,) = tune.next_trials(study, tmp_path, search, 1)
    log(tmp_path, second, [9.0], [9.0])
    second.report()
    assert not second.pruned  # the first value says nothing yet
    log(tmp_path, second, [9.0, 1.0, 1.0], [9.0])
    second.report()
    assert not second.pruned  # one run has not come so far
    log(tmp_path, second, [9.0, 1.0, 1.0], [9.0, 2.0])
    second.report()
    assert not second.pruned  # its best, 9, is above the median of the others, 2
    again = tune.open_study(tmp_path, search)  # as after a kill
    (left,) = tune.next_trials(again, tmp_path, search, 5)
    assert (left.trial.number, left.values) == (1, second.values)
    log(tmp_path, left, [0.0, 1.0], [0.0, 2.0])
    with tune.ended_by(again, [left]) as states:
        states |= {left.items[0].name: "failed"}
    assert again.trials[1].state.name == "FAIL"
    (third,) = tune.next_trials(again, tmp_path, search, 1)
    log(tmp_path, third, [0.0, 1.0], [0.0, 2.0])
    third.report()
    assert third.pruned  # 1.5 is below 2, the only other there
    assert tune.next_trials(again, tmp_path, search, 9) != []  # the third is still open
    again.tell(third.trial, state=optuna.trial.TrialState.PRUNED)
    assert tune.next_trials(again, tmp_path, search, 9) == []  # three trials were asked for


def start(tmp_path, *more):
    command = [sys.executable, "-m", "lpo.cli", "tune", str(tmp_path / "g.toml"), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a killed search ends its runs on Linux")
def test_a_killed_search_goes_on_with_the_same_trials(tmp_path):
    file = write(
        tmp_path, GRID.replace("seeds = 2", "seeds = 1").replace("trials = 3", "trials = 2")
    )
    root, search = tmp_path / "out", tune.read_search(file)
    process = start(tmp_path, "--out", str(root), "--workers", "1")
    deadline = time.monotonic() + 120
    while not list(root.glob("t0001*/checkpoints/0*.json")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = [t.params for t in tune.open_study(root, search).trials]
    process = start(tmp_path, "--out", str(root), "--workers", "1")
    said = process.communicate(timeout=240)[0]
    assert process.returncode == 0, said
    study = tune.open_study(root, search)
    assert [t.params for t in study.trials] == before and len(before) == 2
    assert all(t.state.is_finished() for t in study.trials)
    assert "2 trials:" in said and "eval/return" in said
    finals = {run.label: run.final for run in Runs([root]).runs}  # a report reads the directory
    assert study.best_value == finals[f"t{study.best_trial.number:04d}"]


@pytest.mark.slow
def test_a_search_on_the_device(tmp_path, capsys):
    text = GRID.replace("hidden = [[8], [4, 4]]", "entropy_coef = [0.0, 0.1]").replace(
        '"lpo"', '"ppo"'
    )
    write(tmp_path, text)
    flags = ["tune", str(tmp_path / "g.toml"), "--out", str(tmp_path / "o"), "--device", "cpu"]
    with pytest.raises(SystemExit) as ended:
        cli.main(flags)
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "× 6 runs" in said and "3 trials: 3 complete" in said  # all of them in one program
