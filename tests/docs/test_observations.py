"""The table of observations and parts: what it calls possible is traced, the rest is refused."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from gymnasium import spaces

from lpo.config import configure
from lpo.engine.learner import Space, assemble, init_state, learn, problem_of
from lpo.engine.rollout import HostPolicy, empty_rollout
from lpo.envs.codec import Codec, space_of
from lpo.errors import LPOError
from lpo.export import compare, onnx_model
from lpo.math import distributions
from lpo.math.distributions import ActionSpec
from lpo.math.nets import init_actor_critic
from lpo.network import Own, sight
from lpo.policy import Policy
from lpo.types import MASK, Leaf, ObsSpec, vector

PAGE = (Path(__file__).parents[2] / "docs" / "observations.md").read_text()
IMAGE, GRID = Leaf((40, 40, 3), "uint8", "image"), Leaf((7, 7, 3), "uint8", "grid", (11, 6, 4))
OWN = (lambda key, spec: jnp.ones((3, 4)), lambda w, x: jnp.tanh(x @ w))
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
    "a vector with a network of your own": (vector(3), {"network": Own.known(OWN)}),
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
    """Returns what a column of parts chooses; a device has tests of its own."""
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


def exported(form: str) -> None:
    """Writes the graph of a policy on its first weights, which is compared before it is written."""
    spec, network = FORMS[form]
    c = configure("default", **SMALL, **network)
    codec = Codec(form, space_of(spec), spaces.Discrete(2), flat=c.network.flat)
    assert dict(codec.spec.leaves) == dict(spec.leaves)
    dist, seen = distributions.for_space(codec.action_space), sight(c.network, codec.spec)
    params = init_actor_critic(
        jax.random.key(0), seen.body.size, dist.num_outputs, jnp.zeros(0), c.network.hidden, 1,
        body=seen.body.init(jax.random.key(1)),
    )  # fmt: skip
    actor = HostPolicy(params, seen.observer.init(), dist, seen)
    policy = Policy(actor, codec, c, {"id": form}, 0)
    compare(policy, onnx_model(policy), rows=8)


def test_the_page_has_these_rows():
    assert list(ROWS) == list(FORMS) and len(COLUMNS) == 11


WALKED = [column for column in COLUMNS if column != "`--device`"]
OFTEN = {
    ("an image", "`rnd`"),
    ("a vector with `--network gru`", "`--start cover`"),
    ("a vector with masks", "ONNX"),
    ("a vector with a network of your own", "ONNX"),
}


@pytest.mark.parametrize(
    ("form", "column"),
    [
        pytest.param(form, column, marks=[] if (form, column) in OFTEN else pytest.mark.slow)
        for form in FORMS
        for column in WALKED
    ],
)
def test_a_cell(form, column):
    Own.known(OWN)  # a test of networks may have forgotten it
    said = ROWS[form][COLUMNS.index(column)]
    walk = partial(exported, form) if column == "ONNX" else partial(traced, form, column)
    if said == "yes":
        walk()
        return
    words = NOTES[{"¹": "1", "³": "3", "⁴": "4", "⁵": "5"}[said.removeprefix("no ")]]
    with pytest.raises(LPOError, match=words):
        walk()
