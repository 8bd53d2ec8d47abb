"""The example of the docs: short, runs in the engine, restores to the bit, counts by hand."""

import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lpo import algorithms
from lpo.engine.rollout import empty_rollout
from lpo.runs.run import make_trainer

FILE = Path(__file__).parents[1] / "docs" / "algorithms" / "example.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("example", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    tables = algorithms.ALGORITHMS, algorithms.BONUSES, algorithms.SWITCHES
    before = [dict(table) for table in tables]
    spec.loader.exec_module(module)
    yield module
    for table, rows in zip(tables, before, strict=True):
        table.clear()
        table.update(rows)


def test_it_is_short():
    assert len(FILE.read_text().splitlines()) <= 60


def test_the_fifth_visit_is_worth_one_over_the_root_of_five(example):
    bonus = example.counts(3)
    data = jax.tree.map(jnp.asarray, empty_rollout(4, 1, 3, 1))
    data = data._replace(next_obs=data.next_obs + 1.0, valid=jnp.ones((4, 1), bool))
    state = bonus.init(jax.random.key(0))
    np.testing.assert_allclose(bonus.score(state, data)[0], 1.0)
    state, metrics = bonus.update(state, data, None)
    assert int(metrics["bonus/cells"]) == 1
    np.testing.assert_allclose(bonus.score(state, data)[0], 5**-0.5, rtol=1e-6)


def test_it_trains_and_restores_to_the_bit(example, tiny):
    c = tiny(algo="counts", eval_every=0)
    whole = make_trainer(c)
    rows = [whole.iterate(c.steps) for _ in range(2)]
    rest = make_trainer(c)
    rest.restore(whole.arrays())
    rows.append(whole.iterate(c.steps))
    rest.iterate(c.steps)
    same = jax.tree.map(lambda a, b: np.array_equal(a, b), whole.tree(), rest.tree())
    assert all(jax.tree.leaves(same))
    assert {row["switch/rollout_steps"] for row in rows} <= {40, 80, 120, 160}
    assert all("bonus/cells" in row for row in rows)
