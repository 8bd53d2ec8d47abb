"""The table of observations and parts: what it calls possible is traced, the rest is refused."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from lpo.config import configure
from lpo.engine.learner import Space, assemble, init_state, learn, problem_of
from lpo.engine.rollout import empty_rollout
from lpo.errors import LPOError
from lpo.math.distributions import ActionSpec
from lpo.types import MASK, Leaf, ObsSpec, vector

PAGE = (Path(__file__).parents[2] / "docs" / "observations.md").read_text()
IMAGE, GRID = Leaf((40, 40, 3), "uint8", "image"), Leaf((7, 7, 3), "uint8", "grid", (11, 6, 4))
FORMS: dict[str, tuple[ObsSpec, dict[str, Any]]] = {
    "a vector": (vector(3), {}),
    "an image": (ObsSpec((("", IMAGE),)), {}),
    "an image in a dictionary": (ObsSpec((("eye", IMAGE), ("arm", Leaf((2,))))), {}),
    "a grid of codes with `--network cnn`": (
        ObsSpec((("grid", GRID), ("way", Leaf((4,))))), {"network": "cnn"},
    ),
    "a vector with masks": (
        ObsSpec((("observation", Leaf((3,))), (MASK, Leaf((2,), "int8", "mask")))), {},
    ),
    "a vector with `--network gru`": (vector(3), {"network": "gru"}),
}  # fmt: skip
SMALL: dict[str, Any] = {
    "num_envs": 2, "rollout": 16, "batch_size": 8, "epochs": 1, "hidden": (8,), "seed": 0,
}  # fmt: skip


def table() -> tuple[list[str], dict[str, list[str]]]:
    text = PAGE[PAGE.index("## What works with what") : PAGE.index("## What was learned")]
    head, _, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    )
    return head[1:], {row[0]: row[1:] for row in rows}


COLUMNS, ROWS = table()
NOTES = dict(re.findall(r"^(\d)\. `(.*)`$", PAGE, re.MULTILINE))


def options_of(column: str) -> dict[str, Any]:
    """Returns what a column of parts chooses; a device and ONNX have tests of their own."""
    words = column.strip("`").split()
    if words[0].startswith("--"):
        return {words[0].strip("-"): words[1]}
    return {"bonus": words[0]}


def traced(form: str, column: str) -> None:
    spec, network = FORMS[form]
    chosen: dict[str, Any] = options_of(column)
    if chosen.get("switch") == "sensitivity" or "start" in chosen:
        chosen = chosen | {"bonus": "none"}
    c = configure("default", **SMALL, **network, **chosen)
    p = assemble(c, problem_of(c, Space(spec, ActionSpec(nvec=(2,), scalar=True), 20)))
    rollout = jax.tree.map(jnp.asarray, empty_rollout(8, 2, spec, 1))
    rollout = rollout._replace(memory=p.sight.body.memory(2))
    state = jax.eval_shape(partial(init_state, p), 0)
    after, _ = jax.eval_shape(partial(learn, p), state, rollout)
    assert jax.tree.structure(after) == jax.tree.structure(state)


def test_the_page_has_these_rows():
    assert list(ROWS) == list(FORMS) and len(COLUMNS) == 11


PARTS = [column for column in COLUMNS if column not in ("`--device`", "ONNX")]
OFTEN = {("an image", "`rnd`"), ("a vector with `--network gru`", "`--start cover`")}


@pytest.mark.parametrize(
    ("form", "column"),
    [
        pytest.param(form, column, marks=[] if (form, column) in OFTEN else pytest.mark.slow)
        for form in FORMS
        for column in PARTS
    ],
)
def test_a_cell(form, column):
    said = ROWS[form][COLUMNS.index(column)]
    if said == "yes":
        traced(form, column)
        return
    words = NOTES[{"¹": "1", "³": "3", "⁴": "4"}[said.removeprefix("no ")]]
    with pytest.raises(LPOError, match=words):
        traced(form, column)
