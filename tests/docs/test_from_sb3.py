"""The page for users of SB3 says what both libraries have, and its notebook runs."""

import ast
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

import lpo
from lpo.config import flat

DOCS = Path(__file__).parents[2] / "docs"
OPTIONS = "| SB3's PPO | SB3's default | lpo |"
ABSENT = "| SB3's PPO | here |"


def cells(head: str) -> list[list[str]]:
    """The rows of the table whose head begins so."""
    page = (DOCS / "from-sb3.md").read_text()
    lines = page[page.index(head) :].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("| ").split(" | ")])
    return rows


def value(cell: str) -> Any:
    return ast.literal_eval(cell.strip("`"))


def test_the_defaults_of_lpo_are_those_of_the_page():
    paper, sb3 = (flat(lpo.configure("ppo", env="CartPole-v1", preset=p)) for p in ("paper", "sb3"))
    rows = cells(OPTIONS)
    assert len(rows) == 16
    for _, default, name, ours, preset in rows:
        found = [paper[name.strip("`")], sb3[name.strip("`")]]
        found = [list(x) if isinstance(x, tuple) else x for x in found]
        assert found == [value(ours), value(preset)], name
        assert value(preset) == value(default), f"preset sb3 differs from SB3 in {name}"


def test_the_calls_of_lpo_are_those_of_the_page():
    names = [re.match(r"`(\w+)", row[1]) for row in cells("| SB3 | lpo | what differs |")]
    assert len(names) == 8
    for found in names:
        assert found and (hasattr(lpo.Agent, found[1]) or hasattr(lpo, found[1])), found
    assert list(inspect.signature(lpo.Agent.predict).parameters)[1:] == [
        "observation", "state", "episode_start", "deterministic", "action_masks"
    ]  # fmt: skip


@pytest.mark.slow
def test_the_names_and_defaults_of_sb3_are_those_of_the_page():
    sb3 = pytest.importorskip("stable_baselines3", reason="pip install 'lpo-rl[bench]'")
    model = sb3.PPO("MlpPolicy", "CartPole-v1", device="cpu")
    box = sb3.PPO("MlpPolicy", "Pendulum-v1", device="cpu")
    actual = {name: p.default for name, p in inspect.signature(sb3.PPO.__init__).parameters.items()}
    actual |= {
        'policy_kwargs["log_std_init"]': float(box.policy.log_std.detach().mean()),
        'policy_kwargs["net_arch"]': model.policy.net_arch["pi"],
        'policy_kwargs["optimizer_kwargs"]["eps"]': model.policy.optimizer.defaults["eps"],
        "number of environments": model.n_envs,
        "VecNormalize(norm_obs=…)": model.get_vec_normalize_env() is not None,
    }
    for name, default, *_ in cells(OPTIONS):
        assert actual.pop(name.strip("`")) == value(default), name
    named = set(re.findall(r"`(\w+)`", " ".join(row[0] for row in cells(ABSENT))))
    private = {"self", "env", "seed", "policy_kwargs", "_init_setup_model"}
    assert actual.keys() - named == private  # the page leaves out nothing else
    names, ours = (list(inspect.signature(x.predict).parameters) for x in (sb3.PPO, lpo.Agent))
    assert ours[: len(names)] == names  # ours takes masks of actions, too
    for name in ("learn", "predict", "save", "load", "policy"):
        assert hasattr(model, name)


@pytest.mark.slow
def test_the_notebook_runs(tmp_path, monkeypatch):
    """Every cell in order, with few steps."""
    import matplotlib

    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LPO_NOTEBOOK_STEPS", "1024")
    notebook = json.loads((DOCS / "notebook.ipynb").read_text())
    cells = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    assert all(cell["outputs"] for cell in cells[1:]), "the page shows outputs; run and save it"
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells):
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    assert names["scores"].keys() == {"no bonus", "default"}
    assert names["reached"] and (tmp_path / "agent.safetensors").exists()
