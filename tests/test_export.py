"""An exported policy acts in onnxruntime as `predict` does; a card holds the policy and says so."""

import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any

import gymnasium
import imageio.v2 as imageio
import jax
import numpy as np
import onnx
import onnxruntime
import pytest
from gymnasium import spaces

from lpo import Agent, cli, configure
from lpo import config as configs
from lpo.card import Score, readme
from lpo.engine.rollout import HostPolicy
from lpo.envs.codec import Codec
from lpo.envs.masks import joined
from lpo.errors import LPOError
from lpo.export import TOLERANCE, export_onnx, onnx_model
from lpo.math import distributions
from lpo.math.nets import ActorCritic, Layer
from lpo.math.normalize import Moments
from lpo.network import Own, sight
from lpo.policy import Policy
from lpo.runs.directory import RunDirectory

VECTOR = spaces.Box(-np.inf, np.inf, (5,), np.float64)
ACTIONS = {
    "box": spaces.Box(-1, 1, (3,), np.float32),
    "box-uneven": spaces.Box(
        np.array([-0.1, -2, -np.inf], np.float32), np.array([0.2, np.inf, 0.5], np.float32)
    ),
    "box-unbounded": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "box-matrix-float64": spaces.Box(-0.4, 0.4, (2, 2), np.float64),
    "discrete": spaces.Discrete(4),
    "discrete-from-3": spaces.Discrete(3, start=3),
    "multi-discrete": spaces.MultiDiscrete([2, 3, 4]),
    "multi-discrete-matrix": spaces.MultiDiscrete(
        np.array([[2, 3], [4, 2]]), start=np.array([[1, 0], [-2, 5]])
    ),
    "multi-binary": spaces.MultiBinary((2, 2)),
}
OBSERVATIONS = {
    "vector": VECTOR,
    "matrix": spaces.Box(-1, 1, (2, 3), np.float32),
    "dict": spaces.Dict({"a": spaces.Box(-1, 1, (2,), np.float32), "b": spaces.Discrete(3)}),
    "tuple": spaces.Tuple([spaces.Discrete(2), spaces.MultiBinary(3)]),
    "discrete": spaces.Discrete(6, start=2),
}


def policy_on(observation: spaces.Space, action: spaces.Space, angles=(), **options) -> Policy:
    """A policy with random weights, so large that actions reach their limits."""
    rng = np.random.default_rng(3)
    c = configure("ppo", env="custom", hidden=[16, 8], **options)
    codec = Codec("custom", observation, action, angles, c.network.flat)
    dist = distributions.for_space(codec.action_space)
    seen = sight(c.network, codec.spec)

    def draw(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    def moments(leaf):
        size = leaf.shape[0]
        vector = leaf.kind == "vector"
        return Moments(np.float32(9), draw(size), np.exp(draw(size))) if vector else ()

    sizes = [seen.body.size, 16, 8, dist.num_outputs]
    net = tuple(Layer(draw(i, o), draw(o)) for i, o in itertools.pairwise(sizes))
    body = seen.body.init(jax.random.key(0))
    params = ActorCritic(net, draw(dist.num_log_std), (), body)
    actor = HostPolicy(params, seen.seen.map(moments), dist, seen)
    return Policy(actor, codec, c, {"id": "custom"}, 1000)


def runtime(model: Any) -> Any:
    return onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def check(policy: Policy, rows: list, flat: np.ndarray) -> np.ndarray:
    """onnxruntime on a batch and on single rows equals ``predict`` on each observation."""
    session = runtime(onnx_model(policy))
    wanted = np.stack([policy.predict(row, deterministic=True)[0] for row in rows])
    for inputs in (flat, flat[:1]):
        (got,) = session.run(None, {"observation": inputs})
        assert got.dtype == wanted.dtype and got.shape == wanted[: len(inputs)].shape
        np.testing.assert_allclose(got, wanted[: len(inputs)], rtol=TOLERANCE, atol=TOLERANCE)
        assert all(action in policy.codec.raw_action_space for action in (*got, *wanted))
    return wanted


@pytest.mark.parametrize("kind", ACTIONS)
def test_every_kind_of_action_equals_predict(kind):
    policy = policy_on(VECTOR, ACTIONS[kind])
    rows = 4 * np.random.default_rng(0).standard_normal((300, 5))
    wanted = check(policy, list(rows), rows.astype(np.float32))
    assert len(np.unique(wanted.reshape(300, -1), axis=0)) > 1
    if kind in ("box", "box-matrix-float64"):
        limit = ACTIONS[kind].high.max()
        assert (wanted == limit).any() and (abs(wanted) < limit).any()  # at limits and between


CAMERA = spaces.Box(0, 255, (16, 12, 3), np.uint8)
CODES = spaces.MultiDiscrete(np.tile([5, 3], (7, 7, 1)))
SEEN: dict[str, tuple[spaces.Space, dict[str, Any]]] = {
    "image": (CAMERA, {}),
    "tiny image": (spaces.Box(0, 255, (3, 2, 3), np.uint8), {}),
    "channels first": (spaces.Box(0, 255, (3, 16, 12), np.uint8), {}),
    "stack": (spaces.Box(0, 255, (2, 16, 12, 3), np.uint8), {}),
    "stack, channels first": (spaces.Box(0, 255, (2, 3, 16, 12), np.uint8), {}),
    "frames": (spaces.Box(0, 255, (84, 84, 4), np.uint8), {}),
    "grid": (CODES, {"network": "cnn"}),
    "parts": (
        spaces.Dict(
            {
                "camera": CAMERA,
                "action": spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2, 2), np.float64)]),
            }
        ),
        {},
    ),
}
MASKED = {
    "vector": joined(VECTOR, spaces.MultiBinary(9)),
    "parts": joined(spaces.Dict({"a": VECTOR, "b": spaces.Discrete(3)}), spaces.MultiBinary(9)),
    "image": joined(CAMERA, spaces.MultiBinary(9)),
}
MEMORY = {
    "gru": (VECTOR, {"network": "gru"}, ()),
    "lstm": (VECTOR, {"network": "lstm", "memory_size": 7}, ()),
    "angles": (VECTOR, {"network": "gru"}, (2,)),
    "image": (CAMERA, {"network": "lstm"}, ()),
    "masks": (MASKED["vector"], {"network": "gru"}, ()),
}
OFTEN = ("parts", "stack, channels first", "grid")


def leaf_at(obs: Any, path: str) -> Any:
    """What lies at a path such as "action/0"."""
    for key in path.split("/") if path else ():
        obs = obs[int(key) if isinstance(obs, tuple) else key]
    return obs


def feed_of(policy: Policy, rows: list[Any]) -> dict[str, np.ndarray]:
    """The inputs of the graph, made by hand from observations of the environment."""
    parts = [path for path, leaf in policy.codec.spec.leaves if leaf.kind != "mask"]
    found = {}
    for path in parts:
        x = [leaf_at(row, path) for row in rows]
        name = f"observation/{path}" if len(parts) > 1 else "observation"
        kind = dict(policy.codec.spec.leaves)[path].kind
        codes = kind == "vector" and np.ndim(x[0]) == 0
        x = np.eye(3)[x] if codes else np.stack(x)  # every Discrete here has three values
        angles = np.float64 if policy.codec.angles else np.float32
        found[name] = x.astype(angles if kind == "vector" else np.uint8)
    if policy.actor.sight.masked:
        found["action_mask"] = np.stack([row["action_mask"] for row in rows]).astype(bool)
    return found


def sampled(space: spaces.Space, number: int) -> list[Any]:
    """Random observations; where there are masks, the first choice of each factor is allowed."""
    space.seed(0)
    rows = [space.sample() for _ in range(number)]
    for row in rows:
        if isinstance(row, dict) and "action_mask" in row:
            row["action_mask"][[0, 2, 5]] = 1
    return rows


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[] if k in OFTEN else pytest.mark.slow) for k in SEEN]
)
@pytest.mark.parametrize("action", ["box-uneven", "multi-discrete"])
def test_images_grids_and_parts_equal_predict(kind, action, tmp_path):
    space, options = SEEN[kind]
    policy = policy_on(space, ACTIONS[action], image_features=24, **options)
    rows = sampled(space, 20)
    session = runtime(onnx.load(export_onnx(policy, tmp_path / "policy.onnx")))
    feed = feed_of(policy, rows)
    assert {port.name for port in session.get_inputs()} == set(feed)
    wanted = np.stack([policy.predict(row, deterministic=True)[0] for row in rows])
    (got,) = session.run(None, feed)
    np.testing.assert_allclose(got, wanted, rtol=TOLERANCE, atol=TOLERANCE)
    assert got.dtype == wanted.dtype and len(np.unique(wanted, axis=0)) > 1


@pytest.mark.parametrize("kind", MASKED)
def test_masks_are_an_input(kind):
    policy = policy_on(MASKED[kind], ACTIONS["multi-discrete"], image_features=24)
    rows = sampled(MASKED[kind], 60)
    feed = feed_of(policy, rows)
    session = runtime(onnx_model(policy))
    (got,) = session.run(None, feed)
    wanted = np.stack([policy.predict(row, deterministic=True)[0] for row in rows])
    np.testing.assert_array_equal(got, wanted)
    marks, edges = feed["action_mask"], (0, 2, 5)
    assert all(marks[i, edge + a] for i in range(60) for a, edge in zip(got[i], edges, strict=True))
    open_ = session.run(None, feed | {"action_mask": np.ones_like(marks)})[0]
    assert not np.array_equal(open_, got)  # the marks decided some of them


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[] if k != "image" else pytest.mark.slow) for k in MEMORY]
)
def test_a_memory_goes_in_and_out(kind):
    space, options, angles = MEMORY[kind]
    action = "multi-discrete" if kind == "masks" else "box"
    policy = policy_on(space, ACTIONS[action], angles, image_features=24, **options)
    session = runtime(onnx_model(policy))
    rows, state = sampled(space, 30), None
    states = [port for port in session.get_inputs() if port.name.startswith("state_")]
    names = [port.name for port in states]
    held = {port.name: np.ones((5, port.shape[1]), np.float32) for port in states}  # to be cleared
    for step in range(6):
        batch = rows[5 * step : 5 * step + 5]
        begins = np.array([step == 0, step == 3, step == 0, step in (0, 4), step == 0])
        begins = np.ones(5, bool) if step == 0 else begins
        feed = feed_of(policy, batch) | held | {"episode_start": begins}
        got, *after = session.run(None, feed)
        stacked = jax.tree.map(lambda *x: np.stack(x), *batch)
        wanted, state = policy.predict(stacked, state, begins, deterministic=True)
        np.testing.assert_allclose(got, wanted, rtol=TOLERANCE, atol=TOLERANCE)
        for ours, theirs in zip(after, state, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE)
        held = dict(zip(names, after, strict=True))
    assert [port.name for port in session.get_outputs()] == [
        "action", *(f"next_{name}" for name in names)
    ]  # fmt: skip


def test_a_network_of_another_kind_is_refused(tmp_path):
    own = (lambda key, spec: (), lambda params, obs: obs * 2)
    policy = policy_on(VECTOR, ACTIONS["box"], network=Own.known(own))
    with pytest.raises(LPOError, match=r"^An ONNX export writes lpo's own networks, .*predict\.$"):
        export_onnx(policy, tmp_path / "policy.onnx")
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("kind", OBSERVATIONS)
def test_every_kind_of_observation_equals_predict(kind):
    space = OBSERVATIONS[kind]
    space.seed(0)
    rows = [space.sample() for _ in range(50)]
    flat = np.stack([np.asarray(spaces.flatten(space, row)) for row in rows]).astype(np.float32)
    shape = space.shape if isinstance(space, spaces.Box) else flat.shape[1:]
    check(policy_on(space, ACTIONS["box"]), rows, flat.reshape(-1, *(shape or ())))


def test_angles_of_many_turns_are_seen_as_cos_and_sin():
    """In the graph, at the places and in the order of the policy; float32 would lose the turns."""
    policy = policy_on(VECTOR, ACTIONS["box"], angles=(1, 4))
    rows = np.random.default_rng(0).standard_normal((200, 5)) * [1, 5000, 1, 1, 5000]
    check(policy, list(rows), rows)
    turned = rows + 2 * np.pi * np.array([0, 3, 0, 0, -7])
    check(policy, list(turned), rows)


def test_observations_that_are_not_normalised_are_not_clipped():
    policy = policy_on(VECTOR, ACTIONS["discrete"], normalize_obs=False)
    assert "Max" not in {node.op_type for node in onnx_model(policy).graph.node}
    rows = 1e3 * np.random.default_rng(0).standard_normal((50, 5))
    check(policy, list(rows), rows.astype(np.float32))


def test_the_file_says_what_it_is(tmp_path):
    out = export_onnx(policy_on(VECTOR, ACTIONS["discrete"]), tmp_path / "new" / "policy.onnx")
    said = {p.key: p.value for p in onnx.load(out).metadata_props}
    assert (said["algorithm"], said["env_steps"], said["task"]) == ("ppo", "1000", "custom")
    assert json.loads(said["action_space"]) == {"kind": "discrete", "n": 4, "start": 0}


def test_a_graph_that_acts_otherwise_is_not_written(tmp_path, monkeypatch):
    """For instance because the policy has learned a new transform and the export has not."""
    policy = policy_on(VECTOR, ACTIONS["box"])
    monkeypatch.setattr(policy.actor, "see", np.cos)
    with pytest.raises(LPOError, match="was not written"):
        export_onnx(policy, tmp_path / "policy.onnx")
    assert not any(tmp_path.iterdir())


def test_the_command_writes_the_file(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    policy_on(VECTOR, ACTIONS["discrete"]).save(tmp_path / "policy")
    out = tmp_path / "p.onnx"
    cli.main(["export", str(tmp_path / "policy"), "--onnx", "--out", str(out)])
    assert capsys.readouterr().out.strip() == str(out)
    assert runtime(onnx.load(out)).get_inputs()[0].shape == ["N", 5]
    with pytest.raises(SystemExit):
        cli.main(["export", str(tmp_path / "policy"), "--no-onnx"])
    assert "ONNX is the only format" in capsys.readouterr().err
    cli.main(["export", str(tmp_path / "policy")])
    assert (tmp_path / "policy.onnx").exists()


def test_the_page_s_code_runs(tmp_path, monkeypatch):
    """The Python of docs/deploy.md, on the run that the quickstart makes."""
    page = (Path(__file__).parents[1] / "docs" / "deploy.md").read_text()
    monkeypatch.chdir(tmp_path)
    agent = Agent("lpo/SparseHopper-v0", hidden=(8,))
    agent.policy.save("runs/hopper")
    export_onnx(agent.policy, Path("hopper.onnx"))
    agent.close()
    names: dict[str, Any] = {"observation": np.zeros(11)}
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, names)
        assert np.shape(names["action"])[-1:] == (3,)


def test_without_onnx_the_remedy_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(LPOError, match=r"pip install 'lpo-rl\[onnx\]'"):
        export_onnx(policy_on(VECTOR, ACTIONS["box"]), tmp_path / "policy.onnx")


def test_a_card_shows_hostile_strings_as_they_are():
    policy = policy_on(VECTOR, ACTIONS["discrete"], env_kwargs={"a": "`|\n# <script>"})
    policy.task = {"id": "x](http://evil)\n---\n# <b>"}
    found = Score({"return": 1.5}, 0.25, "")
    _, front, text = readme(policy, found, []).split("---\n", 2)
    data = [line.split(": ", 1) for line in front.strip().splitlines()]
    assert {key: json.loads(value) for key, value in data}["model-index"][0]["results"][0] == {
        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
        "dataset": {"name": policy.task["id"], "type": policy.task["id"]},
        "metrics": [{"type": "mean_reward", "name": "mean_reward", "value": "1.50 +/- 0.25"}],
    }
    assert r"# ppo on x\](http://evil) --- # \<b>" in text and "\n---\n" not in text
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads[1:] == ["## Score", "## Use", "## Options", "## Versions"]
    assert r"""| env\_kwargs | `{"a": "'\|\n# <script>"}` |""" in text


@pytest.mark.slow
def test_a_card_comes_back_as_the_policy(tmp_path, capsys):
    """Folder, score, curve and clip of a task that is drawn without OpenGL."""
    run, folder = tmp_path / "run", tmp_path / "run" / "card"
    flags = "--env lpo/PointMaze-v0 --steps 1024 --rollout 512 --hidden 8 --eval-every 512"
    cli.main(["train", *flags.split(), "--eval-max-steps", "50", "--quiet", "--out", str(run)])
    capsys.readouterr()
    cli.main(["card", str(run), "--episodes", "3", "--checkpoint", "last"])
    assert capsys.readouterr().out.split() == [str(folder)]
    names = ["README.md", "clip.webp", "curve.png", "model.json", "model.safetensors"]
    assert sorted(p.name for p in folder.iterdir()) == [*names, "options.json"]
    policy, again = Policy.load(run, "last"), Policy.load(folder)
    rows = np.random.default_rng(0).standard_normal((20, *policy.codec.observation_space.shape))
    was, now = (p.predict(rows.astype("f4"), deterministic=True)[0] for p in (policy, again))
    np.testing.assert_array_equal(now, was)
    assert (again.env_steps, again.config, again.task) == (1024, policy.config, policy.task)
    cli.main(["eval", str(folder), "--episodes", "3"])
    said = re.search(r"return ([\d.]+)", capsys.readouterr().out)
    text = (folder / "README.md").read_text()
    shown = re.search(r"\| return \| `([\d.e+-]+)` \|", text)
    assert said and shown and float(said[1]) == round(float(shown[1]), 1)
    assert "![the policy at work](clip.webp)" in text and "1,024 environment steps" in text
    images = [imageio.mimread(folder / name) for name in ("curve.png", "clip.webp")]
    assert len(images[0]) == 1 and len(images[1]) > 5
    assert configs.read(folder / "options.json") == policy.config


@pytest.mark.slow
def test_a_card_without_an_environment_tells_what_the_run_logged(tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"
    flags = "--env CartPole-v1 --steps 512 --rollout 256 --hidden 8 --eval-every 256 --quiet"
    cli.main(["train", *flags.split(), "--out", str(run)])
    monkeypatch.delattr(gymnasium, "make")
    capsys.readouterr()
    cli.main(["card", str(run), "--out", str(tmp_path / "card")])
    said = capsys.readouterr().out
    assert "no new episode could be played" in said and "No clip" in said
    best = max(RunDirectory(run).metrics(), key=lambda row: row["eval/return"])
    text = (tmp_path / "card" / "README.md").read_text()
    assert (
        f"| return | `{best['eval/return']:.4g}` |" in text and "5 episodes during training" in text
    )
    assert "clip.webp" not in text and "curve.png" in text
