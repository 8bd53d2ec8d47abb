"""The numbers of docs/elsewhere.md: an episode by hand, by a recipe of others, and by ours."""

import re
from pathlib import Path
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from lpo.bonus.base import Bonus, BonusOptions
from lpo.bonus.scale import by_returns
from lpo.explorer import Explorer
from lpo.options import options

PAGE = (Path(__file__).parents[2] / "docs" / "elsewhere.md").read_text()
OBS = np.array([3.0, 1.0, 5.0, 2.0])  # two steps of one episode, two of the next
LAST = 4.0
NEXT = np.array([1.0, 0.0, 2.0, 4.0])  # the true next states; 0 ends the first episode
ENDED = np.array([False, True, False, False])


@options
class Itself(BonusOptions):
    """b(s′) = s′: the bonus of the page."""

    kind: ClassVar[str] = "itself"

    def make(self, problem):
        score = lambda state, rollout: (rollout.next_obs[None, ..., 0], state, {})  # noqa: E731
        return Bonus(1, lambda key: (), score, lambda state, rollout, key: (state, {}))


def ours(ends: Any) -> np.ndarray:
    bonus = Itself(gamma_int=0.5, lambda_int=1.0, ends=ends)
    explorer = Explorer(spaces.Box(0, 9, (1,)), spaces.Discrete(2), 1, bonus=bonus, value_gain=0.0)
    column = lambda x: np.asarray(x, float)[:, None]  # noqa: E731
    found = explorer.advantages(
        column(OBS)[..., None], column(OBS * 0), column(OBS * 0), column(NEXT)[..., None],
        column(ENDED), column(ENDED & False), last_obs=np.full((1, 1), LAST),
    )  # fmt: skip
    return found.streams[1, :, 0]


def by_the_notebook() -> dict[str, np.ndarray]:
    """The published recipe, restated: what it reads from SB3's buffer, and what it adds."""
    starts = np.array([True, False, True, False])  # the buffer's episode_starts
    following = np.append(OBS[1:], LAST)  # the buffer's observations, a row later
    return {"s'": following, "ended": starts, "advantage": following}  # b(s′) = s′, added as it is


def row(name: str) -> list[str]:
    """The cells of a line of the page's tables."""
    line = next(x for x in PAGE.splitlines() if x.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")[1:]]


def number(cells: list[str]) -> list[float]:
    return [float(cell) for cell in cells]


def test_the_page_has_the_numbers_of_both_recipes():
    assert number(row("true next state")) == NEXT.tolist()
    assert number(row("ours, `across`")) == pytest.approx(ours("across").tolist()) == [2, 2, 4, 4]
    assert number(row("ours, `ends`")) == pytest.approx(ours("ends").tolist()) == [1, 0, 4, 4]
    theirs = by_the_notebook()
    assert number(row("next state that is read")) == theirs["s'"].tolist()
    assert number(row("added to the advantage")) == theirs["advantage"].tolist()
    flags = ["yes" if x else "no" for x in theirs["ended"]]
    assert row("marked as ended") == flags != ["yes" if x else "no" for x in ENDED]
    assert row("episode ends") == ["yes" if x else "no" for x in ENDED]
    assert not np.allclose(theirs["advantage"], ours("across"))
    assert not np.allclose(theirs["advantage"], ours("ends"))


@pytest.mark.parametrize("mode", [None, "drop"])
def test_a_negative_index_writes_the_last_cell(mode):
    assert "`jnp.zeros(3).at[-1].set(1)` is `[0, 0, 1]`" in PAGE
    assert jnp.zeros(3).at[-1].set(1, mode=mode).tolist() == [0, 0, 1]


def sums(rows: np.ndarray, gamma: float) -> np.ndarray:
    """c_i = γ c_{i−1} + b_i along the first axis."""
    kept = [rows[0]]
    for b in rows[1:]:
        kept.append(gamma * kept[-1] + b)
    return np.stack(kept)


def test_the_page_has_both_scales_of_a_constant_bonus():
    b = np.ones((4, 2))  # four steps of two environments
    over_steps, over_environments = sums(b, 0.5).std(), sums(b.T, 0.5).std()
    scale = by_returns(0.5)
    found = scale.apply(jnp.zeros(2), scale.init(), jnp.asarray(b), jnp.ones((4, 2), bool))
    assert found.metrics["bonus/scale"] == pytest.approx(over_steps, rel=1e-3)
    said = re.search(r"over steps it is (\d\.\d+), over environments (\d\.\d+)", PAGE)
    assert said is not None
    assert [float(x) for x in said.groups()] == [
        pytest.approx(over_steps, abs=5e-4), pytest.approx(over_environments, abs=5e-4)
    ]  # fmt: skip
