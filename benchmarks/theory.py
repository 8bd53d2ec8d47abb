"""How fast the theory room is, on one core.

    python benchmarks/theory.py [--rlberry-python PATH]

The last line of output is one JSON object. rlberry pins gymnasium < 0.30 and cannot share an
environment with lpo; point --rlberry-python at an interpreter that has `rlberry` and
`rlberry-scool`, or the ratio is null.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from copy import deepcopy
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from checkout import commit

from lpo.theory import zoo
from lpo.theory.algorithms import Options, lpo
from lpo.theory.classes import Box, LinearBall
from lpo.theory.constants import Constants
from lpo.theory.mdp import MDP
from lpo.theory.peers import lsvi_ucb
from lpo.theory.simulate import action_cdf, geometric, roll_in, roll_out

EPISODES, HORIZON = 30, 20


def best_of(times: int, work) -> float:
    """Least wall time of `times` calls, after one to warm up (compile)."""
    work()
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return min(took)


def stream_rate(F, seen: int, chunk: int) -> float:
    """Samples/s of S-Sampling over the `chunk` samples that follow the first `seen` ones."""
    rng = np.random.default_rng(0)
    before = F.empty()
    z = rng.integers(0, F.num_pairs, seen)
    F.absorb(before, z, rng.random(seen), 2.0, 1e12, False)
    z, u = rng.integers(0, F.num_pairs, chunk), rng.random(chunk)
    took = []
    for _ in range(30):
        sensed = deepcopy(before)
        began = time.perf_counter()
        F.absorb(sensed, z, u, 2.0, 1e12, False)
        took.append(time.perf_counter() - began)
    return chunk / min(took)


def s_sampling_whole(F, count: int) -> float:
    """Samples/s of S-Sampling from the empty set, additions included."""
    rng = np.random.default_rng(0)
    z, u = rng.integers(0, F.num_pairs, count), rng.random(count)
    return count / best_of(3, lambda: F.absorb(F.empty(), z, u, 2.0, 1e12, False))


def simulation() -> dict[str, float]:
    """Steps/s of both roll-out kernels on several MDPs; every step draws an action and a move."""
    out = {}
    rng = np.random.default_rng(0)
    for name, size in (("deepsea", 10), ("riverswim", 6), ("lock", 10), ("random", 50)):
        mdp = zoo.make(name, size)
        pi = rng.dirichlet(np.ones(mdp.num_actions), size=mdp.num_states)
        cdf, heads = action_cdf(pi), np.zeros(100_000, np.int64)
        h = geometric(mdp.gamma, len(heads), rng)
        steps = int(h.sum())
        took = best_of(5, lambda: roll_out(mdp, cdf, heads, h, rng))  # noqa: B023
        out[f"{mdp.name} roll-out"] = steps / took
        member = np.zeros(100_000, np.int64)
        walked = roll_in(mdp, cdf[None], member, rng)[1]
        took = best_of(5, lambda: roll_in(mdp, cdf[None], member, rng))  # noqa: B023
        out[f"{mdp.name} roll-in"] = walked / took
    return out


def bench_mdp() -> MDP:
    """A 16-state, 2-action chain without end."""
    return zoo.chain(16, gamma=0.9, slip=0.1)


def bench_features() -> np.ndarray:
    """Dense features, d = 32: a rotation of the one-hot ones, so that no short cut applies."""
    return np.linalg.qr(np.random.default_rng(0).normal(size=(32, 32)))[0]


def ours_lsvi(mdp: MDP) -> float:
    """CPU seconds for EPISODES episodes of HORIZON steps (as many as rlberry is given)."""
    features = bench_features()
    rng = np.random.default_rng(0)

    def work() -> None:
        lsvi_ucb(mdp, features, EPISODES, rng, scale=1.0, ridge=0.1, H=HORIZON)

    work()
    took = []
    for _ in range(10):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return min(took)


RLBERRY = """
import json, sys, time
import gymnasium as gym
import numpy as np
from rlberry_scool.agents.features import FeatureMap
from rlberry_scool.agents.linear import LSVIUCBAgent
with open(sys.argv[1]) as f:
    x = json.load(f)
P, r, phi = np.array(x["P"]), np.array(x["r"]), np.array(x["features"])
S = P.shape[1]; A = P.shape[0] // S
class Env(gym.Env):
    observation_space, action_space = gym.spaces.Discrete(S), gym.spaces.Discrete(A)
    reward_range = (0.0, 1.0)
    def reset(self, **_):
        self.rng, self.s = np.random.default_rng(0), 0
        return 0, {}
    def step(self, a):
        z = self.s * A + int(a)
        self.s = int(self.rng.choice(S, p=P[z]))
        return self.s, float(r[z]), False, False, {}
class Features(FeatureMap):
    def __init__(self): self.shape = (phi.shape[1],)
    def map(self, observation, action):
        return phi[observation * A + action]
def once():
    agent = LSVIUCBAgent(Env(), horizon=x["H"], feature_map_fn=lambda e: Features(),
                         gamma=x["gamma"], bonus_scale_factor=1.0, reg_factor=0.1)
    began = time.process_time(); agent.fit(x["episodes"]); return time.process_time() - began
print(json.dumps(min(once() for _ in range(3))))
"""


def rlberry_lsvi(python: str, mdp: MDP) -> float:
    """CPU seconds of rlberry's LSVI-UCB for the same MDP, features, horizon, episodes and ridge."""
    with tempfile.TemporaryDirectory() as folder:
        data, script = Path(folder, "mdp.json"), Path(folder, "script.py")
        job = {"P": mdp.P.tolist(), "r": mdp.r.tolist(), "gamma": mdp.gamma,
               "features": bench_features().tolist(),
               "H": HORIZON, "episodes": EPISODES}  # fmt: skip
        data.write_text(json.dumps(job))
        script.write_text(RLBERRY)
        done = subprocess.run(
            [python, str(script), str(data)], capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": ""},
        )  # fmt: skip
        if done.returncode:
            print(done.stderr[-800:], file=sys.stderr)
            raise SystemExit("rlberry failed; check the interpreter given to --rlberry-python.")
        return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rlberry-python", default=None)
    arguments = parser.parse_args()
    print(f"commit {commit()}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 100))
    box, ball = Box(1000, 100.0), LinearBall(x / np.sqrt((x**2).sum(1, keepdims=True)), 100.0)
    print("S-Sampling, samples/s after so many seen")
    print(f"  {'seen':>10} {'tabular':>12} {'d = 100':>12}")
    rates = {}
    for seen in (10**3, 10**4, 10**5, 10**6):
        rates[seen] = stream_rate(box, seen, 5000), stream_rate(ball, seen, 1000)
        print(f"  {seen:>10} {rates[seen][0]:>12.3g} {rates[seen][1]:>12.3g}")
    tabular, linear = s_sampling_whole(box, 10**6), s_sampling_whole(ball, 10**5)
    print(f"  from empty, additions included: tabular {tabular:.3g}, d = 100 {linear:.3g}")
    steps = simulation()
    print("trajectory simulation, steps/s")
    for name, rate in steps.items():
        print(f"  {name:28s} {rate:.3g}")
    mdp = zoo.deepsea(8)
    c, F = Constants.practical(mdp, 10_000), Box(130, 1220.0)
    options = Options(roll_in="law")
    took = best_of(1, lambda: lpo(mdp, F, c, np.random.default_rng(0), options))
    print(f"LPO on DeepSea(8), N = 10⁴, sampled critic: {took:.2f} s")
    ours, ratio = ours_lsvi(bench_mdp()), None
    print(f"LSVI-UCB, {EPISODES} episodes of {HORIZON} steps, d = 32: {ours:.4f} s")
    if arguments.rlberry_python:
        theirs = rlberry_lsvi(arguments.rlberry_python, bench_mdp())
        ratio = theirs / ours
        print(f"  rlberry: {theirs:.2f} s, {ratio:.0f} times as long")
    # the worse of the two classes' slow-downs
    flat = max(rates[10**3][i] / rates[10**6][i] for i in range(2))
    print(
        json.dumps(
            {
                "tabular_samples_per_s": round(min(tabular, *(r[0] for r in rates.values()))),
                "linear100_samples_per_s": round(min(linear, *(r[1] for r in rates.values()))),
                "cost_ratio_1e6_over_1e3": round(flat, 3),
                "tabular_steps_per_s": round(min(steps.values())),
                "lsvi_over_rlberry": None if ratio is None else round(ratio, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
