"""Many runs in one program: each equals the run alone; groups, axes, resume and files."""

import dataclasses
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import lpo.cli
from lpo import Agent, LPOError, Policy
from lpo.algorithms import ALGORITHMS
from lpo.config import configure
from lpo.engine.device import GroupTrainer, Program, Walk, host
from lpo.engine.learner import compiled
from lpo.envs.device import make_device
from lpo.envs.device.finite import Finite
from lpo.math.descent import PLAIN, Compute
from lpo.math.fused import Fused
from lpo.math.fused_adam import FusedAdam
from lpo.report.runs import Runs
from lpo.runs.directory import RunDirectory
from lpo.runs.group import open_group
from lpo.sweep.device import groups, run_group
from lpo.sweep.grid import Item
from lpo.types import Rollout

SMALL: dict[str, Any] = dict(
    env="lpo/DeepSea-v0", env_kwargs={"size": 5}, num_envs=4, rollout=64, batch_size=16, epochs=2,
    hidden=[8], steps=400, eval_every=128,
)  # fmt: skip


def small(algo: str, **more):
    return configure(algo, **(SMALL | more))


def trained(c, seeds, axes=None, iterations=4, compute=None):
    program = Program(c, make_device(c.task), compute)
    axes = {k: jax.numpy.array(v, jax.numpy.float32) for k, v in (axes or {}).items()}
    group = program.init(seeds, axes)
    group, metrics = program.advance(group, axes, jax.numpy.int32(c.steps), iterations=iterations)
    return host(group), host(metrics)


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["lpo", "pcpg"])
def test_a_run_among_others_equals_the_run_alone(algo):
    c = small(algo)
    together, log = trained(c, [0, 1, 2])
    alone, own = trained(c, [2])
    acts = lambda g: (g.train.params, g.moving, g.known)  # noqa: E731 - not eigenvectors
    for a, b in zip(jax.tree.leaves(acts(together)), jax.tree.leaves(acts(alone)), strict=True):
        np.testing.assert_allclose(a[2], b[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(log["env_steps"][:, 2], own["env_steps"][:, 0])
    assert not np.array_equal(
        together.train.params.policy[0].w[0], together.train.params.policy[0].w[1]
    )


@pytest.mark.slow
@pytest.mark.parametrize("algo", sorted(ALGORITHMS))
def test_host_and_device_agree_on_a_rollout_and_an_update(algo):
    """The host repeats the actions of a device rollout, and learns from it, after two updates."""
    c = small(algo, gamma_ext=0.9)
    program, none, until = Program(c, make_device(c.task)), {}, jax.numpy.int32(c.steps)
    collect = jax.jit(program.collect)
    group, env = program.init([3], none), c.task.make(4)
    obs = env.reset(0)
    walk = collect(group, none, until)
    obs = repeat(env, obs, walk)
    for _ in range(2):
        group, _ = program.advance(group, none, until, iterations=1)
        walk = collect(group, none, until)
        obs = repeat(env, obs, walk)
    rollout = rollout_of(walk)
    learnable = rollout.valid[: int(walk.rows[0])]
    assert learnable.any() and (algo in ("pcpg", "eniac-original")) != learnable.all()

    own = jax.tree.map(lambda x: x[0], group.train)
    learned, said = compiled(c, program.space)[1](own, rollout)
    together, log = program.advance(group, none, until, iterations=1)
    for a, b in zip(
        jax.tree.leaves(learned.params), jax.tree.leaves(together.train.params), strict=True
    ):
        np.testing.assert_allclose(a, b[0], rtol=1e-4, atol=1e-5)
    for name, value in said.items():
        np.testing.assert_allclose(value, log[name][0, 0], rtol=2e-3, atol=1e-4, err_msg=name)


def rollout_of(walk: Walk) -> Rollout:
    """The rollout of the only run."""
    fields = {k: x for k, x in walk.buffer._asdict().items() if k != "memory"}
    own = {name: np.asarray(x)[:, 0] for name, x in fields.items()}
    return Rollout(**own | {"last_obs": np.asarray(walk.moving.worlds.obs)[0]})


def repeat(env, obs, walk: Walk):
    """Takes the actions of a device rollout on the host; returns the observations after them."""
    rollout = rollout_of(walk)
    for t in range(int(walk.rows[0])):
        np.testing.assert_array_equal(rollout.obs[t], obs)
        step = env.step(rollout.action[t, :, 0].astype(int))
        for name in ("reward", "terminated", "truncated", "next_obs"):
            np.testing.assert_allclose(getattr(rollout, name)[t], getattr(step, name), atol=1e-7)
        obs = step.obs
    return obs


@pytest.mark.slow
def test_evaluations_draw_actions_where_they_are_asked_to():
    """Even actions reach the treasure of DeepSea(5) with probability 2⁻⁵; the mode goes left."""
    found = {}
    for deterministic in (True, False):
        c = small("ppo", eval_deterministic=deterministic, eval_episodes=4096)
        program = Program(c, make_device(c.task))
        group = program.init([0], {})
        even = jax.tree.map(jax.numpy.zeros_like, group.train.params)
        group = group._replace(train=group.train._replace(params=even))
        found[deterministic] = float(program.evaluate(group, {})["eval/success"][0])
    assert found[True] == 0
    assert found[False] == pytest.approx(1 / 32, abs=4 * np.sqrt(31 / 32**2 / 4096))


@pytest.mark.slow
def test_rollouts_grow_and_the_budget_is_met():
    _, log = trained(small("lpo", growth_iterations=3), [0, 1], iterations=6)
    sizes = log["switch/rollout_steps"][:, 0].tolist()
    assert sizes == [64, 88, 116, 116, 16, 0]  # ⌈(4/3)^k·64⌉ in rows of four, then what is left
    assert log["env_steps"][-1].tolist() == [400, 400]


@pytest.mark.slow
def test_sensitivity_decides_for_each_run_by_itself():
    c = small("lpo-s", num_features=16, switch_tau=0.3, switch_largest=128)
    _, log = trained(c, [0, 1, 2, 3], iterations=5)
    sizes = log["switch/rollout_steps"]
    assert sizes[:3].min() >= 64 and sizes.max() <= 128
    assert log["switch/dimension"][0].min() > 0
    _, own = trained(c, [3], iterations=5)
    np.testing.assert_array_equal(own["switch/rollout_steps"][:, 0], sizes[:, 3])


@pytest.mark.slow
def test_axes_differ_between_the_runs_of_one_program():
    """A run with β = 0 beside one with β = 5 is the run that was configured so."""
    c = small("eniac")
    both, _ = trained(c, [7, 7], {"beta": [0.0, 5.0], "learning_rate": [1e-4, 1e-3]})
    for i, (beta, rate) in enumerate([(0.0, 1e-4), (5.0, 1e-3)]):
        alone, _ = trained(small("eniac", beta=beta, learning_rate=rate), [7])
        for a, b in zip(jax.tree.leaves(both.train), jax.tree.leaves(alone.train), strict=True):
            np.testing.assert_allclose(a[i], b[0], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_first_states_weights_and_ramps_differ_between_the_runs_of_one_program():
    parts = {"scale": "size", "weighing": "sized-fading", "switch": "ramp", "ramp_rollout": 96}
    c = small("eniac", **parts)
    axes = {"value_gain": [1.0, 0.0], "beta_earned": [0.1, 0.5], "ramp_until": [1000.0, 100.0]}
    both, log = trained(c, [7, 7], axes)
    assert log["switch/rollout_steps"].T.tolist() == [[64] * 4, [64, 64, 96, 96]]
    for i in range(2):
        own = {name: values[i] for name, values in axes.items()}
        alone, _ = trained(small("eniac", **parts, **own), [7])
        for a, b in zip(jax.tree.leaves(both.train), jax.tree.leaves(alone.train), strict=True):
            np.testing.assert_allclose(a[i], b[0], rtol=1e-3, atol=1e-4)


def test_runs_that_share_a_program_are_put_together():
    def item(name, algo="eniac", **more):
        return Item(name, name, small(algo, **more))

    items = [item("a"), item("b", seed=1), item("c", beta=3.0), item("d", hidden=[16])]
    assert [[i.name for i in group] for group in groups(items)] == [["a", "b", "c"], ["d"]]


def command(*arguments: object) -> int:
    try:
        lpo.cli.main([str(a) for a in arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


FLAGS = """
    --algo lpo --env lpo/DeepSea-v0 --env-kwargs {"size":5} --num-envs 4 --rollout 64
    --batch-size 16 --epochs 2 --hidden 8 --eval-every 128 --checkpoint-every 128
""".split()  # noqa: SIM905 - as it is typed


@pytest.mark.slow
def test_results_are_ordinary_runs(tmp_path, capsys):
    out = tmp_path / "group"
    flags = [*FLAGS, "--steps", "400", "--device", "cpu", "--seeds", "3", "--out", out]
    assert command("train", *flags) == 0
    said = capsys.readouterr().out
    assert "3 runs" in said and "steps/s" in said and "median" in said and "success" in said
    assert said.count("\nwhy    ") == 3  # a diagnosis of each run, as without --device
    runs = Runs([out])
    assert [run.seed for run in runs.runs] == [0, 1, 2]
    assert all(run.finished and run.switches > 3 for run in runs.runs)
    assert command("report", out, "--no-clips") == 0
    assert command("plot", out, "--out", tmp_path / "curve.png") == 0
    one = out / runs.runs[1].name
    assert command("eval", one, "--episodes", "2", "--checkpoint", "last") == 0
    assert "policy at step 400" in capsys.readouterr().out
    assert Policy.load(one).predict(np.zeros(26))[0] in (0, 1)
    last = runs.runs[1].rows[-1]  # its claim: of new episodes, and as many as a host would play
    assert last["best/episodes"] % 20 == 0 and 0 <= last["best/success"] <= 1
    assert Policy.load(one).acts == ("sampled" if last["best/sampled"] else "mode")
    with pytest.raises(LPOError, match=r"--device [gc]pu"):
        from lpo.runs.run import resume

        resume(one)
    assert command("train", *flags) == 0  # all done: nothing to do
    assert "0 to do" in capsys.readouterr().out


@pytest.mark.slow
def test_a_policy_of_the_device_takes_raw_angles(tmp_path, capsys):
    out = tmp_path / "group"
    flags = "--env MountainCarContinuous-v0 --periodic 0 --num-envs 4 --rollout 64 --batch-size 16"
    flags += " --epochs 1 --hidden 8 --eval-every 0 --steps 128 --device cpu"
    assert command("train", *flags.split(), "--out", out) == 0
    (run,) = (p for p in out.iterdir() if RunDirectory(p).exists)
    policy = Policy.load(run, "last")
    assert policy.predict(np.zeros(2))[0].shape == (1,)
    assert policy.actor.net[0].w.shape == (3, 8)
    assert command("eval", run, "--episodes", "1", "--checkpoint", "last") == 0


@pytest.mark.slow
def test_the_host_plays_what_the_device_has_learned(tmp_path):
    """The same policy and task: a saved policy acts on the host's environment."""
    out = tmp_path / "group"
    assert command("train", *FLAGS, "--steps", "256", "--device", "cpu", "--out", out) == 0
    (run,) = (p for p in out.iterdir() if RunDirectory(p).exists)
    row = RunDirectory(run).metrics()[-1]
    agent_return = Policy.load(run, "last")
    env = agent_return.config.task.make(1)
    obs = env.reset(0)
    total, done = 0.0, False
    while not done:
        action = agent_return.actor.act(obs.astype(np.float32), np.random.default_rng(0), True)
        step = env.step(agent_return.actor.dist.to_env(action))
        total, done, obs = total + step.reward[0], step.terminated[0], step.obs
    assert total == pytest.approx(row["eval/return"], abs=1e-6)  # DeepSea is deterministic


@pytest.mark.slow
def test_a_program_with_kernels_learns_what_plain_code_learns():
    """Policy, critics and predictor; rates that differ between the runs."""
    nets = {"hidden": [16, 16], "predictor_hidden": [16, 16], "predictor_features": 16}
    c = small("rnd", **nets, env_kwargs={"size": 4})
    axes = {"learning_rate": [1e-3, 1e-2], "max_grad_norm": [0.1, 10.0]}
    kernels = Compute(Fused(interpret=True), FusedAdam(interpret=True))
    plain = trained(c, [0, 1], axes, 2, PLAIN)
    ours = trained(c, [0, 1], axes, 2, kernels)
    for a, b in zip(jax.tree.leaves(ours[0].train), jax.tree.leaves(plain[0].train), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("task", [[], ["--env", "lpo/SparseHopper-v0", "--env-kwargs", "{}"]])
def test_a_killed_group_goes_on_to_the_same_bytes(tmp_path, task):
    flags = [*FLAGS, *task, "--steps", "6000", "--device", "cpu", "--seeds", "2"]
    base = [sys.executable, "-m", "lpo.cli"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    subprocess.run([*base, "train", *flags, "--out", whole], check=True, capture_output=True)
    process = subprocess.Popen([*base, "train", *flags, "--out", cut], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(cut.glob("device/*/*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    subprocess.run([*base, "resume", cut, "--device", "cpu"], check=True, capture_output=True)
    for run in sorted(p.name for p in whole.iterdir() if RunDirectory(p).exists):
        for name in ("metrics.jsonl", "checkpoints/000000006000.safetensors"):
            assert (cut / run / name).read_bytes() == (whole / run / name).read_bytes()


def test_what_cannot_run_on_a_device_is_said(tmp_path, capsys):
    for flags, words in {
        ("--env", "Pendulum-v1"): "Pendulum-v1",
    }.items():
        assert command("train", *flags, "--device", "cpu", "--out", tmp_path / "no") == 2
        error = capsys.readouterr().err.strip()
        assert words in error and "\n" not in error
    assert command("train", "--seeds", "4", "--out", tmp_path / "no") == 2
    assert "add --device" in capsys.readouterr().err
    if not any(d.platform == "gpu" for d in jax.devices()):
        assert command("train", "--device", "gpu", "--out", tmp_path / "no") == 2
        assert "--device cpu" in capsys.readouterr().err


@dataclasses.dataclass(frozen=True)
class Tight(Finite):
    """A DeepSea whose buffers are too small until they have grown twice."""

    room: int = 1

    @property
    def description(self):
        return super().description | {"buffers": {"rows": self.room}}

    def step(self, state, action, key, params):
        too_small = jax.numpy.int32(self.room < 4)
        return super().step(state, action, key, params)._replace(overflow=too_small)

    def grown(self, overflow):
        return dataclasses.replace(self, room=self.room * 2)


@pytest.mark.slow
def test_buffers_that_overflow_grow_and_no_turn_is_lost(tmp_path, monkeypatch, capsys):
    item = Item("run", "eniac", small("eniac", steps=128))
    assert run_group(tmp_path / "plain", [item])
    monkeypatch.setattr(
        "lpo.engine.device.trainer.make_device", lambda task: Tight(task.env, (("size", 5),))
    )
    assert run_group(tmp_path / "tight", [item])
    assert capsys.readouterr().out.count("were too small; going on with") == 2
    plain, tight = (tmp_path / n / "run" / "metrics.jsonl" for n in ("plain", "tight"))
    assert plain.read_bytes() == tight.read_bytes()


def evaluated(path):
    rows = map(json.loads, (path / "run" / "metrics.jsonl").read_text().splitlines())
    return np.array([0, *(row["env_steps"] for row in rows if "eval/return" in row)])


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["eniac", "lpo", "lpo-s"])
def test_evaluations_come_in_time_whatever_the_rollouts_do(tmp_path, algo):
    """Also after a stop between two of them, which leaves no trace."""
    item = Item("run", algo, small(algo, steps=4000, eval_every=600))
    assert run_group(tmp_path / "whole", [item])
    gaps = np.diff(evaluated(tmp_path / "whole"))
    assert 4000 // 600 <= len(gaps) <= 12 and gaps.max() <= 660
    assert not run_group(tmp_path / "cut", [item], [2])  # one turn, and its state
    cut = open_group(tmp_path / "cut", [item.config], [item.name]).session
    assert (cut.evaluated == cut.env_steps) == (algo == "eniac")
    assert run_group(tmp_path / "cut", [item])
    whole, cut = (tmp_path / n / "run" / "metrics.jsonl" for n in ("whole", "cut"))
    assert whole.read_bytes() == cut.read_bytes()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("normalize", [True, False])
def test_a_group_warns_once_of_an_observation_that_grows(tmp_path, monkeypatch, capsys, normalize):
    sizes = iter([1.0, 20.0, 30.0])
    turn = GroupTrainer.turn

    def grown(trainer, until):
        found = turn(trainer, until)
        size = np.array(found.size)
        size[3] = next(sizes)
        return found._replace(size=size)

    monkeypatch.setattr(GroupTrainer, "turn", grown)
    monkeypatch.setattr(GroupTrainer, "turns", lambda trainer, until: 2)
    item = Item("run", "ppo", small("ppo", normalize_obs=normalize, steps=384))
    assert run_group(tmp_path, [item])
    said = capsys.readouterr().err
    assert said.count("drifts without bound") == 1 and "Number 3 of the observation" in said


@pytest.mark.slow
def test_a_grid_runs_on_a_device(tmp_path):
    grid = tmp_path / "grid.toml"
    grid.write_text(
        'name = "g"\nenvs = ["lpo/DeepSea-v0"]\nseeds = 2\nsteps = 256\n[overrides]\n'
        "num_envs = 4\nrollout = 64\nbatch_size = 16\nepochs = 1\nhidden = [8]\neval_every = 128\n"
        'env_kwargs = {size = 5}\n[variants.weak]\nalgo = "eniac"\nbeta = 0.5\n'
        '[variants.strong]\nalgo = "eniac"\nbeta = 4.0\n[variants.plain]\nalgo = "ppo"\n'
    )
    assert command("sweep", grid, "--out", tmp_path / "out", "--device", "cpu") == 0
    found = Runs([tmp_path / "out"])
    assert sorted({run.label for run in found.runs}) == ["plain", "strong", "weak"]
    assert len(found.runs) == 6 and all(run.finished for run in found.runs)
    plan = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert Path(tmp_path / "out" / plan["runs"][0]["name"] / "checkpoints").is_dir()
    with pytest.raises(LPOError, match=r"Policy\.load"):
        Agent.load(tmp_path / "out" / plan["runs"][0]["name"])
