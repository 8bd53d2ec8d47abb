"""Make the release asset `lpo-search-2026.tar`: results that left the tree, and their pages.

    python scripts/archive.py                    # writes build/lpo-search-2026.tar

It has five-seed sweeps that larger ones replaced, studies of single tasks, and the search for the
default: grids, scripts, packed runs, figures and the pages that showed them. The files are those of
the last commit that had them all, so the same bytes come out each time. A clone needs its history
(`git fetch --unshallow`). `lpo report` and `lpo doctor` read the packed runs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAME = "lpo-search-2026"
LAST = "c5621fedcdb237c5ece0a0598cbe99824e20bc74"
GONE = """
    experiments/ablations
    experiments/components/control.toml
    experiments/components/deepsea.toml
    experiments/components/features.toml
    experiments/components/locomotion.toml
    experiments/components/rollin.toml
    experiments/components/width.toml
    experiments/components/results/control.parquet
    experiments/components/results/deepsea.parquet
    experiments/components/results/features.parquet
    experiments/components/results/locomotion.parquet
    experiments/components/results/rollin.parquet
    experiments/components/results/width.parquet
    experiments/default/drown.toml
    experiments/default/early.py
    experiments/default/fade.py
    experiments/default/lost.toml
    experiments/default/search.py
    experiments/default/stories.py
    experiments/default/results/before.parquet
    experiments/default/results/early.parquet
    experiments/default/results/fade.parquet
    experiments/default/results/hard.parquet
    experiments/default/results/lost.parquet
    experiments/default/results/search.parquet
    experiments/figure1/half.toml
    experiments/figure1/hard.toml
    experiments/figure1/posture.py
    experiments/figure1/steady.py
    experiments/figure1/results/half.parquet
    experiments/figure1/results/hard.parquet
    experiments/figure1/results/posture.csv
    experiments/figure1/results/posture-ablations.csv
    experiments/figure1/results/posture-hard.csv
    experiments/figure1/results/posture-lambda.csv
    experiments/figure1/results/posture-works.csv
    experiments/figure2/steps10k.toml
    experiments/figure2/steps200k.toml
    experiments/figure2/results/steps10k.parquet
    experiments/figure2/results/steps200k.parquet
    docs/results/ablations.md
    docs/results/cheetah.md
    docs/results/steadiness.md
    docs/figures/ablations-parts
    docs/figures/ablations-reasons
    docs/figures/ablations-works
    docs/figures/components-locomotion
    docs/figures/default-first/stories.svg
    docs/figures/default-long/posture-lambda.svg
    docs/figures/figure1-half
    docs/figures/figure1-hard
    docs/figures/figure2-10k
    docs/figures/figure2-200k
    docs/figures/figure2-device
""".split()  # noqa: SIM905
AS_THEY_WERE = [  # shorter now
    "docs/origin.md", "docs/practice.md", "docs/readings.md", "docs/results",
]  # fmt: skip


def git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", ROOT, *words], check=True, stdout=subprocess.PIPE).stdout


def known() -> bool:
    """Whether this clone has the commit."""
    words = ["git", "-C", ROOT, "cat-file", "-e", f"{LAST}^{{commit}}"]
    return subprocess.run(words, stderr=subprocess.DEVNULL).returncode == 0


def archive(out: Path) -> Path:
    """Writes the asset into the folder ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{NAME}.tar"
    words = ["archive", "--format=tar", f"--prefix={NAME}/", LAST, "--", *GONE, *AS_THEY_WERE]
    path.write_bytes(git(*words))
    return path


if __name__ == "__main__":
    if not known():
        sys.exit(f"This clone has no commit {LAST[:7]}; run `git fetch --unshallow`.")
    print(archive(ROOT / "build"))
