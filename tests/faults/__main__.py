"""One command that does faults to runs and prints what came of them.

python -m tests.faults --kills 1000
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["JAX_PLATFORMS"] = "cpu"


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="SIGKILLs (default: 100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, help="results so far, appended to")
    parser.add_argument("--work", type=Path, help="directory of the runs")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = given.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(work / "compiled"))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        from tests.faults.kills import kills
        from tests.faults.table import read, recorded, table

        log = given.log or Path(folder) / "results.jsonl"
        for result in recorded(kills(work, given.kills, given.seed), log):
            if result.lost or not result.equal:
                print(f"{result.kind}, {result.where}: {result.why}", flush=True)
        print(table(read(log)))
        return int(any(result.lost or not result.equal for result in read(log)))


if __name__ == "__main__":
    sys.exit(main())
