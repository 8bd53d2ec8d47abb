"""One command that does faults to runs and prints what came of them.

    python -m tests.faults --kills 1000

prints kind of fault × times tried × runs lost × resumed byte-equal, for every fault. Name some of
them (`python -m tests.faults kills disk`) to try these alone.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["JAX_PLATFORMS"] = "cpu"


def main() -> int:
    words = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m tests.faults", description=__doc__, formatter_class=words
    )
    parser.add_argument("faults", nargs="*", help="kills, disk, damage, others, grids (all)")
    parser.add_argument("--kills", type=int, default=100, help="number of SIGKILLs (100)")
    parser.add_argument("--times", type=int, default=3, help="of every other fault and task (3)")
    parser.add_argument("--cases", nargs="*", help="rows and tasks, as lpo-native (default: many)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, help="file of results; new ones are appended")
    parser.add_argument("--work", type=Path, help="directory of the runs (default: a new one)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = given.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(work / "compiled"))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        from tests.faults.plan import faults
        from tests.faults.table import read, recorded, table

        log = given.log or Path(folder) / "results.jsonl"
        for result in recorded(faults(given, work, random.Random(given.seed)), log):
            if result.lost or not result.equal:
                print(f"{result.kind}, {result.where}: {result.why}", flush=True)
        print(table(read(log)))
        return int(any(result.lost or not result.equal for result in read(log)))


if __name__ == "__main__":
    sys.exit(main())
