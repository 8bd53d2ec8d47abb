"""Kills: a run is killed at random moments and resumed until it is done, and then compared."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.faults.lives import (
    Case,
    End,
    Order,
    Watch,
    contents,
    differences,
    live,
    remember,
)
from tests.faults.table import Result

AIMS = ("rollout", "update", "evaluation", "log write", "checkpoint write")
MOST = {"device": 4}  # kills of one run; to trace its program again takes seconds there


class Whole:
    """The runs that were never killed, made when they are first needed."""

    def __init__(self, work: Path):
        self.work, self.kept = work, {}
        remember(work / "kept")

    def __call__(self, case: Case) -> tuple[dict[str, Any], Watch]:
        if case not in self.kept:
            out, watch = self.work / f"whole-{case.name}", Watch()
            shutil.rmtree(out, ignore_errors=True)
            end = live(lambda: case.train(out), watch, limit=600)
            if end.code:
                raise SystemExit(f"{case.name} does not run:\n{end.said}")
            self.kept[case] = contents(out), watch
        return self.kept[case]


def draw(rng: random.Random, typical: Watch) -> Order:
    """Returns when to kill: a phase, which of its next entries, and a moment in it."""
    phase = rng.choice([aim for aim in AIMS if typical.entries(aim)])
    entry = rng.choice([1, 1, min(2, typical.entries(phase)), min(3, typical.entries(phase))])
    call = rng.randint(1, 24) if phase == "checkpoint write" and rng.random() < 0.5 else None
    return Order(phase, entry, rng.uniform(0, typical.seconds(phase)), call)


def chain(case: Case, whole: Whole, rng: random.Random, most: int) -> Iterator[Result]:
    """Kills one run again and again until it is done; yields one result for each kill."""
    expected, typical = whole(case)
    out, watch = whole.work / f"cut-{case.name}", Watch()
    shutil.rmtree(out, ignore_errors=True)
    kills: list[End] = []
    while True:
        order = draw(rng, typical) if len(kills) < most else None
        end = live(lambda: case.go_on(out), watch, order)
        if not end.killed:
            break
        kills.append(end)
    wrong = [] if end.code else differences(expected, contents(out))
    why = f"{end.code}: {end.said.strip()[-300:]}" if end.code else ", ".join(wrong)
    if end.code and not kills:
        yield Result("no fault", case.name, lost=True, equal=False, why=why)
    for i, killed in enumerate(kills):
        yield Result(
            f"SIGKILL in {killed.phase}", case.name,
            lost=bool(end.code) and i == len(kills) - 1, equal=not (end.code or wrong), why=why,
        )  # fmt: skip
    shutil.rmtree(out, ignore_errors=True)


def kills(whole: Whole, number: int, rng: random.Random, cases: list[Case]) -> Iterator[Result]:
    """Yields ``number`` kills, spread over ``cases``."""
    on_host = [case for case in cases if case.task != "device"]
    turns, done = [*on_host, *on_host, *cases], 0  # a life on a device takes four times as long
    while done < number:
        for case in turns:
            for result in chain(case, whole, rng, min(MOST.get(case.task, 20), number - done)):
                done += 1
                yield result
            if done >= number:
                return
