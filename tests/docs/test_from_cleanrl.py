"""The page for users of CleanRL: every option of the table is one, and its flag sets the value."""

import ast
import re
from pathlib import Path

import pytest

from lpo import LPOError, elsewhere
from lpo.cli.train import read_command
from lpo.config import flat

PAGE = (Path(__file__).parents[2] / "docs" / "from-cleanrl.md").read_text()
ROWS = re.findall(r"^\| `(\w+)` \| `(\S+)` \| `(\w+)` \| `(--[^`]+)` \|$", PAGE, re.MULTILINE)
SAME = {"learning_rate", "num_envs", "gae_lambda", "max_grad_norm"}  # both libraries' names


def test_the_flags_of_the_page_give_cleanrls_values():
    flags = [word for *_, flag in ROWS for word in flag.split()]
    found = flat(read_command(["--algo", "ppo", "--env", "CartPole-v1", *flags]).config)
    assert len(ROWS) == 13
    for name, default, ours, _ in ROWS:
        value = ast.literal_eval(default)
        if name == "num_minibatches":
            value = found["rollout"] // value
        assert found[ours] == value, name


@pytest.mark.parametrize("name", [row[0] for row in ROWS])
def test_cleanrls_names_are_answered_with_those_of_the_page(name):
    answer, ours = elsewhere.answer(name), next(row[2] for row in ROWS if row[0] == name)
    assert (answer is None) == (name in SAME)
    assert name == ours if answer is None else ours in answer


def test_a_flag_of_cleanrl_is_answered():
    with pytest.raises(LPOError, match="the critics are not clipped"):
        read_command(["--algo", "ppo", "--clip-vloss"])
