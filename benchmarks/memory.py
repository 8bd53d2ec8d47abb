"""How much memory does a run take that observes images of 84 × 84 × 4?

    python benchmarks/memory.py [--rollout 4096]

Prints the peak of the process before the run and after two rollouts and updates, in MB. One epoch
an update: more of them take longer and no more memory.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import argparse
import resource

from guests import Frames  # pyright: ignore[reportMissingImports]

from lpo import Agent


def peak() -> float:
    """Returns the largest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rollout", type=int, default=4096)
    parser.add_argument("--bonus", default="rnd")
    asked = parser.parse_args()
    before = peak()
    agent = Agent(
        Frames, bonus=asked.bonus, rollout=asked.rollout, epochs=1, eval_every=0, env_workers=0
    )
    agent.learn(2 * asked.rollout, progress_bar=False)
    print(f"rollouts of {asked.rollout:,}, bonus {asked.bonus}: {before:.0f} MB before the run")
    print(f"and {peak():.0f} MB at its peak")


if __name__ == "__main__":
    main()
