"""What the sensitivity switch costs: its share of a run's time, early and late.

    python benchmarks/switch.py --steps 120000 --features 256

The first rollout (compilation) is left out. The cost of one step must not grow with their number,
so microseconds per step of the four quarters of the run are printed beside the share.
"""

from __future__ import annotations

import argparse
import os
from itertools import pairwise

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from checkout import commit

from lpo.config import configure
from lpo.envs.specs import LOCOMOTION
from lpo.runs.run import make_trainer


def measure(env: str, steps: int, num_features: int) -> None:
    c = configure(
        "lpo-s",
        env=env,
        steps=steps,
        num_features=num_features,
        eval_every=0,
        threads=1 if env in LOCOMOTION else None,  # others have no such choice
    )
    trainer = make_trainer(c)
    trainer.iterate(steps)
    marks = [(trainer.env_steps, dict(trainer.seconds))]
    while trainer.env_steps < steps:
        trainer.iterate(steps)
        if trainer.env_steps >= steps * len(marks) / 4:
            marks.append((trainer.env_steps, dict(trainer.seconds)))
    print(f"commit {commit()}, {env}, {num_features} features")
    print("part of the run, steps, switch share, switch µs/step")
    for (n0, s0), (n1, s1) in [*pairwise(marks), (marks[0], marks[-1])]:
        spent = {part: s1[part] - s0[part] for part in s1}
        share, cost = spent["switch"] / sum(spent.values()), spent["switch"] / (n1 - n0) * 1e6
        print(f"{n0:>8} to {n1:>8}   {n1 - n0:>7}   {share:6.1%}   {cost:6.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="What the sensitivity switch costs")
    parser.add_argument("--env", default="lpo/SparseHopper-v0")
    parser.add_argument("--steps", type=int, default=120_000)
    parser.add_argument("--features", type=int, default=256)
    options = parser.parse_args()
    measure(options.env, options.steps, options.features)


if __name__ == "__main__":
    main()
