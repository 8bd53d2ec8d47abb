"""Build wheel and sdist, install the wheel in a clean environment, and use it.

    python scripts/check_release.py

Needs hatchling (`pip install -e '.[dev]'`). Everything goes to build/release, which git ignores.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUT = ROOT / "build" / "release"
LARGEST_SDIST = 1_500_000
USE = """
import lpo
agent = lpo.LPO("lpo/SparseHopper-v0", rollout=512, eval_every=0, threads=1).learn(1024)
agent.save("agent")
print(lpo.__version__, lpo.Policy.load("agent").env_steps)
"""


def run(*command: object, cwd: Path = OUT) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    words = [str(word) for word in command]
    ended = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    run(sys.executable, "-m", "hatchling", "build", "-d", OUT / "dist", cwd=ROOT)
    wheel, sdist = (next((OUT / "dist").glob(f"*{end}")) for end in (".whl", ".tar.gz"))
    size = sdist.stat().st_size
    if size > LARGEST_SDIST:
        sys.exit(f"{sdist.name} has {size:,} bytes; leave results out of it.")
    with tarfile.open(sdist) as archive:
        kept = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    if kept & {"experiments", "docs", "benchmarks"}:
        sys.exit(f"{sdist.name} holds {sorted(kept)}; leave results and pages out of it.")
    stated = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    venv = OUT / "clean"
    run(sys.executable, "-m", "venv", venv)
    python = venv / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", wheel, "-c", ROOT / "constraints.txt")
    lpo = venv / "bin" / "lpo"
    version = run(lpo, "--version").strip()
    if stated is None or version != stated[1]:
        sys.exit(f"`lpo --version` says {version}, and pyproject.toml says otherwise.")
    run(lpo, "list")
    run(lpo, "train", "--steps", "2048", "--eval-episodes", "1", "--quiet", "--out", OUT / "run")
    run(lpo, "eval", OUT / "run", "--episodes", "1")
    used = run(python, "-c", USE).strip()
    print(f"{wheel.name} {wheel.stat().st_size:,} bytes, {sdist.name} {size:,} bytes: {used}")


if __name__ == "__main__":
    main()
