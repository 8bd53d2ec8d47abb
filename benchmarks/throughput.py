"""Training speed on one core: SB3's PPO, SBX's PPO, our ``ppo`` and our ``lpo``, interleaved.

    pip install 'lpo-rl[bench]'
    python benchmarks/throughput.py            # about five minutes
    python benchmarks/throughput.py --quick    # about one, noisier

**What runs.** Every contender trains on the same task with batch 16, 10 epochs, N = 2048, learning
rate 1e-4, separate 64-64 tanh networks, observations normalised by a running mean and variance
(``VecNormalize`` for SB3 and SBX; ``--plain`` leaves that out) and the other values of the paper's
table. ``sb3`` and ``sbx`` step one environment, as they do by default and as the paper's authors
did; ``sb3-8`` and ``sbx-8`` step eight (256 steps each), as we do. ``lpo`` also has its bonus, a
second critic and growing rollouts: its budget is 2,000,000 steps (K ≈ 568), of which the first
iterations are timed, where a rollout is about 2048 steps; its buffers are those of the last and
largest rollout, 2.7 times that.

**How.** One process per contender, all children of this one, all pinned to ``--core``, each with
one thread for torch, BLAS and XLA. Each builds its agent and runs two iterations that are not timed
(compilation, warm-up). Then, for ``--rounds`` rounds, each in turn trains for two iterations while
the others sleep, so that whatever disturbs the machine disturbs all alike. Figures are medians over
the rounds, by the wall clock and by the process's own CPU seconds; the two agree on a quiet
machine, and on a busy one ``--clock cpu`` bases the ratios on the steadier.

**Where the time of** ``lpo`` **goes**, by its CPU clock and in slices of their own: *physics* is
what ``env.step`` takes, timed from outside at every step of whole iterations. *Gradients* is the
PPO minibatch loop and the predictor's. Both are inside one compiled call, so they are found from
differences on one rollout and one state: T(10 epochs) − T(1 epoch) is nine epochs, T(2 predictor
passes) − T(1 pass) is one pass; the shuffles, which grow with the epochs too, are timed alone and
taken out. *Rest* is what remains: acting, storing, bonus scores, advantages, shuffles, statistics.

The last line is one JSON object: per task the ratios of the medians, that share, and the lpo
process's peak resident memory in MB.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib import metadata
from typing import Any

from checkout import commit

TASKS = ("lpo/SparseHopper-v0", "lpo/SparseHalfCheetah-v0")
CONTENDERS = ("sb3", "sbx", "sb3-8", "sbx-8", "ppo", "lpo")
BATCH, EPOCHS, ROLLOUT, NUM_ENVS, BUDGET = 16, 10, 2048, 8, 2_000_000
ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}

# -- the contenders: each is a function that trains for some iterations and returns the steps taken


def make_baseline(name: str, task: str, plain: bool) -> Callable[[int], int]:
    """PPO of SB3 or SBX on ``gymnasium.make(task)``."""
    import gymnasium
    import torch  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common import vec_env  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)
    importlib.import_module("lpo.envs")  # registers the tasks when the package is not installed
    num_envs = NUM_ENVS if name.endswith("-8") else 1
    env = vec_env.DummyVecEnv([lambda: gymnasium.make(task)] * num_envs)
    if not plain:
        env = vec_env.VecNormalize(env, norm_reward=False, clip_obs=10.0)
    library = "stable_baselines3" if name.startswith("sb3") else "sbx"
    model = importlib.import_module(library).PPO(
        "MlpPolicy",
        env,
        learning_rate=1e-4,
        n_steps=ROLLOUT // num_envs,
        batch_size=BATCH,
        n_epochs=EPOCHS,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.0,
        vf_coef=0.5,
        max_grad_norm=0.5,
        policy_kwargs={"net_arch": {"pi": [64, 64], "vf": [64, 64]}},
        seed=0,
        device="cpu",
    )

    def train(iterations: int) -> int:
        before = model.num_timesteps
        model.learn(iterations * ROLLOUT, reset_num_timesteps=False)
        return model.num_timesteps - before

    return train


def make_ours(algo: str, task: str) -> tuple[Any, Callable[[int], int]]:
    from lpo.config import configure
    from lpo.runs.run import make_trainer

    config = configure(
        algo,
        env=task,
        steps=BUDGET,
        num_envs=NUM_ENVS,
        rollout=ROLLOUT,
        batch_size=BATCH,
        epochs=EPOCHS,
        learning_rate=1e-4,
        hidden=(64, 64),
        eval_every=0,
        threads=1,
    )
    trainer = make_trainer(config)

    def train(iterations: int) -> int:
        before = trainer.env_steps
        for _ in range(iterations):
            trainer.iterate(BUDGET)
        return trainer.env_steps - before

    return trainer, train


# -- where our time goes


def physics_share(
    trainer: Any, train: Callable[[int], int], iterations: int
) -> tuple[float, float]:
    """CPU seconds an iteration takes, and those of them spent in ``env.step``."""
    step, seconds = trainer.env.step, []

    def timed(action):
        start = time.process_time()
        result = step(action)
        seconds.append(time.process_time() - start)
        return result

    start = time.process_time()
    trainer.env.step = timed
    train(iterations)
    trainer.env.step = step
    return (time.process_time() - start) / iterations, sum(seconds) / iterations


def gradient_seconds(trainer: Any, repeats: int) -> float:
    """CPU seconds of both minibatch loops in one call of ``learn`` (how: the docstring above)."""
    import jax

    from lpo.config import with_options
    from lpo.engine.learner import Space, assemble, problem_of
    from lpo.engine.learner import learn as learn_once
    from lpo.math.distributions import action_spec
    from lpo.math.minibatch import shuffled

    space = Space(trainer.parts.sight.obs, action_spec(trainer.env.action_space), None)

    def learn(epochs: int, passes: int) -> Callable[[], Any]:
        config = with_options(trainer.config, {"epochs": epochs, "predictor_passes": passes})
        parts = assemble(config, problem_of(config, space))
        compiled = jax.jit(partial(learn_once, parts))
        return lambda: compiled(trainer.state, rollout)

    def shuffle(epochs: int) -> Callable[[], Any]:
        compiled = jax.jit(shuffled, static_argnums=2)
        return lambda: compiled(jax.random.key(0), rollout.valid.reshape(-1), epochs)

    rollout = trainer.collect(BUDGET)[0]
    calls = [learn(EPOCHS, 1), learn(1, 1), learn(1, 2), shuffle(EPOCHS), shuffle(1)]
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats + 1):  # the first compiles
        for call, record in zip(calls, times, strict=True):
            start = time.process_time()
            jax.block_until_ready(call())
            record.append(time.process_time() - start)
    full, one, two, shuffle_all, shuffle_one = (statistics.median(t[1:]) for t in times)
    policy = (full - one) * EPOCHS / (EPOCHS - 1) - shuffle_all
    return policy + (two - one - shuffle_one)


def profile(trainer: Any, train: Callable[[int], int], iterations: int) -> dict[str, float]:
    """Shares of an lpo iteration: physics, gradients, rest."""
    total, physics = physics_share(trainer, train, iterations)
    gradients = gradient_seconds(trainer, iterations)
    shares = {"physics": physics / total, "gradients": gradients / total}
    return shares | {"rest": 1 - sum(shares.values()), "ms_per_iteration": 1e3 * total}


# -- one process per contender


def work(pipe: Any, name: str, task: str, core: int, plain: bool) -> None:
    """Serve ("slice", iterations) and ("profile", iterations) until None comes."""
    os.sched_setaffinity(0, {core})
    if name in ("ppo", "lpo"):
        trainer, train = make_ours(name, task)
    else:
        trainer, train = None, make_baseline(name, task, plain)
    train(2)  # compilation and warm-up
    pipe.send("ready")
    while (order := pipe.recv()) is not None:
        kind, iterations = order
        if kind == "profile":
            pipe.send(profile(trainer, train, iterations))
            continue
        wall, cpu = time.perf_counter(), time.process_time()
        steps = train(iterations)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        pipe.send({"wall": steps / wall, "cpu": steps / cpu, "peak_mb": peak_mb})


class Worker:
    """The parent's end of a contender; ready (built and warm) when constructed."""

    def __init__(self, name: str, task: str, core: int, plain: bool):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        given = (theirs, name, task, core, plain)
        self.process = context.Process(target=work, args=given, daemon=True)
        self.process.start()
        theirs.close()
        self.name = name
        self.read()

    def ask(self, kind: str, iterations: int) -> dict[str, float]:
        self.pipe.send((kind, iterations))
        return self.read()

    def read(self) -> Any:
        try:
            return self.pipe.recv()
        except EOFError:
            raise SystemExit(f"The {self.name} process ended early; its error is above.") from None

    def close(self) -> None:
        self.pipe.send(None)
        self.process.join()


def measure(task: str, args: argparse.Namespace) -> dict[str, Any]:
    """All rounds on one task: per contender its slices, and lpo's profile."""
    workers = {name: Worker(name, task, args.core, args.plain) for name in args.contenders}
    slices: dict[str, list[dict[str, float]]] = {name: [] for name in workers}
    for turn in range(args.rounds):
        names = list(workers)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            slices[name].append(workers[name].ask("slice", args.iterations))
    shares = workers["lpo"].ask("profile", args.profile_iterations)
    for worker in workers.values():
        worker.close()
    return {"slices": slices, "shares": shares}


# -- the report


def medians(slices: dict[str, list[dict[str, float]]], key: str) -> dict[str, float]:
    return {name: statistics.median(s[key] for s in rows) for name, rows in slices.items()}


def summarise(result: dict[str, Any], clock: str) -> dict[str, float]:
    """The JSON of one task."""
    speed, shares = medians(result["slices"], clock), result["shares"]
    names = {"sb3": "sb3", "sbx": "sbx", "sb3-8": "sb3_8_envs", "sbx-8": "sbx_8_envs"}
    row = {f"lpo_over_{names[b]}": speed["lpo"] / speed[b] for b in names if b in speed}
    row["ppo_over_sb3"] = speed["ppo"] / speed["sb3"]
    row["physics_and_gradient_share"] = shares["physics"] + shares["gradients"]
    row["peak_mb"] = max(s["peak_mb"] for s in result["slices"]["lpo"])
    row["lpo_steps_per_s"] = speed["lpo"]
    return {name: round(value, 3) for name, value in row.items()}


def show(task: str, result: dict[str, Any], clock: str) -> None:
    from rich.console import Console
    from rich.table import Table

    slices = result["slices"]
    wall, cpu, peak = (medians(slices, key) for key in ("wall", "cpu", "peak_mb"))
    base = wall if clock == "wall" else cpu
    table = Table(title=task, title_justify="left")
    heads = ("contender", "steps/s", "slowest-fastest", "steps/CPU s", "× sb3", "× sbx", "peak MB")
    for head in heads:
        table.add_column(head, justify="left" if head == "contender" else "right")
    for name, rows in slices.items():
        ends = [f(s["wall"] for s in rows) for f in (min, max)]
        ratios = [f"{base[name] / base[other]:.2f}" for other in ("sb3", "sbx")]
        spread = f"{ends[0]:,.0f}-{ends[1]:,.0f}"
        numbers = (f"{wall[name]:,.0f}", spread, f"{cpu[name]:,.0f}", *ratios, f"{peak[name]:.0f}")
        table.add_row(name, *numbers)
    console = Console(width=100)
    console.print(table)
    s = result["shares"]
    console.print(
        f"lpo: physics {s['physics']:.1%}, gradients {s['gradients']:.1%}, rest {s['rest']:.1%} "
        f"of {s['ms_per_iteration']:.0f} ms CPU an iteration\n"
    )


def versions() -> dict[str, str]:
    """Of every package that a contender stands on; a missing one ends the benchmark here."""
    names = ("stable-baselines3", "sbx-rl", "torch", "jax", "numpy", "mujoco", "gymnasium")
    try:
        found = {name: metadata.version(name) for name in names}
    except metadata.PackageNotFoundError as error:
        raise SystemExit(
            f"The benchmark needs {error.name}; install it with: pip install 'lpo-rl[bench]'"
        ) from None
    return {"python": platform.python_version(), **found}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), help="Gymnasium ids")
    parser.add_argument("--rounds", type=int, default=7, help="slices of each contender")
    parser.add_argument("--iterations", type=int, default=2, help="iterations of a slice")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="of the ratios")
    parser.add_argument("--plain", action="store_true", help="no VecNormalize for SB3 and SBX")
    parser.add_argument("--quick", action="store_true", help="3 rounds, one environment baselines")
    args = parser.parse_args()
    args.contenders, args.profile_iterations = list(CONTENDERS), 10
    if args.quick:
        args.rounds, args.profile_iterations = min(args.rounds, 3), 4
        args.contenders = [name for name in CONTENDERS if not name.endswith("-8")]
    if args.core not in os.sched_getaffinity(0):
        usable = sorted(os.sched_getaffinity(0))
        raise SystemExit(f"--core {args.core} is not usable here; choose one of {usable}.")
    return args


def main() -> None:
    args = arguments()
    about = {"commit": commit(), "versions": versions(), "machine": platform.machine()}
    about |= {k: getattr(args, k) for k in ("core", "rounds", "iterations", "clock", "plain")}
    print(json.dumps(about), flush=True)
    os.environ.update(ONE_THREAD)  # inherited by every contender
    summary = {}
    for task in args.tasks:
        result = measure(task, args)
        show(task, result, args.clock)
        summary[task] = summarise(result, args.clock)
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
