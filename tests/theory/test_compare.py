"""Grids: the cells, the same row from the same cell, and the arithmetic of the table by hand."""

import pytest

from lpo.errors import LPOError
from lpo.theory.algorithms import Options
from lpo.theory.compare import Cell, by_cell, cells, exponent, median_steps, run_cell, table


def test_a_grid_is_a_product_and_options_go_where_they_are_heeded():
    grid = cells(["lpo", "kong"], ["chain:3", "lock"], 2, 50, 7, 9, 1.0, Options(roll_in="law"))
    assert [(c.mdp, c.algorithm, c.seed) for c in grid] == [
        (mdp, name, seed)
        for mdp in ("chain:3", "lock")
        for name in ("lpo", "kong")
        for seed in (0, 1)
    ]
    assert {(c.algorithm, c.N, c.options.roll_in) for c in grid} == {
        ("lpo", 50, "law"),
        ("kong", 7, "rollout"),
    }
    assert [Cell.from_key(c.key) for c in grid] == grid
    with pytest.raises(LPOError, match="choose one of"):
        cells(["lpo", "sarsa"], ["chain"], 1, 1, 1, 1, 1.0, Options())
    with pytest.raises(LPOError, match="choose one of"):
        cells(["lpo"], ["chian"], 1, 1, 1, 1, 1.0, Options())


def test_the_same_cell_gives_the_same_row():
    cell = Cell("lpo", "chain:3", 0, 100, 30, 60.0)
    one, two = run_cell(cell), run_cell(cell)
    assert one["curve"] == two["curve"] and one["key"] == two["key"]


def test_table_arithmetic_by_hand():
    def row(seed, steps):
        return {
            "cell": {"mdp": "m", "algorithm": "a", "seed": seed},
            "steps_to": dict(
                zip(("0.5", "0.2", "0.1", "0.05", "0.02", "0.01"), steps, strict=True)
            ),
            **dict.fromkeys(("switches", "env_steps", "seconds"), 2.0),
            **dict.fromkeys(("relative_gap_last", "relative_gap_mixture"), 0.25),
        }

    rows = [row(0, [4, 25, 100, None, None, None]), row(1, [4, 25, 100, 400, None, None])]
    rows.append(row(2, [4, 25, 100, 400, 2500, None]))
    assert median_steps(rows, 0.05) == 400 and median_steps(rows, 0.02) is None
    # steps = 1/ε² exactly on the first four ε
    assert exponent(rows) == pytest.approx(2.0)
    assert list(by_cell(rows)) == [("m", "a")]
    assert "| m | a | 4 | 25 | 1e+02 | 4e+02 | – | – | 2.00 | 2 |" in table(rows)
