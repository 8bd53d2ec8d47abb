"""What a report reads of a run that its sweep has named."""

import json
import os

import pytest

from lpo.config import configure, to_dict
from lpo.report.tables import short_task
from lpo.runs.record import PLAN, label_of


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
