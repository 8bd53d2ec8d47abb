"""The finite tables: cell by cell from their definitions, and what counts as success."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from lpo.finite import Table, combination_lock, deep_sea


def sea_by_cells(size: int, slip: float, layout: int) -> tuple[np.ndarray, np.ndarray]:
    """(P [S, A, S], r [S, A]) of DeepSea, written down cell by cell."""
    end = size * size
    right = np.random.default_rng(layout).integers(0, 2, size=(size, size))
    P, r = np.zeros((end + 1, 2, end + 1)), np.zeros((end + 1, 2))
    for row, col in product(range(size), repeat=2):
        s, a = row * size + col, right[row, col]
        down = [(row + 1) * size + c for c in (max(col - 1, 0), min(col + 1, size - 1))]
        left_to, right_to = down if row < size - 1 else (end, end)
        P[s, a, right_to] += 1.0 - slip
        P[s, a, left_to] += slip
        P[s, 1 - a, left_to] = 1.0
        r[s, 1 - a] = 0.01 / size
        if row == col == size - 1:
            r[s, a] = 1.0
    P[end, :, end] = 1.0
    return P, r


def lock_by_states(length: int, actions: int, layout: int) -> tuple[np.ndarray, np.ndarray]:
    """(P [S, A, S], r [S, A]) of the lock, written down state by state."""
    end = 1 + 6 * length
    code = np.random.default_rng(layout).integers(0, actions, size=(2, length, 2))
    P, r = np.zeros((end + 1, actions, end + 1)), np.full((end + 1, actions), 0.2 / length)

    def at(side: int, level: int, kind: int) -> int:
        return 1 + side * 3 * length + 3 * level + kind

    for a in range(actions):
        side = 0 if a < actions / 2 else 1
        P[0, a, at(side, 0, 0)] = P[0, a, at(side, 0, 1)] = 0.5
    for side, level, kind in product(range(2), range(length), range(3)):
        last = level == length - 1
        for a in range(actions):
            s = at(side, level, kind)
            good = kind < 2 and a == code[side, level, min(kind, 1)]
            if last:
                P[s, a, end] = 1.0
            elif good:
                P[s, a, [at(side, level + 1, 0), at(side, level + 1, 1)]] = 0.5
            else:
                P[s, a, at(side, level + 1, 2)] = 1.0
            if good:
                r[s, a] = (1.0, 0.4)[side] if last else 0.0
    P[end, :, end] = 1.0
    return P, r


@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("slip", [0.0, 0.1])
def test_deep_sea_cell_by_cell(size, slip):
    P, r = sea_by_cells(size, slip, layout=3)
    table = deep_sea(size, slip, layout=3)
    np.testing.assert_array_equal(table.transitions(), P.reshape(-1, size * size + 1))
    np.testing.assert_array_equal(table.reward, r)


@pytest.mark.parametrize(("length", "actions"), [(1, 2), (5, 10), (4, 3)])
def test_the_lock_state_by_state(length, actions):
    P, r = lock_by_states(length, actions, layout=2)
    table = combination_lock(length, actions, layout=2)
    np.testing.assert_array_equal(table.transitions(), P.reshape(-1, 2 + 6 * length))
    np.testing.assert_allclose(table.reward, r, atol=1e-12)


def episodes(table: Table, state: int = 0) -> list[tuple[list[tuple[int, int]], float]]:
    """Every episode that can happen, as its pairs and its return."""
    if state == len(table.reward) - 1:
        return [([], 0.0)]
    found = []
    for action in range(table.reward.shape[1]):
        ways = {0} if table.chance[state, action] == 0 else {0, 1}
        for way in ways:
            for pairs, rest in episodes(table, int(table.successor[state, action, way])):
                found.append(([(state, action), *pairs], table.reward[state, action] + rest))
    return found


@pytest.mark.parametrize(("size", "slip"), [(2, 0.0), (3, 0.2), (5, 0.0), (5, 0.5)])
def test_deep_sea_succeeds_where_its_corner_is_taken(size, slip):
    table = deep_sea(size, slip, layout=1)
    right = np.random.default_rng(1).integers(0, 2, size=(size, size))
    corner = size * size - 1, right[-1, -1]
    played = episodes(table)
    assert {len(pairs) for pairs, _ in played} == {table.horizon}
    assert max(total for _, total in played) == table.max_return
    for pairs, total in played:
        assert (total >= table.success_return) == (corner in pairs)


@pytest.mark.parametrize(("length", "actions"), [(1, 2), (2, 3), (3, 2)])
def test_the_lock_succeeds_where_the_better_one_opens(length, actions):
    table = combination_lock(length, actions, layout=4)
    code = np.random.default_rng(4).integers(0, actions, size=(2, length, 2))
    last = 1 + 3 * (length - 1)
    keys = {(last + kind, code[0, -1, kind]) for kind in range(2)}
    played = episodes(table)
    assert max(total for _, total in played) == pytest.approx(table.max_return)
    opened = [total >= table.success_return for _, total in played]
    assert opened == [not keys.isdisjoint(pairs) for pairs, _ in played]
    assert any(opened) and not all(opened)
