"""Visits: counted in the right bins and quarters, and the same after a resume."""

import numpy as np

from lpo.envs import make_batch
from lpo.runs import run
from lpo.runs.visits import BINS, Visits, from_json


def test_states_fall_into_their_bins():
    task = make_batch("MountainCarContinuous-v0", 1).description
    visits = Visits(task, budget=400)
    obs = np.array([[[-1.2, -0.07], [0.59, 0.069]], [[-0.3, 0.0], [9.0, 9.0]]])  # [T, N, 2]
    visits.add(obs, np.array([[True, True], [True, True]]), env_steps=0)
    expected = {(0, 0): 1, (BINS - 1, BINS - 1): 2, (BINS // 2, BINS // 2): 1}  # one is beyond
    assert {tuple(map(int, at)): int(visits.counts[0][tuple(at)]) for at in
            np.argwhere(visits.counts[0])} == expected  # fmt: skip
    visits.add(obs, np.array([[True, False], [False, False]]), env_steps=399)
    visits.add(obs, np.array([[True, False], [False, False]]), env_steps=5000)  # a longer resume
    assert visits.counts.sum((1, 2)).tolist() == [4, 0, 0, 2]
    axes, counts = from_json(visits.to_json() or "")
    assert [axis["name"] for axis in axes] == ["position", "velocity"]
    np.testing.assert_array_equal(counts, visits.counts)


def test_a_task_without_a_projection_has_no_counts():
    visits = Visits(make_batch("CartPole-v1", 1).description, budget=10)
    visits.add(np.zeros((1, 1, 4)), np.ones((1, 1), bool), 0)
    assert visits.to_json() is None and visits.arrays() == {}


def test_projections_name_the_coordinates_they_take():
    from lpo.envs import make_single

    for env_id in ("lpo/SparseHopper-v0", "lpo/SparseWalker2d-v0", "lpo/SparseHalfCheetah-v0"):
        env = make_single(env_id)
        obs, _ = env.reset(seed=0)
        for _ in range(5):
            obs, *_ = env.step(env.action_space.sample())
        across, up = make_batch(env_id, 1).description["projection"]
        data = env.unwrapped.data  # pyright: ignore[reportAttributeAccessIssue]
        assert obs[across["index"]] == data.qvel[0]
        assert obs[up["index"]] == data.qpos[1 + up["index"]]
        env.close()


def test_a_resumed_run_has_counted_every_state_once(tiny, tmp_path):
    with run.start(tiny(), tmp_path / "whole") as whole:
        whole.advance(1200)
    with run.start(tiny(), tmp_path / "cut") as cut:
        cut.advance(1200, lambda step, metrics: step < 600)
    found = run.resume(tmp_path / "cut")
    with found.run as resumed:
        resumed.advance(found.until)
    text = (tmp_path / "whole" / "visits.json").read_text()
    assert (tmp_path / "cut" / "visits.json").read_text() == text
    counts = from_json(text)[1]
    assert counts.sum() == whole.env_steps and (counts.sum((1, 2)) > 0).all()
