"""A run directory of an earlier version still loads, resumes and reports.

The directory has one checkpoint from the middle of the run, and the metrics of the whole of it. Its
configuration states options that were removed since, and its checkpoint arrays that are not needed.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

import lpo.cli
from lpo import LPO, Policy
from lpo.report.runs import Runs
from lpo.runs.directory import RunDirectory

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
