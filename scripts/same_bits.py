"""Do two versions of lpo write the same bits? Record short runs with each, then compare.

    OLD/.venv/bin/python scripts/same_bits.py record runs/bits-old
    .venv/bin/python scripts/same_bits.py record runs/bits-new
    python scripts/same_bits.py compare runs/bits-old runs/bits-new

Names after the folders choose among the runs: ``record runs/bits-old lpo-w-sea options``. Two run
at a time, or as many as the variable BITS_JOBS says. Every row
of the table runs on a native, a Gymnasium and a finite task, once with other parts, and on a
device, two seeds in one program. Metrics, visits and checkpoints are compared bit by bit. Metrics
and arrays that were renamed are compared under their new name. Those that the old version did not
have are not compared, nor are best checkpoints that were chosen at different steps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROWS = ("lpo-w", "lpo", "lpo-s", "eniac", "rnd", "pcpg", "eniac-original", "ppo")
TASKS = {
    "hopper": "--env lpo/SparseHopper-v0 --threads 1",
    "car": "--env MountainCarContinuous-v0",
    "sea": "--env lpo/DeepSea-v0",
}
OTHERS = {
    "walker": "--algo lpo --env lpo/SparseWalker2d-v0 --threads 1 --threshold hard",
    "cheetah": "--algo lpo-s --env lpo/SparseHalfCheetah-v0 --threads 1 --threshold 1.5",
    "parts": "--algo pcpg --switch sensitivity --start reset --env lpo/SparseHopper-v0 --threads 1",
    "logdet": "--algo pcpg --cover-weights logdet --first-uniform 0.5 --env lpo/DeepSea-v0",
    "product": "--algo pcpg --features product --bonus-shape lpo --env lpo/DeepSea-v0",
    "network": "--algo lpo --bonus elliptic --features network --env MountainCarContinuous-v0",
    "next": "--algo rnd --bonus width --env lpo/DeepSea-v0 --predictor-passes 2",
    "cover": "--algo lpo --start cover --rollin-length uniform --env lpo/CombinationLock-v0",
    "sb3": "--algo ppo --preset sb3 --env CartPole-v1",
    "options": "--algo lpo --hidden 32 16 --no-normalize-obs --intrinsic-episodic --env CartPole-v1"
    " --entropy-coef 0.01 --growth-iterations 5 --predictor-hidden 32 --beta 3 --seed 7",
}
DEVICE = {
    f"device-{algo}": f"--algo {algo} --env lpo/DeepSea-v0 --device cpu --seeds 2" for algo in ROWS
} | {
    "device-car": "--algo lpo-w --env MountainCarContinuous-v0 --device cpu --seeds 2 --periodic 0",
    "device-hopper": "--algo lpo --env lpo/SparseHopper-v0 --device cpu --seeds 2 --hidden 16",
}
LENGTH = "--steps 12000 --eval-every 4000 --checkpoint-every 6000 --quiet"
NEW_FLAGS = {  # where this version has the latter
    "--intrinsic-episodic": "--intrinsic-ends ends",
    "--periodic": "--angles",
}
GONE = (".learned",)  # ends of the names of arrays that the new version does not have
NEW_PARTS = (".novelty.life",)  # of the names of arrays, which the old version did not have
RENAMED = {"eval/success": "eval/normalized_return", "rollout/success": "rollout/normalized_return"}


def commands() -> dict[str, str]:
    grid = {f"{a}-{t}": f"--algo {a} {words}" for t, words in TASKS.items() for a in ROWS}
    return grid | OTHERS | DEVICE


def of_this_version(words: str) -> str:
    """Returns a command with the flags that this version of ``lpo`` has."""
    from lpo.config import configure, leaves

    names = {"--" + leaf.short.replace("_", "-") for leaf in leaves(configure("lpo"))}
    for old, new in NEW_FLAGS.items():
        words = words.replace(old, new) if new.split()[0] in names else words
    return words


def has_row(name: str) -> bool:
    """Whether this version of ``lpo`` has a row, by this name or by a later one."""
    from lpo import algorithms

    return getattr(algorithms, "row_name", str)(name) in algorithms.ALGORITHMS


def arrays_of(file: Path) -> dict[str, bytes]:
    """Returns the arrays of a checkpoint as bytes, under the names of the old version."""
    from safetensors import safe_open

    found = {}
    with safe_open(file, "np") as saved:
        for name in saved.keys():  # noqa: SIM118 - it is no dictionary
            array, old = saved.get_tensor(name), name
            for part in NEW_PARTS:
                old = old.replace(part, "")
            if not old.endswith(GONE):
                found[old] = f"{array.dtype} {array.shape} ".encode() + array.tobytes()
    return found


def record(out: Path, only: list[str]) -> None:
    """Train every run with the ``lpo`` of this interpreter, stop one in the middle, resume it.

    Rows that this version does not have are left out, and runs that ``only`` does not name.
    """
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}

    def train(item: tuple[str, str]) -> None:
        name, words = item[0], of_this_version(item[1])
        run = out / name
        cli = [sys.executable, "-m", "lpo.cli"]
        if name.endswith("-car"):  # half of it, then on to the end
            flags = f"{words} {LENGTH}".replace("--steps 12000", "--steps 6000").split()
            flags += ["--growth-iterations", "5"] if "--algo lpo " in words else []
            subprocess.run([*cli, "train", *flags, "--out", run], check=True, env=env)
            again = ["--device", "cpu"] if "--device" in words else []
            flags = [run, *again, "--steps", "12000", "--quiet"]
            subprocess.run([*cli, "resume", *flags], check=True, env=env)
        else:
            flags = f"{words} {LENGTH}".split()
            subprocess.run([*cli, "train", *flags, "--out", run], check=True, env=env)

    with ThreadPoolExecutor(int(os.environ.get("BITS_JOBS", "2"))) as pool:
        known = [x for x in commands().items() if has_row(x[1].split()[1])]
        known = [x for x in known if not only or x[0] in only]
        list(pool.map(train, known))


def rows_of(run: Path) -> list[dict]:
    """The metrics of a run under their new names; success is compared where it was a share."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    new = any("normalized_return" in key for row in rows for key in row)
    if new:
        drop = RENAMED.keys()
        return [{k: v for k, v in row.items() if k not in drop} for row in rows]
    declared = "max_return" in json.loads((run / "task.json").read_text())
    keep = {k: v for k, v in RENAMED.items() if declared}
    return [
        {keep.get(k, k): v for k, v in row.items() if k in keep or k not in RENAMED} for row in rows
    ]


def steps_of(checkpoint: Path) -> int | None:
    """Returns when a checkpoint was made; None where there is none."""
    record = checkpoint.with_suffix(".json")
    return json.loads(record.read_text())["env_steps"] if record.exists() else None


def holds(old: list[dict], new: list[dict]) -> bool:
    """Whether every number of the old rows stands in the new ones."""
    return len(old) == len(new) and all(
        a.items() <= b.items() for a, b in zip(old, new, strict=True)
    )


def recorded(root: Path) -> list[str]:
    """The names of the runs of a record; those of a device lie in the folder of their command."""
    found = []
    for name in commands():
        folder = root / name
        inside = (
            [folder]
            if name not in DEVICE
            else sorted(p.parent for p in folder.glob("*/config.json"))
        )
        found += [str(p.relative_to(root)) for p in inside if p.exists()]
    return found


def compare(old: Path, new: Path, only: list[str]) -> int:
    worst = 0
    names = [name for name in recorded(old) if not only or name.split("/")[0] in only]
    for name in names:
        a, b = old / name, new / name
        if not b.exists():  # a run of a device is named by its row
            b = new / name.replace("/lpo-w-", "/default-")
        same = {"metrics": holds(rows_of(a), rows_of(b))}
        for file in sorted(a.glob("checkpoints/*.safetensors")) + sorted(a.glob("visits.json")):
            other = b / file.relative_to(a)
            if file.stem == "best" and steps_of(file) != steps_of(other) is not None:
                continue  # evaluations choose it by other rules
            read = arrays_of if file.suffix == ".safetensors" else Path.read_bytes
            same[file.name] = other.exists() and read(file) == read(other)
        bad = [key for key, equal in same.items() if not equal]
        worst += bool(bad)
        print(f"{name:40s} {'equal' if not bad else 'DIFFERS: ' + ', '.join(bad)} ({len(same)})")
    print(f"{len(names) - worst} of {len(names)} runs are equal to the bit")
    return int(worst > 0)


if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(Path(sys.argv[2]), sys.argv[3:])
    else:
        sys.exit(compare(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]))
