"""Disks: full, read-only and vanished ones, and files that are cut off or have a flipped bit."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.faults.kills import Whole
from tests.faults.lives import Case, Order, Watch, contents, differences, live
from tests.faults.table import Result

CASES = [Case("lpo", "native"), Case("lpo-s", "gymnasium"), Case("pcpg", "finite"),
         Case("lpo", "device")]  # fmt: skip
ROOM = 8 << 20  # bytes of the small file system


def one_sentence(said: str) -> bool:
    """Whether the last words are an error of ours: one line, with what to do."""
    lines = [line for line in said.strip().splitlines() if not line.startswith("warning: ")]
    return bool(lines) and lines[-1].startswith("lpo: ") and "Traceback" not in said


class Trial:
    """A run under a fault: what must come of it is that the run goes on to the same bytes."""

    def __init__(self, kind: str, case: Case, whole: Whole, out: Path):
        self.kind, self.case, self.whole, self.out = kind, case, whole, out
        self.watch, self.why = Watch(), ""
        shutil.rmtree(out, ignore_errors=True)

    def suffer(self, **how: object) -> None:
        """Trains under the fault. It must end by itself, in one sentence or well."""
        end = live(lambda: self.case.go_on(self.out), self.watch, **how)  # type: ignore[arg-type]
        stopped = end.code in (0, 130) or -64 < end.code < 0  # well, by Ctrl-C or by a signal
        if not stopped and not (end.code == 2 and one_sentence(end.said)):
            self.why = f"no clear sentence: {end.said.strip()[-300:]}"

    def result(self, without: tuple[str, ...] = (), says: str = "") -> Result:
        """Goes on without the fault and compares; ``says`` must be said."""
        end = live(lambda: self.case.go_on(self.out), self.watch)
        expected = self.whole(self.case)[0]
        wrong = [] if end.code else differences(expected, contents(self.out))
        wrong = [name for name in wrong if not name.endswith(without or ("\0",))]
        why = self.why or (end.said.strip()[-300:] if end.code else ", ".join(wrong))
        if not why and says and says not in end.said:
            why = f"it did not say {says!r}: {end.said[-300:]}"
        lost = bool(end.code)
        return Result(self.kind, self.case.name, lost=lost, equal=not why, why=why)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mounts a file system of ``ROOM`` bytes. Yields its folder; needs the right to mount."""
    folder.mkdir(parents=True, exist_ok=True)
    size = f"size={ROOM},nr_inodes=4096"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "faults", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def may_mount() -> bool:
    return os.geteuid() == 0 and shutil.which("mount") is not None


def fill(disk: Path, leave: int) -> Path:
    """Fills a file system up to ``leave`` bytes. Returns the file that does it."""
    file = disk / "filler"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    with open(file, "wb") as out:
        os.posix_fallocate(out.fileno(), 0, max(free - leave, 1))
    return file


def full(whole: Whole, rng: random.Random, times: int, cases: list[Case]) -> Iterator[Result]:
    """A file system that is full at a random moment, several times in one run."""
    for i in range(times):
        with small_disk(whole.work / "disk") as disk:
            trial = Trial("full disk", cases[i % len(cases)], whole, disk / "run")
            expected = trial.whole(trial.case)[0]
            need = sum(len(x) if isinstance(x, bytes) else 2000 for x in expected.values())
            for _ in range(2):
                filler = fill(disk, rng.randrange(0, 2 * need))
                trial.suffer()
                filler.unlink()
            yield trial.result()


def read_only(whole: Whole, rng: random.Random, times: int, cases: list[Case]) -> Iterator[Result]:
    """A folder that becomes read-only while a run writes to it, and at its next start."""
    for i in range(times):
        with small_disk(whole.work / "disk") as disk:
            trial = Trial("read-only directory", cases[i % len(cases)], whole, disk / "run")
            trial.out.mkdir()
            with bound(trial.out):
                typical = trial.whole(trial.case)[1]
                trial.suffer(
                    meanwhile=after(rng, typical, trial.watch, partial(protect, trial.out))
                )
                trial.suffer()
                subprocess.run(["mount", "-o", "remount,bind,rw", str(trial.out)], check=True)
                yield trial.result()


@contextlib.contextmanager
def bound(folder: Path) -> Iterator[None]:
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def protect(folder: Path) -> None:
    """Makes a mount read-only over the heads of those who write to it: only new files feel it."""
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)


def vanished(whole: Whole, rng: random.Random, times: int, cases: list[Case]) -> Iterator[Result]:
    """A directory that is moved away while a run writes to it, and comes back later."""
    for i in range(times):
        trial = Trial("vanished directory", cases[i % len(cases)], whole, whole.work / "cut-vanish")
        away = whole.work / "away"
        shutil.rmtree(away, ignore_errors=True)
        typical = trial.whole(trial.case)[1]
        trial.suffer(meanwhile=after(rng, typical, trial.watch, partial(trial.out.rename, away)))
        if away.exists():
            if trial.out.exists():
                trial.why = trial.why or f"it made {[p.name for p in trial.out.iterdir()]} again"
                shutil.rmtree(trial.out)
            away.rename(trial.out)
        yield trial.result()


def after(
    rng: random.Random, typical: Watch, watch: Watch, deed: Callable[[], object]
) -> Callable[[int], object]:
    """Returns what does ``deed`` when a process has entered its n-th rollout or log write."""
    phase = rng.choice(["rollout", "log write"])
    entry = rng.randint(1, max(typical.entries(phase) - 1, 1))

    def wait(pid: int) -> None:
        while watch.entries(phase) < entry:
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return
            os.sched_yield()
        with contextlib.suppress(OSError):
            deed()

    return wait


# -- damaged files

HOST_FILES = ("config.json", "task.json", "metrics.jsonl", "timing.jsonl", "visits.json",
              "newest.safetensors", "newest.json", "best.safetensors", "best.json",
              "tensorboard")  # fmt: skip
DEVICE_FILES = ("newest.safetensors", "newest.json", "metrics.jsonl", "timing.jsonl", "sweep.json")


def damaged(whole: Whole, rng: random.Random, times: int, cases: list[Case]) -> Iterator[Result]:
    """Every kind of file, cut off or with a flipped bit, in a run that was killed half-way."""
    for case in cases:
        middle = whole.work / f"middle-{case.name}"
        half_way(case, whole, middle)
        for name in DEVICE_FILES if case.task == "device" else HOST_FILES:
            for how in (cut_off, flip):
                for _ in range(times):
                    kind = f"{'cut off' if how is cut_off else 'bit flipped'}: {shown(name)}"
                    trial = Trial(kind, case, whole, whole.work / "cut-damaged")
                    shutil.copytree(middle, trial.out)
                    path = find(trial.out, name, case)
                    if path is None or not path.stat().st_size:
                        continue
                    place, logged = how(path, rng), logged_of(trial.out, path, case)
                    says = "warning: " if speaks(name) and place < logged else ""
                    best = (".json", "best.safetensors") if name.startswith("best") else ()
                    yield trial.result(best, says)


def shown(name: str) -> str:
    return name.replace("newest", "newest checkpoint").replace("best.", "best checkpoint.")


def speaks(name: str) -> bool:
    """Whether its damage must be said. Visits are written anew; nobody reads the others."""
    return name not in ("visits.json", "tensorboard", "sweep.json")


def half_way(case: Case, whole: Whole, out: Path) -> None:
    """Leaves a run with at least two checkpoints and a best one, killed while it trained."""
    shutil.rmtree(out, ignore_errors=True)
    folder = out / ("device/run-s0" if case.task == "device" else "checkpoints")
    entries = whole(case)[1].entries("log write")
    for _ in range(20):
        live(lambda: case.go_on(out), Watch(), Order("log write", entries // 2 + 1, 1e-9))
        if len(list(folder.glob("0*.json"))) >= 2:
            return
    raise SystemExit(f"{case.name} did not reach two checkpoints")


def find(out: Path, name: str, case: Case) -> Path | None:
    if name.startswith("newest"):
        folder = out / ("device/run-s0" if case.task == "device" else "checkpoints")
        return sorted(folder.glob(f"0*{name.removeprefix('newest')}"))[-1]
    if name.startswith("best"):
        return next(out.glob(f"checkpoints/{name}"), None)
    if name == "tensorboard":
        return next(out.glob("tensorboard/*"), None)
    return next((p for p in (out / name, out / "run-s1" / name) if p.exists()), None)


def logged_of(out: Path, path: Path, case: Case) -> int:
    """Returns how many bytes of a log the newest checkpoint vouches for; all of another file."""
    newest = find(out, "newest.json", case)
    if path.suffix != ".jsonl" or newest is None:
        return path.stat().st_size + 1
    logs = json.loads(newest.read_text())["logs"]
    return logs[path.name] if isinstance(logs, dict) else logs[2 + (path.stem == "timing")]


def cut_off(path: Path, rng: random.Random) -> int:
    """Cuts a file off at a random place, which is returned."""
    data = path.read_bytes()
    place = rng.randrange(0, max(len(data), 1))
    path.write_bytes(data[:place])
    return place


def flip(path: Path, rng: random.Random) -> int:
    """Flips one bit at a random place, which is returned."""
    data = bytearray(path.read_bytes())
    place = rng.randrange(max(len(data), 1))
    data[place] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(data))
    return place
