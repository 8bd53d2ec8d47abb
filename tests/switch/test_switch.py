"""Rollout schedules against the formula."""

import math
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from lpo.config import configure
from lpo.engine.rollout import empty_rollout
from lpo.switch import (
    Look,
    Rows,
    every,
    growth,
    growth_iterations,
    growth_sizes,
    ramp,
    sizes_by_steps,
)
from lpo.types import vector


def run(switch, turns):
    state, sizes = switch.init(None), []
    for _ in range(turns):
        sizes.append(int(switch.wait(state)))
        fire, state, _ = switch.update(state, None)
        assert fire
    return sizes


def test_every_is_constant():
    assert run(every(2048), 3) == [2048] * 3


def test_growth_by_hand():
    # K = 4: 100·1.25^k = 100, 125, 156.25, 195.3125, rounded up; then it stays
    assert run(growth(100, 4), 5) == [100, 125, 157, 196, 196]


def test_the_papers_budget():
    """N = 2048 and 2e6 steps: K ≈ 568 and a last rollout of about 5.5k (e·N)."""
    k = growth_iterations(2048, 2_000_000)
    sizes = growth_sizes(2048, k)
    assert k == pytest.approx(568, abs=3)
    assert sizes[-1] == pytest.approx(math.e * 2048, rel=0.01)
    assert sizes.sum() >= 2_000_000 > growth_sizes(2048, k - 1).sum()


@pytest.mark.parametrize("budget", [1, 2048, 2049, 10_000, 200_000])
def test_the_schedule_just_covers_any_budget(budget):
    k = growth_iterations(2048, budget)
    assert growth_sizes(2048, k).sum() >= budget
    assert k == 1 or growth_sizes(2048, k - 1).sum() < budget
    assert growth(2048, k).capacity == growth_sizes(2048, k).max()


def test_growth_by_steps_by_hand():
    """N = 100, T = 200: 1.005^0 = 1, 1.005^100 = 1.6467, 1.005^265 = 3.7496; then 640 > 500."""
    assert sizes_by_steps(100, 200, 500).tolist() == [100, 165, 375]
    problem: Any = SimpleNamespace(steps=500)
    switch = configure("lpo", rollout=100, growth_steps=200).switch.make(problem)
    assert run(switch, 4) == [100, 165, 375, 375] and switch.capacity == 375


def test_the_readings_of_the_papers_growth():
    """The table of docs/readings.md: policies within 2e6 steps, and the last rollout."""
    sizes = sizes_by_steps(2048, 2_000_000, 2_000_000)
    assert (len(sizes), sizes[-1]) == (618, 5557)
    assert growth_sizes(2048, 2_000_000)[:977].max() == 2049


def test_sizes_never_shrink():
    assert (np.diff(growth_sizes(2048, 300)) >= 0).all()


def test_a_ramp_by_hand():
    """12 steps until step 30, then 20, in rows of four environments: 12, 24, 36 → 20."""
    switch, look = (
        ramp(12, 20, 30.0),
        lambda rows: Look(empty_rollout(5, 4, vector(1), 1), Rows(0, rows)),
    )
    state, sizes = switch.init(jax.random.key(0)), []
    for _ in range(5):
        sizes.append(int(switch.wait(state)))
        fire, state, _ = switch.update(state, look(sizes[-1] // 4))
        assert fire
    assert sizes == [12, 12, 12, 20, 20] and switch.capacity == 20


@pytest.mark.parametrize("place", ["host", "device"])
def test_what_is_new_by_hand(place):
    """Rows 2 and 3 of five, with two environments; of the last three rows the first is old."""
    rollout = empty_rollout(5, 2, vector(1), 1)
    rollout.reward[:] = np.arange(5)[:, None]
    rollout.valid[:] = True

    def ask(since, upto):
        look = Look(rollout, Rows(since, upto))
        last = look.last(3)
        return look.new, look.steps, last.reward, last.valid

    new, steps, reward, valid = (ask if place == "host" else jax.jit(ask))(2, 4)
    assert np.array_equal(new[:, 0], [0, 0, 1, 1, 0]) and np.array_equal(new[:, 1], new[:, 0])
    assert int(steps) == 4
    assert np.array_equal(reward[:, 1], [1, 2, 3]) and np.array_equal(valid[:, 1], [0, 1, 1])
